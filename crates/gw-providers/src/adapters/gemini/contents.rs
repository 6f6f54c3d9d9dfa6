//! The conversation as `contents`: roles user and model, calls and their responses by name, signatures brought back.
//!
//! Documented at <https://ai.google.dev/gemini-api/docs/function-calling> and
//! <https://ai.google.dev/gemini-api/docs/thought-signatures>.

use std::borrow::Cow;
use std::collections::HashMap;

use gw_wire::conversation::{
    Called, Content as Said, Conversation, Message, Part as Piece, Turn, UserItem, split_thought,
};
use gw_wire::failure::Failure;
use gw_wire::json::View;
use serde_json::value::RawValue;

use super::Flavour;
use super::media::{self, is_given_back};
use super::shape::{Content, FunctionCall, FunctionResponse, Part, Response};
use crate::adapters::replay::order::{self, arrange};
use crate::model_rules::{ModelRules, System};

/// Stands for a signature that the client could not give back (calls of another provider, or made by hand). Both of
/// Google's services document it.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Our name for the signatures of text in `reasoning_details`.
pub(in crate::adapters) const SIGNATURE_FORMAT: &str = "google-gemini-v1";

/// The order that needs no telling. Thoughts and signed texts do: nothing else says where they stood.
pub(super) const USUAL: &[(char, usize)] = &[('t', 1), ('i', usize::MAX), ('c', usize::MAX)];

/// How the `id` of an entry of `reasoning_details` begins that signs a picture of the answer; the picture's place follows.
pub(super) const IMAGE_ID: &str = "image_";

/// Google refuses an entry without a part and a part without text.
const NOTHING_SAID: &str = " ";

const USER: Option<&str> = Some("user");
const MODEL: Option<&str> = Some("model");

/// The system instruction and the contents. A conversation of system messages alone is said by the user, because
/// `contents` must not be empty.
pub(super) fn contents<'a>(
    conversation: &'a Conversation<'_>,
    rules: ModelRules,
    flavour: Flavour,
) -> Result<(Option<Content<'a>>, Vec<Content<'a>>), Failure> {
    let system: Vec<Part<'a>> = conversation.system().map(|(text, _)| Part::text(text)).collect();
    let pairs_by_id = flavour == Flavour::AiStudio && rules.signs;
    let writer = Writer { flavour, signs: rules.signs, pairs_by_id };
    let mut contents = Vec::new();
    for message_turn in turns(conversation) {
        writer.turn(message_turn, &mut contents)?;
    }
    if contents.is_empty() {
        let parts = if system.is_empty() { vec![Part::text(NOTHING_SAID)] } else { system };
        return Ok((None, vec![Content { role: USER, parts }]));
    }
    if system.is_empty() {
        return Ok((None, contents));
    }
    if rules.system == System::Taken {
        return Ok((Some(Content { role: None, parts: system }), contents));
    }
    match contents.first_mut().filter(|first| first.role == USER) {
        Some(first) => drop(first.parts.splice(..0, system)),
        None => contents.insert(0, Content { role: USER, parts: system }),
    }
    Ok((None, contents))
}

fn turns<'m>(conversation: &'m Conversation<'_>) -> Vec<Turn<'m, 'm>> {
    conversation.turns()
}

struct Writer {
    flavour: Flavour,
    /// A step's first call needs a signature, a made one if there is no other.
    signs: bool,
    /// Ids are sent along.
    pairs_by_id: bool,
}

impl Writer {
    fn turn<'a>(&self, turn: Turn<'a, 'a>, contents: &mut Vec<Content<'a>>) -> Result<(), Failure> {
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
                    contents.push(Content { role: USER, parts: results });
                }
                if !only_results {
                    if parts.is_empty() {
                        parts.push(Part::text(NOTHING_SAID));
                    }
                    contents.push(Content { role: USER, parts });
                }
            }
            Turn::Assistant(messages) => {
                let mut parts = Vec::new();
                for message in messages {
                    self.assistant(message, &mut parts)?;
                }
                if !parts.is_empty() {
                    contents.push(Content { role: MODEL, parts });
                }
            }
        }
        Ok(())
    }

    fn assistant<'a>(&self, message: &'a Message<'a>, parts: &mut Vec<Part<'a>>) -> Result<(), Failure> {
        if let Some(pieces) = arrange(message) {
            return self.arranged(pieces, parts);
        }
        for piece in &message.parts {
            parts.extend(self.piece(Cow::Borrowed(piece))?);
        }
        // A signature of text comes in a part of its own, behind the text: the model streams it so.
        let mut of_images = HashMap::new();
        for (image, data) in message.reasoning_details.iter().filter_map(|detail| signature(*detail)) {
            match image {
                Some(place) => drop(of_images.insert(place, data)),
                None => parts.push(Part { thought_signature: Some(data), ..Part::text("") }),
            }
        }
        for (place, image) in message.images.iter().enumerate().filter(|(_, image)| is_given_back(image)) {
            let thought_signature = of_images.remove(&place);
            parts.push(Part { thought_signature, ..media::image(image, self.flavour)? });
        }
        for (position, call) in message.tool_calls.iter().enumerate() {
            parts.push(self.call(call, position == 0));
        }
        Ok(())
    }

    /// A message as it came: Google wants all parts of a response back as they were (thought signatures).
    fn arranged<'a>(
        &self,
        pieces: Vec<order::ReplayedBlock<'a, 'a>>,
        parts: &mut Vec<Part<'a>>,
    ) -> Result<(), Failure> {
        let begin = parts.len();
        for piece in pieces {
            match piece {
                order::ReplayedBlock::Text(text) => parts.push(Part::text(text)),
                order::ReplayedBlock::Thought(text) => {
                    parts.push(Part { thought: Some(true), ..Part::text(text) })
                }
                order::ReplayedBlock::Signature(entry) => {
                    if let (Some((_, signed)), Some(part)) = (signature(entry), parts.last_mut()) {
                        part.thought_signature = Some(signed);
                    }
                }
                order::ReplayedBlock::Image(image) if is_given_back(image) => {
                    parts.push(media::image(image, self.flavour)?);
                }
                // It has the signature that it came with, or none.
                order::ReplayedBlock::Call(call) => parts.push(self.call(call, false)),
                // A picture that does not go back leaves its place to no signature.
                order::ReplayedBlock::Image(_) => parts.push(Part::text("")),
                order::ReplayedBlock::Detail(_) | order::ReplayedBlock::Plan(_) => {}
            }
        }
        let added = parts.split_off(begin.min(parts.len()));
        parts.extend(added.into_iter().filter(|part| !part.is_nothing()));
        Ok(())
    }

    fn call<'a>(&self, call: &'a Called<'_>, is_first: bool) -> Part<'a> {
        let (_, signature) = split_thought(&call.id);
        // Of calls made side by side only the first is signed.
        let made = (self.signs && is_first).then_some(NO_SIGNATURE);
        let function_call =
            FunctionCall { id: self.id(&call.id), name: Cow::Borrowed(&*call.name), args: arguments(call) };
        Part {
            function_call: Some(function_call),
            thought_signature: signature.or(made).map(Cow::Borrowed),
            ..Part::default()
        }
    }

    fn result<'a>(&self, id: &'a str, name: &'a str, message: Option<&'a Message<'a>>) -> Part<'a> {
        let text = match message.map(|message| message.parts.as_slice()) {
            None | Some([]) => Cow::Borrowed(""),
            Some([Piece { content: Said::Text(text), .. }]) => Cow::Borrowed(&**text),
            Some(_) => Cow::Owned(message.map(Message::text).unwrap_or_default()),
        };
        let response = match object(&text) {
            Some(object) => Response::Object(Cow::Owned(object)),
            None => Response::Wrapped { result: text },
        };
        let response = FunctionResponse { id: self.id(id), name: Cow::Borrowed(name), response };
        Part { function_response: Some(response), ..Part::default() }
    }

    /// The id as the model made it. Those that begin with `call_` are ours or OpenAI's: the model never saw them.
    fn id<'a>(&self, id: &'a str) -> Option<Cow<'a, str>> {
        let id = split_thought(id).0;
        (self.pairs_by_id && !id.is_empty() && !id.starts_with("call_")).then_some(Cow::Borrowed(id))
    }

    /// A piece of what was said; none when it is empty.
    fn piece<'a>(&self, piece: Cow<'a, Piece<'a>>) -> Result<Option<Part<'a>>, Failure> {
        let content = match piece {
            Cow::Borrowed(piece) => return self.said(&piece.content),
            Cow::Owned(piece) => piece.content,
        };
        // The turns never own a piece today; text is all that could be made up there.
        Ok(match content {
            Said::Text(text) | Said::Refusal(text) if !text.is_empty() => Some(Part::text(text)),
            _ => None,
        })
    }

    fn said<'a>(&self, content: &'a Said<'_>) -> Result<Option<Part<'a>>, Failure> {
        match content {
            Said::Text(text) | Said::Refusal(text) => {
                Ok((!text.is_empty()).then(|| Part::text(Cow::Borrowed(&**text))))
            }
            Said::Image(source) => media::image(source, self.flavour).map(Some),
            Said::File { source, name } => media::file(source, name.as_deref(), self.flavour).map(Some),
            Said::Audio { data, format } => Ok(Some(media::audio(data, format))),
        }
    }
}

/// The arguments as the client wrote them where they are an object, so that no number and no order is changed.
fn arguments<'a>(call: &'a Called<'_>) -> Cow<'a, RawValue> {
    match call.arguments_object() {
        Cow::Borrowed(object) => serde_json::from_str(object).map(Cow::Borrowed).unwrap_or_default(),
        Cow::Owned(object) => RawValue::from_string(object).map(Cow::Owned).unwrap_or_default(),
    }
}

/// The text when it is a JSON object.
fn object(text: &str) -> Option<Box<RawValue>> {
    let text = text.trim();
    if !text.starts_with('{') {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// An entry of `reasoning_details` that we gave the client: the signature, and the place of the picture that it signs; without
/// one it signs text.
fn signature(detail: View<'_>) -> Option<(Option<usize>, Cow<'_, str>)> {
    let [format, data, id] = detail.pick(["format", "data", "id"]);
    let data = data?.string().filter(|data| !data.is_empty())?;
    let place = id.and_then(View::string).and_then(|id| id.strip_prefix(IMAGE_ID)?.parse().ok());
    (format?.string()? == SIGNATURE_FORMAT).then_some((place, data))
}
