//! The instructions that a plain chat spends on features that it does not use.
//!
//! The configuration of the benchmark switches none of them on. The instructions that the functions of such a feature need by
//! themselves are summed. Code that the compiler moved into a caller is not seen: a comparison with an absent setting, mostly.

use std::fmt::Write;
use std::path::Path;

use crate::callgrind;
use crate::error::{Error, Result};

/// The most that one unused feature may cost, as a part of the instructions of a chat.
const MOST_PERCENT: f64 = 0.2;

/// Features with their crates, modules and functions, as they stand in the names that callgrind writes.
const FEATURES: [(&str, &[&str]); 14] = [
    ("sessions and guards", &["gw_engine::session_guard", "gw_server::session::", "gw_limits::session"]),
    ("hedged calls", &["gw_engine::upstream::hedge"]),
    (
        "response cache",
        &[
            "gw_cache::",
            "gw_engine::response_cache",
            "gw_server::generate::cache_control",
            "gw_wire::request::options::Fields::cache",
        ],
    ),
    ("payload log", &["gw_engine::payloads", "gw_engine::engine::Engine::capture", "gw_store::payloads"]),
    ("traces", &["gw_telemetry::", "gw_engine::call::tracing"]),
    ("Redis", &["gw_redis::", "gw_limits::redis"]),
    (
        "stored responses",
        &["gw_engine::stored_responses", "gw_engine::responses", "gw_store::stored_responses"],
    ),
    ("PostgreSQL", &["gw_store::postgres", "sqlx_postgres::"]),
    ("sign-in and identity providers", &["gw_identity::"]),
    (
        "rules of budgets",
        &["gw_engine::rules", "gw_engine::call::rule_holds", "gw_engine::call::enter_target"],
    ),
    ("names of requests", &["gw_server::attribution", "gw_wire::attribution"]),
    ("alerts", &["gw_alerts::", "gw_engine::occurrences"]),
    ("presets", &["gw_engine::presets", "gw_server::preset"]),
    ("prompt caches", &["gw_engine::prompt_caches"]),
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

    /// Whether a crate of the workspace has this module, and the module has the type and the function behind it. Crates of others
    /// are in the lock file.
    fn is_in_the_program(pattern: &str) -> bool {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let mut names = pattern.trim_end_matches("::").split("::").peekable();
        let package = names.next().unwrap_or_default().replace('_', "-");
        let mut module = root.join("crates").join(&package).join("src");
        if !module.is_dir() {
            return read(&root.join("Cargo.lock")).contains(&format!("\nname = \"{package}\"\n"));
        }
        let mut source = module.join("lib.rs");
        while let Some(name) = names.next_if(|name| module.join(format!("{name}.rs")).is_file()) {
            source = module.join(format!("{name}.rs"));
            module = module.join(name);
        }
        let source = read(&source);
        !source.is_empty()
            && names.all(|name| {
                let is_type = name.starts_with(char::is_uppercase);
                let definitions = if is_type { ["struct", "enum"] } else { ["fn", "async fn"] };
                let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
                definitions.iter().any(|kind| source.split(&format!("{kind} {name}")).skip(1).any(ends))
            })
    }

    #[test]
    fn every_feature_names_code_of_the_program() {
        let patterns = FEATURES.iter().flat_map(|(_, patterns)| patterns.iter());
        let unknown: Vec<_> = patterns.filter(|pattern| !is_in_the_program(pattern)).collect();
        assert!(unknown.is_empty(), "these would count nothing: {unknown:?}");
        for gone in [
            "gw_store::responses",
            "gw_telemetry::trac",
            "gw_engine::engine::Engine::captur",
            "gw_nothing::",
            "gw_cach::",
        ] {
            assert!(!is_in_the_program(gone), "{gone}");
        }
    }

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
