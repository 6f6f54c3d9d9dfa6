//! The queue of the CPU pool. Tenants take turns.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Work for a thread of the pool.
pub(super) trait Step: Send + Sync {
    /// Runs the work, if its request still waits.
    fn run(&self);
}

/// The steps of a tenant, oldest first. None = no tenant.
type Tenant = Option<Arc<str>>;

struct QueuedStep {
    since: Instant,
    step: Arc<dyn Step>,
}

impl fmt::Debug for QueuedStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuedStep").field("since", &self.since).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct TenantQueues {
    /// Each list has at least one step.
    tenants: HashMap<Tenant, VecDeque<QueuedStep>>,
    /// The tenants with waiting steps, each once.
    turns: VecDeque<Tenant>,
    is_closed: bool,
}

impl TenantQueues {
    fn next(&mut self) -> Option<QueuedStep> {
        let tenant = self.turns.pop_front()?;
        let steps = self.tenants.get_mut(&tenant)?;
        let next = steps.pop_front();
        if steps.is_empty() {
            self.tenants.remove(&tenant);
        } else {
            self.turns.push_back(tenant);
        }
        next
    }
}

/// The queue and its metrics.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: Mutex<TenantQueues>,
    has_work: Condvar,
    length: Gauge,
    waits: Histogram,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            waiting: Mutex::default(),
            has_work: Condvar::new(),
            length: Gauge::default(),
            waits: Histogram::new([0.000_1, 0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0]),
        }
    }
}

impl Queue {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "gateway_cpu_pool_waiting",
            "Steps of requests that wait for a thread of the CPU pool",
            self.length.clone(),
        );
        registry.register_with_unit(
            "gateway_cpu_pool_wait",
            "How long a step waited for a thread of the CPU pool",
            Unit::Seconds,
            self.waits.clone(),
        );
    }

    pub(super) fn push(&self, tenant: Option<&Arc<str>>, step: Arc<dyn Step>) {
        let tenant = tenant.cloned();
        let mut waiting = self.waiting.lock();
        let steps = waiting.tenants.entry(tenant.clone()).or_default();
        steps.push_back(QueuedStep { since: Instant::now(), step });
        if steps.len() == 1 {
            waiting.turns.push_back(tenant);
        }
        drop(waiting);
        self.length.inc();
        self.has_work.notify_one();
    }

    /// Waits for the next step. None = the pool is closed.
    pub(super) fn next(&self) -> Option<Arc<dyn Step>> {
        let mut waiting = self.waiting.lock();
        let entry = loop {
            if waiting.is_closed {
                return None;
            }
            match waiting.next() {
                Some(entry) => break entry,
                None => self.has_work.wait(&mut waiting),
            }
        };
        drop(waiting);
        self.length.dec();
        self.waits.observe(entry.since.elapsed().as_secs_f64());
        Some(entry.step)
    }

    /// How long the oldest step of a tenant has waited.
    pub(super) fn lateness(&self, tenant: Option<&Arc<str>>) -> Duration {
        let waiting = self.waiting.lock();
        let oldest = waiting.tenants.get(&tenant.cloned()).and_then(VecDeque::front);
        oldest.map(|entry| entry.since.elapsed()).unwrap_or_default()
    }

    /// Closes the pool: its threads end, and waiting steps are dropped.
    pub(super) fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.is_closed = true;
        let left = std::mem::take(&mut waiting.tenants);
        waiting.turns.clear();
        drop(waiting);
        drop(left);
        self.has_work.notify_all();
    }
}
