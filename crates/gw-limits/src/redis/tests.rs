//! Limits over a real Redis: the decisions, several replicas, leases, and a Redis that does not answer.

mod added_budgets;
mod equivalence;
mod hostile;
mod inspecting;
mod leases;
mod partial_reservations;
mod periods;
mod recovery;
mod replicas;
mod sessions;
mod taken_back;
mod unavailable;

use std::sync::Arc;
use std::time::Duration;

use gw_store::{Budget, Limits, Period};
use gw_testkit::Redis;
use secrecy::SecretString;

use super::RedisLimiter;
use super::replica::Replica;
use super::settings::RedisSettings;
use crate::doubles::{NOW, TestClock, TestLedger};
use crate::in_process::InProcess;
use crate::{Clock, Limiter, Subject, SubjectKind, SystemClock};

/// Settings with a long timeout, because the machine may be busy. Tests of a Redis that does not answer use the
/// default.
fn settings(redis: &Redis) -> RedisSettings {
    settings_of(redis.url())
}

fn settings_of(url: String) -> RedisSettings {
    let timeout = Duration::from_secs(3);
    RedisSettings { timeout, ..without_initial_wait(url) }
}

/// The default settings of a gateway.
fn default_settings(redis: &Redis) -> RedisSettings {
    without_initial_wait(redis.url())
}

fn without_initial_wait(url: String) -> RedisSettings {
    RedisSettings { unknown_replicas: Duration::ZERO, ..RedisSettings::new(SecretString::from(url)) }
}

/// A replica under a clock that the test sets. The scripts use that clock too.
async fn replica_at(
    settings: RedisSettings,
    clock: &Arc<TestClock>,
    ledger: &Arc<TestLedger>,
) -> (Limiter, Arc<Replica>) {
    let clock: Arc<dyn Clock> = clock.clone();
    let shared = RedisLimiter::start(settings, Some(clock.clone())).await;
    let core = Arc::clone(shared.replica());
    (Limiter::new(InProcess { clock, ledger: ledger.clone() }, Some(shared)), core)
}

/// A replica under the clocks of this machine and of Redis.
async fn replica(settings: RedisSettings, ledger: &Arc<TestLedger>) -> Limiter {
    let clock = Arc::new(SystemClock::default());
    let shared = RedisLimiter::start(settings, None).await;
    Limiter::new(InProcess { clock, ledger: ledger.clone() }, Some(shared))
}

/// A budget in nano-USD.
fn budget(nano: u64, period: Period) -> Limits {
    Limits { budget: Some(Budget { nano, period }), ..Limits::default() }
}

/// Converts nano-USD to femto-USD.
fn nano(nano: u64) -> i128 {
    i128::from(nano) * 1_000_000
}

/// The spent and the reserved nano-USD in Redis.
async fn figures(redis: &Redis, subject: &Subject) -> (u64, u64) {
    let name = format!("gw:{{{}:{}}}", subject.kind(), subject.id());
    let number = async |field| {
        let answer = redis.command(&["HGET", &name, field]).await;
        answer.first().map_or(0, |number| number.parse().expect("a number"))
    };
    (number("spent").await, number("reserved").await)
}

/// The kinds and ids of subjects.
fn names(subjects: &[Arc<Subject>]) -> Vec<(SubjectKind, &str)> {
    subjects.iter().map(|subject| (subject.kind(), subject.id())).collect()
}

/// The number of a subject's leases in Redis.
async fn leases(redis: &Redis, subject: &Subject) -> u64 {
    let name = format!("gw:{{{}:{}}}:leases", subject.kind(), subject.id());
    redis.command(&["ZCARD", &name]).await.concat().parse().expect("a number")
}

/// Waits until all messages are delivered.
async fn drain(limiter: &Limiter) {
    limiter.drain(Duration::from_secs(20)).await;
}

fn clock() -> Arc<TestClock> {
    Arc::new(TestClock::at(NOW))
}

fn ledger() -> Arc<TestLedger> {
    Arc::default()
}

fn key(limiter: &Limiter, limits: Limits) -> [Arc<Subject>; 1] {
    [limiter.subject(SubjectKind::Key, "k", limits)]
}
