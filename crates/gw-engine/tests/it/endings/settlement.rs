//! A request is settled exactly once, however it ends: random schedules of what upstreams, the client and the operator do.

use std::time::Duration;

use futures_util::future::{Either, select};
use gw_routing::hedge::{HedgeDelay, HedgeSettings};
use gw_store::limits::OnBudget;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::events::{client, millis, script};
use crate::harness::{Client, Ended, Script, Setup, World, paused};

/// All that happens in a run.
#[derive(Clone, Debug)]
struct Schedule {
    stream: bool,
    /// The scripts of each provider's calls.
    upstreams: Vec<Vec<Script>>,
    keys: usize,
    retries: u32,
    max_attempts: u32,
    fallback_on_4xx: bool,
    continues: bool,
    drains: bool,
    hedge_after: Option<Duration>,
    client: Client,
    keepalive: Option<Duration>,
    /// When the operator's grace is over and all streams are cut.
    cut_after: Option<Duration>,
    /// Choices that are asked for. The first provider gives one a call.
    choices: u32,
    /// A budget that cuts answers, in nano-USD; None = one that is never used up.
    budget_nano: Option<u64>,
}

fn schedule() -> impl Strategy<Value = Schedule> {
    any::<bool>().prop_flat_map(|stream| {
        let calls = (vec(vec(script(stream), 1..4), 1..4), 0..3_usize, 0..3_u32, 1..5_u32);
        let switches = (any::<bool>(), any::<bool>(), any::<bool>());
        let hedge = proptest::option::of((50..1_000_u64).prop_map(Duration::from_millis));
        let keepalive = proptest::option::of(Just(Duration::from_secs(3)));
        let cut = proptest::option::weighted(0.2, millis());
        let choices = prop_oneof![3 => Just(1_u32), 1 => 2..4_u32];
        let budget = proptest::option::weighted(0.2, 100_000..20_000_000_u64);
        (calls, switches, hedge, client(), keepalive, cut, choices, budget).prop_map(
            move |(calls, switches, hedge_after, client, keepalive, cut_after, choices, budget_nano)| {
                let (upstreams, keys, retries, max_attempts) = calls;
                let (fallback_on_4xx, continues, drains) = switches;
                Schedule {
                    stream,
                    upstreams,
                    keys,
                    retries,
                    max_attempts,
                    fallback_on_4xx,
                    continues,
                    drains,
                    hedge_after,
                    client,
                    keepalive,
                    cut_after,
                    choices,
                    budget_nano,
                }
            },
        )
    })
}

impl Schedule {
    fn world(&self) -> World {
        let names = if self.choices > 1 { ["groq", "b", "c"] } else { ["a", "b", "c"] };
        let mut setup = Setup::new(names.into_iter().zip(self.upstreams.clone()).collect());
        if let Some(nano) = self.budget_nano {
            (setup.budget_nano, setup.on_budget) = (nano, OnBudget::Cut);
        }
        setup.keys = self.keys;
        setup.timeouts.first_token = Duration::from_secs(12);
        setup.timeouts.idle = Duration::from_secs(8);
        setup.timeouts.total = Duration::from_secs(40);
        let routing = &mut setup.routing;
        routing.retries = self.retries;
        routing.max_attempts = self.max_attempts;
        routing.fallback_on_4xx = self.fallback_on_4xx;
        routing.continue_mid_stream = self.continues;
        routing.drain_on_disconnect = self.drains;
        routing.hedge = self
            .hedge_after
            .map(|after| HedgeSettings { after: HedgeDelay::Fixed(after), max_extra_cost_percent: 100.0 });
        setup.build()
    }

    async fn run(&self, world: &World) -> Ended {
        let mut body = world.chat(self.stream);
        body["n"] = self.choices.into();
        let reading = Box::pin(self.client.read(world.send(&body, self.keepalive)));
        let Some(cut_after) = self.cut_after else { return reading.await };
        match select(reading, Box::pin(tokio::time::sleep(cut_after))).await {
            Either::Left((ended, _)) => ended,
            Either::Right(((), reading)) => {
                world.engine.cut_streams();
                reading.await
            }
        }
    }
}

/// The status of the row fits to what the client has seen.
fn check_status(ended: &Ended, world: &World) {
    let row = world.row();
    let status = &*row.status;
    match ended {
        _ if ended.is_complete() => assert_eq!(status, "ok"),
        Ended::Refused(error) => assert_eq!(status, error.code()),
        _ if ended.error_event().is_some() => {
            let known = ["gateway_shutdown", "insufficient_quota", "model_not_found"];
            // Behind a head the client hears less than the row.
            assert!(
                known.contains(&status) || status.starts_with("upstream_") || status == "invalid_request",
                "{status}"
            );
        }
        Ended::Left(_) => {
            let is_late = status == "upstream_timeout" && row.latency_ms >= 40_000;
            assert!(status == "client_closed_request" || is_late, "{status}");
        }
        Ended::Answered(body) => panic!("an answer without an end: {body}"),
    }
}

/// `gateway.attempts` of a complete answer tells of each call that an upstream saw by then.
fn check_attempts(ended: &Ended, world: &World) {
    if !ended.is_complete() {
        return;
    }
    let mut told: Vec<_> = ended.attempts();
    told.iter_mut().for_each(|attempt| attempt.truncate(1));
    let mut seen = world.called();
    told.sort();
    seen.sort_unstable();
    assert_eq!(told, seen, "gateway.attempts, against the calls that were seen");
}

#[test]
fn every_request_is_settled_exactly_once_whatever_happens() {
    // The same schedules in each run; PROPTEST_CASES looks at more of them.
    let config = Config { failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let outcome = runner.run(&schedule(), |schedule| {
        paused(async move {
            let world = schedule.world();
            let ended = schedule.run(&world).await;
            world.settled().await;
            if schedule.choices == 1 {
                world.check().await;
                check_attempts(&ended, &world);
            } else {
                world.check_money(1).await;
            }
            check_status(&ended, &world);
        });
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
