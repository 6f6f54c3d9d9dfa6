//! The usage of audio surfaces (platform.openai.com/docs/api-reference/audio, November 2026): tokens or a duration. Mistral tells the
//! seconds beside its tokens (docs.mistral.ai/api/endpoint/audio/transcriptions, November 2026).

use gw_wire::usage::{Unit, UnitCount, Units, Usage, small};
use serde_json::value::RawValue;

use super::lenient::lenient_members;
use crate::adapters::counts::count;

lenient_members! {
    /// The `usage` of an answer about sound.
    AudioUsage<'de> {
        input_tokens: &'de RawValue = "input_tokens",
        output_tokens: &'de RawValue = "output_tokens",
        prompt_tokens: &'de RawValue = "prompt_tokens",
        completion_tokens: &'de RawValue = "completion_tokens",
        total_tokens: &'de RawValue = "total_tokens",
        input_token_details: AudioDetails<'de> = "input_token_details",
        input_tokens_details: AudioDetails<'de> = "input_tokens_details",
        seconds: &'de RawValue = "seconds",
        prompt_audio_seconds: &'de RawValue = "prompt_audio_seconds",
    }
}

lenient_members! {
    /// The kinds of the tokens of a prompt.
    AudioDetails<'de> {
        audio_tokens: &'de RawValue = "audio_tokens",
        cached_tokens: &'de RawValue = "cached_tokens",
    }
}

/// So many seconds; None: it is no duration.
pub(in crate::adapters) fn seconds(raw: Option<&RawValue>) -> Option<Units> {
    let text = raw?.get().trim().trim_matches('"');
    let count = UnitCount::of_number(text.parse().ok()?)?;
    (count.millionths() > 0).then(|| Units::counted(Unit::Second, count))
}

/// The usage of a transcript. None: none is reported.
pub(in crate::adapters) fn usage(counts: &AudioUsage<'_>) -> Option<Usage> {
    let mut is_odd = false;
    let mut read = |raw: Option<&RawValue>| count(raw, &mut is_odd);
    let (prompt, completion, total) = (
        read(counts.input_tokens.or(counts.prompt_tokens)),
        read(counts.output_tokens.or(counts.completion_tokens)),
        read(counts.total_tokens),
    );
    let details = counts.input_token_details.as_ref().or(counts.input_tokens_details.as_ref());
    let heard = read(details.and_then(|details| details.audio_tokens));
    let cached = read(details.and_then(|details| details.cached_tokens));
    let units = seconds(counts.seconds.or(counts.prompt_audio_seconds)).unwrap_or_default();
    let has_tokens = prompt.or(completion).or(total).is_some_and(|tokens| tokens > 0);
    if !has_tokens && units.is_none() {
        return None;
    }
    let completion = completion.or_else(|| total?.checked_sub(prompt?)).unwrap_or(0);
    // Mistral counts the sound in the total alone.
    let all_read = total.and_then(|total| total.checked_sub(completion));
    let prompt = all_read.or(prompt).unwrap_or(0);
    Some(Usage {
        prompt,
        completion,
        audio_prompt: heard.map(|heard| small(heard.min(prompt))),
        cached: cached.map(|cached| cached.min(prompt)),
        estimated: is_odd || !has_tokens,
        units,
        ..Usage::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(u64, Option<u32>, u64, String)> {
        let counts: AudioUsage<'_> = serde_json::from_str(text).unwrap();
        usage(&counts).map(|usage| {
            (usage.prompt, usage.audio_prompt, usage.completion, usage.units.of(Unit::Second).to_string())
        })
    }

    #[test]
    fn tokens_durations_and_mistrals_mixture_are_read() {
        let tokens = r#"{"type":"tokens","input_tokens":14,"input_token_details":{"text_tokens":4,"audio_tokens":10},"output_tokens":45,"total_tokens":59}"#;
        assert_eq!(read(tokens), Some((14, Some(10), 45, "0".to_owned())));
        assert_eq!(read(r#"{"type":"duration","seconds":2.5}"#), Some((0, None, 0, "2.5".to_owned())));
        let mixture =
            r#"{"prompt_audio_seconds":203,"prompt_tokens":4,"total_tokens":3264,"completion_tokens":635}"#;
        assert_eq!(read(mixture), Some((2629, None, 635, "203".to_owned())));
        assert_eq!(read("{}"), None);
    }
}
