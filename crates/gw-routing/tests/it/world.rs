//! Three providers of one model over a virtual hour: one is steady, one degrades and recovers, one flaps.
//!
//! The outcome of an attempt depends on the minute, on the provider's load, and on a number drawn from the request, the
//! provider and the seed. So every strategy sees the same hour.

use std::time::Duration;

/// The providers, in the order in which the catalogue names them.
pub(crate) const NAMES: [&str; 3] = ["degrading", "flapping", "steady"];

/// How long an attempt waits for its first token.
pub(crate) const FIRST_TOKEN: Duration = Duration::from_secs(8);

/// Requests in flight at which a provider takes twice as long.
const CAPACITY: f64 = 150.0;

/// The state of a provider at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    /// Median of an idle provider.
    pub(crate) ttft_ms: f64,
    pub(crate) tokens_per_second: f64,
    /// Share of requests that are refused at once.
    pub(crate) refuses: f64,
    /// Share of requests that get no answer.
    pub(crate) stalls: f64,
    /// Share of streams that break off.
    pub(crate) cuts: f64,
}

/// The constant properties of a provider.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// USD of one request.
    pub(crate) cost: f64,
    pub(crate) quality: f64,
    /// The catalogue's median of times to the first token.
    pub(crate) prior_ms: f64,
}

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate {
    /// An error, after this long.
    Fails(Duration),
    /// A first token after `after`, then `tokens` over `over`; `cut` when the stream breaks off.
    Speaks { after: Duration, tokens: u64, over: Duration, cut: bool },
}

pub(crate) const fn terms(provider: usize) -> Terms {
    match provider {
        0 => Terms { cost: 0.002, quality: 70.0, prior_ms: 300.0 },
        1 => Terms { cost: 0.004, quality: 74.0, prior_ms: 400.0 },
        _ => Terms { cost: 0.003, quality: 70.0, prior_ms: 600.0 },
    }
}

/// From minute 15 on the degrading provider becomes slower and fails more often, worst from 25 to 35; then it recovers.
/// The flapping provider is down for half a minute of every four.
pub(crate) fn weather(provider: usize, at: Duration) -> Weather {
    let minute = at.as_secs_f64() / 60.0;
    let well = Weather { ttft_ms: 600.0, tokens_per_second: 60.0, refuses: 0.0, stalls: 0.001, cuts: 0.001 };
    match provider {
        0 => {
            let ill = if minute >= 35.0 { 0.0 } else { ((minute - 15.0) / 10.0).clamp(0.0, 1.0) };
            Weather {
                ttft_ms: 300.0 * 10_f64.powf(ill),
                tokens_per_second: 90.0 * 0.2_f64.powf(ill),
                refuses: 0.1 * ill,
                stalls: 0.001 + 0.15 * ill,
                cuts: 0.001 + 0.15 * ill,
            }
        }
        1 if at.as_secs() % 240 >= 210 => Weather { refuses: 0.95, cuts: 0.5, ..well },
        1 => Weather { ttft_ms: 400.0, tokens_per_second: 70.0, cuts: 0.005, ..well },
        _ => well,
    }
}

/// The outcome of a request's attempt at a provider, started at this time with `others` in flight.
pub(crate) fn fate(seed: u64, request: u64, provider: usize, at: Duration, others: u32) -> Fate {
    let weather = weather(provider, at);
    let mut draw = Draw(seed ^ request.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (provider as u64) << 56);
    let [refuses, stalls, cuts] = [draw.next(), draw.next(), draw.next()];
    let tokens = 50 + (draw.next() * 300.0) as u64;
    if refuses < weather.refuses {
        return Fate::Fails(Duration::from_secs_f64(0.03 + 0.05 * draw.next()));
    }
    let crowd = 1.0 + f64::from(others) / CAPACITY;
    let ttft = Duration::from_secs_f64(weather.ttft_ms / 1e3 * draw.log_normal(0.5) * crowd);
    if stalls < weather.stalls || ttft > FIRST_TOKEN {
        return Fate::Fails(FIRST_TOKEN);
    }
    let over = Duration::from_secs_f64(tokens as f64 / weather.tokens_per_second * crowd);
    let cut = cuts < weather.cuts;
    let said = if cut { 0.5 } else { 1.0 };
    Fate::Speaks { after: ttft, tokens: (tokens as f64 * said) as u64, over: over.mul_f64(said), cut }
}

/// Pseudorandom numbers from a seed: SplitMix64.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    /// From 0 (included) to 1 (excluded).
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Log-normal with median 1: the exponential of a normal number, by Box and Muller.
    pub(crate) fn log_normal(&mut self, sigma: f64) -> f64 {
        let radius = (-2.0 * (1.0 - self.next()).ln()).sqrt();
        (sigma * radius * (2.0 * std::f64::consts::PI * self.next()).cos()).exp()
    }
}
