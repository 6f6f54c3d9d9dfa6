//! A list of everything that this replica holds in Redis. The replica reports it again after Redis has lost its memory.
//!
//! A reservation is listed from the moment it is granted until the request's row is in the ledger. A permit is listed
//! until it is released. The memory of Redis has a name, its generation (`begin_generation.lua`). A grant counts only
//! if the generation is the one that the request asked with. Therefore a report under a generation includes everything
//! that was granted before it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::part::PART;
use crate::subject::Subject;

/// Everything held, by the id of the request.
#[derive(Debug, Default)]
pub(crate) struct Holdings(Mutex<Lists>);

#[derive(Debug, Default)]
struct Lists {
    generation: Arc<str>,
    reservations: HashMap<Box<str>, HeldReservation>,
    permits: HashMap<Box<str>, HeldPermit>,
    /// The ids of further reservations of a request, by its id.
    parts: HashMap<Box<str>, Vec<Box<str>>>,
    memory_losses: u64,
}

/// Reserved tokens and money, then the cost.
#[derive(Debug)]
struct HeldReservation {
    subjects: Vec<Arc<Subject>>,
    /// The reserved amount, or the cost after the request is over.
    nano: u64,
    /// When the request began, in microseconds of `Replica::now`. Set when the request is over.
    begun: f64,
    is_over: bool,
    is_written: bool,
    is_reported: bool,
    /// When its lease began or was renewed.
    leased: Instant,
}

/// A place among the requests in flight.
#[derive(Debug)]
struct HeldPermit {
    subjects: Vec<Arc<Subject>>,
    is_reported: bool,
    /// Redis may know of it, from a report or from a call without an answer.
    may_be_known: bool,
    /// When its lease began or was renewed.
    leased: Instant,
}

/// The kind of a report, as `report_holding.lua` calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportKind {
    Lease,
    Spent,
    InFlight,
    /// A lease that Redis has.
    RenewedLease,
    /// A place among the requests in flight that Redis has.
    RenewedPlace,
}

impl ReportKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::Spent => "spent",
            Self::InFlight => "place",
            Self::RenewedLease => "renewed lease",
            Self::RenewedPlace => "renewed place",
        }
    }
}

/// One thing to report to Redis.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) request_id: Box<str>,
    pub(crate) subjects: Vec<Arc<Subject>>,
    pub(crate) kind: ReportKind,
    pub(crate) nano: u64,
    /// In microseconds of `Replica::now`.
    pub(crate) begun: f64,
}

impl Holdings {
    /// The generation of Redis that this replica knows. Empty if Redis has never answered.
    pub(crate) fn generation(&self) -> Arc<str> {
        Arc::clone(&self.0.lock().generation)
    }

    /// Notes the generation of Redis. A new generation knows nothing of what is held here. Returns whether it is new.
    pub(crate) fn enter_generation(&self, generation: &str) -> bool {
        let lists = &mut *self.0.lock();
        if &*lists.generation == generation {
            return false;
        }
        if !lists.generation.is_empty() {
            lists.memory_losses = lists.memory_losses.saturating_add(1);
        }
        lists.generation = generation.into();
        lists.reservations.values_mut().for_each(|held| held.is_reported = false);
        lists.permits.values_mut().for_each(|held| held.is_reported = false);
        true
    }

    /// Adds a granted reservation. Returns false if Redis lost its memory after it was asked: the reservation is void
    /// then.
    pub(crate) fn add_reservation(
        &self,
        request_id: &str,
        generation: &str,
        subjects: &[Arc<Subject>],
        nano: u64,
    ) -> bool {
        let lists = &mut *self.0.lock();
        if &*lists.generation != generation {
            return false;
        }
        if let Some((request, _)) = request_id.rsplit_once(PART) {
            lists.parts.entry(request.into()).or_default().push(request_id.into());
        }
        let held = HeldReservation {
            subjects: subjects.to_vec(),
            nano,
            begun: 0.0,
            is_over: false,
            is_written: false,
            is_reported: true,
            leased: Instant::now(),
        };
        lists.reservations.insert(request_id.into(), held);
        true
    }

    /// Notes that a request is over, with its cost and its begin.
    pub(crate) fn settle(&self, request_id: &str, cost_nano: u64, begun: f64) {
        let lists = &mut *self.0.lock();
        let Entry::Occupied(mut entry) = lists.reservations.entry(request_id.into()) else { return };
        let held = entry.get_mut();
        if held.is_over {
            return;
        }
        let has_budget = held.subjects.iter().any(|subject| subject.has_budget());
        if cost_nano == 0 || held.is_written || !has_budget {
            entry.remove();
        } else {
            (held.is_over, held.nano, held.begun) = (true, cost_nano, begun);
        }
    }

    /// Notes that the row of a request is in the ledger.
    pub(crate) fn mark_written(&self, request_id: &str) {
        let lists = &mut *self.0.lock();
        let parts = if lists.parts.is_empty() { None } else { lists.parts.remove(request_id) };
        for id in parts.iter().flatten().map(AsRef::as_ref).chain([request_id]) {
            match lists.reservations.get_mut(id) {
                Some(held) if !held.is_over => held.is_written = true,
                Some(_) => drop(lists.reservations.remove(id)),
                None => {}
            }
        }
    }

    /// Adds a granted permit. Returns false if Redis lost its memory after it was asked: the permit is void then.
    pub(crate) fn add_permit(&self, request_id: &str, generation: &str, subjects: &[Arc<Subject>]) -> bool {
        let lists = &mut *self.0.lock();
        let is_current = &*lists.generation == generation;
        if is_current {
            let (subjects, leased) = (subjects.to_vec(), Instant::now());
            let held = HeldPermit { subjects, is_reported: true, may_be_known: true, leased };
            lists.permits.insert(request_id.into(), held);
        }
        is_current
    }

    /// Adds a permit that this process granted itself while Redis did not answer. Redis may know of the permit, too.
    pub(crate) fn add_local_permit(&self, request_id: &str, subjects: &[Arc<Subject>], may_be_known: bool) {
        let (subjects, leased) = (subjects.to_vec(), Instant::now());
        let held = HeldPermit { subjects, is_reported: false, may_be_known, leased };
        self.0.lock().permits.insert(request_id.into(), held);
    }

    /// Removes a permit. Returns false if Redis cannot know of it.
    pub(crate) fn release_permit(&self, request_id: &str) -> bool {
        self.0.lock().permits.remove(request_id).is_none_or(|held| held.may_be_known)
    }

    /// Whether anything has to be reported.
    pub(crate) fn has_unreported(&self) -> bool {
        let lists = self.0.lock();
        lists.reservations.values().any(|held| !held.is_reported)
            || lists.permits.values().any(|held| !held.is_reported)
    }

    /// Everything that has to be reported. From now on Redis may know of it.
    pub(crate) fn unreported(&self) -> Vec<Report> {
        let lists = &mut *self.0.lock();
        let reservations =
            lists.reservations.iter().filter(|(_, held)| !held.is_reported).map(|(id, held)| Report {
                request_id: id.clone(),
                subjects: held.subjects.clone(),
                kind: if held.is_over { ReportKind::Spent } else { ReportKind::Lease },
                nano: held.nano,
                begun: held.begun,
            });
        let mut reports: Vec<Report> = reservations.collect();
        let permits = lists.permits.iter_mut().filter(|(_, held)| !held.is_reported);
        reports.extend(permits.map(|(id, held)| {
            held.may_be_known = true;
            let subjects = held.subjects.clone();
            Report { request_id: id.clone(), subjects, kind: ReportKind::InFlight, nano: 0, begun: 0.0 }
        }));
        reports
    }

    /// Everything whose lease is this old, and whose request goes on.
    pub(crate) fn leased_for(&self, age: Duration) -> Vec<Report> {
        let (now, lists) = (Instant::now(), self.0.lock());
        let is_old = |leased: Instant| now.duration_since(leased) >= age;
        let report = |id: &str, subjects: &[Arc<Subject>], kind, nano| Report {
            request_id: id.into(),
            subjects: subjects.to_vec(),
            kind,
            nano,
            begun: 0.0,
        };
        let reservations = lists
            .reservations
            .iter()
            .filter(|(_, held)| held.is_reported && !held.is_over && is_old(held.leased))
            .map(|(id, held)| report(id, &held.subjects, ReportKind::RenewedLease, held.nano));
        let permits = lists
            .permits
            .iter()
            .filter(|(_, held)| held.is_reported && is_old(held.leased))
            .map(|(id, held)| report(id, &held.subjects, ReportKind::RenewedPlace, 0));
        reservations.chain(permits).collect()
    }

    /// Notes that these reports arrived in this generation.
    pub(crate) fn mark_reported(&self, generation: &str, reports: &[Report]) {
        let lists = &mut *self.0.lock();
        if &*lists.generation != generation {
            return;
        }
        let now = Instant::now();
        for Report { request_id, kind, .. } in reports {
            if matches!(kind, ReportKind::InFlight | ReportKind::RenewedPlace) {
                if let Some(held) = lists.permits.get_mut(request_id) {
                    (held.is_reported, held.leased) = (true, now);
                }
            } else if let Some(held) = lists.reservations.get_mut(request_id) {
                (held.is_reported, held.leased) = (true, now);
            }
        }
    }

    /// The number of reservations held, and how often Redis lost its memory.
    pub(crate) fn figures(&self) -> (usize, u64) {
        let lists = self.0.lock();
        (lists.reservations.len(), lists.memory_losses)
    }
}
