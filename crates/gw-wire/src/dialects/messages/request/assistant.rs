//! A turn of the assistant as one chat message: its text, its calls, and its thoughts as `reasoning_content` and
//! `reasoning_details`.

use std::borrow::Cow;

use super::counts::Counts;
use super::documents;
use super::parts::{BlockPart, ChatContent, PartSource, write_content};
use super::warnings::Losses;
use crate::dialects::is_sealed;
use crate::dialects::messages::faults::{
    MessagesPath, check_object, list, missing, object, optional_string, required_name, required_string,
    string,
};
use crate::dialects::past_order::{PastBlock, PastOrder, write_order};
use crate::json::{Kind, ObjectWriter, View, write_str};
use crate::request::Invalid;

/// The `format` of entries with Anthropic's signatures. Adapters of other dialects leave them out.
const FORMAT: &str = "anthropic-claude-v1";

/// Between the texts of two messages that are merged.
const BLANK_LINE: &str = "\n\n";

/// A thought with a signature, or encrypted.
enum SealedThought<'a> {
    Signed { text: Cow<'a, str>, signature: Cow<'a, str> },
    Redacted(Cow<'a, str>),
}

/// A call of a tool.
struct PastCall<'a> {
    id: Cow<'a, str>,
    name: Cow<'a, str>,
    input: &'a str,
}

/// One or more assistant messages in a row.
#[derive(Default)]
pub(in crate::dialects) struct AssistantTurn<'a> {
    text: Option<Cow<'a, str>>,
    cache_control: Option<View<'a>>,
    reasoning: Option<Cow<'a, str>>,
    thoughts: Vec<(usize, SealedThought<'a>)>,
    calls: Vec<PastCall<'a>>,
    images: Vec<PartSource<'a>>,
    order: PastOrder,
    /// Number of blocks so far.
    blocks: usize,
}

impl<'a> AssistantTurn<'a> {
    /// Reads the content of a message.
    pub(super) fn read(
        &mut self,
        path: &MessagesPath<'_>,
        content: View<'a>,
        counts: &mut Counts<'_>,
        losses: &mut Losses,
    ) -> Result<(), Invalid> {
        if self.text.is_some() {
            self.push_text(Cow::Borrowed(BLANK_LINE));
        }
        if content.kind() == Kind::String {
            counts.parts(path, 1)?;
            self.blocks += 1;
            self.push_text(string(path, content)?);
            self.order.end_block();
            return Ok(());
        }
        for (at, block) in list(path, content)?.enumerate() {
            let path = path.item(at);
            let [kind] = object(&path, block, ["type"])?;
            let kind = required_string(&path.member("type"), kind)?;
            counts.parts(&path, 1)?;
            if kind == "tool_use" {
                counts.call(&path)?;
            }
            self.block(&path, &kind, block, losses)?;
            self.blocks += 1;
        }
        Ok(())
    }

    fn block(
        &mut self,
        path: &MessagesPath<'_>,
        kind: &str,
        block: View<'a>,
        losses: &mut Losses,
    ) -> Result<(), Invalid> {
        match kind {
            "text" => {
                let [text, cache_control] = block.pick(["text", "cache_control"]);
                self.add_text(required_string(&path.member("text").member("text"), text)?);
                self.cache_control = cache_control.or(self.cache_control);
            }
            "thinking" => self.thinking(path, block)?,
            "redacted_thinking" => {
                let [data] = block.pick(["data"]);
                self.add_redacted(required_string(&path.member("redacted_thinking").member("data"), data)?);
            }
            "tool_use" => self.call(path, block)?,
            "image" => {
                if let Some(BlockPart { content: ChatContent::Image(source), .. }) =
                    documents::image(path, block, losses)?
                {
                    self.add_image(source);
                }
            }
            // Blocks of tools that Anthropic runs, and blocks of later versions of the API.
            other => losses.content(other),
        }
        Ok(())
    }

    fn thinking(&mut self, path: &MessagesPath<'_>, block: View<'a>) -> Result<(), Invalid> {
        let [text, signature] = block.pick(["thinking", "signature"]);
        let path = path.member("thinking");
        let text = required_string(&path.member("thinking"), text)?;
        let signature = optional_string(&path.member("signature"), signature)?;
        self.add_thought(text, signature.filter(|signature| !signature.is_empty()));
        Ok(())
    }

    /// Adds a whole text block.
    pub(in crate::dialects) fn add_text(&mut self, text: Cow<'a, str>) {
        self.push_text(text);
        self.order.end_block();
    }

    /// Adds a thought, with its signature if it has one.
    pub(in crate::dialects) fn add_thought(&mut self, text: Cow<'a, str>, signature: Option<Cow<'a, str>>) {
        match &mut self.reasoning {
            _ if text.is_empty() => {}
            Some(reasoning) => reasoning.to_mut().push_str(&text),
            None => self.reasoning = Some(text.clone()),
        }
        self.order.thought(text.len(), signature.is_some());
        if let Some(signature) = signature {
            self.thoughts.push((self.blocks, SealedThought::Signed { text, signature }));
        }
    }

    /// Adds a thought that only its maker can read.
    pub(in crate::dialects) fn add_redacted(&mut self, data: Cow<'a, str>) {
        self.order.add(PastBlock::Detail);
        self.thoughts.push((self.blocks, SealedThought::Redacted(data)));
    }

    /// Adds an image that the model made.
    pub(in crate::dialects) fn add_image(&mut self, source: PartSource<'a>) {
        self.order.add(PastBlock::Image);
        self.images.push(source);
    }

    /// Adds a call. `input` is a JSON object.
    pub(in crate::dialects) fn add_call(&mut self, id: Cow<'a, str>, name: Cow<'a, str>, input: &'a str) {
        self.order.add(PastBlock::Call);
        self.calls.push(PastCall { id, name, input });
    }

    /// Ends a block of the client's content. The entries of thoughts count the blocks.
    pub(in crate::dialects) fn end_part(&mut self) {
        self.blocks += 1;
    }

    fn call(&mut self, path: &MessagesPath<'_>, block: View<'a>) -> Result<(), Invalid> {
        let [id, name, input] = block.pick(["id", "name", "input"]);
        let path = path.member("tool_use");
        let id = required_string(&path.member("id"), id)?;
        let name = required_name(&path.member("name"), name)?;
        let input_path = path.member("input");
        let input = input.ok_or_else(|| missing(&input_path))?;
        check_object(&input_path, input)?;
        self.add_call(id, name, input.text());
        Ok(())
    }

    fn push_text(&mut self, text: Cow<'a, str>) {
        if text.is_empty() {
            return;
        }
        self.order.text(text.len());
        match &mut self.text {
            Some(joined) => joined.to_mut().push_str(&text),
            None => self.text = Some(text),
        }
    }

    /// Writes the message and returns the ids of its calls.
    pub(in crate::dialects) fn write(mut self, out: &mut Vec<u8>) -> Vec<Cow<'a, str>> {
        let mut message = ObjectWriter::begin(out);
        message.string("role", "assistant");
        match self.text.take() {
            Some(text) => {
                let content = ChatContent::Text(text);
                let part = BlockPart { content, cache_control: self.cache_control };
                write_content(message.member("content"), &[part]);
            }
            None if self.calls.is_empty() => message.string("content", ""),
            None => message.raw("content", "null"),
        }
        message.optional_string("reasoning_content", self.reasoning.as_deref());
        if !self.calls.is_empty() {
            message.array("tool_calls", &self.calls, write_call);
        }
        if !self.images.is_empty() {
            message.array("images", &self.images, |out, source| {
                let mut image = ObjectWriter::begin(out);
                image.string("type", "image_url");
                image.object("image_url", |url| source.write(url.member("url")));
                image.finish();
            });
        }
        let order = self.order.words();
        if !self.thoughts.is_empty() || order.is_some() {
            let out = message.member("reasoning_details");
            out.push(b'[');
            for (position, (index, thought)) in self.thoughts.iter().enumerate() {
                if position > 0 {
                    out.push(b',');
                }
                write_thought(out, *index, thought);
            }
            if let Some(order) = order {
                if !self.thoughts.is_empty() {
                    out.push(b',');
                }
                write_order(order, out);
            }
            out.push(b']');
        }
        message.finish();
        self.calls.into_iter().map(|call| call.id).collect()
    }
}

fn write_call(out: &mut Vec<u8>, call: &PastCall<'_>) {
    let mut object = ObjectWriter::begin(out);
    object.string("id", &call.id);
    object.string("type", "function");
    object.object("function", |function| {
        function.string("name", &call.name);
        write_str(function.member("arguments"), call.input);
    });
    object.finish();
}

/// Writes the entry of a thought. A sealed string holds all members of the provider's entry.
fn write_thought(out: &mut Vec<u8>, index: usize, thought: &SealedThought<'_>) {
    let mut entry = ObjectWriter::begin(out);
    let (SealedThought::Signed { signature: opaque, .. } | SealedThought::Redacted(opaque)) = thought;
    let is_whole = is_sealed(opaque);
    match thought {
        SealedThought::Signed { text, signature } => {
            entry.string("type", "reasoning.text");
            entry.string("text", text);
            entry.string("signature", signature);
        }
        SealedThought::Redacted(data) => {
            entry.string("type", "reasoning.encrypted");
            entry.string("data", data);
        }
    }
    if !is_whole {
        entry.string("format", FORMAT);
        entry.integer("index", index as u64);
    }
    entry.finish();
}
