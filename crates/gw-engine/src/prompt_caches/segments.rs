//! Hashes of the parts of a prompt in the order in which providers cache them: tools, system prompt, messages.

use std::hash::{DefaultHasher, Hash, Hasher};

use gw_wire::dialects::ClientDialect;
use gw_wire::json::{Kind, View};
use gw_wire::prompt_cache::MissCause;
use gw_wire::request::ChatRequest;
use gw_wire::utf8;

/// The messages that have a hash of their own. Changes of later ones are not seen.
const MAX_MESSAGES: usize = 512;
/// The bytes of messages that are hashed.
const MAX_BYTES: usize = 4 << 20;
/// Values that lie deeper are hashed as they are written.
const MAX_DEPTH: usize = 12;

/// Members that mark breakpoints. They move from request to request and are not part of the prompt.
const MARKERS: [&str; 3] = ["cache_control", "cachePoint", "prompt_cache_breakpoint"];

/// The hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segments {
    tools: u64,
    system: u64,
    messages: Box<[u64]>,
}

/// The parts of a body.
struct Parts<'r> {
    tools: [Option<View<'r>>; 2],
    system: Option<View<'r>>,
    messages: Option<View<'r>>,
}

impl Segments {
    /// The hashes of a request, as its client wrote it.
    pub(crate) fn of(request: &ChatRequest) -> Self {
        let Parts { tools, system, messages } = parts(request);
        let mut of_tools = DefaultHasher::new();
        tools.into_iter().flatten().for_each(|tools| hash(tools, MAX_DEPTH, &mut of_tools));
        let mut of_system = DefaultHasher::new();
        if let Some(system) = system {
            hash(system, MAX_DEPTH, &mut of_system);
        }
        let mut of_messages = Vec::new();
        let mut left = MAX_BYTES;
        let single = messages.filter(|messages| messages.kind() != Kind::Array);
        for message in single.into_iter().chain(messages.into_iter().flat_map(View::elements)) {
            left = left.saturating_sub(message.text().len());
            if left == 0 {
                break;
            }
            if is_of_system(message) {
                hash(message, MAX_DEPTH, &mut of_system);
                continue;
            }
            if of_messages.len() == MAX_MESSAGES {
                break;
            }
            let mut of_message = DefaultHasher::new();
            hash(message, MAX_DEPTH, &mut of_message);
            of_messages.push(of_message.finish());
        }
        Self { tools: of_tools.finish(), system: of_system.finish(), messages: of_messages.into() }
    }

    /// The first part that a later prompt does not share, and the index of a message. None: it begins with all of this prompt.
    pub(super) fn first_change(&self, later: &Self) -> Option<(MissCause, Option<u64>)> {
        if self.tools != later.tools {
            return Some((MissCause::Tools, None));
        }
        if self.system != later.system {
            return Some((MissCause::System, None));
        }
        let same = self.messages.iter().zip(&*later.messages).take_while(|(one, other)| one == other).count();
        let index = u64::try_from(same).ok()?;
        (same < self.messages.len()).then_some((MissCause::Message, Some(index)))
    }
}

/// The parts of the client's own body. The body of a chat, into which all others are translated, has the rest of a conversation that the
/// gateway keeps.
fn parts(request: &ChatRequest) -> Parts<'_> {
    let native = request.client.as_ref().map(|client| &client.native);
    let body = native.and_then(|native| utf8::text(&native.bytes).ok()).map(View::new);
    match (native.map(|native| native.dialect), body) {
        (Some(ClientDialect::Messages), Some(body)) => {
            let [tools, system, messages] = body.pick(["tools", "system", "messages"]);
            Parts { tools: [tools, None], system, messages }
        }
        (Some(ClientDialect::Responses), Some(body)) if body.pick(["previous_response_id"]) == [None] => {
            let [tools, system, messages] = body.pick(["tools", "instructions", "input"]);
            Parts { tools: [tools, None], system, messages }
        }
        (Some(ClientDialect::Gemini), Some(body)) => {
            let [tools, system, other, messages] =
                body.pick(["tools", "systemInstruction", "system_instruction", "contents"]);
            Parts { tools: [tools, None], system: system.or(other), messages }
        }
        _ => Parts {
            tools: [request.body.view("tools"), request.body.view("functions")],
            system: None,
            messages: request.body.view("messages"),
        },
    }
}

fn is_of_system(message: View<'_>) -> bool {
    let [role] = message.pick(["role"]);
    role.and_then(View::string).is_some_and(|role| matches!(&*role, "system" | "developer"))
}

/// Hashes a value without markers. A block of text is hashed as its text, because clients write a text as a block to mark it.
fn hash(value: View<'_>, depth: usize, hasher: &mut DefaultHasher) {
    match value.kind() {
        Kind::Object if depth > 0 => {
            let [kind, text] = value.pick(["type", "text"]);
            let is_text = kind.and_then(View::string).is_some_and(|kind| kind.ends_with("text"));
            if let Some(text) = text.filter(|_| is_text) {
                text.text().hash(hasher);
                return;
            }
            for (name, value) in value.members() {
                if !name.string().is_some_and(|name| MARKERS.contains(&&*name)) {
                    name.text().hash(hasher);
                    hash(value, depth - 1, hasher);
                }
            }
        }
        Kind::Array if depth > 0 => {
            value.elements().for_each(|element| hash(element, depth - 1, hasher));
        }
        _ => value.text().hash(hasher),
    }
}

#[cfg(test)]
mod tests {
    use gw_wire::request::{RequestLimits, parse_chat};
    use serde_json::{Value, json};

    use super::*;

    fn of(body: &Value) -> Segments {
        Segments::of(&parse_chat(body.to_string().into(), &RequestLimits::default()).expect("a chat"))
    }

    fn body(messages: &[Value]) -> Value {
        let tool = json!({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}});
        json!({"model": "m", "tools": [tool], "messages": messages})
    }

    #[test]
    fn the_first_change_is_named() {
        let system = json!({"role": "system", "content": "Be kind."});
        let user = |text: &str| json!({"role": "user", "content": text});
        let first = of(&body(&[system.clone(), user("1"), user("2")]));
        let longer = body(&[system.clone(), user("1"), user("2"), user("3")]);
        assert_eq!(first.first_change(&of(&longer)), None);
        let mut other_tools = longer.clone();
        other_tools["tools"][0]["function"]["name"] = json!("g");
        assert_eq!(first.first_change(&of(&other_tools)), Some((MissCause::Tools, None)));
        let mut other_system = longer;
        other_system["messages"][0]["content"] = json!("Be brief.");
        assert_eq!(first.first_change(&of(&other_system)), Some((MissCause::System, None)));
        let changed = body(&[system.clone(), user("1"), user("two")]);
        assert_eq!(first.first_change(&of(&changed)), Some((MissCause::Message, Some(1))));
        let shorter = body(&[system, user("1")]);
        assert_eq!(first.first_change(&of(&shorter)), Some((MissCause::Message, Some(1))));
    }

    #[test]
    fn a_marker_that_moves_is_no_change() {
        let marked = json!({"role": "user", "content":
            [{"type": "text", "text": "1", "cache_control": {"type": "ephemeral"}}]});
        let plain = json!({"role": "user", "content": "1"});
        assert_eq!(of(&body(&[marked])), of(&body(&[plain])));
    }

    #[test]
    fn the_number_of_hashes_is_bounded() {
        let messages: Vec<Value> =
            (0..600).map(|n| json!({"role": "user", "content": n.to_string()})).collect();
        assert_eq!(of(&body(&messages)).messages.len(), MAX_MESSAGES);
    }
}
