//! The limit of open files of this process.

use gw_config::Config;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files beside the connections: the store, the journal, the log, the runtime.
const OWN_FILES: u64 = 64;
/// The open files of a client whose request is proxied: its connection and that to the upstream.
const FILES_PER_CLIENT: u64 = 2;
/// Fewer clients than this deserve a warning.
const FEW_CLIENTS: u64 = 1_000;

/// How an operator raises the limit.
pub(crate) const REMEDY: &str = "raise the limit: `ulimit -n 65536` in a shell, LimitNOFILE=65536 in a systemd unit, \
                                 --ulimit nofile=65536 for a container";

/// The open files that a gateway of this user may have, since it raises its own limit. None: there is no limit.
pub(crate) fn most() -> Option<u64> {
    getrlimit(Resource::Nofile).maximum
}

/// The clients that so many open files are enough for.
pub(crate) fn clients(files: u64) -> u64 {
    files.saturating_sub(OWN_FILES) / FILES_PER_CLIENT
}

/// Whether these are few clients beside `max_connections`.
pub(crate) fn are_few(clients: u64, max_connections: u64) -> bool {
    clients < max_connections.min(FEW_CLIENTS)
}

/// Raises the limit of open files to the most that this user may have: the low limit of a shell is for programs that use `select`. Accepts
/// only so many connections that each request finds an open file for its upstream.
pub(crate) fn prepare(config: &mut Config) {
    let Some(most) = most() else { return };
    // A system that refuses leaves the limit as it is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: Some(most) });
    let files = getrlimit(Resource::Nofile).current.unwrap_or(most);
    let clients = clients(files);
    let max_connections = &mut config.server.max_connections;
    if are_few(clients, *max_connections as u64) {
        tracing::warn!(
            files,
            "few open files are allowed: enough for about {clients} clients at once; {REMEDY}"
        );
    }
    *max_connections = (*max_connections).min(usize::try_from(clients).unwrap_or(usize::MAX)).max(1);
}
