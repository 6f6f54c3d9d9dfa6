//! Tool calls in a stream: numbered from 0 for each choice, named once, with complete arguments.

use super::{MAX_TOOL_CALLS, Normaliser, Shape, StreamedTool};
use crate::failure::{Failure, FailureKind};
use crate::json::write_str;
use crate::render::{made_tool_id, put, put_int, tool_kind};

impl Normaliser {
    /// Numbers a new tool call of an open choice. None if the call is known already, or if there are too many.
    pub(super) fn register_tool(&mut self, choice: u32, call: u32, is_custom: bool) -> Option<usize> {
        let state = self.choices.get_mut(choice as usize)?;
        if state.position(call).is_some() {
            return None;
        }
        let position = state.tools.len();
        if position >= MAX_TOOL_CALLS {
            let message = "The upstream made too many tool calls.";
            self.failure = Some(Failure::new(FailureKind::InvalidResponse, message));
            return None;
        }
        state.tools.push(StreamedTool { has_arguments: false, is_custom });
        state.positions.insert(call, position);
        Some(position)
    }

    pub(super) fn tool_start(
        &mut self,
        choice: u32,
        call: u32,
        id: &str,
        name: &str,
        is_custom: bool,
        out: &mut Vec<u8>,
    ) {
        if self.opening.shape == Shape::Text || !self.open(choice, out) {
            return;
        }
        let Some(position) = self.register_tool(choice, call, is_custom) else { return };
        self.begin(choice, out);
        put(out, "\"tool_calls\":[{\"index\":");
        put_int(out, position as u64);
        put(out, ",\"id\":");
        if id.is_empty() {
            write_str(out, &made_tool_id(&self.opening.id, choice, position));
        } else {
            write_str(out, id);
        }
        put(out, tool_kind(is_custom));
        write_str(out, name);
        put(out, if is_custom { ",\"input\":\"\"}}]" } else { ",\"arguments\":\"\"}}]" });
        self.end(out);
    }

    pub(super) fn tool_arguments(&mut self, choice: u32, call: u32, fragment: &str, out: &mut Vec<u8>) {
        let Some(state) = self.choices.get_mut(choice as usize) else { return };
        let Some(position) = state.position(call) else { return };
        if fragment.is_empty() {
            return;
        }
        let mut is_custom = false;
        if let Some(tool) = state.tools.get_mut(position) {
            tool.has_arguments = true;
            is_custom = tool.is_custom;
        }
        self.arguments(choice, position, fragment, is_custom, out);
    }

    fn arguments(&self, choice: u32, position: usize, fragment: &str, is_custom: bool, out: &mut Vec<u8>) {
        self.begin(choice, out);
        put(out, "\"tool_calls\":[{\"index\":");
        put_int(out, position as u64);
        put(out, if is_custom { ",\"custom\":{\"input\":" } else { ",\"function\":{\"arguments\":" });
        write_str(out, fragment);
        put(out, "}}]");
        self.end(out);
    }

    /// Writes `{}` for each function call without arguments, because an empty string is not JSON.
    pub(super) fn complete_tools(&self, out: &mut Vec<u8>) {
        for (index, choice) in self.choices.iter().enumerate() {
            let index = u32::try_from(index).unwrap_or(0);
            for (position, tool) in choice.tools.iter().enumerate() {
                if !tool.has_arguments && !tool.is_custom {
                    self.arguments(index, position, "{}", false, out);
                }
            }
            if choice.function.as_ref().is_some_and(|function| function.is_named && !function.has_arguments) {
                self.function_piece(index, None, Some("{}"), out);
            }
        }
    }

    /// The new parts of a piece of a call in OpenAI's older form; None if it has none. Clients join the names, so that a repeated one
    /// is left out.
    pub(super) fn register_function<'a>(
        &mut self,
        choice: u32,
        name: Option<&'a str>,
        arguments: Option<&'a str>,
    ) -> Option<(Option<&'a str>, Option<&'a str>)> {
        let function = self.choices.get_mut(choice as usize)?.function.get_or_insert_default();
        let name = name.filter(|name| !name.is_empty() && !std::mem::replace(&mut function.is_named, true));
        let arguments = arguments.filter(|piece| name.is_some() || !piece.is_empty());
        function.has_arguments |= arguments.is_some_and(|piece| !piece.is_empty());
        (name.is_some() || arguments.is_some()).then_some((name, arguments))
    }

    pub(super) fn function_call(
        &mut self,
        choice: u32,
        name: Option<&str>,
        arguments: Option<&str>,
        out: &mut Vec<u8>,
    ) {
        if self.opening.shape == Shape::Text || !self.open(choice, out) {
            return;
        }
        if let Some((name, arguments)) = self.register_function(choice, name, arguments) {
            self.function_piece(choice, name, arguments, out);
        }
    }

    fn function_piece(&self, choice: u32, name: Option<&str>, arguments: Option<&str>, out: &mut Vec<u8>) {
        self.begin(choice, out);
        put(out, "\"function_call\":{");
        if let Some(name) = name {
            put(out, "\"name\":");
            write_str(out, name);
        }
        if let Some(arguments) = arguments {
            put(out, if name.is_some() { ",\"arguments\":" } else { "\"arguments\":" });
            write_str(out, arguments);
        }
        out.push(b'}');
        self.end(out);
    }
}
