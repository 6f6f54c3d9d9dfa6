//! `POST /v1/messages/count_tokens` and `POST /v1/responses/input_tokens`: the tokens of a prompt, without an answer.

use bytes::Bytes;
use gw_wire::dialects::{ClientDialect, messages, responses};
use http::{HeaderName, HeaderValue};

use crate::cpu_pool::{is_heavy, offload_if};
use crate::error::{Error, Result};
use crate::plan::{self, PlanRequest};
use crate::request::context::RequestContext;
use crate::response::reply::{Reply, ReplyBody};
use crate::responses::{earlier_items, parse_count};
use crate::services::Services;

/// The header that tells how the tokens were counted.
const TOKEN_COUNT: HeaderName = HeaderName::from_static("x-gateway-token-count");

/// Counts the prompt's tokens for the model that would be called first. The count is an estimate.
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
    let count = || {
        let limits = &snapshot.request_limits;
        let request = match dialect {
            ClientDialect::Responses => parse_count(body.clone(), limits, &earlier)?,
            ClientDialect::Messages | ClientDialect::OpenAi => {
                crate::messages::parse_count(body.clone(), limits)?
            }
        };
        let plan_request = PlanRequest {
            snapshot: &snapshot,
            metrics: &services.metrics,
            caller: &client.caller,
            request: &request,
        };
        let plan = plan::plan(plan_request, None)?;
        Ok::<u64, Error>(plan.candidates.first().map_or(0, |first| request.prompt_tokens(first)))
    };
    let tokens = offload_if(is_heavy(&body), count).await?;
    let body = match dialect {
        ClientDialect::Responses => responses::documents::input_tokens(tokens),
        ClientDialect::Messages | ClientDialect::OpenAi => messages::count_tokens_body(tokens),
    };
    let headers = vec![(TOKEN_COUNT, HeaderValue::from_static("estimate"))];
    Ok(Reply { headers, body: ReplyBody::Full(body.into()) })
}
