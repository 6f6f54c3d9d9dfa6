//! Names that the code had before it took the field's own. None of them may come back.

use std::collections::{BTreeMap, BTreeSet};

use super::exceptions::assert_listed;
use gw_testkit::sources::{relative, rust_files};

use super::files::crate_of;
use super::tokens::{Token, tokens};

/// How a name is looked for.
#[derive(Clone, Copy)]
enum As {
    /// Any identifier: a type, a function, a field, a variable.
    Identifier,
    /// The name of a file, of a `mod`, or the beginning of a path.
    Module,
}
use As::{Identifier, Module};

/// An old name, the crates in which it must not stand (none given: all), and the name to use instead.
type Row = (As, &'static str, &'static [&'static str], &'static str);

/// No crate named: every crate.
const ALL: &[&str] = &[];
const ENGINE: &[&str] = &["gw-engine", "gw-admin"];
const LIMITS: &[&str] = &["gw-limits"];
const LIMITS_AND_USERS: &[&str] = &["gw-engine", "gw-limits", "gw-server"];
const REDIS: &[&str] = &["gw-cache", "gw-limits", "gw-redis"];
const SERVER: &[&str] = &["gw-server"];
const TOP: &[&str] = &["gw", "gw-config", "gw-import", "gw-probe"];
const SHARED: &[&str] = &["gw-cache", "gw-engine", "gw-limits"];

const OLD_NAMES: [Row; 70] = [
    (Identifier, "leavers", ALL, "disconnect"),
    (Identifier, "Leavers", ALL, "DisconnectDrain"),
    (Identifier, "Staying", ALL, "DetachOnDrop"),
    (Identifier, "Going", ALL, "DrainingStream"),
    (Module, "whole", ENGINE, "unary"),
    (Identifier, "Given", ALL, "UnaryResponse"),
    (Identifier, "Got", ALL, "AttemptOutput"),
    (Identifier, "Brought", ALL, "EmbeddingsOutput"),
    (Identifier, "Told", ALL, "CallSummary"),
    (Module, "sources", ENGINE, "merge"),
    (Identifier, "Many", ENGINE, "MergedStream"),
    (Module, "live", ENGINE, "stream"),
    (Identifier, "Live", ENGINE, "UpstreamStream"),
    (Module, "race", ENGINE, "hedge"),
    (Identifier, "tally", ALL, "progress"),
    (Identifier, "Tally", ALL, "CallProgress"),
    (Module, "worst", ENGINE, "cost_estimate"),
    (Module, "ask", ENGINE, "request"),
    (Identifier, "Ask", ALL, "ValidatedRequest, or AdminRequest"),
    (Identifier, "Books", ALL, "AdminService"),
    (Identifier, "job", ENGINE, "attempt_context"),
    (Identifier, "Job", ENGINE, "AttemptContext"),
    (Module, "share", ENGINE, "fan_out"),
    (Identifier, "Share", ENGINE, "ChoiceRange"),
    (Identifier, "Part", ENGINE, "SubRequest"),
    (Identifier, "steering", ALL, "routing_state"),
    (Module, "verdict", ENGINE, "retry_policy"),
    (Module, "refusal", ENGINE, "limit_error"),
    (Module, "spent", ENGINE, "ledger_spending"),
    (Module, "cached", ENGINE, "response_cache"),
    (Module, "work", ENGINE, "leader"),
    (Module, "shared", SHARED, "redis, or follower_stream"),
    (Module, "flight", ALL, "single_flight"),
    (Identifier, "Flights", ALL, "SingleFlight"),
    (Identifier, "wish", ALL, "directives"),
    (Identifier, "Wish", ALL, "CacheDirectives"),
    (Module, "life", &["gw-cache"], "freshness"),
    (Identifier, "Life", ALL, "Lifetime"),
    (Identifier, "purse", ALL, "budget"),
    (Identifier, "Purse", ALL, "BudgetState"),
    (Identifier, "Says", ALL, "Decision"),
    (Module, "rate", LIMITS, "gcra"),
    (Identifier, "Pace", ALL, "Gcra"),
    (Module, "few", ALL, "a small-vector crate"),
    (Identifier, "Few", ALL, "a small-vector crate"),
    (Module, "gate", LIMITS, "single_flight"),
    (Identifier, "Gate", LIMITS, "SingleFlight"),
    (Identifier, "enter", LIMITS_AND_USERS, "admit"),
    (Identifier, "Place", LIMITS_AND_USERS, "InFlightPermit"),
    (Identifier, "Entered", ALL, "AdmissionPermit"),
    (Identifier, "Share", SERVER, "BodyPermit"),
    (Identifier, "Busy", SERVER, "RequestGuard"),
    (Module, "ticket", SERVER, "request_record"),
    (Module, "edge", SERVER, "state"),
    (Module, "guarded", SERVER, "timed_io"),
    (Identifier, "Ticket", SERVER, "RequestRecord"),
    (Identifier, "Edge", SERVER, "ServerState"),
    (Identifier, "Door", ALL, "Listener"),
    (Identifier, "Witness", ALL, "BodyObserver"),
    (Module, "line", &["gw-redis"], "supervisor"),
    (Module, "link", &["gw-redis"], "connection"),
    (Identifier, "Line", &["gw-redis"], "Supervisor"),
    (Identifier, "Link", REDIS, "Connection"),
    (Module, "own", &["gw-providers"], "gateway_format"),
    (Module, "places", TOP, "paths"),
    (Module, "lines", TOP, "log_writer"),
    (Identifier, "MOST", ALL, "the thing and its unit: MAX_EVENT_BYTES"),
    (Identifier, "LONGEST", ALL, "the thing and its unit: MAX_EVENT_BYTES"),
    (Identifier, "LARGEST", ALL, "the thing and its unit: MAX_EVENT_BYTES"),
    (Identifier, "SHORTEST", ALL, "the thing and its unit: MIN_WAIT_MS"),
];

/// Whether the tokens of a file use the name as a module.
fn has_module(tokens: &[Token], name: &str) -> bool {
    tokens.windows(2).any(|pair| match pair {
        [Token::Name(first), Token::Name(second)] => first == "mod" && second == name,
        [Token::Name(first), Token::Path] => first == name,
        _ => false,
    })
}

#[test]
fn no_old_name_comes_back() {
    let mut found = BTreeMap::new();
    for path in rust_files() {
        let crate_name = crate_of(&path);
        let tokens = tokens(&std::fs::read_to_string(&path).expect("a readable file"));
        let names: BTreeSet<_> = tokens.iter().filter_map(Token::name).collect();
        for (kind, old, crates, new) in OLD_NAMES {
            if !crates.is_empty() && !crates.contains(&crate_name.as_str()) {
                continue;
            }
            let (kind, is_used) = match kind {
                Identifier => ("identifier", names.contains(old)),
                Module => {
                    ("module", path.file_stem().is_some_and(|stem| stem == old) || has_module(&tokens, old))
                }
            };
            if is_used {
                let place = format!("{} (write {new})", relative(&path));
                found.entry(format!("{crate_name} {old} {kind}")).or_insert(place);
            }
        }
    }
    assert_listed("old names", "old_names.txt", &found);
}
