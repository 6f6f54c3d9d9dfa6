//! What this replica holds in Redis: so it can be told again when Redis has lost its memory.
//!
//! A request is here from the moment its reservation is granted until its row is in the ledger, a place until it is
//! given back. Redis names its memory (`begin.lua`); an answer counts only while that name is the one that was asked
//! with, so what is told under a name is all that was granted before it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::subject::Subject;

/// What is held, by the id of the request.
#[derive(Debug, Default)]
pub(crate) struct Register(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    generation: Arc<str>,
    held: HashMap<Box<str>, Held>,
    places: HashMap<Box<str>, Taken>,
    rebuilds: u64,
}

/// Money and tokens.
#[derive(Debug)]
struct Held {
    subjects: Vec<Arc<Subject>>,
    nano: u64,
    /// When a request began that is over, as `Core::now` counts.
    begun: f64,
    is_over: bool,
    is_written: bool,
    is_told: bool,
}

/// Places among the requests at one time.
#[derive(Debug)]
struct Taken {
    subjects: Vec<Arc<Subject>>,
    is_told: bool,
    /// Redis may have heard of it, whoever told it.
    is_heard: bool,
}

/// How something is called in `report.lua`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Lease,
    Spent,
    Place,
}

impl What {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::Spent => "spent",
            Self::Place => "place",
        }
    }
}

/// Something that Redis is to be told.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) request_id: Box<str>,
    pub(crate) subjects: Vec<Arc<Subject>>,
    pub(crate) what: What,
    pub(crate) nano: u64,
    /// As `Core::now` counts.
    pub(crate) begun: f64,
}

impl Register {
    /// The name of the memory that Redis has, as far as this replica knows; empty when it never answered.
    pub(crate) fn generation(&self) -> Arc<str> {
        Arc::clone(&self.0.lock().generation)
    }

    /// Redis has another memory: it knows nothing of what is held here. False when it is the same.
    pub(crate) fn begin(&self, generation: &str) -> bool {
        let inner = &mut *self.0.lock();
        if &*inner.generation == generation {
            return false;
        }
        if !inner.generation.is_empty() {
            inner.rebuilds = inner.rebuilds.saturating_add(1);
        }
        inner.generation = generation.into();
        inner.held.values_mut().for_each(|held| held.is_told = false);
        inner.places.values_mut().for_each(|taken| taken.is_told = false);
        true
    }

    /// A reservation was granted. False when Redis lost its memory since it was asked: then it is none.
    pub(crate) fn hold(&self, id: &str, generation: &str, subjects: &[Arc<Subject>], nano: u64) -> bool {
        let inner = &mut *self.0.lock();
        if &*inner.generation != generation {
            return false;
        }
        let subjects = subjects.to_vec();
        let held = Held { subjects, nano, begun: 0.0, is_over: false, is_written: false, is_told: true };
        inner.held.insert(id.into(), held);
        true
    }

    /// A request that began at this moment is over, and has spent this.
    pub(crate) fn settle(&self, id: &str, nano: u64, begun: f64) {
        let inner = &mut *self.0.lock();
        let Entry::Occupied(mut entry) = inner.held.entry(id.into()) else { return };
        let held = entry.get_mut();
        if held.is_over {
            return;
        }
        let counts = held.subjects.iter().any(|subject| subject.limits().budget.is_some());
        if nano == 0 || held.is_written || !counts {
            entry.remove();
        } else {
            (held.is_over, held.nano, held.begun) = (true, nano, begun);
        }
    }

    /// The row of a request is in the ledger.
    pub(crate) fn written(&self, id: &str) {
        let inner = &mut *self.0.lock();
        match inner.held.get_mut(id) {
            Some(held) if !held.is_over => held.is_written = true,
            Some(_) => drop(inner.held.remove(id)),
            None => {}
        }
    }

    /// A place was granted. False when Redis lost its memory since it was asked.
    pub(crate) fn place(&self, id: &str, generation: &str, subjects: &[Arc<Subject>]) -> bool {
        let inner = &mut *self.0.lock();
        let is_current = &*inner.generation == generation;
        if is_current {
            let taken = Taken { subjects: subjects.to_vec(), is_told: true, is_heard: true };
            inner.places.insert(id.into(), taken);
        }
        is_current
    }

    /// A place was taken without Redis, which may have heard of it nevertheless.
    pub(crate) fn place_away(&self, id: &str, subjects: &[Arc<Subject>], is_heard: bool) {
        let taken = Taken { subjects: subjects.to_vec(), is_told: false, is_heard };
        self.0.lock().places.insert(id.into(), taken);
    }

    /// A place is given back. False when Redis never heard of it.
    pub(crate) fn leave(&self, id: &str) -> bool {
        self.0.lock().places.remove(id).is_none_or(|taken| taken.is_heard)
    }

    /// Whether there is something that Redis is to be told.
    pub(crate) fn has_untold(&self) -> bool {
        let inner = self.0.lock();
        inner.held.values().any(|held| !held.is_told) || inner.places.values().any(|taken| !taken.is_told)
    }

    /// What Redis is to be told. It counts as heard from now on.
    pub(crate) fn untold(&self) -> Vec<Report> {
        let inner = &mut *self.0.lock();
        let held = inner.held.iter().filter(|(_, held)| !held.is_told).map(|(id, held)| Report {
            request_id: id.clone(),
            subjects: held.subjects.clone(),
            what: if held.is_over { What::Spent } else { What::Lease },
            nano: held.nano,
            begun: held.begun,
        });
        let mut reports: Vec<Report> = held.collect();
        let places = inner.places.iter_mut().filter(|(_, taken)| !taken.is_told);
        reports.extend(places.map(|(id, taken)| {
            taken.is_heard = true;
            let subjects = taken.subjects.clone();
            Report { request_id: id.clone(), subjects, what: What::Place, nano: 0, begun: 0.0 }
        }));
        reports
    }

    /// Redis was told of these, while its memory was the one of this name.
    pub(crate) fn told(&self, generation: &str, reports: &[Report]) {
        let inner = &mut *self.0.lock();
        if &*inner.generation != generation {
            return;
        }
        for Report { request_id, what, .. } in reports {
            if *what == What::Place {
                inner.places.get_mut(request_id).into_iter().for_each(|taken| taken.is_told = true);
            } else {
                inner.held.get_mut(request_id).into_iter().for_each(|held| held.is_told = true);
            }
        }
    }

    /// Requests that are held here, and how often Redis lost its memory.
    pub(crate) fn figures(&self) -> (usize, u64) {
        let inner = self.0.lock();
        (inner.held.len(), inner.rebuilds)
    }
}
