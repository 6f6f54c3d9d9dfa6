//! The names that a chat's members have in the client's dialect, for errors about a request that was translated into a chat.

use std::borrow::Cow;

use super::client_dialect::ClientDialect;

/// The beginnings of the messages that name a member.
const OPENINGS: [&str; 6] = [
    "Invalid '",
    "Invalid type for '",
    "Missing required parameter: '",
    "Unknown parameter: '",
    "Unsupported parameter: '",
    "Unsupported value: '",
];

/// A member of a chat, and its name in the client's dialect.
type MemberName = (&'static str, &'static str);

/// The chat counts its messages and their parts differently, so an error names the whole conversation. Some providers name the
/// kind of a part only.
const RESPONSES: [MemberName; 8] = [
    ("messages", "input"),
    ("image_url", "input"),
    ("file", "input"),
    ("max_completion_tokens", "max_output_tokens"),
    ("max_tokens", "max_output_tokens"),
    ("response_format", "text.format"),
    ("reasoning_effort", "reasoning.effort"),
    ("verbosity", "text.verbosity"),
];
const MESSAGES: [MemberName; 8] = [
    ("messages", "messages"),
    ("image_url", "messages"),
    ("file", "messages"),
    ("max_completion_tokens", "max_tokens"),
    ("stop", "stop_sequences"),
    ("response_format", "output_config.format"),
    ("reasoning_effort", "output_config.effort"),
    ("parallel_tool_calls", "tool_choice.disable_parallel_tool_use"),
];
const GEMINI: [MemberName; 20] = [
    ("messages", "contents"),
    ("image_url", "contents"),
    ("file", "contents"),
    ("max_completion_tokens", "generationConfig.maxOutputTokens"),
    ("max_tokens", "generationConfig.maxOutputTokens"),
    ("n", "generationConfig.candidateCount"),
    ("stop", "generationConfig.stopSequences"),
    ("temperature", "generationConfig.temperature"),
    ("top_p", "generationConfig.topP"),
    ("top_k", "generationConfig.topK"),
    ("presence_penalty", "generationConfig.presencePenalty"),
    ("frequency_penalty", "generationConfig.frequencyPenalty"),
    ("seed", "generationConfig.seed"),
    ("logprobs", "generationConfig.responseLogprobs"),
    ("top_logprobs", "generationConfig.logprobs"),
    ("response_format", "generationConfig.responseMimeType"),
    ("modalities", "generationConfig.responseModalities"),
    ("reasoning_effort", "generationConfig.thinkingConfig"),
    ("tool_choice", "toolConfig.functionCallingConfig"),
    ("dimensions", "outputDimensionality"),
];

/// A message that begins with a member.
struct NamingMessage<'m> {
    opening: &'static str,
    member: &'m str,
    rest: &'m str,
}

impl<'m> NamingMessage<'m> {
    fn read(message: &'m str) -> Option<Self> {
        OPENINGS.into_iter().find_map(|opening| {
            let (member, rest) = message.strip_prefix(opening)?.split_once('\'')?;
            Some(Self { opening, member, rest })
        })
    }
}

/// The member that a message begins with, as in `Invalid 'input[0].role': …`.
pub(super) fn named_member(message: &str) -> Option<&str> {
    NamingMessage::read(message).map(|found| found.member)
}

/// The message of an error with the name of the client's own member in the place of the chat's. `code` is the code of the
/// error.
pub(super) fn in_own_names<'m>(dialect: ClientDialect, message: &'m str, code: &str) -> Cow<'m, str> {
    // The gateway reads the client's own body first. It may hold a member by the name of a chat's.
    if code == "invalid_json" {
        return Cow::Borrowed(message);
    }
    let Some(NamingMessage { opening, member, rest }) = NamingMessage::read(message) else {
        return Cow::Borrowed(message);
    };
    match own_name(dialect, member) {
        Some(own) => Cow::Owned(format!("{opening}{own}'{rest}")),
        None => Cow::Borrowed(message),
    }
}

/// The client's name for a member of the chat; None: both have one name, or the member is the client's own.
fn own_name(dialect: ClientDialect, member: &str) -> Option<&'static str> {
    let names: &[MemberName] = match dialect {
        ClientDialect::OpenAi => return None,
        ClientDialect::Responses => &RESPONSES,
        ClientDialect::Messages => &MESSAGES,
        ClientDialect::Gemini => &GEMINI,
    };
    let (top, path) = member.split_at(member.find(['.', '[', ' ']).unwrap_or(member.len()));
    if top == "tools" && ["].function.", "].custom."].iter().any(|inside| path.contains(inside)) {
        // Only a chat has an object around the members of a tool.
        return Some("tools");
    }
    names.iter().find(|(chat, _)| *chat == top).map(|(_, own)| *own)
}

#[cfg(test)]
mod tests {
    use super::{in_own_names, named_member};
    use crate::dialects::client_dialect::ClientDialect::{Gemini, Messages, OpenAi, Responses};

    #[test]
    fn the_members_of_a_chat_have_the_names_of_the_clients_own() {
        for (dialect, member, own) in [
            (OpenAi, "messages[0].content", "messages[0].content"),
            (Responses, "messages[0].content[1].image_url.url", "input"),
            (Responses, "messages[0].content[1].file (file_id)", "input"),
            (Responses, "max_completion_tokens", "max_output_tokens"),
            (Responses, "response_format.json_schema.schema", "text.format"),
            (Responses, "reasoning_effort", "reasoning.effort"),
            (Responses, "tools[2].function.parameters", "tools"),
            (Responses, "tools[2].custom.format", "tools"),
            (Responses, "tools[2].name", "tools[2].name"),
            (Responses, "input[0].content", "input[0].content"),
            (Responses, "temperature", "temperature"),
            (Messages, "messages[3].content", "messages"),
            (Messages, "max_completion_tokens", "max_tokens"),
            (Messages, "max_tokens", "max_tokens"),
            (Messages, "stop", "stop_sequences"),
            (Gemini, "messages", "contents"),
            (Gemini, "n", "generationConfig.candidateCount"),
            (Gemini, "tools[0].functionDeclarations[1].name", "tools[0].functionDeclarations[1].name"),
            (Gemini, "contents[0].parts", "contents[0].parts"),
        ] {
            let message = format!("Invalid '{member}': it isn't right.");
            let expected = format!("Invalid '{own}': it isn't right.");
            assert_eq!(in_own_names(dialect, &message, "invalid_value"), expected, "{dialect:?}");
        }
    }

    #[test]
    fn other_messages_stay_as_they_are() {
        let twice = "Invalid 'max_tokens': the member is given more than once.";
        assert_eq!(in_own_names(Responses, twice, "invalid_json"), twice);
        for message in ["", "Invalid 'messages", "The model 'messages' does not exist."] {
            assert_eq!(in_own_names(Responses, message, "invalid_value"), message);
            assert_eq!(named_member(message), None);
        }
        assert_eq!(named_member("Unsupported value: 'n' is 2."), Some("n"));
    }
}
