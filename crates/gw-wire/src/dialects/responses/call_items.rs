//! The calls of a client's own tools and the outputs of these calls, as items of a conversation.

use std::borrow::Cow;
use std::collections::HashSet;

use super::json_text::text;
use crate::json::View;

/// An item that is a part of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallOrOutput<'a> {
    /// The call itself.
    Call {
        /// `call_id`; "" without one.
        id: Cow<'a, str>,
        /// Whether the model did not finish the call.
        is_cut: bool,
    },
    /// The output of a call.
    Output {
        /// `call_id`.
        id: Cow<'a, str>,
    },
}

/// Reads an item as a part of a call of a function or a custom tool; None for every other item.
#[must_use]
pub fn call_item(item: View<'_>) -> Option<CallOrOutput<'_>> {
    let [kind, id, status] = item.pick(["type", "call_id", "status"]);
    match &*text(kind)? {
        "function_call" | "custom_tool_call" => {
            let is_cut = text(status).is_some_and(|status| status == "incomplete");
            Some(CallOrOutput::Call { id: text(id).unwrap_or_default(), is_cut })
        }
        "function_call_output" | "custom_tool_call_output" => Some(CallOrOutput::Output { id: text(id)? }),
        _ => None,
    }
}

/// The ids of the earlier calls that an input has outputs of. An output belongs to an earlier call if the input does not hold
/// the call itself. At most `most` items are read.
pub(super) fn answered_calls(input: View<'_>, most: usize) -> Vec<String> {
    let (mut own, mut answered) = (HashSet::new(), Vec::new());
    for item in input.elements().take(most) {
        match call_item(item) {
            Some(CallOrOutput::Call { id, .. }) => {
                own.insert(id);
            }
            Some(CallOrOutput::Output { id }) if !own.contains(&id) => answered.push(id.into_owned()),
            Some(CallOrOutput::Output { .. }) | None => {}
        }
    }
    answered
}
