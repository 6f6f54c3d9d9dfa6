//! Generates the figures in `docs/routing.md`. `UPDATE=1 cargo test -p gw-routing` rewrites them.

use std::fmt::Write as _;
use std::time::Duration;

use gw_routing::Strategy;

use crate::hedged;
use crate::hour::{self, Report};
use crate::world::{NAMES, weather};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/routing.md");

/// Eight heights for times from one second on; each step is a factor of 1.4 (the root of 2).
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

fn level(seconds: f64) -> char {
    // The cast turns times below the first level into it.
    let level = (2.0 * seconds.log2() + 1.0).floor() as usize;
    if seconds.is_nan() { ' ' } else { LEVELS[level.min(LEVELS.len() - 1)] }
}

fn table(hours: &[(Strategy, Report)]) -> String {
    let mut out = String::from(
        "| strategy | failed | first token, median | first token, p99 | calls per request | USD per 1,000 | served by degrading / flapping / steady |\n|---|---|---|---|---|---|---|\n",
    );
    for (strategy, hour) in hours {
        let share = |provider: usize| hour.served[provider] as f64 / hour.requests as f64 * 100.0;
        let _ = writeln!(
            out,
            "| `{}` | {:.2} % | {:.0} ms | {:.0} ms | {:.3} | {:.2} | {:.0} / {:.0} / {:.0} % |",
            strategy.as_str(),
            hour.failed_percent(),
            hour.ttft_ms(50, None),
            hour.ttft_ms(99, None),
            hour.amplification(),
            hour.usd / hour.requests as f64 * 1e3,
            share(0),
            share(1),
            share(2),
        );
    }
    out
}

/// The 99th percentile of each minute, and the failures of each provider.
fn chart(hours: &[(Strategy, Report)]) -> String {
    let mut out = String::from("```text\nminute        ");
    out.push_str("0         10        20        30        40        50");
    let at = |minute: u64, second: u64| Duration::from_secs(minute * 60 + second);
    let worst = |provider: usize, minute: u64| {
        let seconds = (0..60).map(|second| weather(provider, at(minute, second)));
        seconds.fold(0.0_f64, |worst, weather| worst.max(weather.refuses + weather.stalls + weather.cuts))
    };
    out.push_str("\n\nattempts that fail, ▁ below 12 %, █ from 88 % on:\n");
    for (provider, name) in NAMES.iter().enumerate() {
        let _ = write!(out, "{name:<14}");
        out.extend((0..60).map(|minute| LEVELS[((worst(provider, minute) * 8.0) as usize).min(7)]));
        out.push('\n');
    }
    out.push_str("\np99 of the time to the first token, ▁ below 1 s, each step × 1.4, █ from 8 s on:\n");
    for (strategy, hour) in hours {
        let _ = write!(out, "{:<14}", strategy.as_str());
        out.extend((0..60).map(|minute| level(hour.ttft_ms(99, Some(minute)) / 1e3)));
        out.push('\n');
    }
    out.push_str("\nrequests that failed, █ = 0.1 %:\n");
    for (strategy, hour) in hours {
        let bar = "█".repeat((hour.failed_percent() * 10.0).round() as usize);
        let _ = writeln!(out, "{:<14}{bar} {:.2} %", strategy.as_str(), hour.failed_percent());
    }
    out.push_str("```\n");
    out
}

fn hedges() -> String {
    let mut out = String::from(
        "| cap | hedged | first token, median | first token, p99 | extra cost |\n|---|---|---|---|---|\n",
    );
    for cap in [0.0, 0.5, 5.0] {
        let hour = hedged::simulate(cap);
        let _ = writeln!(
            out,
            "| {cap} % | {:.1} % | {:.0} ms | {:.0} ms | {:.2} % |",
            hour.hedged_percent, hour.p50_ms, hour.p99_ms, hour.extra_percent
        );
    }
    out
}

/// The page with the text between two marks replaced.
fn replaced(page: &str, mark: &str, with: &str) -> String {
    let (begin, end) = (format!("<!-- {mark} -->\n"), format!("<!-- /{mark} -->"));
    let (before, rest) = page.split_once(&begin).expect("the mark");
    let (_, after) = rest.split_once(&end).expect("its end");
    format!("{before}{begin}{with}{end}{after}")
}

#[test]
fn the_page_shows_the_figures_of_the_simulation() {
    // Other systems' logarithms may differ in the last bit, which changes the simulated hour.
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return;
    }
    let page = std::fs::read_to_string(PAGE).unwrap();
    let hours = hour::all();
    let made = replaced(&page, "hour", &format!("{}\n{}", table(hours), chart(hours)));
    let made = replaced(&made, "hedges", &hedges());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(PAGE, &made).unwrap();
    } else {
        assert!(made == page, "docs/routing.md is old; run `UPDATE=1 cargo test -p gw-routing`");
    }
}
