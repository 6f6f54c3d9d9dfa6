//! `POST /v1/messages/count_tokens`, `POST /v1/responses/input_tokens` and `countTokens` of the Gemini API: the tokens of a prompt, without an answer.

use std::time::Duration;

use bytes::Bytes;
use gw_providers::adapter::CountCall;
use gw_wire::dialects::{ClientDialect, gemini, messages, responses};
use gw_wire::json::{self, View};
use http::{HeaderName, HeaderValue};

use crate::call::encode::admitted;
use crate::compaction::SummarySealer;
use crate::cpu_pool::{is_heavy, offload_if};
use crate::error::{Error, Result};
use crate::plan::candidate::Candidate;
use crate::plan::{self, PlanRequest};
use crate::request::ValidatedRequest;
use crate::request::context::RequestContext;
use crate::response::reply::{Reply, ReplyBody};
use crate::responses::parse_count;
use crate::services::Services;
use crate::stored_responses::StoredConversation;
use crate::stored_responses::conversation::ConversationBounds;

/// The header that names the method of counting.
const TOKEN_COUNT: HeaderName = HeaderName::from_static("x-gateway-token-count");

/// The longest wait for a provider's own counter. Then the count is an estimate.
const COUNTER_TIME: Duration = Duration::from_secs(5);
/// The largest answer of a provider's counter. vLLM answers with the number of each token.
const MAX_COUNT_BYTES: usize = 8 << 20;

/// Counts the prompt's tokens for the model that would be called first: by the provider's own counter where it has one for
/// the client's dialect, or else by an estimate.
///
/// # Errors
/// The refusals that the request itself would get before any upstream is called.
pub(crate) async fn count_tokens(
    services: &Services,
    client: Box<RequestContext>,
    body: Bytes,
) -> Result<Reply> {
    let snapshot = services.snapshot();
    let dialect = client.surface.dialect;
    let earlier = match dialect {
        ClientDialect::Responses => {
            let limits = &snapshot.request_limits;
            let wanted = offload_if(is_heavy(&body), || responses::wanted_items(&body, limits)).await;
            let bounds = ConversationBounds { body_bytes: body.len(), limits };
            services.stored_responses.conversation(client.caller.key_id(), &wanted, bounds).await?
        }
        ClientDialect::Messages | ClientDialect::Gemini | ClientDialect::OpenAi => {
            StoredConversation::default()
        }
    };
    let prepare = || {
        let limits = &snapshot.request_limits;
        let request = match dialect {
            ClientDialect::Responses => {
                let summaries = SummarySealer::new(&services.sealer, &client.caller);
                parse_count(body.clone(), limits, &earlier, &summaries)?
            }
            ClientDialect::Gemini => crate::gemini::parse_count(body.clone(), &client.surface, limits)?,
            ClientDialect::Messages | ClientDialect::OpenAi => {
                let state = &snapshot.state;
                crate::messages::parse_count(body.clone(), &client.surface, limits, state, &client.caller)?
            }
        };
        let (metrics, caller) = (&services.metrics, &client.caller);
        let (headers, attribution) = (&*client.matched_headers, client.attribution.as_deref());
        let planner = PlanRequest {
            snapshot: &snapshot,
            metrics,
            caller,
            request: &request,
            headers,
            attribution,
            preset: None,
        };
        let plan = plan::plan(planner, None)?;
        Ok::<_, Error>((plan.candidates.into_iter().next(), request))
    };
    let (first, request) = offload_if(is_heavy(&body) || earlier.is_heavy(), prepare).await?;
    let counted = match &first {
        Some(first) => tokio::time::timeout(COUNTER_TIME, ask_provider(first, &request)).await.ok().flatten(),
        None => None,
    };
    let estimate = || first.as_ref().map_or(0, |first| request.prompt_tokens(first));
    let how = if counted.is_some() { "upstream" } else { "estimate" };
    let tokens = counted.unwrap_or_else(estimate);
    let body = match dialect {
        ClientDialect::Responses => responses::documents::input_tokens(tokens),
        ClientDialect::Gemini => gemini::count_tokens_body(tokens),
        ClientDialect::Messages | ClientDialect::OpenAi => messages::count_tokens_body(tokens),
    };
    let headers = vec![(TOKEN_COUNT, HeaderValue::from_static(how))];
    Ok(Reply { headers, body: ReplyBody::Full(body.into()) })
}

/// The count of the provider's own counter; None if it has none for this request, or does not answer.
async fn ask_provider(candidate: &Candidate, request: &ValidatedRequest) -> Option<u64> {
    let ValidatedRequest::Chat(chat) = request else { return None };
    let adapter = candidate.provider.adapter();
    let is_large = is_heavy(chat.body.get("messages").unwrap_or_default().as_bytes());
    let count = offload_if(is_large, || {
        let admitted = admitted(chat, candidate);
        let chat = admitted.as_ref().map_or(&**chat, |(admitted, _)| admitted);
        adapter.count(chat, &candidate.target())
    });
    let count = count.await;
    let CountCall { call, member } = count?;
    let clocks = candidate.clocks();
    let response = candidate.provider.send(call, &clocks).await.ok()?;
    if !response.has_answer() {
        return None;
    }
    let by = tokio::time::Instant::now() + COUNTER_TIME;
    let body = response.body.collect(MAX_COUNT_BYTES, clocks.idle, by).await.ok()?;
    let read = || {
        let text = std::str::from_utf8(&body).ok().filter(|text| json::check(text).is_ok())?;
        let [tokens] = View::new(text).pick([member]);
        tokens?.text().parse().ok()
    };
    offload_if(is_heavy(&body), read).await
}
