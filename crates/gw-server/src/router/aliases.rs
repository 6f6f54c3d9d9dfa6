//! Other paths that lead to a URL.

use gw_wire::operation::PlainOperation;

/// The names that other gateways give to the probes.
const PROBE_ALIASES: [(&str, &str); 4] = [
    ("/health", "/healthz"),
    ("/health/liveliness", "/healthz"),
    ("/health/liveness", "/healthz"),
    ("/health/readiness", "/readyz"),
];

/// The URL of which `path` is an alias.
pub(super) fn of_alias(path: &str) -> Option<&'static str> {
    let mut rows = PlainOperation::ALL.iter().map(|operation| operation.row());
    let operation = rows.find(|row| row.aliases.contains(&path)).map(|row| row.path);
    operation.or_else(|| PROBE_ALIASES.iter().find_map(|(alias, probe)| (*alias == path).then_some(*probe)))
}
