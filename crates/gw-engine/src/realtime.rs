//! Realtime sessions: the handshake is planned and tried like any request, and each response of the session is reserved, charged and
//! recorded by itself.

mod response;
mod session;
mod transcript;

use bytes::Bytes;
pub use gw_providers::client::{ReadMeter, UpstreamSocket, poll_divided};
use gw_wire::operation::PlainOperation;

pub(crate) use self::response::begin;
pub use self::response::{PromptSize, RealtimeResponse};
pub use self::session::RealtimeSession;
pub(crate) use self::transcript::{charge, check, check_budget};
use crate::call::reserve::reserve;
use crate::error::{Error, Result};
use crate::pipeline;
use crate::request::context::RequestContext;
use crate::request::operation::parse;
use crate::services::Services;
use crate::upstream::attempts;
use crate::upstream::outcome::Answer;

/// The name of the operation in records.
const OPERATION: &str = PlainOperation::Realtime.row().name;

/// An open session and its socket.
#[derive(Debug)]
pub struct RealtimeConnection {
    /// The session.
    pub session: RealtimeSession,
    /// The socket to the upstream.
    pub socket: Box<UpstreamSocket>,
}

/// Opens a session with the first candidate that answers the handshake.
///
/// # Errors
/// Every refusal of the request, and the error of its last attempt.
pub(crate) async fn open(
    services: &Services,
    client: Box<RequestContext>,
    body: Bytes,
) -> Result<RealtimeConnection> {
    let operation = PlainOperation::Realtime;
    let parsing = |body, limits: &_| parse(operation, body, limits);
    let mut call = pipeline::begin(services, operation.into(), client, body, parsing).await?;
    if let Err(error) = reserve(&services.limiter, &mut call).await {
        call.fail(&error);
        return Err(error);
    }
    let (index, answer) = attempts::run(&mut call).await?;
    let (Answer::Socket(socket), Some(candidate)) = (answer, call.plan.candidates.get(index).cloned()) else {
        return Err(Error::internal());
    };
    let permits = call.progress.settlement.finish_handshake(&candidate.model.id);
    let requested = call.context.request.model().to_owned();
    Ok(RealtimeConnection { session: RealtimeSession::new(candidate, requested, permits), socket })
}
