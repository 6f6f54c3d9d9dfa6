//! `usageMetadata`: <https://ai.google.dev/api/generate-content#UsageMetadata>. Its counts are cumulative in a stream.

use std::fmt;

use gw_wire::usage::{MAX_BELIEVABLE, Usage, small};
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// The reported counts.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct UsageMetadata<'a> {
    prompt_token_count: Option<TokenCount>,
    tool_use_prompt_token_count: Option<TokenCount>,
    candidates_token_count: Option<TokenCount>,
    thoughts_token_count: Option<TokenCount>,
    cached_content_token_count: Option<TokenCount>,
    total_token_count: Option<TokenCount>,
    /// Lists of `ModalityTokenCount`.
    #[serde(borrow)]
    prompt_tokens_details: Option<&'a RawValue>,
    #[serde(borrow)]
    candidates_tokens_details: Option<&'a RawValue>,
    #[serde(borrow)]
    cache_tokens_details: Option<&'a RawValue>,
}

/// A count, and whether it was unbelievable and had to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TokenCount {
    value: u64,
    is_odd: bool,
}

impl UsageMetadata<'_> {
    /// Returns the usage; None without counts, which Vertex AI sends in the middle of streams.
    pub(super) fn usage(&self) -> Option<Usage> {
        let mut is_odd = false;
        let mut read = |count: Option<TokenCount>| {
            is_odd |= count.is_some_and(|count| count.is_odd);
            count.map(|count| count.value)
        };
        let prompt_tokens = read(self.prompt_token_count);
        let tools = read(self.tool_use_prompt_token_count).unwrap_or(0);
        let answer_tokens = read(self.candidates_token_count);
        let thoughts = read(self.thoughts_token_count);
        let cached = read(self.cached_content_token_count);
        let total = read(self.total_token_count);
        if prompt_tokens.is_none() && answer_tokens.is_none() && total.is_none() {
            return None;
        }
        let prompt = match (prompt_tokens, total) {
            (Some(prompt_tokens), _) => prompt_tokens + tools,
            (None, Some(total)) => total.saturating_sub(answer_tokens.unwrap_or(0) + thoughts.unwrap_or(0)),
            (None, None) => {
                is_odd = true;
                0
            }
        };
        let thought = thoughts.unwrap_or(0);
        let completion = match answer_tokens {
            // Some models include the thoughts in the candidates' tokens; the total shows whether they do.
            Some(answer_tokens)
                if thought > 0 && thought <= answer_tokens && total == Some(prompt + answer_tokens) =>
            {
                answer_tokens
            }
            Some(answer_tokens) => answer_tokens + thought,
            None if thought > 0 => thought,
            None => total.map_or(0, |total| total.saturating_sub(prompt)),
        };
        is_odd |= cached > Some(prompt);
        let cached = cached.map(|cached| cached.min(prompt));
        Some(Usage {
            prompt,
            completion,
            cached,
            reasoning: thoughts.map(|thoughts| thoughts.min(completion)),
            audio_prompt: self.fresh_audio(prompt, cached.unwrap_or(0)),
            audio_completion: tokens_of("AUDIO", self.candidates_tokens_details, completion),
            image_completion: tokens_of("IMAGE", self.candidates_tokens_details, completion),
            estimated: is_odd,
            ..Usage::default()
        })
    }

    /// The audio of the prompt that was not in the cache: all that was there has the price of cached tokens. All audio of the prompt
    /// counts if the upstream does not tell the kinds of the cached tokens.
    fn fresh_audio(&self, prompt: u64, cached: u64) -> Option<u32> {
        let audio = tokens_of("AUDIO", self.prompt_tokens_details, prompt)?;
        if self.cache_tokens_details.is_none() {
            return Some(audio);
        }
        let of_cache = tokens_of("AUDIO", self.cache_tokens_details, cached).unwrap_or(0);
        Some(audio.saturating_sub(of_cache).min(small(prompt.saturating_sub(cached))))
    }
}

/// Reads the tokens of one modality, at most `all`. None: the list, which is nearly always one of text, has none.
fn tokens_of(modality: &str, details: Option<&RawValue>, all: u64) -> Option<u32> {
    let text = details?.get();
    if !text.contains(modality) {
        return None;
    }
    let list: Vec<Value> = serde_json::from_str(text).ok()?;
    let is_of = |part: &&Value| part.get("modality").and_then(Value::as_str) == Some(modality);
    let counts = list.iter().filter(is_of).filter_map(|part| {
        let count: TokenCount = serde_json::from_value(part.get("tokenCount")?.clone()).ok()?;
        Some(count.value)
    });
    counts.reduce(u64::saturating_add).map(|tokens| small(tokens.min(all)))
}

impl TokenCount {
    const NONE: Self = Self { value: 0, is_odd: true };

    fn of(value: u64) -> Self {
        Self { value: value.min(MAX_BELIEVABLE), is_odd: value > MAX_BELIEVABLE }
    }
}

struct CountVisitor;

impl<'de> Visitor<'de> for CountVisitor {
    type Value = TokenCount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a count")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<TokenCount, E> {
        Ok(TokenCount::of(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<TokenCount, E> {
        Ok(u64::try_from(value).map_or(TokenCount::NONE, TokenCount::of))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<TokenCount, E> {
        // The cast saturates. A number with a fraction is not a believable count.
        Ok(TokenCount { value: (value.clamp(0.0, MAX_BELIEVABLE as f64)) as u64, is_odd: true })
    }

    /// Google writes 64-bit integers as strings.
    fn visit_str<E: Error>(self, text: &str) -> Result<TokenCount, E> {
        Ok(text.parse().map_or(TokenCount::NONE, TokenCount::of))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<TokenCount, E> {
        Ok(TokenCount::NONE)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TokenCount, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(TokenCount::NONE)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<TokenCount, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(TokenCount::NONE)
    }
}

impl<'de> Deserialize<'de> for TokenCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::UsageMetadata;

    /// Prompt, completion, cached, reasoning, and whether the usage is an estimate.
    type Read = (u64, u64, Option<u64>, Option<u64>, bool);

    fn read(json: &str) -> Option<Read> {
        let usage = serde_json::from_str::<UsageMetadata<'_>>(json).unwrap().usage()?;
        Some((usage.prompt, usage.completion, usage.cached, usage.reasoning, usage.estimated))
    }

    #[test]
    fn the_counts_add_up() {
        let full = r#"{"promptTokenCount":10,"toolUsePromptTokenCount":5,"candidatesTokenCount":7,
            "thoughtsTokenCount":3,"cachedContentTokenCount":4,"totalTokenCount":25}"#;
        assert_eq!(read(full), Some((15, 10, Some(4), Some(3), false)));
        // Only thoughts: the answer was cut off before its first word.
        let thoughts = r#"{"promptTokenCount":10,"thoughtsTokenCount":30,"totalTokenCount":40}"#;
        assert_eq!(read(thoughts), Some((10, 30, None, Some(30), false)));
        // Thoughts included in the candidates' tokens.
        let among =
            r#"{"promptTokenCount":10,"candidatesTokenCount":7,"thoughtsTokenCount":3,"totalTokenCount":17}"#;
        assert_eq!(read(among), Some((10, 7, None, Some(3), false)));
        assert_eq!(read(r#"{"promptTokenCount":10,"totalTokenCount":10}"#), Some((10, 0, None, None, false)));
        assert_eq!(read(r#"{"promptTokenCount":10,"totalTokenCount":14}"#), Some((10, 4, None, None, false)));
        assert_eq!(
            read(r#"{"candidatesTokenCount":4,"totalTokenCount":14}"#),
            Some((10, 4, None, None, false))
        );
        assert_eq!(read(r#"{"trafficType":"ON_DEMAND"}"#), None);
    }

    #[test]
    fn tokens_of_audio_and_images_are_counted_apart() {
        let json = r#"{"promptTokenCount":300,"candidatesTokenCount":1300,
            "promptTokensDetails":[{"modality":"TEXT","tokenCount":100},{"modality":"AUDIO","tokenCount":200}],
            "candidatesTokensDetails":[{"modality":"IMAGE","tokenCount":1290},{"modality":"TEXT","tokenCount":10}]}"#;
        let usage = serde_json::from_str::<UsageMetadata<'_>>(json).unwrap().usage().unwrap();
        assert_eq!((usage.prompt, usage.completion), (300, 1300));
        assert_eq!((usage.audio_prompt, usage.audio_completion), (Some(200), None));
        assert_eq!(usage.image_completion, Some(1290));
        for odd in ["5", "null", r#"["IMAGE"]"#, r#"[{"modality":"IMAGE"}]"#] {
            let json = format!(r#"{{"promptTokenCount":3,"candidatesTokensDetails":{odd}}}"#);
            let usage = serde_json::from_str::<UsageMetadata<'_>>(&json).unwrap().usage().unwrap();
            assert_eq!((usage.prompt, usage.image_completion), (3, None), "{odd}");
        }
    }

    #[test]
    fn cached_audio_has_the_price_of_cached_tokens() {
        // Nano-dollars, where a million tokens cost 0.30 (text), 1.00 (audio), 0.03 (cached) and 2.50 dollars (output).
        let counted = |prompt: u64, (text, audio): (u64, u64), cached: u64, of_cache: &str| {
            let json = format!(
                r#"{{"promptTokenCount":{prompt},"candidatesTokenCount":10,"cachedContentTokenCount":{cached},
                "promptTokensDetails":[{{"modality":"TEXT","tokenCount":{text}}},{{"modality":"AUDIO","tokenCount":{audio}}}]
                {of_cache}}}"#
            );
            let usage = serde_json::from_str::<UsageMetadata<'_>>(&json).unwrap().usage().unwrap();
            assert_eq!((usage.prompt, usage.cached), (prompt, Some(cached)), "{json}");
            let audio = u64::from(usage.audio_prompt.unwrap());
            let fresh = prompt - cached;
            let heard = audio.min(fresh);
            (audio, (fresh - heard) * 300 + heard * 1_000 + cached * 30 + usage.completion * 2_500)
        };
        let all = r#","cacheTokensDetails":[{"modality":"AUDIO","tokenCount":900}]"#;
        assert_eq!(counted(1_000, (100, 900), 900, all), (0, 82_000));
        let both = r#","cacheTokensDetails":[{"modality":"AUDIO","tokenCount":20},{"modality":"TEXT","tokenCount":10}]"#;
        assert_eq!(counted(100, (40, 60), 30, both), (40, 74_900));
        let text = r#","cacheTokensDetails":[{"modality":"TEXT","tokenCount":30}]"#;
        assert_eq!(counted(100, (40, 60), 30, text), (60, 88_900));
        // The kinds of the cached tokens are unknown.
        assert_eq!(counted(1_000, (100, 900), 900, ""), (900, 152_000));
        assert_eq!(counted(1_000, (100, 900), 900, r#","cacheTokensDetails":null"#), (900, 152_000));
        // Impossible counts: more audio in the cache than in the prompt, and more fresh audio than fresh tokens.
        let more = r#","cacheTokensDetails":[{"modality":"AUDIO","tokenCount":"70"}]"#;
        assert_eq!(counted(100, (40, 60), 80, more), (0, 33_400));
        assert_eq!(counted(100, (0, 100), 80, r#","cacheTokensDetails":[]"#), (20, 47_400));
    }

    #[test]
    fn u24_impossible_counts_are_clamped_and_flagged() {
        for (count, value) in [
            ("-5", 0),
            ("1e300", 1 << 32),
            ("99999999999", 1 << 32),
            ("7.5", 7),
            ("[1]", 0),
            ("{}", 0),
            ("true", 0),
            ("\"x\"", 0),
        ] {
            let json = format!(r#"{{"promptTokenCount":{count},"candidatesTokenCount":2}}"#);
            assert_eq!(read(&json), Some((value, 2, None, None, true)), "{count}");
        }
        assert_eq!(
            read(r#"{"promptTokenCount":"12","candidatesTokenCount":2}"#),
            Some((12, 2, None, None, false))
        );
        assert_eq!(
            read(r#"{"promptTokenCount":3,"cachedContentTokenCount":9}"#),
            Some((3, 0, Some(3), None, true))
        );
        assert_eq!(read(r#"{"candidatesTokenCount":3}"#), Some((0, 3, None, None, true)));
        assert_eq!(read(r#"{"promptTokenCount":null}"#), None);
    }
}
