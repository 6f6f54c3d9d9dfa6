//! The client's body for an upstream that speaks the Messages API: byte for byte the same but for the model, the gateway's
//! own members, and signatures that the upstream would refuse.

use std::borrow::Cow;

use bytes::Bytes;

use super::edits::Edits;
use crate::conversation::word_id;
use crate::json::{Kind, View, write_str};

/// The members of the body that are the gateway's own.
const OWN_MEMBERS: [&str; 5] = ["routing", "cache", "models", "fallbacks", "fallback_model"];

/// The decision about a signature, or about the data of encrypted thinking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signature {
    /// The signature stays as it is.
    Keep,
    /// Another string takes its place: the upstream's own, which was sealed.
    Replace(String),
    /// The whole thinking block is left out.
    Drop,
}

/// The body for one upstream.
#[derive(Clone, Debug)]
pub struct NativeRequest {
    /// The body.
    pub body: Vec<u8>,
    /// Number of thinking blocks that were left out.
    pub dropped: usize,
    /// `thinking` was turned off, because the API requires the thinking of the current tool loop for a thinking budget.
    pub is_thinking_off: bool,
}

/// The parts of a body that depend on the service that hosts the API.
#[derive(Clone, Copy, Debug, Default)]
pub struct NativeHost<'a> {
    /// The upstream's name of the model. None = the URL names it, and the body has no `model`.
    pub model: Option<&'a str>,
    /// The body has no `stream`, because the URL says it.
    pub drops_stream: bool,
    /// Members that the service wants in the body, with their JSON text. The client's own values stay.
    pub members: &'a [(&'a str, &'a str)],
}

/// Makes the body for one upstream from a body that the translation accepted. `signature` decides about each signature
/// and each piece of encrypted thinking in the history. `call_id` returns the id that takes the place of a call's id, or
/// None if the id stays.
///
/// The body differs from the client's in these points only:
/// - `model` and the members of the host are as the host wants them, and the gateway's own members are removed;
/// - signatures are replaced, or their blocks are left out, as `signature` decides;
/// - ids of calls are replaced as `call_id` decides, and where the API refuses their characters;
/// - citations that the gateway made are left out, because the API checks them.
#[must_use]
pub fn request_body(
    bytes: &Bytes,
    host: &NativeHost<'_>,
    signature: impl FnMut(&str) -> Signature,
    call_id: impl FnMut(&str) -> Option<String>,
) -> NativeRequest {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return NativeRequest { body: bytes.to_vec(), dropped: 0, is_thinking_off: false };
    };
    let body = View::new(text);
    let mut splice = BodySplice { edits: Edits::new(text), signature, call_id, dropped: 0, is_bare: false };
    let [model, messages, thinking] = body.pick(["model", "messages", "thinking"]);
    let kept = splice.edits.remove_members(body, |name| {
        OWN_MEMBERS.contains(&name)
            || (name == "model" && host.model.is_none())
            || (name == "stream" && host.drops_stream)
    });
    if let Some((model, name)) = model.zip(host.model) {
        splice.edits.replace(model, literal(name));
    }
    splice.edits.append(body, kept, &missing_members(body, host.members));
    if let Some(messages) = messages {
        splice.messages(messages);
    }
    let budget = thinking.filter(|thinking| is_word(*thinking, "type", "enabled"));
    let is_thinking_off = splice.is_bare && budget.is_some();
    if let Some(thinking) = budget.filter(|_| is_thinking_off) {
        splice.edits.replace(thinking, br#"{"type":"disabled"}"#.to_vec());
    }
    NativeRequest { dropped: splice.dropped, body: splice.edits.apply(), is_thinking_off }
}

/// The members that the body does not have yet, as the text of an object without its braces.
fn missing_members(body: View<'_>, members: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in members {
        let [given] = body.pick([*name]);
        if given.is_none() {
            if !out.is_empty() {
                out.push(b',');
            }
            write_str(&mut out, name);
            out.push(b':');
            out.extend_from_slice(value.as_bytes());
        }
    }
    out
}

struct BodySplice<'t, F, I> {
    edits: Edits<'t>,
    signature: F,
    call_id: I,
    dropped: usize,
    /// The last assistant message calls tools without the thinking that led to the calls.
    is_bare: bool,
}

impl<'t, F, I> BodySplice<'t, F, I>
where
    F: FnMut(&str) -> Signature,
    I: FnMut(&str) -> Option<String>,
{
    fn messages(&mut self, messages: View<'t>) {
        let mut removed = Vec::new();
        for (at, message) in messages.elements().enumerate() {
            let [role, content] = message.pick(["role", "content"]);
            let Some(content) = content.filter(|content| content.kind() == Kind::Array) else {
                self.is_bare = false;
                continue;
            };
            if role.is_some_and(|role| role.text() == "\"assistant\"") {
                if self.assistant(content) {
                    removed.push(at);
                }
            } else {
                self.user(content);
            }
        }
        if !removed.is_empty() {
            self.edits.remove_elements(messages, &removed);
        }
    }

    /// Splices an assistant message. Returns true if no block of it is left.
    fn assistant(&mut self, content: View<'t>) -> bool {
        let mut dropped = Vec::new();
        let mut decided = Vec::new();
        let (mut count, mut first_kept, mut first_call) = (0, None, None);
        for (at, block) in content.elements().enumerate() {
            count += 1;
            let [kind] = block.pick(["type"]);
            let kind = kind.and_then(View::string).unwrap_or_default();
            let seal = match &*kind {
                "thinking" => block.pick(["signature"]),
                "redacted_thinking" => block.pick(["data"]),
                "tool_use" => {
                    let [id] = block.pick(["id"]);
                    first_call = first_call.or(id);
                    self.replace_id(id);
                    [None]
                }
                "text" => {
                    self.text(block);
                    [None]
                }
                _ => [None],
            };
            let [seal] = seal;
            let is_thought = matches!(&*kind, "thinking" | "redacted_thinking");
            if is_thought {
                let decision = match seal.and_then(View::string).filter(|seal| !seal.is_empty()) {
                    Some(seal) => (self.signature)(&seal),
                    // Thinking without a signature is another provider's.
                    None => Signature::Drop,
                };
                match (decision, seal) {
                    (Signature::Drop, _) => {
                        dropped.push(at);
                        continue;
                    }
                    (Signature::Replace(own), Some(seal)) => decided.push((seal, own)),
                    _ => {}
                }
            }
            first_kept.get_or_insert(is_thought);
        }
        self.dropped += dropped.len();
        // Calls of other providers come without thinking that the API could check.
        let is_foreign = first_call.and_then(View::string).is_some_and(|id| !id.starts_with("toolu_"));
        let begins_with_thought = first_kept == Some(true);
        self.is_bare = first_call.is_some() && !begins_with_thought && (!dropped.is_empty() || is_foreign);
        let is_empty = count > 0 && dropped.len() == count;
        if !is_empty {
            if !dropped.is_empty() {
                self.edits.remove_elements(content, &dropped);
            }
            for (seal, own) in decided {
                self.edits.replace(seal, literal(&own));
            }
        }
        is_empty
    }

    fn user(&mut self, content: View<'t>) {
        let mut has_results = false;
        for block in content.elements().filter(|block| is_word(*block, "type", "tool_result")) {
            has_results = true;
            let [id] = block.pick(["tool_use_id"]);
            self.replace_id(id);
        }
        self.is_bare &= has_results;
    }

    /// Replaces an id as `call_id` decides, and one with characters that the API refuses (`^[a-zA-Z0-9_-]+$`).
    fn replace_id(&mut self, id: Option<View<'t>>) {
        let Some((view, given)) = id.and_then(|view| Some((view, view.string()?))) else { return };
        let decided = (self.call_id)(&given);
        let id = decided.as_deref().unwrap_or(&given);
        let is_word = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        if decided.is_some() || !is_word {
            let sent = if is_word { Cow::Borrowed(id) } else { word_id(id) };
            self.edits.replace(view, literal(&sent));
        }
    }

    fn text(&mut self, block: View<'t>) {
        let [citations] = block.pick(["citations"]);
        let is_made = |citation: View<'_>| is_word(citation, "encrypted_index", "");
        if citations.is_some_and(|citations| citations.elements().any(is_made)) {
            self.edits.remove_members(block, |name| name == "citations");
        }
    }
}

fn is_word(object: View<'_>, name: &str, word: &str) -> bool {
    let [value] = object.pick([name]);
    value.and_then(View::string).unwrap_or(Cow::Borrowed("\0")) == word
}

fn literal(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    write_str(&mut out, text);
    out
}
