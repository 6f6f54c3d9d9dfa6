//! An estimate of what the next response of a session reads: the usage that the last one reported, and what came since.

use gw_engine::realtime::PromptSize;
use gw_wire::usage::{BYTES_PER_TOKEN, Usage};

/// The base64 characters of a token of sound that a model hears: 100 milliseconds of 16-bit samples, 24,000 a second. Telephone formats
/// have a sixth of it, so that their sound counts for less until the first response reports it.
const HEARD_CHARS_PER_TOKEN: u64 = 6_400;

/// The conversation so far, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ContextSize {
    text: u64,
    audio: u64,
    new_text_bytes: u64,
    new_audio_chars: u64,
    /// The bound of the session on each answer.
    max_answer: Option<u64>,
}

impl ContextSize {
    /// Counts an event of the client.
    pub(super) fn add(&mut self, text_bytes: u64, audio_chars: u64) {
        self.new_text_bytes = self.new_text_bytes.saturating_add(text_bytes);
        self.new_audio_chars = self.new_audio_chars.saturating_add(audio_chars);
    }

    /// Replaces the estimate by what a response reported.
    pub(super) fn learn(&mut self, usage: &Usage) {
        let audio =
            u64::from(usage.audio_prompt.unwrap_or(0)) + u64::from(usage.audio_completion.unwrap_or(0));
        self.audio = audio;
        self.text = usage.total().saturating_sub(audio);
        (self.new_text_bytes, self.new_audio_chars) = (0, 0);
    }

    /// Notes the bound of the session on each answer.
    pub(super) fn bound(&mut self, max_answer: Option<u64>) {
        self.max_answer = max_answer;
    }

    /// The size of a response with this bound of its own.
    pub(super) fn size(&self, max_answer: Option<Option<u64>>) -> PromptSize {
        PromptSize {
            text: self.text.saturating_add(self.new_text_bytes.div_ceil(BYTES_PER_TOKEN)),
            audio: self.audio.saturating_add(self.new_audio_chars.div_ceil(HEARD_CHARS_PER_TOKEN)),
            max_answer: max_answer.unwrap_or(self.max_answer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reported_usage_replaces_the_estimate() {
        let mut size = ContextSize::default();
        size.add(30, 64_000);
        size.bound(Some(9));
        assert_eq!(size.size(None), PromptSize { text: 10, audio: 10, max_answer: Some(9) });
        assert_eq!(size.size(Some(None)).max_answer, None);
        let usage = Usage { prompt: 20, completion: 10, audio_completion: Some(6), ..Usage::default() };
        size.learn(&usage);
        assert_eq!(size.size(Some(Some(1))), PromptSize { text: 24, audio: 6, max_answer: Some(1) });
    }
}
