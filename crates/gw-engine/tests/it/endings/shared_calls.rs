//! Requests that share a call are settled once each, and the call once: random schedules of several clients.

use std::time::Duration;

use futures_util::future::{join, join_all};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::json;

use super::events::{client, millis, script};
use crate::harness::{Client, Ended, Script, Setup, World, paused};

/// All that happens in a run.
#[derive(Clone, Debug)]
struct Schedule {
    stream: bool,
    /// The scripts of each provider's calls.
    upstreams: Vec<Vec<Script>>,
    drains: bool,
    continues: bool,
    /// When each client asks, and how it behaves.
    clients: Vec<(Duration, Client)>,
    cut_after: Option<Duration>,
}

fn schedule() -> impl Strategy<Value = Schedule> {
    any::<bool>().prop_flat_map(|stream| {
        let upstreams = vec(vec(script(stream), 1..4), 1..3);
        let clients = vec((millis(), client()), 2..5);
        let cut = proptest::option::weighted(0.2, millis());
        (upstreams, any::<bool>(), any::<bool>(), clients, cut).prop_map(
            move |(upstreams, drains, continues, clients, cut_after)| Schedule {
                stream,
                upstreams,
                drains,
                continues,
                clients,
                cut_after,
            },
        )
    })
}

impl Schedule {
    fn world(&self) -> World {
        let mut setup = Setup::new(["a", "b"].into_iter().zip(self.upstreams.clone()).collect());
        setup.has_cache = true;
        setup.timeouts.first_token = Duration::from_secs(12);
        setup.timeouts.idle = Duration::from_secs(8);
        setup.timeouts.total = Duration::from_secs(40);
        setup.routing.drain_on_disconnect = self.drains;
        setup.routing.continue_mid_stream = self.continues;
        setup.build()
    }

    async fn run(&self, world: &World) -> Vec<Ended> {
        let mut body = world.chat(self.stream);
        body["cache"] = json!({"enabled": true});
        let asking = self.clients.iter().map(async |(start, client)| {
            tokio::time::sleep(*start).await;
            world.run(&body, client).await
        });
        let cutting = async {
            if let Some(cut_after) = self.cut_after {
                tokio::time::sleep(cut_after).await;
                world.engine.cut_streams();
            }
        };
        join(join_all(asking), cutting).await.0
    }
}

#[test]
fn requests_that_share_a_call_are_settled_once_each_and_the_call_once() {
    // The same schedules in each run; PROPTEST_CASES looks at more of them.
    let config = Config { failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let outcome = runner.run(&schedule(), |schedule| {
        paused(async move {
            let world = schedule.world();
            let ended = schedule.run(&world).await;
            world.settled().await;
            world.check_money(ended.len()).await;
            world.check_calls();
            let complete = ended.iter().filter(|ended| ended.is_complete()).count();
            let ok = world.rows().iter().filter(|row| row.status == "ok").count();
            assert!(
                ok >= complete,
                "{complete} clients have read an answer, and {ok} rows say so: {ended:?}"
            );
        });
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
