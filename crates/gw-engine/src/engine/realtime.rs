//! Realtime sessions, as the edge uses them.

use std::future::poll_fn;
use std::task::Poll;

use bytes::Bytes;
use gw_wire::attribution::Attribution;

use super::Engine;
use crate::auth::Caller;
use crate::error::Result;
use crate::realtime::{self, PromptSize, RealtimeConnection, RealtimeResponse, RealtimeSession};
use crate::request::context::RequestContext;
use crate::rules::Asker;

impl Engine {
    /// Opens a session. `body` has the members of the handshake.
    ///
    /// # Errors
    /// Every refusal of the request, and the error of its last attempt.
    pub async fn open_realtime(
        &self,
        context: Box<RequestContext>,
        body: Bytes,
    ) -> Result<RealtimeConnection> {
        Box::pin(realtime::open(&self.services, context, body)).await
    }

    /// Waits until live streams must end, at the end of a shutdown's grace.
    pub async fn streams_cut(&self) {
        let mut cut = self.services.cutoff_watch();
        poll_fn(|cx| {
            if !cut.is_cut() {
                cut.watch(cx);
            }
            if cut.is_cut() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Begins a response of a session. `is_forced`: the upstream makes it already.
    ///
    /// # Errors
    /// The refusal of a limit, a budget, a rule or a guard.
    pub async fn begin_realtime_response(
        &self,
        session: &RealtimeSession,
        context: Box<RequestContext>,
        size: PromptSize,
        is_forced: bool,
    ) -> Result<RealtimeResponse> {
        Box::pin(realtime::begin(&self.services, session, context, (size, is_forced))).await
    }

    /// Checks whether the caller may have this model of the upstream transcribe.
    ///
    /// # Errors
    /// `model_not_allowed`, `insufficient_quota`.
    pub fn check_transcriber(
        &self,
        session: &RealtimeSession,
        (caller, attribution): (&Caller, Option<&Attribution>),
        name: &str,
    ) -> Result<()> {
        realtime::check(&self.services, session, Asker { caller, attribution }, name)
    }

    /// Checks whether the budgets of a caller have money for a transcript.
    ///
    /// # Errors
    /// `insufficient_quota`.
    pub async fn check_transcript_budget(
        &self,
        session: &RealtimeSession,
        caller: &Caller,
        attribution: Option<&Attribution>,
    ) -> Result<()> {
        realtime::check_budget(&self.services, session, Asker { caller, attribution }).await
    }

    /// Charges the transcript of what a client said.
    pub fn charge_transcript(
        &self,
        session: &RealtimeSession,
        context: Box<RequestContext>,
        name: &str,
        usage: &str,
    ) {
        realtime::charge(&self.services, session, context, (name, usage));
    }
}
