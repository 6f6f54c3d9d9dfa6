//! Reads the items of `input`.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use super::EarlierItems;
use super::bounds::RequestBounds;
use super::compaction::{is_compaction, summary_text};
use super::content::MessageContent;
use super::item::{
    CallOutput, InputItem, PastItemCall, call, content_of_output, hosted_call, message, output, unknown_call,
};
use super::members::{Warnings, members, optional, required, required_name};
use super::reasoning;
use super::tools::ToolList;
use super::turns::TurnWriter;
use crate::dialects::responses::item_index::{ItemIndex, is_reference};
use crate::json::{View, check};
use crate::request::Invalid;
use crate::request::fields::{Path, array, clip, invalid_value, missing};

/// The parts of a request that its items add to.
#[derive(Debug)]
pub(super) struct Surroundings<'l> {
    pub(super) tools: ToolList,
    pub(super) warnings: Warnings,
    pub(super) bounds: RequestBounds<'l>,
}

/// Reads items and keeps them until the messages are written.
pub(super) struct InputReader<'a> {
    earlier: &'a EarlierItems<'a>,
    index: ItemIndex<'a>,
    items: Vec<InputItem<'a>>,
    has_dropped: bool,
    requires_native: Option<&'static str>,
}

impl<'a> InputReader<'a> {
    pub(super) fn new(earlier: &'a EarlierItems<'a>) -> Self {
        Self {
            earlier,
            index: ItemIndex::new(earlier.items),
            items: Vec::new(),
            has_dropped: false,
            requires_native: None,
        }
    }

    /// Whether items were left out.
    pub(super) fn has_dropped(&self) -> bool {
        self.has_dropped
    }

    /// The member that only an upstream of this dialect can serve.
    pub(super) fn requires_native(&self) -> Option<&'static str> {
        self.requires_native
    }

    /// Reads the items of the conversation so far.
    pub(super) fn history(&mut self, read: &mut Surroundings<'_>) -> Result<(), Invalid> {
        let path = Path::Top(HISTORY);
        for (at, item) in self.earlier.conversation().iter().enumerate() {
            // The store holds only checked text. A fault there must not be read as items.
            if check(item).is_err() {
                return Err(invalid_value(&path, "an item of the stored conversation cannot be read."));
            }
            let item = View::new(item);
            if is_reference(item) {
                // References were resolved before they were stored. This one came from an upstream.
                self.drop_item("item_reference", &mut read.warnings);
                continue;
            }
            self.item(&path.item(at), (HISTORY, at), item, read)?;
        }
        Ok(())
    }

    /// Reads `input`: a string or a list of items.
    pub(super) fn read(&mut self, value: View<'a>, read: &mut Surroundings<'_>) -> Result<(), Invalid> {
        let path = Path::Top(INPUT);
        if let Some(text) = value.string() {
            read.bounds.item(INPUT)?;
            let content = MessageContent::of_text(text);
            self.items.push(InputItem::Message { role: "user".into(), content });
            return Ok(());
        }
        let items = array(&path, value, usize::MAX, "one of a string or an array of objects")?;
        for (at, item) in items.enumerate() {
            let path = path.item(at);
            let item = if is_reference(item) { self.referenced(&path, item)? } else { item };
            self.item(&path, (INPUT, at), item, read)?;
        }
        Ok(())
    }

    /// Reads an item that is no reference.
    fn item(
        &mut self,
        path: &Path<'_>,
        place: (&'static str, usize),
        item: View<'a>,
        read: &mut Surroundings<'_>,
    ) -> Result<(), Invalid> {
        read.bounds.item(place.0)?;
        let [kind, role] = members(path, item, ["type", "role"])?;
        let kind = match (optional(path, "type", kind)?, role) {
            (Some(kind), _) => kind,
            (None, Some(_)) => "message".into(),
            (None, None) => return Err(missing(&path.member("type"))),
        };
        let known = match &*kind {
            "message" => message(path, item, &mut read.warnings)?,
            "function_call" | "custom_tool_call" => {
                call(path, item, kind == "custom_tool_call", &read.tools)?
            }
            "function_call_output" | "custom_tool_call_output" => {
                InputItem::Output(output(path, place, item, None, &mut read.warnings)?)
            }
            "reasoning" => InputItem::Reasoning(reasoning::read(path, item)?),
            "additional_tools" => {
                let [list] = members(path, item, ["tools"])?;
                let path = path.member("tools");
                return read.tools.read(&path, list, &mut read.bounds, &mut read.warnings);
            }
            kind if is_compaction(kind) => return self.compaction(path, item, &mut read.warnings),
            "image_generation_call" => return self.image(path, item),
            _ => return self.hosted(path, place, item, kind, read),
        };
        self.push(known, place.0, &mut read.bounds)
    }

    /// Keeps an item.
    fn push(
        &mut self,
        item: InputItem<'a>,
        list: &str,
        bounds: &mut RequestBounds<'_>,
    ) -> Result<(), Invalid> {
        match &item {
            InputItem::Message { content, .. } => bounds.parts(list, content.parts.len())?,
            InputItem::Output(output) => bounds.parts(list, output.content.parts.len())?,
            InputItem::Image(_) => bounds.parts(list, 1)?,
            InputItem::Call(_) => bounds.call(list)?,
            InputItem::Reasoning(_) => {}
        }
        self.items.push(item);
        Ok(())
    }

    /// The item that an `item_reference` names.
    fn referenced(&mut self, path: &Path<'_>, reference: View<'_>) -> Result<View<'a>, Invalid> {
        let [kind, id] = members(path, reference, ["type", "id"])?;
        if optional(path, "type", kind)?.is_none() && id.is_none() {
            return Err(missing(&path.member("type")));
        }
        let id = required_name(path, "id", id)?;
        self.index.get(&id).map(View::new).ok_or_else(|| {
            invalid_value(&path.member("id"), &format!("no stored item has the id '{}'.", clip(&id)))
        })
    }

    /// A compacted conversation. It can be read only if this gateway made it.
    fn compaction(
        &mut self,
        path: &Path<'_>,
        item: View<'a>,
        warnings: &mut Warnings,
    ) -> Result<(), Invalid> {
        let [encrypted] = members(path, item, ["encrypted_content"])?;
        let encrypted = required(path, "encrypted_content", encrypted)?;
        match self.earlier.open_compaction.and_then(|open| open(&encrypted)) {
            Some(summary) => {
                let content = MessageContent::of_text(summary_text(&summary));
                self.items.push(InputItem::Message { role: "user".into(), content });
            }
            None => {
                warnings.add("item_dropped:compaction");
                self.has_dropped = true;
                self.requires_native.get_or_insert("input");
            }
        }
        Ok(())
    }

    fn image(&mut self, path: &Path<'_>, item: View<'a>) -> Result<(), Invalid> {
        let [result, format] = members(path, item, ["result", "output_format"])?;
        let format = optional(path, "output_format", format)?.unwrap_or("png".into());
        if let Some(data) = optional(path, "result", result)?.filter(|data| !data.is_empty()) {
            self.items.push(InputItem::Image(format!("data:image/{format};base64,{data}")));
        }
        Ok(())
    }

    /// An item of a tool that has no form in a chat. A call and its output become a function's; others are left out.
    fn hosted(
        &mut self,
        path: &Path<'_>,
        place: (&'static str, usize),
        item: View<'a>,
        kind: Cow<'a, str>,
        read: &mut Surroundings<'_>,
    ) -> Result<(), Invalid> {
        let [call_id, id, output_value] = members(path, item, ["call_id", "id", "output"])?;
        let call_id = call_id.or(id).and_then(View::string).filter(|id| !id.is_empty());
        let is_output = kind.ends_with("_output") && output_value.is_some();
        match call_id {
            Some(_) if is_output => {
                let output = output(path, place, item, Some(kind), &mut read.warnings)?;
                self.push(InputItem::Output(output), place.0, &mut read.bounds)
            }
            Some(id) if kind.ends_with("_call") => {
                let hosted = output_value.is_none().then(|| kind.clone());
                let call = hosted_call(item, id.clone(), &kind, hosted);
                self.push(InputItem::Call(call), place.0, &mut read.bounds)?;
                let Some(value) = output_value else { return Ok(()) };
                let content = content_of_output(&path.member("output"), value, &mut read.warnings)?;
                let output = CallOutput { call_id: id, content, hosted: Some(kind), place };
                self.push(InputItem::Output(output), place.0, &mut read.bounds)
            }
            _ => {
                self.drop_item(&kind, &mut read.warnings);
                Ok(())
            }
        }
    }

    fn drop_item(&mut self, kind: &str, warnings: &mut Warnings) {
        self.has_dropped = true;
        warnings.add(format!("item_dropped:{}", clip(kind)));
    }

    /// Leaves out calls and outputs of hosted tools that have no counterpart, and second outputs: a chat has one output for each call.
    /// Refuses outputs of unknown calls of functions.
    pub(super) fn pair_calls(&mut self, warnings: &mut Warnings) -> Result<(), Invalid> {
        let (mut calls, mut outputs) = (HashMap::new(), HashMap::new());
        for item in &self.items {
            match item {
                InputItem::Call(call) => *calls.entry(call.id.to_string()).or_insert(0_usize) += 1,
                InputItem::Output(output) => {
                    *outputs.entry(output.call_id.to_string()).or_insert(0_usize) += 1;
                }
                InputItem::Message { .. } | InputItem::Reasoning(_) | InputItem::Image(_) => {}
            }
        }
        let mut kept = Vec::with_capacity(self.items.len());
        for item in std::mem::take(&mut self.items) {
            match &item {
                InputItem::Call(PastItemCall { id, hosted: Some(kind), .. })
                    if !outputs.contains_key(&**id) =>
                {
                    let kind = kind.clone().into_owned();
                    self.drop_item(&kind, warnings);
                    continue;
                }
                InputItem::Output(output) => {
                    let waiting = calls.get_mut(&*output.call_id);
                    let is_known = waiting.is_some();
                    match (waiting.filter(|waiting| **waiting > 0), &output.hosted) {
                        (Some(waiting), _) => *waiting -= 1,
                        (None, None) if !is_known => return Err(unknown_call(output)),
                        (None, kind) => {
                            let kind = kind.as_deref().unwrap_or("function_call_output").to_owned();
                            self.drop_item(&kind, warnings);
                            continue;
                        }
                    }
                }
                _ => {}
            }
            kept.push(item);
        }
        self.items = kept;
        Ok(())
    }

    /// Writes the messages of the chat request: `instructions`, the items, and the gateway's own last message.
    pub(super) fn write_messages(&mut self, instructions: Option<&str>, out: &mut Vec<u8>) {
        let mut outputs: HashMap<String, VecDeque<MessageContent<'a>>> = HashMap::new();
        let items = std::mem::take(&mut self.items);
        let mut rest = Vec::with_capacity(items.len());
        for item in items {
            // Each output is written behind its call. Its place is kept, because it ends the assistant's turn.
            match item {
                InputItem::Output(output) => {
                    outputs.entry(output.call_id.into_owned()).or_default().push_back(output.content);
                    rest.push(None);
                }
                item => rest.push(Some(item)),
            }
        }
        let mut writer = TurnWriter::new(out, outputs);
        if let Some(instructions) = instructions {
            writer.message("system", MessageContent::of_text(instructions));
        }
        for item in rest {
            match item {
                None => writer.end_turn(),
                Some(InputItem::Message { role, content }) => writer.message(&role, content),
                Some(InputItem::Call(call)) => writer.call(&call),
                Some(InputItem::Reasoning(reasoning)) => writer.reasoning(&reasoning),
                Some(InputItem::Image(url)) => writer.image(&url),
                Some(InputItem::Output(_)) => {}
            }
        }
        if let Some(closing) = self.earlier.closing_message {
            writer.message("user", MessageContent::of_text(closing));
        }
        writer.finish();
    }
}

/// The list of a request's own items.
const INPUT: &str = "input";

/// The member that brings the items of the conversation so far.
const HISTORY: &str = "previous_response_id";
