//! Limits over a real Redis: the same decisions as in process, by several replicas, with leases, and while it is away.

mod agree;
mod away;
mod given;
mod hostile;
mod leases;
mod periods;
mod rebuild;
mod replicas;
mod up_to;

use std::sync::Arc;
use std::time::Duration;

use gw_store::{Budget, Limits, Period};
use gw_testkit::Redis;
use secrecy::SecretString;

use super::core::Core;
use super::{RedisSettings, Shared};
use crate::doubles::{Hands, Ledger, NOW};
use crate::local::Local;
use crate::{Clock, Limiter, Subject, SystemClock, Whose};

/// Settings with patience: the machine that runs this may be busy. Tests of a Redis that is away use less.
fn settings(redis: &Redis) -> RedisSettings {
    settings_of(redis.url())
}

fn settings_of(url: String) -> RedisSettings {
    let timeout = Duration::from_secs(3);
    RedisSettings { timeout, ..at(url) }
}

/// The settings that a gateway has.
fn hasty(redis: &Redis) -> RedisSettings {
    at(redis.url())
}

fn at(url: String) -> RedisSettings {
    RedisSettings { unknown_replicas: Duration::ZERO, ..RedisSettings::new(SecretString::from(url)) }
}

/// A replica, by the time that is set, here and for the scripts.
async fn replica_at(
    settings: RedisSettings,
    clock: &Arc<Hands>,
    ledger: &Arc<Ledger>,
) -> (Limiter, Arc<Core>) {
    let clock: Arc<dyn Clock> = clock.clone();
    let shared = Shared::start(settings, Some(clock.clone())).await;
    let core = Arc::clone(shared.core());
    (Limiter::new(Local { clock, spending: ledger.clone() }, Some(shared)), core)
}

/// A replica by the clocks of this machine.
async fn replica(settings: RedisSettings, ledger: &Arc<Ledger>) -> Limiter {
    let clock = Arc::new(SystemClock::default());
    let shared = Shared::start(settings, None).await;
    Limiter::new(Local { clock, spending: ledger.clone() }, Some(shared))
}

/// A budget of so many nano-USD.
fn budget(nano: u64, period: Period) -> Limits {
    Limits { budget: Some(Budget { nano, period }), ..Limits::default() }
}

/// So many nano-USD.
fn nano(nano: u64) -> i128 {
    i128::from(nano) * 1_000_000
}

/// Spent and set aside, as Redis has it.
async fn figures(redis: &Redis, subject: &Subject) -> (u64, u64) {
    let name = format!("gw:{{{}:{}}}", subject.whose(), subject.id());
    let number = async |field| {
        let answer = redis.command(&["HGET", &name, field]).await;
        answer.first().map_or(0, |number| number.parse().expect("a number"))
    };
    (number("spent").await, number("reserved").await)
}

/// How many leases a subject has.
async fn leases(redis: &Redis, subject: &Subject) -> u64 {
    let name = format!("gw:{{{}:{}}}:leases", subject.whose(), subject.id());
    redis.command(&["ZCARD", &name]).await.concat().parse().expect("a number")
}

/// Delivers everything.
async fn drained(limiter: &Limiter) {
    limiter.drain(Duration::from_secs(20)).await;
}

fn clock() -> Arc<Hands> {
    Arc::new(Hands::at(NOW))
}

fn ledger() -> Arc<Ledger> {
    Arc::default()
}

fn key(limiter: &Limiter, limits: Limits) -> [Arc<Subject>; 1] {
    [limiter.subject(Whose::Key, "k", limits)]
}
