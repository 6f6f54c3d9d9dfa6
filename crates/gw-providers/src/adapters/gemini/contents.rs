//! The conversation as `contents`: roles user and model, function calls and responses by name, and thought signatures.
//!
//! <https://ai.google.dev/gemini-api/docs/function-calling> and
//! <https://ai.google.dev/gemini-api/docs/thought-signatures>.

use std::borrow::Cow;
use std::collections::HashMap;

use gw_wire::conversation::{
    Content, Conversation, Message, Part, PastToolCall, Turn, UserItem, split_thought,
};
use gw_wire::failure::Failure;
use gw_wire::json::View;
use serde_json::value::RawValue;

use super::flavour::Flavour;
use super::media::{self, can_be_sent_back};
use super::wire::{FunctionResponse, FunctionResult, GeminiContent, GeminiFunctionCall, GeminiPart};
use crate::adapters::replay::order::{self, arrange};
use crate::model_rules::{ModelRules, System};

/// The documented placeholder for a signature that is missing because another provider or a person made the call. Both
/// of Google's services take it.
const PLACEHOLDER_SIGNATURE: &str = "skip_thought_signature_validator";

/// The `format` of signatures of text in `reasoning_details`.
pub(in crate::adapters) const SIGNATURE_FORMAT: &str = gw_wire::event::GEMINI_SIGNATURES;

/// The usual order of an answer's blocks, which needs no order entry. Thoughts and signed texts need one, because
/// nothing else records where they were.
pub(super) const USUAL_ORDER: &[(char, usize)] = &[('t', 1), ('i', usize::MAX), ('c', usize::MAX)];

/// The prefix of the `id` of a `reasoning_details` entry that signs an image of the answer. The index of the image
/// follows it.
pub(super) const IMAGE_ID_PREFIX: &str = "image_";

/// The prefix of the `id` of an entry that signs a text. The bytes of the text follow it: they are the last ones of the text
/// before the entry.
pub(super) const TEXT_ID_PREFIX: &str = "text_";

/// Google refuses a content without parts and a part without text.
const PLACEHOLDER_TEXT: &str = " ";

const USER: Option<&str> = Some("user");
const MODEL: Option<&str> = Some("model");

/// Returns the system instruction and the contents. A conversation of system messages only becomes a user turn, because
/// `contents` must not be empty.
pub(super) fn contents<'a>(
    conversation: &'a Conversation<'_>,
    rules: ModelRules,
    flavour: Flavour,
) -> Result<(Option<GeminiContent<'a>>, Vec<GeminiContent<'a>>), Failure> {
    let system: Vec<GeminiPart<'a>> = conversation.system().map(|(text, _)| GeminiPart::text(text)).collect();
    let has_ids = flavour == Flavour::AiStudio && rules.signs;
    let writer = ContentsWriter { flavour, needs_signatures: rules.signs, has_ids };
    let mut contents = Vec::new();
    for turn in conversation.turns() {
        writer.turn(turn, &mut contents)?;
    }
    if contents.is_empty() {
        let parts = if system.is_empty() { vec![GeminiPart::text(PLACEHOLDER_TEXT)] } else { system };
        return Ok((None, vec![GeminiContent { role: USER, parts }]));
    }
    if system.is_empty() {
        return Ok((None, contents));
    }
    if rules.system == System::Taken {
        return Ok((Some(GeminiContent { role: None, parts: system }), contents));
    }
    match contents.first_mut().filter(|first| first.role == USER) {
        Some(first) => drop(first.parts.splice(..0, system)),
        None => contents.insert(0, GeminiContent { role: USER, parts: system }),
    }
    Ok((None, contents))
}

struct ContentsWriter {
    flavour: Flavour,
    /// The first call of a step needs a signature, if necessary the placeholder.
    needs_signatures: bool,
    /// Calls and responses carry ids.
    has_ids: bool,
}

impl ContentsWriter {
    fn turn<'a>(&self, turn: Turn<'a, 'a>, contents: &mut Vec<GeminiContent<'a>>) -> Result<(), Failure> {
        match turn {
            Turn::User(items) => {
                let mut results = Vec::new();
                let mut parts = Vec::new();
                for item in items {
                    match item {
                        UserItem::Result { id, name, message } => {
                            results.push(self.result(id, name, message))
                        }
                        UserItem::Part(piece) => parts.extend(self.piece(piece)?),
                    }
                }
                let only_results = !results.is_empty() && parts.is_empty();
                if !results.is_empty() {
                    contents.push(GeminiContent { role: USER, parts: results });
                }
                if !only_results {
                    if parts.is_empty() {
                        parts.push(GeminiPart::text(PLACEHOLDER_TEXT));
                    }
                    contents.push(GeminiContent { role: USER, parts });
                }
            }
            Turn::Assistant(messages) => {
                let mut parts = Vec::new();
                for message in messages {
                    self.assistant(message, &mut parts)?;
                }
                if !parts.is_empty() {
                    contents.push(GeminiContent { role: MODEL, parts });
                }
            }
        }
        Ok(())
    }

    fn assistant<'a>(
        &self,
        message: &'a Message<'a>,
        parts: &mut Vec<GeminiPart<'a>>,
    ) -> Result<(), Failure> {
        if let Some(pieces) = arrange(message) {
            return self.assistant_in_order(pieces, parts);
        }
        for piece in &message.parts {
            parts.extend(self.piece(Cow::Borrowed(piece))?);
        }
        // The signature of a text goes into a part of its own behind the text, as the model streams it.
        let mut image_signatures = HashMap::new();
        for (image, data) in message.reasoning_details.iter().filter_map(|detail| signature(*detail)) {
            match image {
                Some(place) => drop(image_signatures.insert(place, data)),
                None => parts.push(GeminiPart { thought_signature: Some(data), ..GeminiPart::text("") }),
            }
        }
        for (place, image) in message.images.iter().enumerate().filter(|(_, image)| can_be_sent_back(image)) {
            let thought_signature = image_signatures.remove(&place);
            parts.push(GeminiPart { thought_signature, ..media::image(image, self.flavour)? });
        }
        for (position, call) in message.tool_calls.iter().enumerate() {
            parts.push(self.call(call, position == 0));
        }
        Ok(())
    }

    /// Writes an assistant message in its recorded order: Google wants every part of a response back unchanged (thought
    /// signatures).
    fn assistant_in_order<'a>(
        &self,
        pieces: Vec<order::ReplayedBlock<'a, 'a>>,
        parts: &mut Vec<GeminiPart<'a>>,
    ) -> Result<(), Failure> {
        let begin = parts.len();
        let mut has_call = false;
        for piece in pieces {
            match piece {
                order::ReplayedBlock::Text(text) => parts.push(GeminiPart::text(text)),
                order::ReplayedBlock::Thought(text) => {
                    parts.push(GeminiPart { thought: Some(true), ..GeminiPart::text(text) })
                }
                order::ReplayedBlock::Signature(entry) | order::ReplayedBlock::Detail(entry) => {
                    sign_last(entry, parts);
                }
                order::ReplayedBlock::Image(image) if can_be_sent_back(image) => {
                    parts.push(media::image(image, self.flavour)?);
                }
                order::ReplayedBlock::Call(call) => {
                    parts.push(self.call(call, !has_call));
                    has_call = true;
                }
                // An empty part takes the place of an image that is not sent back, so that the image's signature does
                // not apply to another part.
                order::ReplayedBlock::Image(_) => parts.push(GeminiPart::text("")),
                order::ReplayedBlock::Plan(_) => {}
            }
        }
        let added = parts.split_off(begin.min(parts.len()));
        parts.extend(added.into_iter().filter(|part| !part.is_empty_text()));
        Ok(())
    }

    fn call<'a>(&self, call: &'a PastToolCall<'_>, is_first: bool) -> GeminiPart<'a> {
        let (_, signature) = split_thought(&call.id);
        // Only the first of several parallel calls is signed.
        let made = (self.needs_signatures && is_first).then_some(PLACEHOLDER_SIGNATURE);
        let function_call = GeminiFunctionCall {
            id: self.id(&call.id),
            name: Cow::Borrowed(&*call.name),
            args: arguments(call),
        };
        GeminiPart {
            function_call: Some(function_call),
            thought_signature: signature.or(made).map(Cow::Borrowed),
            ..GeminiPart::default()
        }
    }

    fn result<'a>(&self, id: &'a str, name: &'a str, message: Option<&'a Message<'a>>) -> GeminiPart<'a> {
        let text = match message.map(|message| message.parts.as_slice()) {
            None | Some([]) => Cow::Borrowed(""),
            Some([Part { content: Content::Text(text), .. }]) => Cow::Borrowed(&**text),
            Some(_) => Cow::Owned(message.map(Message::text).unwrap_or_default()),
        };
        let response = match object(&text) {
            Some(object) => FunctionResult::Object(Cow::Owned(object)),
            None => FunctionResult::Wrapped { result: text },
        };
        let response = FunctionResponse { id: self.id(id), name: Cow::Borrowed(name), response };
        GeminiPart { function_response: Some(response), ..GeminiPart::default() }
    }

    /// Returns the id that the model made. Ids that begin with `call_` come from the gateway or from OpenAI, so the
    /// model does not know them.
    fn id<'a>(&self, id: &'a str) -> Option<Cow<'a, str>> {
        let id = split_thought(id).0;
        (self.has_ids && !id.is_empty() && !id.starts_with("call_")).then_some(Cow::Borrowed(id))
    }

    /// Translates a part; None if it is empty.
    fn piece<'a>(&self, piece: Cow<'a, Part<'a>>) -> Result<Option<GeminiPart<'a>>, Failure> {
        let content = match piece {
            Cow::Borrowed(piece) => return self.content_part(&piece.content),
            Cow::Owned(piece) => piece.content,
        };
        // Turns borrow all parts today. An owned part could only be text that the gateway adds.
        Ok(match content {
            Content::Text(text) | Content::Refusal(text) if !text.is_empty() => Some(GeminiPart::text(text)),
            _ => None,
        })
    }

    fn content_part<'a>(&self, content: &'a Content<'_>) -> Result<Option<GeminiPart<'a>>, Failure> {
        match content {
            Content::Text(text) | Content::Refusal(text) => {
                Ok((!text.is_empty()).then(|| GeminiPart::text(Cow::Borrowed(&**text))))
            }
            Content::Image(source) => media::image(source, self.flavour).map(Some),
            Content::File { source, name } => media::file(source, name.as_deref(), self.flavour).map(Some),
            Content::Audio { data, format } => Ok(Some(media::audio(data, format))),
        }
    }
}

/// Returns the arguments. An object stays as the client wrote it, so that no number and no order changes.
fn arguments<'a>(call: &'a PastToolCall<'_>) -> Cow<'a, RawValue> {
    match call.arguments_object() {
        Cow::Borrowed(object) => serde_json::from_str(object).map(Cow::Borrowed).unwrap_or_default(),
        Cow::Owned(object) => RawValue::from_string(object).map(Cow::Owned).unwrap_or_default(),
    }
}

/// Parses the text if it is a JSON object.
fn object(text: &str) -> Option<Box<RawValue>> {
    let text = text.trim();
    if !text.starts_with('{') {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// Gives an entry's signature to the part before it. Clients join texts, so the signed end of a text is cut off first.
fn sign_last<'a>(entry: View<'a>, parts: &mut Vec<GeminiPart<'a>>) {
    let Some((_, signed)) = signature(entry) else { return };
    let [id] = entry.pick(["id"]);
    let len: Option<usize> =
        id.and_then(View::string).and_then(|id| id.strip_prefix(TEXT_ID_PREFIX)?.parse().ok());
    let Some(last) = parts.last_mut() else { return };
    let own = match (&mut last.text, len) {
        // The signed text was empty.
        (None, Some(0)) => Some(Cow::Borrowed("")),
        (Some(text), Some(len)) => end_of(text, len),
        _ => None,
    };
    match own {
        Some(own) => {
            let thought = last.thought;
            parts.push(GeminiPart { thought, thought_signature: Some(signed), ..GeminiPart::text(own) });
        }
        None => last.thought_signature = Some(signed),
    }
}

/// Cuts the last `len` bytes off a text; None if they are the whole text, or if the text has no such end.
fn end_of<'a>(text: &mut Cow<'a, str>, len: usize) -> Option<Cow<'a, str>> {
    let at = text.len().checked_sub(len).filter(|at| *at > 0 && text.is_char_boundary(*at))?;
    Some(match text {
        Cow::Borrowed(whole) => {
            let (before, own) = whole.split_at(at);
            *whole = before;
            Cow::Borrowed(own)
        }
        Cow::Owned(whole) => Cow::Owned(whole.split_off(at)),
    })
}

/// Reads an entry of `reasoning_details` that the gateway gave the client: the signature, and the index of the image
/// that it signs. Without an index it signs text.
fn signature(detail: View<'_>) -> Option<(Option<usize>, Cow<'_, str>)> {
    let [format, data, id] = detail.pick(["format", "data", "id"]);
    let data = data?.string().filter(|data| !data.is_empty())?;
    let place = id.and_then(View::string).and_then(|id| id.strip_prefix(IMAGE_ID_PREFIX)?.parse().ok());
    (format?.string()? == SIGNATURE_FORMAT).then_some((place, data))
}
