//! Streams of transcripts in OpenAI's dialect (platform.openai.com/docs/api-reference/audio/transcript-text-delta-event, November
//! 2026), and in Mistral's (docs.mistral.ai/api/endpoint/audio/transcriptions, November 2026).

use std::borrow::Cow;

use gw_wire::event::{Event, TRANSCRIPT_DONE, TRANSCRIPT_SEGMENT};
use gw_wire::reply::Finish;
use serde_json::value::RawValue;

use super::audio_usage::{AudioUsage, usage};
use super::lenient::{LenientText, lenient_members};
use super::media_event::{read, told};
use crate::adapter::StreamDecoder;
use crate::adapters::bounded::Bounded;
use crate::adapters::failure::invalid;
use crate::adapters::sse_adapter::{
    EventSink, Framing, SseAdapter, StreamProgress, StreamState, UpstreamEvent,
};

/// A decoder of a stream.
pub(in crate::adapters) fn decoder() -> Box<dyn StreamDecoder> {
    Box::new(Bounded::new(SseAdapter::new(TranscriptStream::default())))
}

#[derive(Debug, Default)]
struct TranscriptStream {
    progress: StreamProgress,
}

lenient_members! {
    /// One event.
    TranscriptEvent<'de> {
        kind: LenientText<'de> = "type",
        delta: LenientText<'de> = "delta",
        text: LenientText<'de> = "text",
        logprobs: &'de RawValue = "logprobs",
        usage: AudioUsage<'de> = "usage",
        error: &'de RawValue = "error",
    }
}

impl StreamState for TranscriptStream {
    fn framing(first: u8) -> Framing {
        if matches!(first, b'{' | b'[') { Framing::Document } else { Framing::Events }
    }

    fn progress(&mut self) -> &mut StreamProgress {
        &mut self.progress
    }

    fn event(&mut self, event: UpstreamEvent<'_>, sink: EventSink<'_>) {
        if event.data == b"[DONE]" {
            return self.progress.end(sink);
        }
        let (raw, read) = match read::<TranscriptEvent<'_>>(event.data) {
            Ok(read) => read,
            Err(failure) => return self.progress.fail(failure, sink),
        };
        // Mistral names its events in the field of the event as well.
        let named = std::str::from_utf8(event.name).unwrap_or_default();
        let kind = read.kind.as_ref().map_or(named, |kind| kind.0.as_ref());
        if named == "error" || kind == "error" || read.error.is_some() {
            return self.progress.fail(told(raw), sink);
        }
        match kind {
            "transcript.text.delta" | "transcription.text.delta" => {
                let said = read.delta.or(read.text).map_or(Cow::Borrowed(""), |said| said.0);
                let logprobs = read.logprobs.filter(|list| list.get().starts_with('['));
                sink(Event::Text { choice: 0, text: said, logprobs });
            }
            "transcript.text.segment" => {
                sink(Event::Extra { choice: 0, name: TRANSCRIPT_SEGMENT, value: raw });
            }
            "transcript.text.done" | "transcription.done" => {
                if read.text.is_none() {
                    return self.progress.fail(invalid("a complete transcript has no text"), sink);
                }
                if let Some(used) = read.usage.as_ref().and_then(usage) {
                    sink(Event::Usage(used));
                }
                sink(Event::Extra { choice: 0, name: TRANSCRIPT_DONE, value: raw });
                sink(Event::Finish { choice: 0, reason: Finish::Stop });
                self.progress.end(sink);
            }
            _ => {}
        }
    }

    fn held_bytes(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(body: &str, piece: usize) -> Vec<String> {
        let mut decoder = decoder();
        let mut seen = Vec::new();
        let mut note = |event: Event<'_>| {
            seen.push(match event {
                Event::Text { text, .. } => text.into_owned(),
                Event::Extra { name, .. } => name.to_owned(),
                Event::Usage(usage) => format!("{} {:?}", usage.total(), usage.units.get()),
                Event::Finish { .. } => "finish".to_owned(),
                Event::Error(failure) => format!("{:?}", failure.kind),
                other => format!("{other:?}"),
            });
        };
        body.as_bytes().chunks(piece).for_each(|piece| decoder.feed(piece, &mut note));
        decoder.eof(&mut note);
        seen
    }

    #[test]
    fn both_dialects_give_the_same_events_wherever_they_are_cut() {
        let ours = "data: {\"type\":\"transcript.text.delta\",\"delta\":\"Hi\"}\n\n\
            data: {\"type\":\"transcript.text.done\",\"text\":\"Hi\",\"usage\":{\"type\":\"duration\",\"seconds\":2}}\n\n";
        let mistrals = "event: transcription.language\ndata: {\"type\":\"transcription.language\",\"audio_language\":\"en\"}\n\n\
            event: transcription.text.delta\ndata: {\"type\":\"transcription.text.delta\",\"text\":\"Hi\"}\n\n\
            event: transcription.done\ndata: {\"type\":\"transcription.done\",\"text\":\"Hi\",\"usage\":{\"prompt_audio_seconds\":2}}\n\n";
        for body in [ours, mistrals] {
            for piece in 1..60 {
                let seen = events(body, piece);
                let used = "0 Some((Second, UnitCount(2000000)))";
                assert_eq!(seen, ["Hi", used, TRANSCRIPT_DONE, "finish", "End"], "{piece}");
            }
        }
        assert_eq!(
            events("data: {\"type\":\"error\",\"error\":{\"message\":\"no\"}}\n\n", 9),
            ["StreamBroken"]
        );
    }
}
