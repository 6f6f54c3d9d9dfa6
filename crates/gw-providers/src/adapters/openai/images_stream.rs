//! Streams of images in OpenAI's dialect (platform.openai.com/docs/api-reference/images-streaming, November 2026).

use gw_wire::event::{COMPLETED_IMAGE, Event, PARTIAL_IMAGE};
use gw_wire::reply::Finish;
use gw_wire::request::images::{GeneratedImage, ImageContent, ImagesReply};
use gw_wire::usage::{ImageForm, Usage};
use serde_json::value::RawValue;

use super::images::{ImageUsage, usage, written};
use super::lenient::{LenientText, lenient_members};
use super::media_event::{read, told};
use crate::adapter::StreamDecoder;
use crate::adapters::bounded::Bounded;
use crate::adapters::failure::invalid;
use crate::adapters::sse_adapter::{
    EventSink, Framing, SseAdapter, StreamProgress, StreamState, UpstreamEvent,
};

/// A decoder of a stream of images, of which this form was asked for.
pub(in crate::adapters) fn decoder(asked: ImageForm) -> Box<dyn StreamDecoder> {
    Box::new(Bounded::new(SseAdapter::new(ImagesStream { asked, ..ImagesStream::default() })))
}

#[derive(Debug, Default)]
struct ImagesStream {
    asked: ImageForm,
    progress: StreamProgress,
    /// The usage of the complete images so far.
    used: Option<Usage>,
}

lenient_members! {
    /// One event.
    ImageEvent<'de> {
        kind: LenientText<'de> = "type",
        b64_json: LenientText<'de> = "b64_json",
        size: LenientText<'de> = "size",
        quality: LenientText<'de> = "quality",
        usage: ImageUsage<'de> = "usage",
        error: &'de RawValue = "error",
    }
}

impl StreamState for ImagesStream {
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
        let (raw, read) = match read::<ImageEvent<'_>>(event.data) {
            Ok(read) => read,
            Err(failure) => return self.progress.fail(failure, sink),
        };
        let kind = read.kind.as_ref().map(|kind| kind.0.as_ref()).unwrap_or_default();
        if event.name == b"error" || kind == "error" || read.error.is_some() {
            return self.progress.fail(told(raw), sink);
        }
        if kind.ends_with(".partial_image") {
            sink(Event::Extra { choice: 0, name: PARTIAL_IMAGE, value: raw });
        } else if kind.ends_with(".completed") {
            self.complete(raw, read, sink);
        }
    }

    fn held_bytes(&self) -> usize {
        0
    }
}

impl ImagesStream {
    fn complete(&mut self, raw: &RawValue, event: ImageEvent<'_>, sink: EventSink<'_>) {
        let Some(image) = written(event.b64_json) else {
            return self.progress.fail(invalid("a complete image has no bytes"), sink);
        };
        let reply = ImagesReply {
            images: vec![GeneratedImage { content: ImageContent::Base64(image), revised_prompt: None }],
            size: written(event.size),
            quality: written(event.quality),
            usage: event.usage.as_ref().and_then(usage),
            ..ImagesReply::default()
        };
        let more = reply.measured(self.asked);
        let used = self.used.map_or(more, |used| used.plus(&more));
        self.used = Some(used);
        sink(Event::Usage(used));
        sink(Event::Extra { choice: 0, name: COMPLETED_IMAGE, value: raw });
        sink(Event::Finish { choice: 0, reason: Finish::Stop });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(body: &str, piece: usize) -> Vec<String> {
        let mut decoder = decoder(ImageForm::of(Some("512x512"), None));
        let mut seen = Vec::new();
        let mut note = |event: Event<'_>| {
            seen.push(match event {
                Event::Extra { name, .. } => name.to_owned(),
                Event::Usage(usage) => format!("{} {:?}", usage.completion, usage.units.get()),
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
    fn frames_cut_anywhere_give_the_same_events() {
        let body = "event: image_generation.partial_image\ndata: {\"type\":\"image_generation.partial_image\",\"b64_json\":\"QQ==\"}\n\n\
            data: {\"type\":\"image_generation.completed\",\"b64_json\":\"QQ==\",\"usage\":{\"input_tokens\":5,\"output_tokens\":272}}\n\n";
        let whole = events(body, body.len());
        let image = "272 Some((Image, UnitCount(1000000)))";
        assert_eq!(whole, [PARTIAL_IMAGE, image, COMPLETED_IMAGE, "finish"]);
        for piece in 1..40 {
            assert_eq!(events(body, piece), whole);
        }
    }

    #[test]
    fn errors_and_broken_events_fail() {
        for (data, kind) in [
            ("{\"type\":\"error\",\"error\":{\"message\":\"no\",\"type\":\"server_error\"}}", "Server"),
            ("{\"type\":\"image_generation.completed\"}", "InvalidResponse"),
            ("nothing", "InvalidResponse"),
        ] {
            assert_eq!(events(&format!("data: {data}\n\n"), 7), [kind], "{data}");
        }
        assert_eq!(events("", 1), ["InvalidResponse"]);
    }
}
