//! The simulated hour: the engine's attempts on a virtual clock, once for each strategy.
//!
//! As in gw-engine, candidates are called in order, each once; the next one is called when an attempt fails before its
//! first token. A candidate with an open circuit is skipped unless the retry budget has room or no other candidate is
//! left. A stream that breaks after its first token has failed for the client too. The outcome of a stream is recorded
//! at its end.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use gw_routing::{
    BreakerSettings, CallMetrics, Facts, Health, InFlight, Permit, Prior, Probe, RetryBudget, Strategy,
    Weights, order,
};

use crate::world::{self, Draw, FIRST_TOKEN, Fate, NAMES, terms};

/// The parameters of a simulation.
#[derive(Clone, Copy)]
struct Scene {
    /// Virtual time during which requests arrive.
    lasts: Duration,
    /// Requests a second, on average.
    rate: f64,
    /// The outcome of an attempt: seed, request, provider, time, other requests in flight there.
    fate: fn(u64, u64, usize, Duration, u32) -> Fate,
}

/// The hour of `docs/routing.md`.
const HOUR: Scene = Scene { lasts: Duration::from_secs(3_600), rate: 15.0, fate: world::fate };

/// The deadline of a request, up to its first token.
const DEADLINE: Duration = Duration::from_secs(15);
const SEED: u64 = 20_261_121;

/// The figures of a simulated hour.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) requests: u64,
    pub(crate) failed: u64,
    pub(crate) calls: u64,
    pub(crate) usd: f64,
    /// Times to the first token, with the minute in which the request arrived.
    pub(crate) first_tokens: Vec<(usize, Duration)>,
    /// Requests that each provider served.
    pub(crate) served: [u64; 3],
}

/// A request in progress.
struct Request {
    number: u64,
    arrived: Duration,
    order: Vec<usize>,
    next: usize,
    calls: u64,
}

/// A future event.
enum Event {
    Arrives(u64),
    Fails(Request, usize, (InFlight, Option<Probe>)),
    Speaks(Request, usize, (InFlight, Option<Probe>), Fate),
    Ends(usize, InFlight, Fate),
}

struct Hour {
    strategy: Strategy,
    scene: Scene,
    origin: Instant,
    breaker: BreakerSettings,
    metrics: [Arc<CallMetrics>; 3],
    health: [Arc<Health>; 3],
    budget: RetryBudget,
    /// By time, then in the order in which they were added.
    events: BTreeMap<(Duration, u64), Event>,
    added: u64,
    report: Report,
}

/// Simulates a scene under a strategy.
fn simulate(strategy: Strategy, scene: Scene) -> Report {
    let origin = Instant::now();
    let mut hour = Hour {
        strategy,
        scene,
        origin,
        breaker: BreakerSettings::default(),
        metrics: Default::default(),
        health: Default::default(),
        budget: RetryBudget::new(origin),
        events: BTreeMap::new(),
        added: 0,
        report: Report::default(),
    };
    let mut draw = Draw(SEED);
    let mut at = Duration::ZERO;
    for number in 0.. {
        at += Duration::from_secs_f64(-(1.0 - draw.next()).ln() / scene.rate);
        if at >= scene.lasts {
            break;
        }
        hour.later(at, Event::Arrives(number));
    }
    while let Some(((at, _), event)) = hour.events.pop_first() {
        hour.happens(at, event);
    }
    hour.report
}

impl Hour {
    fn later(&mut self, at: Duration, event: Event) {
        self.events.insert((at, self.added), event);
        self.added += 1;
    }

    fn happens(&mut self, at: Duration, event: Event) {
        let now = self.origin + at;
        match event {
            Event::Arrives(number) => {
                self.report.requests += 1;
                self.budget.record_request(now);
                let order = self.decide(number, now);
                self.attempt(Request { number, arrived: at, order, next: 0, calls: 0 }, at);
            }
            Event::Fails(request, provider, guards) => {
                self.metrics[provider].record_failure(now);
                self.health[provider].record_failure(&self.breaker, now);
                drop(guards);
                self.attempt(request, at);
            }
            Event::Speaks(request, provider, (flight, probe), fate) => {
                let Fate::Speaks { after, over, .. } = fate else { return };
                self.metrics[provider].record_first_token(after, now);
                if probe.is_some() {
                    self.health[provider].record_success(&self.breaker, now);
                }
                self.report.first_tokens.push((minute(request.arrived), at - request.arrived));
                self.later(at + over, Event::Ends(provider, flight, fate));
            }
            Event::Ends(provider, _flight, fate) => {
                let Fate::Speaks { after, tokens, over, cut } = fate else { return };
                self.report.usd += terms(provider).cost;
                if cut {
                    self.metrics[provider].record_failure(now);
                    self.health[provider].record_failure(&self.breaker, now);
                    self.fail();
                } else {
                    self.metrics[provider].record_success(after, now);
                    self.metrics[provider].record_speed(tokens, over, now);
                    self.health[provider].record_success(&self.breaker, now);
                    self.report.served[provider] += 1;
                }
            }
        }
    }

    fn decide(&self, turn: u64, now: Instant) -> Vec<usize> {
        let facts: [Facts; 3] = std::array::from_fn(|provider| {
            let terms = terms(provider);
            Facts {
                cost_usd: Some(terms.cost),
                quality: Some(terms.quality),
                prior: Prior { ttft_ms: Some(terms.prior_ms), availability: Some(99.9) },
                averages: self.metrics[provider].averages(now),
                status: self.health[provider].status(&self.breaker, now),
                ..Facts::default()
            }
        });
        let ordered = order(self.strategy, &Weights::default(), &facts, turn);
        ordered.iter().map(|scored| scored.index).collect()
    }

    /// Calls the next candidate that may be called.
    fn attempt(&mut self, mut request: Request, at: Duration) {
        let now = self.origin + at;
        let left = (request.arrived + DEADLINE).saturating_sub(at);
        while let Some(&provider) = request.order.get(request.next).filter(|_| !left.is_zero()) {
            request.next += 1;
            let is_last = request.calls == 0 && request.next == request.order.len();
            let probe = match self.health[provider].request_permit(&self.breaker, now) {
                Permit::Granted => None,
                Permit::Probe(probe) => Some(probe),
                Permit::Denied if is_last || self.budget.allow(now) => None,
                Permit::Denied => continue,
            };
            let flight = self.metrics[provider].start_call();
            let others = self.metrics[provider].averages(now).in_flight - 1;
            request.calls += 1;
            self.report.calls += 1;
            let clock = left.min(FIRST_TOKEN);
            match (self.scene.fate)(SEED, request.number, provider, at, others) {
                fate @ Fate::Speaks { after, .. } if after <= clock => {
                    self.later(at + after, Event::Speaks(request, provider, (flight, probe), fate));
                }
                Fate::Fails(after) => {
                    self.later(at + after.min(clock), Event::Fails(request, provider, (flight, probe)));
                }
                Fate::Speaks { .. } => {
                    self.later(at + clock, Event::Fails(request, provider, (flight, probe)));
                }
            }
            return;
        }
        self.fail();
    }

    fn fail(&mut self) {
        self.report.failed += 1;
    }
}

fn minute(at: Duration) -> usize {
    usize::try_from(at.as_secs() / 60).unwrap_or(0).min(59)
}

impl Report {
    /// Percent of requests that failed.
    pub(crate) fn failed_percent(&self) -> f64 {
        self.failed as f64 / self.requests as f64 * 100.0
    }

    /// Upstream calls per request.
    pub(crate) fn amplification(&self) -> f64 {
        self.calls as f64 / self.requests as f64
    }

    /// A percentile of the times to the first token in milliseconds, of one minute or of the whole hour.
    pub(crate) fn ttft_ms(&self, percent: usize, only: Option<usize>) -> f64 {
        let of = self.first_tokens.iter().filter(|(minute, _)| only.is_none_or(|only| only == *minute));
        let mut times: Vec<_> = of.map(|(_, time)| *time).collect();
        times.sort_unstable();
        let rank = (times.len() * percent).div_ceil(100).saturating_sub(1);
        times.get(rank).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    }
}

/// One hour for each strategy.
pub(crate) fn all() -> &'static [(Strategy, Report)] {
    static HOURS: LazyLock<Vec<(Strategy, Report)>> = LazyLock::new(|| {
        Strategy::ALL.into_iter().map(|strategy| (strategy, simulate(strategy, HOUR))).collect()
    });
    &HOURS
}

#[test]
fn strategies_that_measure_beat_round_robin_and_no_strategy_calls_too_often() {
    let hours = all();
    let of = |wanted: Strategy| &hours.iter().find(|(strategy, _)| *strategy == wanted).unwrap().1;
    let turns = of(Strategy::RoundRobin);
    for strategy in [Strategy::Fastest, Strategy::Balanced] {
        let hour = of(strategy);
        assert!(hour.failed_percent() < turns.failed_percent(), "{strategy:?}: {}", hour.failed_percent());
        assert!(hour.ttft_ms(99, None) < turns.ttft_ms(99, None), "{strategy:?}: {}", hour.ttft_ms(99, None));
    }
    for (strategy, hour) in hours {
        assert!(hour.requests > 50_000);
        assert!(hour.amplification() <= 1.2, "{strategy:?}: {} calls per request", hour.amplification());
        let answered = hour.served.iter().sum::<u64>() + hour.failed;
        assert_eq!(answered, hour.requests, "{strategy:?}: every request ends once");
        assert_eq!(NAMES.len(), hour.served.len());
    }
}

#[test]
fn a_simulation_can_be_replayed() {
    let first = all().iter().find(|(strategy, _)| *strategy == Strategy::Balanced).unwrap().1.clone();
    let [a, b] = [first, simulate(Strategy::Balanced, HOUR)]
        .map(|hour| (hour.failed, hour.calls, hour.served, hour.first_tokens));
    assert!(a == b);
}

/// All providers answer 5xx for a minute at 100 requests a second, then they recover.
#[test]
fn a_storm_is_not_amplified_and_its_end_is_noticed() {
    const STORM: Duration = Duration::from_secs(60);
    fn fate(_: u64, _: u64, _: usize, at: Duration, _: u32) -> Fate {
        let well = Fate::Speaks {
            after: Duration::from_millis(200),
            tokens: 100,
            over: Duration::from_millis(800),
            cut: false,
        };
        if at < STORM { Fate::Fails(Duration::from_millis(20)) } else { well }
    }
    for strategy in Strategy::ALL {
        let storm = simulate(strategy, Scene { lasts: STORM, rate: 100.0, fate });
        // The last requests may live until the storm ends.
        assert!(storm.requests > 5_500 && storm.failed + 5 >= storm.requests);
        assert!(storm.amplification() <= 1.2, "{strategy:?}: {} calls per request", storm.amplification());
        let calm = simulate(strategy, Scene { lasts: STORM * 2, rate: 100.0, fate });
        // Open circuits are called within the retry budget, and the last candidate always: a success ends the cooldown.
        let after = calm.failed - storm.failed;
        assert!(after < 20, "{strategy:?}: {after} requests failed after the storm");
    }
}
