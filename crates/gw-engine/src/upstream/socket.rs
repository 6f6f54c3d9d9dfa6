//! Opens the socket of a realtime session.

use gw_providers::client::{SocketAnswer, SocketLimits, UpstreamSocket};
use gw_wire::failure::Failure;

use crate::call::attempt_context::AttemptContext;
use crate::call::upstream_call::Attempt;
use crate::plan::call_size::batch_size;
use crate::plan::candidate::Candidate;
use crate::request::one_shot::OneShot;

/// The most bytes of a message of an upstream. OpenAI sends at most 15 MiB of sound in one.
const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// Opens a socket to the candidate.
pub(crate) async fn open(
    context: &AttemptContext,
    candidate: &Candidate,
    attempt: Attempt,
    request: &dyn OneShot,
) -> Result<Box<UpstreamSocket>, Failure> {
    let clocks = context.clocks(candidate);
    let provider = &*candidate.provider;
    let mut http = request.encode(provider, 0..1, 0, &candidate.target())?;
    let call = context.upstream_calls.begin(attempt, candidate, batch_size(request, 0..1));
    context.upstream_calls.mark_free(call);
    if let Some(trace) = &context.client.trace {
        let number = context.upstream_calls.attempt_of(call).unwrap_or_default();
        trace.write_headers(number, &mut http.headers);
    }
    let limits = SocketLimits { message_bytes: MAX_MESSAGE_BYTES };
    match provider.open_socket(http, limits, &clocks).await? {
        SocketAnswer::Open(socket, key) => {
            provider.record_outcome(key, Ok(()));
            Ok(socket)
        }
        SocketAnswer::Refused { status, headers, body, key } => {
            let failure = provider.classify(status, &headers, &body);
            provider.record_outcome(key, Err(&failure));
            Err(failure)
        }
    }
}
