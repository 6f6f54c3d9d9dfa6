//! The Responses API and the Messages API of an OpenAI-compatible server.

use bytes::Bytes;
use gw_providers::adapter::HttpCall;
use gw_providers::settings::Api;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Value, json};

use super::ProbeRun;
use crate::endpoint::RawAnswer;
use crate::finding::{Finding, failure_text};

const PROMPT: &str = "Reply with this single word: ready";

impl ProbeRun<'_> {
    pub(super) async fn native_endpoints(&mut self) {
        let model = self.endpoint.subject.upstream_model.clone();
        let max_tokens = self.max_tokens;
        let body =
            json!({ "model": model, "input": PROMPT, "max_output_tokens": max_tokens, "store": false });
        self.native("native.responses", "/responses", &body, response_fault).await;
        let messages = json!([{ "role": "user", "content": PROMPT }]);
        let body = json!({ "model": model, "max_tokens": max_tokens, "messages": messages });
        self.native("native.messages", "/messages", &body, message_fault).await;
    }

    async fn native(
        &mut self,
        check: &'static str,
        path: &str,
        body: &Value,
        fault: fn(&Value) -> Option<&'static str>,
    ) {
        if ![Api::OPENAI, Api::DEMO].contains(&self.endpoint.provider().api()) {
            let why = "the probe asks only OpenAI-compatible servers for it";
            self.findings.add(check, Finding::Skipped(why.to_owned()));
            return;
        }
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(HeaderName::from_static("anthropic-version"), HeaderValue::from_static("2023-06-01"));
        let call = HttpCall {
            method: Method::POST,
            path: path.to_owned(),
            headers,
            body: Bytes::from(body.to_string()),
            upload: None,
        };
        let finding = match self.endpoint.send(check, call).await {
            Err(failure) => Finding::failed("an answer, or status 404", failure_text(&failure)),
            Ok(raw) => judge(&raw, fault),
        };
        self.findings.add(check, finding);
    }
}

fn judge(raw: &RawAnswer, fault: fn(&Value) -> Option<&'static str>) -> Finding {
    let status = raw.status;
    match raw.json() {
        _ if status >= 500 && status != 501 => {
            Finding::failed("an answer, or status 404", format!("status {status}"))
        }
        _ if !(200..300).contains(&status) => Finding::NotOffered(format!("status {status}")),
        None => Finding::NotOffered(format!("status {status} with {}", raw.media_type())),
        Some(body) if body.get("error").is_some_and(|error| !error.is_null()) => {
            Finding::NotOffered(format!("status {status} with an error"))
        }
        Some(body) => match fault(&body) {
            Some(expected) => Finding::failed(expected, body.to_string()),
            None => Finding::passed(),
        },
    }
}

fn response_fault(body: &Value) -> Option<&'static str> {
    let is = |good: bool, expected| (!good).then_some(expected);
    is(body.get("object").and_then(Value::as_str) == Some("response"), "object \"response\"")
        .or_else(|| is(body.get("output").is_some_and(Value::is_array), "a list 'output'"))
        .or_else(|| is(body.get("id").is_some_and(Value::is_string), "an id"))
}

fn message_fault(body: &Value) -> Option<&'static str> {
    let is = |good: bool, expected| (!good).then_some(expected);
    is(body.get("type").and_then(Value::as_str) == Some("message"), "type \"message\"")
        .or_else(|| is(body.get("content").is_some_and(Value::is_array), "a list 'content'"))
        .or_else(|| is(body.pointer("/usage/input_tokens").is_some_and(Value::is_u64), "usage.input_tokens"))
}
