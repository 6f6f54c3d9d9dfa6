//! One message of a client: the request of a turn, and the members that only a socket knows.

use std::borrow::Cow;

use bytes::Bytes;
use gw_engine::error::{Error, Kind, Result};
use gw_wire::json::{Kind as JsonKind, ObjectWriter, View, check, write_str};

use super::earlier_turns::EarlierTurn;

/// The longest `stream_id` in bytes. Every event of a turn repeats it.
const MAX_STREAM_ID_BYTES: usize = 256;
/// The members that are not part of the request.
const OWN_MEMBERS: [&str; 5] = ["type", "stream", "generate", "stream_id", "background"];

/// The request of a turn.
#[derive(Debug)]
pub(super) struct TurnRequest {
    /// The body of `POST /v1/responses`.
    pub(super) body: Bytes,
    /// The client wants an id for its next turn and no answer.
    pub(super) is_warm_up: bool,
    /// The conversation up to this turn's answer, whose id is not known yet.
    pub(super) conversation: EarlierTurn,
}

/// The `stream_id` of a message, as it was sent. The message is not checked yet, so the id is: every event of the turn repeats it,
/// and must stay JSON.
pub(super) fn stream_id_of(message: &str) -> Option<String> {
    let [id] = View::new(message).pick(["stream_id"]);
    let is_usable = |id: &&str| id.len() <= MAX_STREAM_ID_BYTES && *id != "null" && check(id).is_ok();
    id.map(View::text).filter(is_usable).map(str::to_owned)
}

/// Reads a message. `earlier` finds a turn that the socket remembers. Whatever else is wrong with the request, the checks of
/// `POST /v1/responses` find.
///
/// # Errors
/// The message is no `response.create`, or a member that only sockets know has another value than it may have.
pub(super) fn read(message: &str, earlier: impl Fn(&str) -> Option<EarlierTurn>) -> Result<TurnRequest> {
    let view = View::new(message);
    if check(message).is_err() || view.kind() != JsonKind::Object {
        return Err(refused("Invalid JSON: a message is one JSON object.", "invalid_json"));
    }
    let names = ["type", "generate", "stream_id", "background", "previous_response_id", "input"];
    let [kind, generate, stream_id, background, previous, input] = view.pick(names);
    if kind.and_then(View::string).as_deref() != Some("response.create") {
        return Err(refused("Invalid 'type': expected 'response.create'.", "invalid_value"));
    }
    if background.is_some_and(|value| !["false", "null"].contains(&value.text())) {
        let message =
            "Invalid 'background': a WebSocket has no responses in the background. Use POST /v1/responses.";
        return Err(refused(message, "unsupported_value"));
    }
    if stream_id.is_some_and(|id| id.text().len() > MAX_STREAM_ID_BYTES) {
        return Err(refused("Invalid 'stream_id': expected at most 256 bytes.", "invalid_value"));
    }
    let is_warm_up = match generate.map(View::text) {
        None | Some("true" | "null") => false,
        Some("false") => true,
        Some(_) => return Err(refused("Invalid 'generate': expected true or false.", "invalid_value")),
    };
    let previous = previous.and_then(View::string);
    let known = previous.as_deref().and_then(earlier);
    // A turn that the socket does not remember may be stored.
    let root = known.as_ref().map_or_else(|| previous.map(Cow::into_owned), |known| known.root.clone());
    let items = input.and_then(items_of);
    let mut conversation = known.clone().unwrap_or_default();
    conversation.root.clone_from(&root);
    conversation.items.extend(items.filter(|items| !items.is_empty()).map(Bytes::from));
    let continued = known.map(|_| (root.as_deref(), conversation.items.as_slice()));
    let body = write_body(view, continued).into();
    Ok(TurnRequest { body, is_warm_up, conversation })
}

/// Writes the body. `continued` is the conversation of a turn that the socket remembers, with the new items.
fn write_body(message: View<'_>, continued: Option<(Option<&str>, &[Bytes])>) -> Vec<u8> {
    let bytes: usize = continued.iter().flat_map(|(_, items)| items.iter()).map(Bytes::len).sum();
    let mut out = Vec::with_capacity(message.text().len() + bytes + 64);
    let mut body = ObjectWriter::begin(&mut out);
    for (name, value) in message.members() {
        let Some(name) = name.string() else { continue };
        let is_replaced = continued.is_some() && ["previous_response_id", "input"].contains(&&*name);
        if !OWN_MEMBERS.contains(&&*name) && !is_replaced {
            body.raw(&name, value.text());
        }
    }
    if let Some((root, items)) = continued {
        if let Some(root) = root {
            write_str(body.member("previous_response_id"), root);
        }
        let input = body.member("input");
        input.push(b'[');
        for (at, piece) in items.iter().enumerate() {
            input.extend_from_slice(if at == 0 { b"" } else { b"," });
            input.extend_from_slice(piece);
        }
        input.push(b']');
    }
    body.boolean("stream", true);
    body.finish();
    out
}

/// The items of an `input`, with commas between them.
fn items_of(input: View<'_>) -> Option<String> {
    match input.kind() {
        JsonKind::String => Some(format!(r#"{{"type":"message","role":"user","content":{}}}"#, input.text())),
        JsonKind::Array => Some(joined(input.elements())),
        _ => None,
    }
}

fn joined<'a>(items: impl Iterator<Item = View<'a>>) -> String {
    let mut text = String::new();
    for item in items {
        text.push_str(if text.is_empty() { "" } else { "," });
        text.push_str(item.text());
    }
    text
}

/// The id of a final response, and its items for the next turn. None: the response is stored, so that the socket need not remember it.
pub(super) fn final_items(event: &str) -> Option<(String, Bytes)> {
    let [response] = View::new(event).pick(["response"]);
    let [id, store, output] = response?.pick(["id", "store", "output"]);
    if store.is_some_and(|store| store.text() == "true") {
        return None;
    }
    let items = output?.elements().filter(|item| {
        let [kind, sealed] = item.pick(["type", "encrypted_content"]);
        // Nobody can read reasoning that is neither stored nor sealed.
        kind.and_then(View::string).as_deref() != Some("reasoning")
            || sealed.is_some_and(|it| it.text() != "null")
    });
    Some((id?.string()?.into_owned(), joined(items).into()))
}

fn refused(message: &str, code: &'static str) -> Error {
    Error { code: Some(code.into()), ..Error::new(Kind::Invalid, message.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body_of(message: &str, known: Option<&EarlierTurn>) -> String {
        let read = read(message, |_| known.cloned()).unwrap();
        String::from_utf8(read.body.to_vec()).unwrap()
    }

    #[test]
    fn a_message_becomes_the_body_of_a_request() {
        let message = r#"{"type":"response.create","model":"m","generate":true,"stream_id":"s","background":false,"input":"hi","stream":false}"#;
        assert_eq!(body_of(message, None), r#"{"model":"m","input":"hi","stream":true}"#);
        assert_eq!(stream_id_of(message).as_deref(), Some("\"s\""));
        assert_eq!(stream_id_of("{\"stream_id\":\"\u{1}\"}"), None, "no event may repeat what is not JSON");
        let unknown = r#"{"type":"response.create","previous_response_id":"resp_1","input":[]}"#;
        assert_eq!(body_of(unknown, None), r#"{"previous_response_id":"resp_1","input":[],"stream":true}"#);
    }

    #[test]
    fn a_remembered_turn_is_written_out() {
        let known = |root: Option<&str>| EarlierTurn {
            id: "resp_1".into(),
            root: root.map(str::to_owned),
            items: vec![Bytes::from_static(br#"{"a":1}"#), Bytes::from_static(br#"{"b":2},{"c":3}"#)],
            begin: None,
        };
        let message = r#"{"type":"response.create","previous_response_id":"resp_1","input":"hi"}"#;
        let written = r#""input":[{"a":1},{"b":2},{"c":3},{"type":"message","role":"user","content":"hi"}],"stream":true}"#;
        assert_eq!(body_of(message, Some(&known(None))), format!("{{{written}"));
        let stored = body_of(message, Some(&known(Some("resp_0"))));
        assert_eq!(stored, format!(r#"{{"previous_response_id":"resp_0",{written}"#));
    }

    #[test]
    fn a_message_that_no_socket_takes_is_refused() {
        for (message, code) in [
            ("", "invalid_json"),
            ("[]", "invalid_json"),
            ("{}", "invalid_value"),
            (r#"{"type":"response.cancel"}"#, "invalid_value"),
            (r#"{"type":"response.create","background":true}"#, "unsupported_value"),
            (r#"{"type":"response.create","generate":0}"#, "invalid_value"),
        ] {
            let error = read(message, |_| None).unwrap_err();
            assert_eq!((error.status(), error.code()), (400, code), "{message}");
        }
    }

    #[test]
    fn the_items_of_an_answer_that_is_not_stored_go_to_the_next_turn() {
        let event = |store: bool| {
            format!(
                r#"{{"type":"response.completed","response":{{"id":"resp_1","store":{store},"output":[{{"type":"reasoning"}},{{"type":"message","id":"m"}}]}}}}"#
            )
        };
        let (id, items) = final_items(&event(false)).unwrap();
        assert_eq!((id.as_str(), &*items), ("resp_1", &br#"{"type":"message","id":"m"}"#[..]));
        assert!(final_items(&event(true)).is_none());
    }
}
