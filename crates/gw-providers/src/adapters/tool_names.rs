//! Tool names that the provider accepts. Each provider refuses other names, both of offered tools and of calls in the
//! history. A refused name is changed everywhere in the request and restored in the answer.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use gw_wire::conversation::{Conversation, Role, ToolChoice, short_id};

/// The length that every provider accepts. Names have one byte per character.
const MAX_NAME_BYTES: usize = 64;

/// `^[a-zA-Z0-9_-]{1,64}$`: `ToolName` of Bedrock's Converse (botocore 1.44.5, whose pattern needs no anchors) and the
/// request validator of mistral-common 1.13.1 (read 2026-11-22).
pub(super) fn is_word(name: &str) -> bool {
    is_word_within(MAX_NAME_BYTES, name)
}

/// `^[a-zA-Z0-9_-]{1,128}$`: "Define tools" at platform.claude.com (read 2026-11-22).
pub(super) fn is_claude_name(name: &str) -> bool {
    is_word_within(128, name)
}

fn is_word_within(longest: usize, name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !name.is_empty() && name.len() <= longest && name.bytes().all(fits)
}

/// Changes the refused names. Returns each new name with the client's name.
pub(super) fn rename_refused(
    conversation: &mut Conversation<'_>,
    fits: impl Fn(&str) -> bool,
) -> Vec<(String, String)> {
    let mut names = RenamedTools::new(conversation, fits);
    if names.refused.is_empty() {
        return Vec::new();
    }
    for tool in &mut conversation.tools {
        names.change(&mut tool.name);
    }
    for message in &mut conversation.messages {
        message.tool_calls.iter_mut().for_each(|call| names.change(&mut call.name));
        if message.role == Role::Tool {
            message.name.iter_mut().for_each(|name| names.change(name));
        }
    }
    if let ToolChoice::Named(name) = &mut conversation.tool_choice {
        names.change(name);
    }
    conversation.allowed_tools.iter_mut().flatten().for_each(|name| names.change(name));
    let mut changed: Vec<_> = names.refused.drain().map(|(own, sent)| (sent, own)).collect();
    changed.sort_unstable();
    changed
}

struct RenamedTools {
    /// The new name of each refused name.
    refused: HashMap<String, String>,
}

impl RenamedTools {
    fn new(conversation: &Conversation<'_>, fits: impl Fn(&str) -> bool) -> Self {
        let offered = conversation.tools.iter().map(|tool| &*tool.name);
        let called = conversation.messages.iter().flat_map(|message| &message.tool_calls);
        let answered = conversation.messages.iter().filter(|message| message.role == Role::Tool);
        let all = offered
            .chain(called.map(|call| &*call.name))
            .chain(answered.filter_map(|message| message.name.as_deref()));
        let mut taken: HashSet<Cow<'_, str>> = HashSet::new();
        let mut refused = Vec::new();
        for name in all {
            if !taken.insert(Cow::Borrowed(name)) {
                continue;
            }
            if !fits(name) {
                refused.push(name);
            }
        }
        let mut changed = HashMap::with_capacity(refused.len());
        for name in refused {
            let new = free(name, &taken);
            taken.insert(Cow::Owned(new.clone()));
            changed.insert(name.to_owned(), new);
        }
        Self { refused: changed }
    }

    fn change(&self, name: &mut Cow<'_, str>) {
        if let Some(new) = self.refused.get(&**name) {
            *name = Cow::Owned(new.clone());
        }
    }
}

/// A new name of letters, digits and `_` that resembles this one and that no other tool has. It depends on this name
/// only, unless another tool would get the same one.
fn free(name: &str, taken: &HashSet<Cow<'_, str>>) -> String {
    let letters = name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' });
    let mut base: String = letters.take(MAX_NAME_BYTES - 1).collect();
    if !base.starts_with(|first: char| first.is_ascii_alphabetic()) {
        base.insert(0, 't');
    }
    let is_whole = name.chars().count() < MAX_NAME_BYTES;
    if is_whole && !taken.contains(&*base) {
        return base;
    }
    base.truncate(MAX_NAME_BYTES - 16);
    let mut new = format!("{base}_{}", short_id(name));
    let mut count = 1_u32;
    while taken.contains(&*new) {
        count += 1;
        new = format!("{base}_{}_{count}", short_id(name));
    }
    new
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use gw_wire::conversation::Conversation;
    use gw_wire::request::{RequestLimits, chat::parse_chat};
    use serde_json::json;

    use super::{is_claude_name, is_word, rename_refused};

    #[test]
    fn claude_takes_names_of_128_characters() {
        let [long, longer] = [128, 129].map(|len| "x".repeat(len));
        assert!(is_claude_name(&long) && !is_claude_name(&longer) && !is_word(&long));
        assert!(!is_claude_name("a.b") && !is_claude_name(""));
    }

    #[test]
    fn refused_tool_names_are_replaced_everywhere_and_mapped() {
        let long = "x".repeat(70);
        let call = |id: &str, name: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}});
        let tool = |name: &str| json!({"type": "function", "function": {"name": name}});
        let body = json!({"model": "m", "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "tool_calls": [call("1", "a.b"), call("2", "a_b"), call("3", "9 \u{6771}"), call("4", &long)]},
            {"role": "tool", "tool_call_id": "1", "content": "r"},
        ], "tools": [tool("a.b"), tool("fine-1")], "tool_choice": tool("a.b")});
        let request = parse_chat(Bytes::from(body.to_string()), &RequestLimits::default()).unwrap();
        let mut conversation = Conversation::of_chat(&request, 1);
        let changed = rename_refused(&mut conversation, is_word);
        let calls: Vec<&str> = conversation.messages[1].tool_calls.iter().map(|call| &*call.name).collect();
        assert!(calls.iter().all(|name| is_word(name)), "{calls:?}");
        assert_eq!(&calls[1..3], ["a_b", "t9__"]);
        assert!(calls[0].starts_with("a_b_") && calls[0] != calls[3]);
        assert_eq!(conversation.tools[0].name, calls[0]);
        assert_eq!(conversation.tools[1].name, "fine-1");
        assert_eq!(conversation.messages[2].name.as_deref(), Some(calls[0]));
        assert!(format!("{:?}", conversation.tool_choice).contains(calls[0]));
        let own = |sent: &str| changed.iter().find(|(name, _)| name == sent).map(|(_, own)| own.as_str());
        assert_eq!(
            (own(calls[0]), own("a_b"), own("t9__"), own(calls[3])),
            (Some("a.b"), None, Some("9 \u{6771}"), Some(long.as_str()))
        );
        assert!(rename_refused(&mut conversation, is_word).is_empty());
    }
}
