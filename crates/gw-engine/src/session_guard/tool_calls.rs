//! The tool calls of a conversation: which ones are equal, and which ones its newest turn made.

use std::collections::HashMap;

use gw_limits::ToolCall;
use gw_wire::json::View;
use sha2::{Digest, Sha256};

/// The most tool calls of one turn that count.
const MAX_NEWEST_CALLS: usize = 64;

/// The tool calls of a conversation.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ConversationCalls {
    /// The calls of the last assistant messages that follow each other.
    pub(crate) newest: Vec<ToolCall>,
    /// How often the most frequent call occurs.
    pub(crate) most_equal: u32,
}

impl ConversationCalls {
    /// Reads the `messages` of a chat, each text once.
    pub(crate) fn of(messages: View<'_>) -> Self {
        let mut counts: HashMap<u64, u32> = HashMap::new();
        let (mut all, mut was_assistant) = (Self::default(), false);
        for message in messages.elements() {
            let [role, calls, legacy] = message.pick(["role", "tool_calls", "function_call"]);
            let is_assistant = role.and_then(View::string).is_some_and(|role| role == "assistant");
            if is_assistant && !was_assistant {
                all.newest.clear();
            }
            was_assistant = is_assistant;
            let calls = calls.into_iter().flat_map(View::elements);
            for call in calls.chain(legacy).filter(|_| is_assistant) {
                let hash = hash_call(call);
                let count = counts.entry(hash).or_default();
                *count = count.saturating_add(1);
                all.most_equal = all.most_equal.max(*count);
                if all.newest.len() < MAX_NEWEST_CALLS {
                    let occurrence = occurrence(call, hash, all.newest.len());
                    all.newest.push(ToolCall { occurrence, call: hash });
                }
            }
        }
        all
    }
}

/// The hash of a tool's name and its arguments in canonical form. Arguments that are no JSON count by their text.
fn hash_call(call: View<'_>) -> u64 {
    let [function, custom] = call.pick(["function", "custom"]);
    // A legacy `function_call` is the function itself.
    let [name, arguments, input] = function.or(custom).unwrap_or(call).pick(["name", "arguments", "input"]);
    let name = name.and_then(View::string).unwrap_or_default();
    let arguments = arguments.or(input).and_then(View::string).unwrap_or_default();
    let arguments = if arguments.trim().is_empty() { "{}" } else { arguments.trim() };
    let mut hash = Sha256::new();
    hash.update(name.len().to_le_bytes());
    hash.update(name.as_bytes());
    match gw_cache::canonical_digest(arguments) {
        Some(digest) => {
            hash.update([1]);
            hash.update(digest);
        }
        None => {
            hash.update([0]);
            hash.update(arguments.as_bytes());
        }
    }
    first_bytes(hash)
}

/// The hash of one occurrence of a call: its id, or its place in the turn if it has none.
fn occurrence(call: View<'_>, hash: u64, place: usize) -> u64 {
    let [id] = call.pick(["id"]);
    let mut occurrence = Sha256::new();
    occurrence.update(hash.to_le_bytes());
    match id.and_then(View::string) {
        Some(id) => occurrence.update(id.as_bytes()),
        None => occurrence.update(place.to_le_bytes()),
    }
    first_bytes(occurrence)
}

fn first_bytes(hash: Sha256) -> u64 {
    let digest: [u8; 32] = hash.finalize().into();
    digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use gw_wire::json::View;
    use serde_json::{Value, json};

    use super::ConversationCalls;

    fn calls(messages: &Value) -> ConversationCalls {
        ConversationCalls::of(View::new(&messages.to_string()))
    }

    fn call(id: &str, name: &str, arguments: &str) -> Value {
        json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
    }

    fn turn(calls: &[Value]) -> Value {
        json!({ "role": "assistant", "content": null, "tool_calls": calls })
    }

    #[test]
    fn equal_calls_have_equal_names_and_equal_canonical_arguments() {
        let same = [
            call("a", "read", r#"{"path":"x","lines":[1,2]}"#),
            call("b", "read", " { \"lines\" : [1.0, 2], \"path\" : \"\\u0078\" } "),
        ];
        assert_eq!(calls(&json!([turn(&same[..1]), { "role": "tool" }, turn(&same[1..])])).most_equal, 2);
        let different = [
            call("a", "read", r#"{"path":"x"}"#),
            call("b", "read", r#"{"path":"y"}"#),
            call("c", "write", r#"{"path":"x"}"#),
            call("d", "read", r#"{"path":"x","more":1}"#),
            call("e", "read", "no json"),
        ];
        assert_eq!(calls(&json!([turn(&different)])).most_equal, 1);
        assert_eq!(calls(&json!([turn(&[call("a", "f", ""), call("b", "f", "{}")])])).most_equal, 2);
        let legacy = json!({ "role": "assistant", "function_call": { "name": "f", "arguments": "{}" } });
        assert_eq!(calls(&json!([legacy, { "role": "function" }, legacy])).most_equal, 2);
        let custom = json!({ "id": "a", "type": "custom", "custom": { "name": "f", "input": "ls" } });
        assert_eq!(calls(&json!([turn(&[custom.clone(), custom])])).most_equal, 2);
    }

    #[test]
    fn the_newest_turn_is_that_of_the_last_assistant_messages() {
        let [one, two, three] = ["1", "2", "3"].map(|id| call(id, "f", "{}"));
        let tool = json!({ "role": "tool", "tool_call_id": "1", "content": "x" });
        let after_tools =
            calls(&json!([turn(&[one.clone()]), tool, turn(&[two.clone()]), turn(&[three]), tool]));
        assert_eq!((after_tools.newest.len(), after_tools.most_equal), (2, 3));
        let again = calls(&json!([turn(&[two]), turn(&[call("3", "f", "{}")]), tool]));
        assert_eq!(again.newest, after_tools.newest, "the rest of the history does not matter");
        let answered = calls(
            &json!([turn(&[one]), tool, { "role": "assistant", "content": "done" }, { "role": "user" }]),
        );
        assert_eq!((answered.newest.len(), answered.most_equal), (0, 1));
        assert_eq!(calls(&json!([{ "role": "user", "content": "x" }])), ConversationCalls::default());
    }
}
