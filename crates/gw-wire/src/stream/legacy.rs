//! Function calls in OpenAI's older form, `function_call`, in streams of clients whose dialects have calls of tools alone.
//!
//! Some upstreams send each call in both forms, and the newer form may come last. So a legacy call waits for the end of its choice.

use std::collections::BTreeMap;

use crate::event::Event;

/// The legacy calls of a stream, by their choices.
#[derive(Debug, Default)]
pub(super) struct LegacyCalls(BTreeMap<u32, LegacyCall>);

/// The only legacy call of a choice.
#[derive(Debug, Default)]
struct LegacyCall {
    name: String,
    arguments: String,
    /// The choice has calls of tools. They are the same calls, or the ones that count.
    has_tools: bool,
}

impl LegacyCalls {
    /// Bytes that are kept.
    pub(super) fn held_bytes(&self) -> usize {
        self.0.values().map(|call| call.name.capacity() + call.arguments.capacity()).sum()
    }

    /// Passes an event to the encoder, which accepts it. A legacy call is kept until its choice ends.
    pub(super) fn pass(&mut self, event: &Event<'_>, mut accept: impl FnMut(&Event<'_>)) {
        match event {
            Event::FunctionCall { choice, name, arguments } => {
                let call = self.0.entry(*choice).or_default();
                if !call.has_tools {
                    // Some upstreams repeat the name.
                    if call.name.is_empty() {
                        call.name.push_str(name.as_deref().unwrap_or_default());
                    }
                    call.arguments.push_str(arguments.as_deref().unwrap_or_default());
                }
                return;
            }
            Event::ToolStart { choice, .. } | Event::CustomStart { choice, .. } => {
                self.0.insert(*choice, LegacyCall { has_tools: true, ..LegacyCall::default() });
            }
            Event::Finish { choice, .. } => self.write(*choice, &mut accept),
            _ => {}
        }
        accept(event);
    }

    /// Writes the legacy call of a choice that ends as its call of a tool.
    fn write(&mut self, choice: u32, accept: &mut impl FnMut(&Event<'_>)) {
        let Some(LegacyCall { name, arguments, .. }) = self.0.remove(&choice) else { return };
        if name.is_empty() {
            return;
        }
        let call = 0;
        accept(&Event::ToolStart { choice, call, id: "".into(), name: name.into() });
        if !arguments.is_empty() {
            accept(&Event::ToolArgs { choice, call, fragment: arguments.into() });
        }
    }
}
