//! A request is settled exactly once, however it ends: random schedules of what upstreams, the client and the operator do.

use std::time::Duration;

use futures_util::future::{Either, select};
use gw_routing::hedge::{After, HedgeSettings};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::harness::{Client, Ended, Head, Leaving, Piece, Script, Setup, Step, World, document, paused};

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
}

fn millis() -> impl Strategy<Value = Duration> {
    prop_oneof![Just(0), 1..50_u64, 200..2_000_u64, 5_000..16_000_u64].prop_map(Duration::from_millis)
}

fn text() -> impl Strategy<Value = String> {
    "[a-z]{1,12} "
}

/// Tokens of prompt and answer; never 0, which nobody believes.
fn usage() -> impl Strategy<Value = (u64, u64)> {
    (1..500_u64, 1..900_u64)
}

fn quiet_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => millis().prop_map(Step::Wait),
        1 => Just(Step::Piece(Piece::Comment)),
        1 => Just(Step::Piece(Piece::Role)),
    ]
}

fn usage_step() -> impl Strategy<Value = Step> {
    usage().prop_map(|(prompt, completion)| Step::Piece(Piece::Usage(prompt, completion)))
}

fn text_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => text().prop_map(|text| Step::Piece(Piece::Text(text))),
        1 => quiet_step(),
    ]
}

/// How a stream ends: well, with or without its usage and its marker; or not well.
fn end() -> impl Strategy<Value = Vec<Step>> {
    let (finish, done) = (Step::Piece(Piece::Finish), Step::Piece(Piece::Done));
    let well = (proptest::option::of(usage_step()), any::<bool>(), proptest::option::of(millis()));
    let well = well.prop_map(move |(usage, is_marked, wait)| {
        let mut steps = vec![finish.clone()];
        steps.extend(wait.map(Step::Wait));
        steps.extend(usage);
        steps.extend(is_marked.then(|| done.clone()));
        steps
    });
    prop_oneof![
        5 => well,
        1 => Just(vec![]),
        2 => Just(vec![Step::Break]),
        1 => Just(vec![Step::Silence]),
        1 => Just(vec![Step::Piece(Piece::Error)]),
    ]
}

fn body() -> impl Strategy<Value = Vec<Step>> {
    let first = vec(prop_oneof![4 => quiet_step().boxed(), 1 => usage_step().boxed()], 0..3);
    let parts = (first, vec(text_step(), 0..6), end());
    parts.prop_map(|(first, texts, end)| first.into_iter().chain(texts).chain(end).collect())
}

fn whole() -> impl Strategy<Value = Head> {
    let steps = prop_oneof![
        4 => vec(millis().prop_map(Step::Wait), 0..2),
        1 => Just(vec![Step::Break]),
        1 => Just(vec![Step::Silence]),
    ];
    (text(), proptest::option::of(usage()), steps)
        .prop_map(|(text, usage, steps)| Head::Document(document(&text, usage), steps))
}

fn script(stream: bool) -> impl Strategy<Value = Script> {
    let status = prop_oneof![Just(400), Just(401), Just(404), Just(429), 500..504_u16];
    let refused = (status, proptest::option::of(1..4_u64));
    let refused = refused.prop_map(|(status, retry_after)| Head::Status(status, retry_after));
    let (streams, documents) = if stream { (8, 1) } else { (0, 8) };
    let head = prop_oneof![
        1 => Just(Head::Unreachable),
        1 => Just(Head::Lost),
        1 => Just(Head::Silent),
        3 => refused,
        streams => body().prop_map(Head::Stream),
        documents => whole(),
    ];
    (millis(), head).prop_map(|(wait, head)| Script { wait, head })
}

fn client() -> impl Strategy<Value = Client> {
    let leaving = prop_oneof![Just(Leaving::AtOnce), Just(Leaving::WhenWoken)];
    (proptest::option::of((1..25_usize, leaving)), vec(millis(), 0..6))
        .prop_map(|(leaves_after, pauses)| Client { leaves_after, pauses })
}

fn schedule() -> impl Strategy<Value = Schedule> {
    any::<bool>().prop_flat_map(|stream| {
        let calls = (vec(vec(script(stream), 1..3), 1..4), 0..3_usize, 0..3_u32, 1..5_u32);
        let switches = (any::<bool>(), any::<bool>(), any::<bool>());
        let hedge = proptest::option::of((50..1_000_u64).prop_map(Duration::from_millis));
        let keepalive = proptest::option::of(Just(Duration::from_secs(3)));
        let cut = proptest::option::weighted(0.2, millis());
        (calls, switches, hedge, client(), keepalive, cut).prop_map(
            move |(calls, switches, hedge_after, client, keepalive, cut_after)| {
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
                }
            },
        )
    })
}

impl Schedule {
    fn world(&self) -> World {
        let mut setup = Setup::new(["a", "b", "c"].into_iter().zip(self.upstreams.clone()).collect());
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
            .map(|after| HedgeSettings { after: After::Fixed(after), max_extra_cost_percent: 100.0 });
        setup.build()
    }

    async fn run(&self, world: &World) -> Ended {
        let body = world.chat(self.stream);
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
            let known = ["upstream_stream_error", "upstream_timeout", "gateway_shutdown"];
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
            world.check().await;
            check_status(&ended, &world);
            check_attempts(&ended, &world);
        });
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
