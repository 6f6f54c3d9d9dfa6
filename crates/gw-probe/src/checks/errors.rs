//! Wrong requests: the status and the shape of the error, and keys that an answer repeats.

use bytes::Bytes;
use gw_providers::adapter::HttpCall;
use serde_json::{Value, json};

use super::ProbeRun;
use crate::endpoint::RawAnswer;
use crate::finding::{Finding, failure_text};
use crate::plan::oversize_tokens;

/// A model that no provider has.
const UNKNOWN_MODEL: &str = "model-gateway-probe-no-such-model";
/// Words of the prompt that exceeds the context. Each is at least one token.
const OVERSIZE_WORD: &str = "of the ";

impl ProbeRun<'_> {
    pub(super) async fn wrong_requests(&mut self) {
        let finding = self.unknown_model().await;
        self.findings.add("errors.model", finding);
        let finding = self.wrong_key().await;
        self.findings.add("errors.key", finding);
        let finding = self.wrong_parameter().await;
        self.findings.add("errors.parameter", finding);
        if !self.endpoint.subject.embeds {
            let finding = self.oversize().await;
            self.findings.add("errors.oversize", finding);
        }
    }

    /// A small valid call for this model.
    fn small_call(&self, upstream_model: &str) -> Result<HttpCall, Finding> {
        let unsupported = |failure: gw_wire::failure::Failure| Finding::of_refusal(&failure);
        if self.endpoint.subject.embeds {
            let request = json!({ "input": "ready" });
            return self.endpoint.encode_embeddings_for(&request, 1, upstream_model).map_err(unsupported);
        }
        let request = self.request("Reply with this single word: ready", json!({}));
        self.endpoint.encode_for(&request, upstream_model).map(|encoded| encoded.call).map_err(unsupported)
    }

    async fn unknown_model(&mut self) -> Finding {
        match self.small_call(UNKNOWN_MODEL) {
            Ok(call) => self.refused("errors.model", call, &[400, 403, 404, 422]).await,
            Err(finding) => finding,
        }
    }

    async fn wrong_key(&mut self) -> Finding {
        let Some(provider) = self.target.with_wrong_key() else {
            return Finding::Skipped(
                "no key is configured, or the credentials are more than a key".to_owned(),
            );
        };
        let model = self.endpoint.subject.upstream_model.clone();
        let call = match self.small_call(&model) {
            Ok(call) => call,
            Err(finding) => return finding,
        };
        let statuses = self.endpoint.provider().api().wrong_key_statuses;
        match self.endpoint.send_by(&provider, "errors.key", call).await {
            Ok(raw) => self.judge(&raw, statuses),
            Err(failure) => Finding::failed("an error answer", failure_text(&failure)),
        }
    }

    async fn wrong_parameter(&mut self) -> Finding {
        let model = self.endpoint.subject.upstream_model.clone();
        let mut call = match self.small_call(&model) {
            Ok(call) => call,
            Err(finding) => return finding,
        };
        let mut body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
        let Some(members) = body.as_object_mut() else {
            return Finding::Skipped("the API's requests are no JSON objects".to_owned());
        };
        for name in ["messages", "contents", "input", "texts"] {
            if let Some(value) = members.get_mut(name) {
                *value = json!({ "probe": "neither a text nor a list" });
            }
        }
        call.body = Bytes::from(body.to_string());
        self.refused("errors.parameter", call, &[400, 422]).await
    }

    async fn oversize(&mut self) -> Finding {
        let Some(context) = self.endpoint.subject.context_length else {
            return Finding::Skipped("the context of the model is unknown".to_owned());
        };
        let tokens = oversize_tokens(context);
        if tokens > self.plan.oversize_tokens {
            return Finding::Skipped(format!(
                "the prompt would exceed {context} tokens; --oversize allows it"
            ));
        }
        let words = usize::try_from(tokens.div_ceil(2)).unwrap_or(usize::MAX).min(1 << 20);
        let request = self.request(&OVERSIZE_WORD.repeat(words), json!({ "max_tokens": 16 }));
        match self.endpoint.encode(&request) {
            Ok(encoded) => self.refused("errors.oversize", encoded.call, &[400, 413, 422]).await,
            Err(failure) => Finding::of_refusal(&failure),
        }
    }

    /// Sends a call that must be refused.
    async fn refused(&mut self, check: &str, call: HttpCall, statuses: &[u16]) -> Finding {
        match self.endpoint.send(check, call).await {
            Ok(raw) => self.judge(&raw, statuses),
            Err(failure) => Finding::failed("an error answer", failure_text(&failure)),
        }
    }

    fn judge(&self, raw: &RawAnswer, statuses: &[u16]) -> Finding {
        let has_shape = self.endpoint.speaks_openai();
        judge_error(raw, statuses, has_shape)
    }

    /// Reports the answers that repeat a key.
    pub(super) fn echoes(&mut self) {
        if self.target.secrets().len() < 2 && self.target.settings.api_keys.is_empty() {
            self.findings.add("errors.echo", Finding::Skipped("no key is configured".to_owned()));
            return;
        }
        let finding = match self.endpoint.echoes.as_slice() {
            [] => Finding::passed(),
            calls => Finding::failed(
                "answers without the key",
                format!("the key in the answer of {}", calls.join(", ")),
            ),
        };
        self.findings.add("errors.echo", finding);
    }
}

/// Judges an error answer. `has_shape`: the body must have OpenAI's shape.
fn judge_error(raw: &RawAnswer, statuses: &[u16], has_shape: bool) -> Finding {
    let expected = || {
        let all: Vec<String> = statuses.iter().map(ToString::to_string).collect();
        format!("status {}", all.join(" or "))
    };
    let body = raw.json();
    let error = body.as_ref().and_then(|body| body.get("error")).filter(|error| !error.is_null());
    match raw.status {
        200..300 if error.is_some() => {
            return Finding::failed(expected(), format!("status {} with an error in its body", raw.status));
        }
        200..300 => {
            return Finding::NotOffered(format!("the endpoint accepts this with status {}", raw.status));
        }
        429 => return Finding::Skipped("status 429".to_owned()),
        status if !statuses.contains(&status) => {
            return Finding::failed(expected(), format!("status {status}"));
        }
        _ => {}
    }
    if body.is_none() {
        let kind = raw.media_type();
        let kind = if kind.is_empty() { "no content-type".to_owned() } else { kind };
        return Finding::failed("an error as JSON", format!("status {} with {kind}", raw.status));
    }
    if raw.media_type() != "application/json" && !raw.media_type().ends_with("+json") {
        return Finding::failed("application/json", raw.media_type());
    }
    let message = error.and_then(|error| error.get("message")).and_then(Value::as_str);
    if has_shape && message.is_none_or(str::is_empty) {
        let seen = body.map(|body| body.to_string()).unwrap_or_default();
        return Finding::failed("a body with error.message", seen);
    }
    let code = error.and_then(|error| error.get("code")).and_then(Value::as_str);
    // Some servers repeat the status as the code.
    let code = code.filter(|code| *code != raw.status.to_string()).unwrap_or_default();
    Finding::Passed(format!("status {} {code}", raw.status).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderMap, HeaderValue};

    use super::*;

    fn raw(status: u16, kind: &'static str, body: &str) -> RawAnswer {
        let mut headers = HeaderMap::new();
        headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(kind));
        RawAnswer { status, headers, body: Bytes::copy_from_slice(body.as_bytes()), took: Duration::ZERO }
    }

    #[test]
    fn an_error_has_its_status_its_type_and_its_shape() {
        let good = r#"{"error":{"message":"No.","code":"model_not_found"}}"#;
        let finding = |status, kind, body| judge_error(&raw(status, kind, body), &[400, 404], true);
        assert_eq!(
            finding(404, "application/json; charset=utf-8", good),
            Finding::Passed("status 404 model_not_found".to_owned())
        );
        for (status, kind, body, result) in [
            (200, "application/json", good, "failed"),
            (200, "application/json", "{}", "not_offered"),
            (500, "application/json", good, "failed"),
            (404, "text/html", "<html>", "failed"),
            (404, "text/plain", good, "failed"),
            (404, "application/json", r#"{"detail":"No."}"#, "failed"),
            (429, "application/json", good, "skipped"),
        ] {
            assert_eq!(finding(status, kind, body).as_str(), result, "{status} {kind} {body}");
        }
        let other = raw(404, "application/json", r#"{"detail":"No."}"#);
        assert_eq!(judge_error(&other, &[404], false).as_str(), "passed");
    }
}
