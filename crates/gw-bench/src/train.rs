//! Runs the gateway under requests of each kind and ends it in order: an instrumented program then writes its profile.

use std::path::Path;

use crate::error::{Error, Result};
use crate::instructions::{CONNECTIONS, EVENTS};
use crate::load::{self, Kind};
use crate::process::Process;
use crate::upstream;

/// The number of requests of each kind, all streams in one write.
///
/// The compiler takes as hot what makes up most of all counts. The loops over a stream's events and an embedding's numbers run
/// thousands of times a request, so those kinds get fewer requests than a chat, whose steps run once.
const REQUESTS: [(Kind, usize); Kind::ALL.len()] = [
    (Kind::Chat, 20_000),
    (Kind::Cached, 8_000),
    (Kind::Missed, 6_000),
    (Kind::Stream, 2_000),
    (Kind::Translated, 1_000),
    (Kind::Messages, 1_000),
    (Kind::Responses, 1_000),
    (Kind::Embeddings, 500),
    (Kind::Key, 4_000),
    (Kind::Refused, 4_000),
    (Kind::Health, 4_000),
];
/// The number of requests of each kind beside slow streams, whose events come one by one.
const PACED: [(Kind, usize); 5] = [
    (Kind::Chat, 1_000),
    (Kind::Stream, 64),
    (Kind::Translated, 32),
    (Kind::Messages, 32),
    (Kind::Responses, 32),
];
/// The number of connections of the second load, as `./bench` has it.
const MANY: usize = 32;

/// Starts the gateway on a new database and then on the same one, and serves each kind of request.
pub(crate) async fn run(binary: &Path, key: &str) -> Result<String> {
    let data = tempfile::tempdir()?;
    let mut requests = 0;
    for (events, pace, loads, connections) in [
        (EVENTS, None, REQUESTS.as_slice(), CONNECTIONS),
        (upstream::EVENTS, Some(upstream::PACE), PACED.as_slice(), MANY),
    ] {
        let upstream = upstream::start(events, pace).await?;
        let mut gateway = Process::gateway(binary, data.path(), upstream, key, &Kind::ALL)?;
        for (kind, number) in loads {
            load::run(*kind, gateway.port, key, connections, *number).await?;
            requests += number;
        }
        // One at a time, each request finds threads that sleep.
        load::run(Kind::Chat, gateway.port, key, 1, MANY).await?;
        let status = gateway.end()?;
        if !status.success() {
            return Err(Error::Ended { command: binary.display().to_string(), status });
        }
    }
    Ok(format!("{}: two starts, {requests} requests", binary.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_request_is_a_part_of_the_training() {
        for kind in Kind::ALL {
            assert!(REQUESTS.iter().any(|(trained, number)| *trained == kind && *number > 0), "{kind:?}");
        }
    }
}
