//! Opens the upstream calls of a stream.

use std::borrow::Cow;
use std::time::Instant;

use gw_providers::adapter::{Encoded, Reading};
use gw_providers::client::UpstreamResponse;
use gw_providers::settings::Timeouts;
use gw_wire::failure::Failure;

use crate::call::attempt_context::AttemptContext;
use crate::call::upstream_call::{Attempt, UpstreamCallId};
use crate::clock;
use crate::plan::candidate::Candidate;
use crate::request::fan_out::SubRequest;
use crate::upstream::part_retries::PartRetries;

/// An upstream call that answered with success.
pub(super) struct OpenedCall {
    pub(super) call: UpstreamCallId,
    pub(super) began: Instant,
    pub(super) response: UpstreamResponse,
    pub(super) reading: Reading,
    pub(super) warnings: Vec<Cow<'static, str>>,
    pub(super) first: u32,
}

/// Opens the stream of one part of a divided request.
pub(super) async fn one_of_several(
    context: &AttemptContext,
    candidate: &Candidate,
    attempt: Attempt,
    part: &(SubRequest, Encoded),
) -> Result<OpenedCall, Failure> {
    let mut retries = PartRetries::new(context, candidate);
    loop {
        let (mut part, mut sent, began) = (part.clone(), None, clock::now());
        let clocks = context.clocks(candidate);
        match one(context, candidate, attempt, (&mut part, &mut sent), clocks).await {
            Ok(opened) => return Ok(OpenedCall { began, ..opened }),
            Err(failure) => retries.wait(context, candidate, attempt, (sent, began), failure).await?,
        }
    }
}

/// Opens the stream of a request, or of a part of it.
pub(super) async fn one(
    context: &AttemptContext,
    candidate: &Candidate,
    attempt: Attempt,
    ((part, encoded), sent): (&mut (SubRequest, Encoded), &mut Option<UpstreamCallId>),
    clocks: Timeouts,
) -> Result<OpenedCall, Failure> {
    let size = context.request.size_of_sent(candidate, part, encoded);
    let call = context.upstream_calls.begin(attempt, candidate, size);
    *sent = Some(call);
    let (response, reading, warnings) =
        context.send_encoded(candidate, call, (part, encoded), &clocks).await?;
    Ok(OpenedCall { call, began: attempt.at, response, reading, warnings, first: part.first })
}
