//! The dialect of OpenAI, which most providers and local servers speak: requests are the client's own, spliced;
//! answers are read leniently, because "compatible" means something else everywhere.

mod calls;
mod embeddings;
mod failure;
mod lenient;
mod quick;
mod repair;
mod reply;
mod shape;
mod stream;
mod template;
mod usage;

use std::ops::Range;

use bytes::Bytes;
use gw_wire::failure::Failure;
use gw_wire::reply::{ChatReply, EmbeddingsReply, TextReply};
use gw_wire::request::encode::{
    EncodeOptions, MaxTokensName, encode_chat, encode_completion, encode_embeddings,
};
use gw_wire::request::{ChatRequest, CompletionRequest, EmbeddingsRequest};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use serde_json::Value;

use crate::adapter::{Adapter, Capabilities, HttpCall, StreamDecoder, Target};
use crate::presets::Quirks;

/// Any provider that speaks OpenAI's dialect.
#[derive(Debug)]
pub struct OpenAi {
    quirks: Quirks,
}

impl OpenAi {
    /// With the peculiarities of one provider.
    #[must_use]
    pub fn new(quirks: Quirks) -> Self {
        Self { quirks }
    }

    fn options<'a>(&self, target: &Target<'a>) -> EncodeOptions<'a> {
        EncodeOptions {
            upstream_model: target.upstream_model,
            clamp_max_tokens: target.clamp_max_tokens,
            max_tokens_name: self
                .quirks
                .max_tokens
                .unwrap_or_else(|| MaxTokensName::for_model(target.upstream_model)),
            ask_stream_usage: self.quirks.stream_usage,
        }
    }
}

fn post(path: &str, body: Vec<u8>, stream: bool) -> HttpCall {
    let accept = if stream { "text/event-stream" } else { "application/json" };
    // Room for what the provider and its client add.
    let mut headers = HeaderMap::with_capacity(12);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static(accept));
    HttpCall { method: Method::POST, path: path.to_owned(), headers, body: Bytes::from(body) }
}

/// The encoder always asks for numbers, as the last member. Some providers know no other form and refuse the question.
fn drop_encoding_format(body: &mut Vec<u8>) {
    let asked = br#","encoding_format":"float"}"#;
    if body.ends_with(asked) {
        body.truncate(body.len() - asked.len());
        body.push(b'}');
    }
}

impl Adapter for OpenAi {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            openai_fields: true,
            suffix: true,
            token_prompts: self.quirks.openai_tokens,
            stream_usage: self.quirks.stream_usage,
        }
    }

    fn chat(&self, request: &ChatRequest, target: &Target<'_>) -> Result<HttpCall, Failure> {
        Ok(post("/chat/completions", encode_chat(request, &self.options(target)), request.stream))
    }

    fn completion(&self, request: &CompletionRequest, target: &Target<'_>) -> Result<HttpCall, Failure> {
        Ok(post("/completions", encode_completion(request, &self.options(target)), request.stream))
    }

    fn embeddings(
        &self,
        request: &EmbeddingsRequest,
        inputs: Range<usize>,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure> {
        let mut body = encode_embeddings(request, inputs, target.upstream_model);
        if !self.quirks.encoding_format {
            drop_encoding_format(&mut body);
        }
        Ok(post("/embeddings", body, false))
    }

    fn decode_chat<'a>(&self, body: &'a [u8]) -> Result<ChatReply<'a>, Failure> {
        reply::chat(body)
    }

    fn decode_completion<'a>(&self, body: &'a [u8]) -> Result<TextReply<'a>, Failure> {
        reply::completion(body)
    }

    fn decode_embeddings<'a>(&self, body: &'a [u8], expected: usize) -> Result<EmbeddingsReply<'a>, Failure> {
        embeddings::decode(body, expected)
    }

    fn chat_stream(&self) -> Box<dyn StreamDecoder> {
        Box::new(stream::Stream::default())
    }

    fn completion_stream(&self) -> Box<dyn StreamDecoder> {
        Box::new(stream::Stream::default())
    }

    fn classify(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> Failure {
        failure::classify(status, headers, body)
    }

    fn list_models(&self) -> Option<HttpCall> {
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        Some(HttpCall { method: Method::GET, path: "/models".to_owned(), headers, body: Bytes::new() })
    }

    fn decode_models(&self, body: &[u8]) -> Result<Vec<String>, Failure> {
        let value: Value = serde_json::from_slice(body).map_err(|fault| failure::invalid_json(&fault))?;
        // Together answers with the bare list.
        let list = [Some(&value), value.get("data"), value.get("models")]
            .into_iter()
            .flatten()
            .find_map(Value::as_array);
        let list = list.ok_or_else(|| failure::invalid("no list of models"))?;
        let mut names: Vec<String> = Vec::with_capacity(list.len());
        for model in list {
            let name =
                model.as_str().or_else(|| model.get("id")?.as_str()).or_else(|| model.get("name")?.as_str());
            if let Some(name) =
                name.filter(|name| !name.is_empty() && !names.iter().any(|known| known == name))
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }
}

#[cfg(test)]
mod tests;
