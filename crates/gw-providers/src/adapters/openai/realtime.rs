//! Realtime sessions at servers of OpenAI's dialect (platform.openai.com/docs/guides/realtime, November 2026): the handshake, and the
//! usage that their events report.

use gw_wire::percent;
use gw_wire::usage::{Usage, small};
use http::HeaderValue;
use serde_json::value::RawValue;

use super::audio_usage::{self, AudioUsage};
use super::lenient::lenient_members;
use crate::adapter::{HttpCall, Target};
use crate::adapters::counts::count;
use crate::adapters::http_call::get_json;
use crate::surfaces::Realtime;

/// The realtime sessions of a provider at `/realtime`.
#[derive(Debug)]
pub(in crate::adapters) struct OpenAiRealtime;

impl Realtime for OpenAiRealtime {
    fn encode(&self, is_beta: bool, target: &Target<'_>) -> HttpCall {
        handshake(format!("/realtime?model={}", percent::encode(target.upstream_model)), is_beta)
    }

    fn usage(&self, usage: &str) -> Option<Usage> {
        response_usage(usage)
    }

    fn transcript_usage(&self, usage: &str) -> Option<Usage> {
        transcript_usage(usage)
    }
}

/// The handshake at a path.
pub(in crate::adapters) fn handshake(path: String, is_beta: bool) -> HttpCall {
    let mut call = get_json(path);
    if is_beta {
        call.headers.insert("openai-beta", HeaderValue::from_static("realtime=v1"));
    }
    call
}

lenient_members! {
    /// The `usage` of a response.
    ResponseUsage<'de> {
        total_tokens: &'de RawValue = "total_tokens",
        input_tokens: &'de RawValue = "input_tokens",
        output_tokens: &'de RawValue = "output_tokens",
        input_token_details: InputDetails<'de> = "input_token_details",
        output_token_details: KindDetails<'de> = "output_token_details",
    }
}

lenient_members! {
    /// The kinds of the tokens that the model read.
    InputDetails<'de> {
        audio_tokens: &'de RawValue = "audio_tokens",
        image_tokens: &'de RawValue = "image_tokens",
        cached_tokens: &'de RawValue = "cached_tokens",
        cached_tokens_details: KindDetails<'de> = "cached_tokens_details",
    }
}

lenient_members! {
    /// The kinds of some tokens.
    KindDetails<'de> {
        audio_tokens: &'de RawValue = "audio_tokens",
        image_tokens: &'de RawValue = "image_tokens",
    }
}

/// The usage of a response. The audio and the images of the prompt are those that were not in the cache: all that was there has the
/// price of cached tokens.
pub(in crate::adapters) fn response_usage(json: &str) -> Option<Usage> {
    let counts: ResponseUsage<'_> = serde_json::from_str(json).ok()?;
    let mut is_odd = false;
    let mut read = |raw: Option<&RawValue>| count(raw, &mut is_odd);
    let total = read(counts.total_tokens);
    let (prompt, completion) = match (read(counts.input_tokens), read(counts.output_tokens)) {
        (None, None) => (total?, 0),
        (Some(prompt), None) => (prompt, total.map_or(0, |total| total.saturating_sub(prompt))),
        (None, Some(completion)) => (total.map_or(0, |total| total.saturating_sub(completion)), completion),
        (Some(prompt), Some(completion)) => (prompt, completion),
    };
    let details = counts.input_token_details.unwrap_or_default();
    let of_cache = details.cached_tokens_details.unwrap_or_default();
    let made = counts.output_token_details.unwrap_or_default();
    let cached = read(details.cached_tokens).map(|cached| cached.min(prompt));
    let mut fresh = |all: Option<&RawValue>, cached: Option<&RawValue>| {
        let all = read(all)?;
        Some(small(all.saturating_sub(read(cached).unwrap_or(0)).min(prompt)))
    };
    let audio_prompt = fresh(details.audio_tokens, of_cache.audio_tokens);
    let image_prompt = fresh(details.image_tokens, of_cache.image_tokens);
    let audio_completion = read(made.audio_tokens).map(|audio| small(audio.min(completion)));
    Some(Usage {
        prompt,
        completion,
        cached,
        audio_prompt,
        image_prompt,
        audio_completion,
        estimated: is_odd,
        ..Usage::default()
    })
}

/// The usage of a transcript: tokens or seconds.
pub(in crate::adapters) fn transcript_usage(json: &str) -> Option<Usage> {
    let counts: AudioUsage<'_> = serde_json::from_str(json).ok()?;
    audio_usage::usage(&counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_of_tokens_are_read_and_what_was_cached_is_not_counted_twice() {
        let text = r#"{"total_tokens":253,"input_tokens":132,"output_tokens":121,"input_token_details":{"text_tokens":119,
            "audio_tokens":13,"image_tokens":0,"cached_tokens":64,"cached_tokens_details":{"text_tokens":60,"audio_tokens":4,
            "image_tokens":0}},"output_token_details":{"text_tokens":30,"audio_tokens":91}}"#;
        let read = response_usage(text).unwrap();
        assert_eq!((read.prompt, read.completion, read.cached), (132, 121, Some(64)));
        assert_eq!(
            (read.audio_prompt, read.image_prompt, read.audio_completion),
            (Some(9), Some(0), Some(91))
        );
        assert!(!read.estimated);
        assert_eq!(response_usage("{}"), None);
        assert_eq!(response_usage("null"), None);
        assert_eq!(response_usage(r#"{"total_tokens":7}"#).unwrap().prompt, 7);
    }

    #[test]
    fn a_transcript_is_counted_by_tokens_or_by_seconds() {
        let tokens = r#"{"type":"tokens","total_tokens":26,"input_tokens":17,"input_token_details":{"text_tokens":0,"audio_tokens":17},"output_tokens":9}"#;
        let read = transcript_usage(tokens).unwrap();
        assert_eq!((read.prompt, read.audio_prompt, read.completion), (17, Some(17), 9));
        assert!(!transcript_usage(r#"{"type":"duration","seconds":3}"#).unwrap().units.is_none());
    }
}
