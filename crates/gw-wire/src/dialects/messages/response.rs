//! A complete answer.

pub(in crate::dialects) mod pieces;

use self::pieces::reply_pieces;
use super::blocks::{AnswerBlocks, BlockWriter, input_object};
use super::context::MessagesContext;
use super::usage;
use crate::json::{ObjectWriter, View, write_escaped, write_str};
use crate::render::{Envelope, put};
use crate::reply::{ChatReply, Finish, STOP_SEQUENCE};

/// Writes a complete answer.
pub(super) fn write(reply: &ChatReply<'_>, envelope: &Envelope<'_>, context: &MessagesContext) -> Vec<u8> {
    let choice = reply.choices.iter().find(|choice| choice.index == 0).or(reply.choices.first());
    let text = choice.and_then(|choice| choice.content.as_deref()).map_or(0, str::len);
    let mut out = Vec::with_capacity(1024 + text);
    put(&mut out, "{\"id\":");
    write_str(&mut out, envelope.id);
    put(&mut out, ",\"type\":\"message\",\"role\":\"assistant\",\"model\":");
    write_str(&mut out, reply.model.as_deref().filter(|name| !name.is_empty()).unwrap_or(envelope.model));
    put(&mut out, ",\"content\":[");
    let mut blocks = AnswerBlocks::new(context);
    let mut writer = ContentWriter { out: &mut out, is_first: true, input: String::new(), end: "" };
    if let Some(choice) = choice {
        reply_pieces(choice, envelope.id, |piece| blocks.take(piece, &mut writer));
    }
    blocks.finish(&mut writer);
    for (_, value) in reply.members.iter().filter(|(name, _)| name == STOP_SEQUENCE) {
        blocks.report_stop(context, View::new(value.get()));
    }
    put(&mut out, "],");
    write_stop(&mut out, reply.finish_of(choice), &blocks);
    put(&mut out, ",\"usage\":");
    usage::write_complete(&mut out, &envelope.usage, (!context.plain).then_some(envelope.cost).flatten());
    if !context.plain {
        put(&mut out, ",\"gateway\":");
        crate::render::gateway(&mut out, envelope.gateway);
    }
    out.push(b'}');
    out
}

/// Writes `stop_reason`, `stop_sequence` and, for a refusal, `stop_details`: members of an object.
pub(super) fn write_stop(out: &mut Vec<u8>, finish: Option<Finish>, blocks: &AnswerBlocks) {
    let sequence = blocks.ending_sequence(finish);
    let reason = match finish {
        _ if sequence.is_some() => "stop_sequence",
        Some(Finish::ContentFilter) => "refusal",
        Some(Finish::Length) => "max_tokens",
        _ if blocks.refusal().is_some() => "refusal",
        // Clients run the calls only if this says so, and some upstreams report "stop" with them.
        _ if blocks.calls() > 0 => "tool_use",
        _ => "end_turn",
    };
    put(out, "\"stop_reason\":\"");
    put(out, reason);
    put(out, "\",\"stop_sequence\":");
    match sequence {
        Some(sequence) => write_str(out, sequence),
        None => put(out, "null"),
    }
    if reason == "refusal" {
        put(out, ",\"stop_details\":");
        let mut details = ObjectWriter::begin(out);
        details.string("type", "refusal");
        details.raw("category", "null");
        match blocks.refusal() {
            Some(explanation) => details.string("explanation", explanation),
            None => details.raw("explanation", "null"),
        }
        details.finish();
    }
}

/// Writes the blocks of `content`.
struct ContentWriter<'o> {
    out: &'o mut Vec<u8>,
    is_first: bool,
    /// The arguments of the open call.
    input: String,
    /// The end of the open block. Citations and signatures change it.
    end: &'static str,
}

impl ContentWriter<'_> {
    fn start(&mut self, block: &str, end: &'static str) {
        if !std::mem::replace(&mut self.is_first, false) {
            self.out.push(b',');
        }
        put(self.out, block);
        self.end = end;
    }
}

/// The end of a thinking block without a signature.
const UNSIGNED: &str = "\",\"signature\":\"\"}";
/// The end of a text block.
const TEXT_END: &str = "\"}";
/// The end of a text block with citations.
const CITATIONS_END: &str = "]}";
/// The end of a call, whose arguments are written before it.
const CALL_END: &str = "";

impl BlockWriter for ContentWriter<'_> {
    fn start_thinking(&mut self) {
        self.start("{\"type\":\"thinking\",\"thinking\":\"", UNSIGNED);
    }

    fn thinking(&mut self, text: &str) {
        write_escaped(self.out, text);
    }

    fn signature(&mut self, signature: &str) {
        put(self.out, "\",\"signature\":");
        write_str(self.out, signature);
        self.end = "}";
    }

    fn start_text(&mut self) {
        self.start("{\"type\":\"text\",\"text\":\"", TEXT_END);
    }

    fn text(&mut self, text: &str) {
        // The API has no text after a citation of the same block. Chat answers bring all citations at their end.
        if self.end == TEXT_END {
            write_escaped(self.out, text);
        }
    }

    fn citation(&mut self, citation: &[u8]) {
        put(self.out, if self.end == TEXT_END { "\",\"citations\":[" } else { "," });
        self.out.extend_from_slice(citation);
        self.end = CITATIONS_END;
    }

    fn start_tool(&mut self, id: &str, name: &str) {
        self.start("{\"type\":\"tool_use\",\"id\":", CALL_END);
        write_str(self.out, id);
        put(self.out, ",\"name\":");
        write_str(self.out, name);
        put(self.out, ",\"input\":");
        self.input.clear();
    }

    fn arguments(&mut self, fragment: &str) {
        self.input.push_str(fragment);
    }

    fn stop(&mut self) {
        if self.end == CALL_END {
            put_line(self.out, View::new(&input_object(&self.input)).text());
            self.input.clear();
            self.out.push(b'}');
        }
        put(self.out, self.end);
    }

    fn redacted(&mut self, data: &str) {
        self.start("{\"type\":\"redacted_thinking\",\"data\":", "}");
        write_str(self.out, data);
        self.stop();
    }

    fn image(&mut self, media_type: &str, base64: &str) {
        self.out.reserve(base64.len() + 128);
        self.start("{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"", "\"}}");
        write_escaped(self.out, media_type);
        put(self.out, "\",\"data\":\"");
        write_escaped(self.out, base64);
        self.stop();
    }
}

/// Copies JSON text without its line breaks.
fn put_line(out: &mut Vec<u8>, json: &str) {
    out.extend(json.bytes().filter(|byte| !matches!(byte, b'\n' | b'\r')));
}
