//! Calls that pass through: the client's own request, with the provider's credentials or with the client's.

use std::fmt;

use gw_wire::failure::{Failure, FailureKind};
use http::header::{ACCEPT_ENCODING, USER_AGENT};
use http::{HeaderMap, HeaderValue};

use super::{Provider, Transport, USER_AGENT_VALUE};
use crate::adapter::HttpCall;
use crate::client::{StreamedBody, UpstreamResponse};
use crate::settings::Timeouts;

/// The header with the betas of Anthropic's API.
const BETA: &str = "anthropic-beta";

/// A call that passes through.
pub struct PassedCall {
    /// The request with its body, or with an empty one in front of `streamed`.
    pub call: HttpCall,
    /// The body, if it comes while it is sent.
    pub streamed: Option<StreamedBody>,
    /// The provider's credentials are added. Otherwise the call has those of the client.
    pub is_injected: bool,
}

impl fmt::Debug for PassedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PassedCall").field("is_injected", &self.is_injected).finish_non_exhaustive()
    }
}

impl Provider {
    /// Whether the body of a call must be there before the call is sent: credentials are computed from it, or there is no network.
    #[must_use]
    pub fn needs_whole_body(&self, is_injected: bool) -> bool {
        let is_signed = is_injected && self.signer.as_ref().is_some_and(|signer| signer.reads_body());
        is_signed || !matches!(self.transport, Transport::Http(_))
    }

    /// Whether the provider reads a credential from the parameter `key` of a URL, as Google's APIs do.
    #[must_use]
    pub fn takes_key_in_query(&self) -> bool {
        self.api.semantic_name.is_some_and(|name| name.starts_with("gcp."))
    }

    /// Sends a call that passes through, and waits for the response head. A response with any status is a success.
    ///
    /// # Errors
    /// As [`Provider::send`].
    pub async fn pass(&self, passed: PassedCall, clocks: &Timeouts) -> Result<UpstreamResponse, Failure> {
        let PassedCall { mut call, streamed, is_injected } = passed;
        let Transport::Http(client) = &self.transport else {
            return match streamed {
                None => self.send(call, clocks).await,
                Some(_) => {
                    let message = "This provider takes no body that is sent in pieces.";
                    Err(Failure::new(FailureKind::Unsupported, message))
                }
            };
        };
        let key = if is_injected {
            self.drop_betas(&mut call.headers);
            let key = self.complete(&mut call.headers)?;
            if let Some(signer) = &self.signer {
                let url = client.passed_url(&call.path);
                signer.sign(&mut call, &url).await?;
            }
            key
        } else {
            of_gateway(&mut call.headers);
            None
        };
        let mut response = client.pass(call, streamed, clocks).await?;
        response.key = key;
        Ok(response)
    }
}

impl Provider {
    /// Takes the betas out that the provider's settings deny.
    fn drop_betas(&self, headers: &mut HeaderMap) {
        if self.denied_betas.is_empty() {
            return;
        }
        let is_kept = |beta: &&str| !self.denied_betas.iter().any(|denied| denied == beta);
        let lines: Vec<HeaderValue> = headers.get_all(BETA).into_iter().cloned().collect();
        headers.remove(BETA);
        for line in lines {
            // A value that is no text names no beta.
            let Ok(text) = line.to_str() else { continue };
            let kept: Vec<&str> =
                text.split(',').map(str::trim).filter(|beta| !beta.is_empty()).filter(is_kept).collect();
            if let Some(value) = HeaderValue::try_from(kept.join(",")).ok().filter(|value| !value.is_empty())
            {
                headers.append(BETA, value);
            }
        }
    }
}

/// Adds the headers that every call of the gateway has.
fn of_gateway(headers: &mut HeaderMap) {
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(USER_AGENT, USER_AGENT_VALUE);
}
