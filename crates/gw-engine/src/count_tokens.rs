//! `POST /v1/messages/count_tokens` and `POST /v1/responses/input_tokens`: the tokens of a prompt, without an answer.

use std::time::Duration;

use bytes::Bytes;
use gw_providers::adapter::{ChoiceRange, HttpCall};
use gw_wire::dialects::{ClientDialect, messages, responses};
use gw_wire::json::{self, View};
use http::{HeaderName, HeaderValue};

use crate::call::encode::target;
use crate::cpu_pool::{is_heavy, offload_if};
use crate::error::{Error, Result};
use crate::plan::candidate::Candidate;
use crate::plan::{self, PlanRequest};
use crate::request::ValidatedRequest;
use crate::request::context::RequestContext;
use crate::response::reply::{Reply, ReplyBody};
use crate::responses::{earlier_items, parse_count};
use crate::services::Services;

/// The header that tells how the tokens were counted.
const TOKEN_COUNT: HeaderName = HeaderName::from_static("x-gateway-token-count");

/// The longest wait for a provider's own counter. Then the count is an estimate.
const COUNTER_TIME: Duration = Duration::from_secs(5);
/// The largest answer of a provider's counter.
const MAX_COUNT_BYTES: usize = 64 << 10;

/// Counts the prompt's tokens for the model that would be called first: by the provider's own counter where it has one for
/// the client's dialect, or else by an estimate.
///
/// # Errors
/// The refusals that the request itself would get before any upstream is called.
pub(crate) async fn count_tokens(services: &Services, client: RequestContext, body: Bytes) -> Result<Reply> {
    let snapshot = services.snapshot();
    let dialect = client.surface.dialect;
    let earlier = match dialect {
        ClientDialect::Responses => {
            let limits = &snapshot.request_limits;
            let wanted = offload_if(is_heavy(&body), || responses::wanted_items(&body, limits)).await;
            earlier_items(&services.stored_responses, client.caller.key_id(), &wanted).await?
        }
        ClientDialect::Messages | ClientDialect::OpenAi => Vec::new(),
    };
    let prepare = || {
        let limits = &snapshot.request_limits;
        let request = match dialect {
            ClientDialect::Responses => parse_count(body.clone(), limits, &earlier)?,
            ClientDialect::Messages | ClientDialect::OpenAi => {
                crate::messages::parse_count(body.clone(), &client.surface, limits)?
            }
        };
        let (metrics, caller) = (&services.metrics, &client.caller);
        let plan = plan::plan(PlanRequest { snapshot: &snapshot, metrics, caller, request: &request }, None)?;
        Ok::<_, Error>((plan.candidates.into_iter().next(), request))
    };
    let (first, request) = offload_if(is_heavy(&body), prepare).await?;
    let counted = match &first {
        Some(first) => tokio::time::timeout(COUNTER_TIME, ask_provider(first, &request)).await.ok().flatten(),
        None => None,
    };
    let estimate = || first.as_ref().map_or(0, |first| request.prompt_tokens(first));
    let how = if counted.is_some() { "upstream" } else { "estimate" };
    let tokens = counted.unwrap_or_else(estimate);
    let body = match dialect {
        ClientDialect::Responses => responses::documents::input_tokens(tokens),
        ClientDialect::Messages | ClientDialect::OpenAi => messages::count_tokens_body(tokens),
    };
    let headers = vec![(TOKEN_COUNT, HeaderValue::from_static(how))];
    Ok(Reply { headers, body: ReplyBody::Full(body.into()) })
}

/// The count of the provider's own counter; None if it has none for this request, or does not answer.
async fn ask_provider(candidate: &Candidate, request: &ValidatedRequest) -> Option<u64> {
    let path = candidate.provider.adapter().count_path()?;
    let ValidatedRequest::Chat(chat) = request else { return None };
    let whole = ChoiceRange { n: chat.n, prompts: 0..1 };
    let encoded = candidate.provider.adapter().chat(chat, &whole, &target(candidate)).ok()?;
    if !encoded.reading.is_native {
        return None;
    }
    let clocks = candidate.clocks();
    let call = HttpCall { path: path.to_owned(), ..encoded.call };
    let response = candidate.provider.send(call, &clocks).await.ok()?;
    if response.status != 200 {
        return None;
    }
    let by = tokio::time::Instant::now() + COUNTER_TIME;
    let body = response.body.collect(MAX_COUNT_BYTES, clocks.idle, by).await.ok()?;
    let text = std::str::from_utf8(&body).ok().filter(|text| json::check(text).is_ok())?;
    let [tokens] = View::new(text).pick(["input_tokens"]);
    tokens?.text().parse().ok()
}
