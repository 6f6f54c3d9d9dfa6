//! A tool call of the answer while it is written.

use super::frames::{DeltaFrames, Frames, ITEM_ADDED, ITEM_DONE, end};
use crate::conversation::CUSTOM_INPUT;
use crate::dialects::responses::snapshot::ItemPlace;
use crate::json::{ObjectWriter, View, check, write_str};
use crate::render::put;

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallForm {
    /// A function call.
    Function,
    /// A call of a custom tool, whose input is free text.
    Custom,
    /// A call of a custom tool that the upstream made as a function call with one parameter.
    Wrapped,
}

/// The facts of a call that is about to be written.
#[derive(Clone, Debug)]
pub(super) struct CallStart {
    /// The decoder's number of the call.
    pub(super) number: u32,
    pub(super) form: CallForm,
    /// The upstream's id of the call.
    pub(super) call_id: String,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    /// The arguments or the input so far.
    pub(super) arguments: String,
    /// How far the arguments were scanned.
    pub(super) scan: ArgumentScan,
}

impl CallStart {
    /// Bytes that the call keeps.
    pub(super) fn held_bytes(&self) -> usize {
        let namespace = self.namespace.as_ref().map_or(0, String::capacity);
        self.call_id.capacity() + namespace + self.name.capacity() + self.arguments.capacity()
    }

    /// Whether nothing can follow the arguments so far.
    fn is_complete(&mut self) -> bool {
        self.form != CallForm::Custom && self.scan.run(self.arguments.as_bytes())
    }
}

/// Finds the end of a JSON object or array that comes in pieces. Each byte is visited once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ArgumentScan {
    at: usize,
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    is_complete: bool,
}

impl ArgumentScan {
    fn run(&mut self, text: &[u8]) -> bool {
        for byte in text.get(self.at..).unwrap_or_default() {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.in_string => self.is_escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.is_complete |= self.depth == 0;
                }
                _ => {}
            }
        }
        self.at = text.len();
        self.is_complete
    }
}

/// A call that is written.
#[derive(Clone, Debug)]
pub(super) struct CallItem {
    place: ItemPlace,
    deltas: DeltaFrames,
    call: CallStart,
}

impl CallItem {
    /// Opens a call and writes the arguments that it has.
    pub(super) fn open(place: ItemPlace, call: CallStart, frames: &mut Frames, out: &mut Vec<u8>) -> Self {
        let kind = match call.form {
            CallForm::Function => "response.function_call_arguments.delta",
            CallForm::Custom | CallForm::Wrapped => "response.custom_tool_call_input.delta",
        };
        let deltas = DeltaFrames::new(kind, &place, "");
        let item = Self { place, deltas, call };
        frames.item(ITEM_ADDED, &item.place, &item.json("in_progress", b"\"\""), out);
        if item.call.form != CallForm::Wrapped && !item.call.arguments.is_empty() {
            item.delta(&item.call.arguments, frames, out);
        }
        item
    }

    /// The decoder's number of the call.
    pub(super) fn number(&self) -> u32 {
        self.call.number
    }

    /// Bytes that the call keeps.
    pub(super) fn held_bytes(&self) -> usize {
        self.call.held_bytes() + self.deltas.held_bytes()
    }

    /// Whether nothing can follow the arguments so far.
    pub(super) fn is_complete(&mut self) -> bool {
        self.call.is_complete()
    }

    /// Writes a piece of the arguments. The input of a wrapped call is written when it is complete.
    pub(super) fn arguments(&mut self, fragment: &str, frames: &mut Frames, out: &mut Vec<u8>) {
        self.call.arguments.push_str(fragment);
        if self.call.form != CallForm::Wrapped {
            self.delta(fragment, frames, out);
        }
    }

    /// Ends the call and returns it.
    pub(super) fn close(mut self, status: &str, frames: &mut Frames, out: &mut Vec<u8>) -> Vec<u8> {
        match self.call.form {
            CallForm::Function if self.call.arguments.is_empty() => self.arguments("{}", frames, out),
            CallForm::Wrapped => {
                self.unwrap_input();
                if !self.call.arguments.is_empty() {
                    self.delta(&self.call.arguments, frames, out);
                }
            }
            CallForm::Function | CallForm::Custom => {}
        }
        let mut literal = Vec::with_capacity(self.call.arguments.len() + 16);
        write_str(&mut literal, &self.call.arguments);
        if self.call.form == CallForm::Function {
            frames.begin_item("response.function_call_arguments.done", &self.place, out);
            put(out, ",\"name\":");
            write_str(out, &self.call.name);
            put(out, ",\"arguments\":");
        } else {
            frames.begin_item("response.custom_tool_call_input.done", &self.place, out);
            put(out, ",\"input\":");
        }
        out.extend_from_slice(&literal);
        end(out);
        let item = self.json(status, &literal);
        frames.item(ITEM_DONE, &self.place, &item, out);
        item
    }

    /// The call as it is, for a response that failed.
    pub(super) fn partial(mut self) -> Vec<u8> {
        if self.call.form == CallForm::Wrapped {
            self.unwrap_input();
        }
        let mut literal = Vec::new();
        write_str(&mut literal, &self.call.arguments);
        self.json("incomplete", &literal)
    }

    fn unwrap_input(&mut self) {
        self.call.form = CallForm::Custom;
        self.call.arguments = input(&self.call.arguments);
    }

    fn delta(&self, fragment: &str, frames: &mut Frames, out: &mut Vec<u8>) {
        self.deltas.write(fragment, frames, out);
    }

    fn json(&self, status: &str, arguments: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(192 + arguments.len());
        let mut item = ObjectWriter::begin(&mut out);
        let is_function = self.call.form == CallForm::Function;
        item.string("id", &self.place.id);
        item.string("type", if is_function { "function_call" } else { "custom_tool_call" });
        item.string("status", status);
        item.string("call_id", &self.call.call_id);
        item.optional_string("namespace", self.call.namespace.as_deref());
        item.string("name", &self.call.name);
        item.raw(if is_function { "arguments" } else { "input" }, arguments);
        item.finish();
        out
    }
}

/// The input of a custom tool that was called as a function. Arguments that are not an object with an input are the input
/// themselves.
fn input(arguments: &str) -> String {
    let is_json = check(arguments).is_ok_and(|checked| checked.lone_surrogate.is_none());
    let [input] = if is_json { View::new(arguments).pick([CUSTOM_INPUT]) } else { [None] };
    match input {
        Some(input) => input.string().map_or_else(|| input.text().to_owned(), |text| text.into_owned()),
        None if arguments.trim() == "{}" => String::new(),
        None => arguments.to_owned(),
    }
}
