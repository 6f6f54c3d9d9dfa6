//! What a plain chat pays for features that it does not use.
//!
//! The configuration of the benchmark switches none of them on. The instructions that the functions of such a feature need by
//! themselves are summed. Code that the compiler moved into a caller is not seen: a comparison with an absent setting, mostly.

use std::fmt::Write;
use std::path::Path;

use crate::callgrind;
use crate::error::{Error, Result};

/// The most that one unused feature may cost, as a part of the instructions of a chat.
const MOST_PERCENT: f64 = 0.2;

/// Features with parts of the names of their functions.
const FEATURES: [(&str, &[&str]); 9] = [
    ("sessions and guards", &["gw_engine::session_guard", "gw_server::session::", "gw_limits::session"]),
    ("hedged calls", &["gw_engine::upstream::hedge"]),
    (
        "response cache",
        &["gw_cache::", "gw_engine::response_cache", "gw_server::generate::cache_control", "Fields::cache"],
    ),
    ("payload log", &["gw_engine::payloads", "Engine::capture", "gw_store::payload"]),
    ("traces", &["gw_telemetry::trac", "gw_telemetry::otlp", "gw_engine::call::tracing"]),
    ("Redis", &["gw_redis::", "gw_limits::redis"]),
    ("stored responses", &["gw_engine::stored_responses", "gw_engine::responses", "gw_store::responses"]),
    ("PostgreSQL", &["sqlx_postgres::"]),
    ("sign-in and identity providers", &["gw_identity::"]),
];

/// Checks the dump of a run of plain chats. The report has a line for each feature.
pub(crate) fn check(dump: &Path, requests: u64, chat_instructions: u64) -> Result<String> {
    compare(&callgrind::own_instructions(dump)?, requests, chat_instructions)
}

fn compare(functions: &[(String, u64)], requests: u64, chat_instructions: u64) -> Result<String> {
    let (mut report, mut is_exceeded) = (String::new(), functions.is_empty());
    for (feature, names) in FEATURES {
        let all: u64 = functions
            .iter()
            .filter(|(function, _)| names.iter().any(|name| function.contains(name)))
            .map(|(_, count)| count)
            .sum();
        let each = all as f64 / requests.max(1) as f64;
        let percent = each * 100.0 / chat_instructions.max(1) as f64;
        is_exceeded |= percent > MOST_PERCENT;
        let _ = writeln!(report, "unused {feature}: {each:.0} instructions of a chat, {percent:.3} %");
    }
    if is_exceeded {
        return Err(Error::Budgets(format!("an unused feature costs more than {MOST_PERCENT} %:\n{report}")));
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_that_a_chat_does_not_use_may_cost_a_500th_of_it() {
        let functions = |guards: u64| {
            vec![
                ("gw_engine::pipeline::run".to_owned(), 900_000),
                ("gw_engine::session_guard::SessionGuards::of".to_owned(), guards),
            ]
        };
        let report = compare(&functions(20_000), 100, 100_000).unwrap();
        assert!(
            report.contains("unused sessions and guards: 200 instructions of a chat, 0.200 %"),
            "{report}"
        );
        assert!(compare(&functions(20_100), 100, 100_000).is_err());
        assert!(compare(&[], 100, 100_000).is_err(), "callgrind_annotate printed nothing");
    }
}
