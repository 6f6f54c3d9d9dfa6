//! `POST /v1/responses/compact`: a model summarises a conversation. The client gets the summary as one sealed item, which it
//! sends instead of the items before it.

use std::sync::Arc;

use bytes::Bytes;
use gw_providers::seal::{SealOrigin, Sealer};
use gw_wire::dialects::responses::documents::{Compaction, compaction, translate_compaction};
use gw_wire::dialects::responses::{self, EarlierItems};
use gw_wire::dialects::{AnswerEncoder, AnswerForm, ClientDialect, EncoderOpening, NativeNeed};
use gw_wire::operation::Operation;
use gw_wire::render::Envelope;
use gw_wire::reply::ChatReply;
use gw_wire::request::RequestLimits;
use gw_wire::stream::Closing;

use crate::auth::Caller;
use crate::cpu_pool::{is_heavy, offload_if};
use crate::error::Result;
use crate::messages::validated;
use crate::pipeline;
use crate::request::context::RequestContext;
use crate::response::reply::Reply;
use crate::services::Services;
use crate::stored_responses::StoredConversation;
use crate::stored_responses::conversation::ConversationBounds;

/// Seals summaries for one team, or for one key without a team. Every model reads them.
#[derive(Clone, Debug)]
pub(crate) struct SummarySealer {
    sealer: Sealer,
    origin: SealOrigin,
}

impl SummarySealer {
    /// The sealer for a caller.
    pub(crate) fn new(sealer: &Sealer, caller: &Caller) -> Self {
        let owner = match caller.team_scope() {
            Some(team) => format!("compaction team {team}"),
            None => format!("compaction key {}", caller.key_id()),
        };
        let origin = SealOrigin { provider: String::new(), model: owner, account: Default::default() };
        Self { sealer: sealer.clone(), origin }
    }

    /// Opens the summary of a compaction item; None if it was not sealed for this caller.
    pub(crate) fn open(&self, sealed: &str) -> Option<String> {
        let (found, summary) = self.sealer.open(sealed)?;
        (found == self.origin).then(|| String::from_utf8(summary).ok()).flatten()
    }

    fn seal(&self, summary: &str) -> String {
        self.sealer.seal(&self.origin, summary.as_bytes()).unwrap_or_default()
    }
}

/// Summarises the conversation of a request.
///
/// # Errors
/// Every refusal of the request, and the error of its last attempt.
pub(crate) async fn compact(
    services: &Services,
    mut client: Box<RequestContext>,
    body: Bytes,
) -> Result<Reply> {
    let own = client.surface.own_body.take();
    let limits = services.snapshot().request_limits;
    let wanted = offload_if(is_heavy(&body), || responses::wanted_items(&body, &limits)).await;
    let bounds = ConversationBounds { body_bytes: body.len(), limits: &limits };
    let earlier = services.stored_responses.conversation(client.caller.key_id(), &wanted, bounds).await;
    let is_heavy = is_heavy(&body)
        || own.as_ref().is_some_and(|own| is_heavy(own))
        || earlier.as_ref().is_ok_and(StoredConversation::is_heavy);
    let (earlier, memory) = match earlier {
        Ok(mut earlier) => {
            let memory = earlier.take_permit();
            (Ok(earlier), memory)
        }
        Err(refusal) => (Err(refusal), None),
    };
    let surface = client.surface.clone();
    let sealer = SummarySealer::new(&services.sealer, &client.caller);
    let parse = |body: Bytes, limits: &RequestLimits| {
        let earlier = earlier?;
        let texts = earlier.texts();
        let opener = |sealed: &str| sealer.open(sealed);
        let known = EarlierItems {
            items: &texts,
            candidates: earlier.candidates(),
            open_compaction: Some(&opener),
            closing_message: None,
            own_body: own.as_ref(),
        };
        let request = translate_compaction(body, limits, &known)?;
        let mut client = request.client(request.context.clone());
        client.form = Arc::new(CompactionForm {
            sealer: sealer.clone(),
            is_plain: surface.is_plain,
            streamed: request.context.clone(),
        });
        // The provider's own compaction has a form that only the provider can open.
        client.native.dialect = ClientDialect::OpenAi;
        client.need = NativeNeed::None;
        validated(request.chat, client, &surface, limits)
    };
    let mut call =
        pipeline::begin_sized(services, Operation::Responses, client, body, is_heavy, parse).await?;
    drop(own);
    call.context.conversation_memory = memory;
    pipeline::answer(services, call).await
}

/// Writes a summary as the answer to a compaction.
#[derive(Clone, Debug)]
struct CompactionForm {
    sealer: SummarySealer,
    is_plain: bool,
    /// The form of a compaction that is asked for as a stream: the summary is its text.
    streamed: responses::ResponsesContext,
}

impl AnswerForm for CompactionForm {
    fn dialect(&self) -> ClientDialect {
        ClientDialect::Responses
    }

    fn encoder(&self, opening: EncoderOpening) -> Box<dyn AnswerEncoder> {
        self.streamed.encoder(opening)
    }

    fn write(&self, reply: &ChatReply<'_>, envelope: &Envelope<'_>) -> Vec<u8> {
        let summary = reply.choices.first().and_then(|choice| choice.content.as_deref()).unwrap_or_default();
        let sealed = self.sealer.seal(summary);
        let Envelope { id, created, usage, cost, gateway, .. } = *envelope;
        let closing = Closing { usage, cost, gateway };
        let is_plain = self.is_plain;
        compaction(&Compaction { id, created, kept: &[], encrypted: &sealed, closing: &closing, is_plain })
    }
}
