//! The events of a realtime session, as far as the gateway reads them: the type, the ids, the usage, and what a client must not choose.

use std::borrow::Cow;

use crate::json::{Kind, View, check};
use crate::request::References;
use crate::request::fields::Path;

/// An event of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientEvent<'a> {
    /// Its type.
    pub kind: Cow<'a, str>,
    /// The id that the client gave it.
    pub event_id: Option<Cow<'a, str>>,
    /// The base64 characters of its sound.
    pub audio_chars: u64,
    /// The model that its session or its response names, as JSON.
    pub model: Option<View<'a>>,
    /// The type of its session.
    pub session_type: Option<Cow<'a, str>>,
    /// The models that are to transcribe what the client says. An empty name: the upstream chooses the model.
    pub transcribers: Vec<Cow<'a, str>>,
    /// The bound on answers. `Some(None)`: there is none.
    pub max_answer: Option<Option<u64>>,
    /// The types of its tools.
    pub tools: Vec<Cow<'a, str>>,
    /// It names a prompt that is stored at the provider.
    pub has_stored_prompt: bool,
    /// The references of its items to resources at the provider.
    pub references: References,
}

/// An event of an upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamEvent<'a> {
    /// Its type.
    pub kind: Cow<'a, str>,
    /// The id of the response that it belongs to.
    pub response_id: Option<Cow<'a, str>>,
    /// The status of its response.
    pub status: Option<Cow<'a, str>>,
    /// The JSON of its usage.
    pub usage: Option<&'a str>,
    /// The code of its error.
    pub error_code: Option<Cow<'a, str>>,
    /// The id of the client's event that its error is about.
    pub error_event_id: Option<Cow<'a, str>>,
    /// The model that transcribes, if it describes the session. `Some(None)`: none does.
    pub transcriber: Option<Option<Cow<'a, str>>>,
    /// The bound on answers, if it describes the session. `Some(None)`: there is none.
    pub max_answer: Option<Option<u64>>,
    /// The bytes of its piece of output.
    pub delta: u64,
}

impl UpstreamEvent<'_> {
    /// Whether its piece of output is sound.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.kind.ends_with("audio.delta")
    }
}

/// A text that is no event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadEvent {
    /// The code of the error.
    pub code: &'static str,
    /// The message of the error.
    pub message: String,
}

/// Reads an event of a client. Members that the gateway decides by must not be there twice: readers differ in which one counts.
///
/// # Errors
/// The text is no JSON object, has no type, or has such a member twice.
pub fn read_client(text: &str) -> Result<ClientEvent<'_>, BadEvent> {
    let view = View::new(text);
    if check(text).is_err() || view.kind() != Kind::Object {
        let message = "Invalid JSON: a message is one JSON object.".to_owned();
        return Err(BadEvent { code: "invalid_json", message });
    }
    let names = ["type", "event_id", "audio", "session", "response", "item"];
    let [kind, event_id, audio, session, response, item] = unique(view, names)?;
    let Some(kind) = kind.and_then(View::string) else {
        let message = "Invalid 'type': expected the type of the event.".to_owned();
        return Err(BadEvent { code: "invalid_value", message });
    };
    let mut event = ClientEvent {
        kind,
        event_id: event_id.and_then(View::string),
        audio_chars: audio.map_or(0, |audio| audio.text().len() as u64),
        ..ClientEvent::default()
    };
    if let Some(item) = item {
        read_item(&Path::Top("item"), item, &mut event.references);
    }
    match (session, response) {
        // A response beside a session would be read by nobody, or by somebody else.
        (Some(_), Some(_)) => Err(invalid("'session' and 'response' belong to different events.")),
        (Some(settings), None) | (None, Some(settings)) => {
            read_settings(settings, &mut event)?;
            Ok(event)
        }
        (None, None) => Ok(event),
    }
}

fn invalid(message: &str) -> BadEvent {
    BadEvent { code: "invalid_value", message: format!("Invalid event: {message}") }
}

/// A member that must have this kind, if it is there. `null` means absent.
fn of_kind<'a>(value: Option<View<'a>>, kind: Kind, name: &str) -> Result<Option<View<'a>>, BadEvent> {
    match value {
        Some(value) if value.kind() == Kind::Null => Ok(None),
        Some(value) if value.kind() != kind => {
            Err(invalid(&format!("'{name}' has another type than it may have.")))
        }
        value => Ok(value),
    }
}

fn read_settings<'a>(settings: View<'a>, event: &mut ClientEvent<'a>) -> Result<(), BadEvent> {
    let Some(settings) = of_kind(Some(settings), Kind::Object, "session")? else { return Ok(()) };
    let names = [
        "model",
        "type",
        "tools",
        "prompt",
        "input",
        "audio",
        "input_audio_transcription",
        "max_output_tokens",
        "max_response_output_tokens",
    ];
    let [model, kind, tools, prompt, input, audio, transcription, most, most_beta] = unique(settings, names)?;
    event.model = model;
    event.session_type = kind.and_then(View::string);
    event.max_answer = larger_bound(most, most_beta);
    event.has_stored_prompt |= prompt.is_some_and(|prompt| prompt.kind() != Kind::Null);
    for tool in of_kind(tools, Kind::Array, "tools")?.into_iter().flat_map(View::elements) {
        let [kind] = unique(tool, ["type"])?;
        event.tools.push(kind.and_then(View::string).unwrap_or_default());
    }
    if let Some(input) = input {
        read_input(input, &mut event.references);
    }
    let of_input = match of_kind(audio, Kind::Object, "audio")? {
        Some(audio) => match unique(audio, ["input"])? {
            [Some(input)] => unique(input, ["transcription"])?[0],
            [None] => None,
        },
        None => None,
    };
    // An upstream reads one of the two places, so both count.
    for transcription in [of_input, transcription] {
        let Some(transcription) = of_kind(transcription, Kind::Object, "transcription")? else { continue };
        let [model] = unique(transcription, ["model"])?;
        let model = of_kind(model, Kind::String, "transcription.model")?;
        event.transcribers.push(model.and_then(View::string).unwrap_or_default());
    }
    Ok(())
}

/// Notes the references of the items that a response begins with.
fn read_input(input: View<'_>, references: &mut References) {
    let response = Path::Top("response");
    let path = response.member("input");
    if input.kind() != Kind::Array {
        return references.member(&path, "input", input);
    }
    for (at, item) in input.elements().enumerate() {
        read_item(&path.item(at), item, references);
    }
}

/// Notes the references of an item. Each member counts, also one that is there twice.
fn read_item(path: &Path<'_>, item: View<'_>, references: &mut References) {
    if item.kind() != Kind::Object {
        return references.member(path, "item", item);
    }
    for (literal, value) in item.members() {
        let Some(name) = literal.string() else { continue };
        // These ids are the session's own.
        if name != "id" && name != "call_id" {
            references.member(&path.member(&name), &name, value);
        }
    }
}

/// The larger of the bounds on an answer under both of its names, because an upstream reads one of them. `Some(None)`: there is none.
fn larger_bound(one: Option<View<'_>>, other: Option<View<'_>>) -> Option<Option<u64>> {
    match (one.map(bound), other.map(bound)) {
        (Some(one), Some(other)) => Some(one.zip(other).map(|(one, other)| one.max(other))),
        (one, other) => one.or(other),
    }
}

/// Reads an event of an upstream. A text of another form has no type.
#[must_use]
pub fn read_upstream(text: &str) -> UpstreamEvent<'_> {
    let names = ["type", "response", "response_id", "error", "session", "delta", "usage"];
    let [kind, response, response_id, error, session, delta, usage] = View::new(text).pick(names);
    let mut event = UpstreamEvent {
        kind: kind.and_then(View::string).unwrap_or_default(),
        response_id: response_id.and_then(View::string),
        usage: usage.map(View::text),
        delta: delta.map_or(0, |delta| delta.string_len() as u64),
        ..UpstreamEvent::default()
    };
    if let Some(response) = response {
        let [id, status, usage] = response.pick(["id", "status", "usage"]);
        event.response_id = id.and_then(View::string).or(event.response_id);
        event.status = status.and_then(View::string);
        event.usage = usage.map(View::text).or(event.usage);
    }
    if let Some(error) = error {
        let [code, kind, id] = error.pick(["code", "type", "event_id"]);
        event.error_code = code.or(kind).and_then(View::string);
        event.error_event_id = id.and_then(View::string);
    }
    if let Some(session) = session {
        let names = ["audio", "input_audio_transcription", "max_output_tokens", "max_response_output_tokens"];
        let [audio, of_beta, most, most_beta] = session.pick(names);
        let [input] = audio.map_or([None], |audio| audio.pick(["input"]));
        let [transcription] = input.map_or([None], |input| input.pick(["transcription"]));
        let [model] = transcription.or(of_beta).map_or([None], |settings| settings.pick(["model"]));
        event.transcriber = Some(model.and_then(View::string));
        event.max_answer = Some(larger_bound(most, most_beta).flatten());
    }
    event
}

/// A bound on the tokens of an answer; None: `inf`.
fn bound(value: View<'_>) -> Option<u64> {
    value.text().parse().ok()
}

/// The members with these names.
fn unique<'a, const N: usize>(
    object: View<'a>,
    names: [&'static str; N],
) -> Result<[Option<View<'a>>; N], BadEvent> {
    let mut found = [None; N];
    for (literal, value) in object.members() {
        let Some(name) = literal.string() else { continue };
        if let Some((known, place)) = names.iter().zip(&mut found).find(|(known, _)| *name == ***known)
            && place.replace(value).is_some()
        {
            let message = format!("Invalid JSON: the member '{known}' is there twice.");
            return Err(BadEvent { code: "invalid_json", message });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_a_client_is_read_as_far_as_it_matters() {
        let text = r#"{"type":"session.update","event_id":"e1","session":{"type":"realtime","model":"m","tools":[{"type":"function"},
            {"type":"mcp"}],"prompt":{"id":"p"},"max_output_tokens":7,"audio":{"input":{"transcription":{"model":"t"}}}}}"#;
        let event = read_client(text).unwrap();
        assert_eq!((&*event.kind, event.event_id.as_deref()), ("session.update", Some("e1")));
        assert_eq!(event.model.map(View::text), Some("\"m\""));
        assert_eq!((event.transcribers, event.max_answer), (vec![Cow::Borrowed("t")], Some(Some(7))));
        assert_eq!(event.tools, ["function", "mcp"]);
        assert!(event.has_stored_prompt);
        let append = read_client(r#"{"type":"input_audio_buffer.append","audio":"AAAA"}"#).unwrap();
        assert_eq!(append.audio_chars, 6);
        let beta = r#"{"type":"session.update","session":{"input_audio_transcription":{"model":"w"},"max_response_output_tokens":"inf"}}"#;
        let beta = read_client(beta).unwrap();
        assert_eq!((beta.transcribers, beta.max_answer), (vec![Cow::Borrowed("w")], Some(None)));
    }

    #[test]
    fn the_items_of_an_event_are_searched_for_references() {
        let found = |text: &str| read_client(text).unwrap().references;
        let item = |part: &str| {
            format!(
                r#"{{"type":"conversation.item.create","item":{{"id":"file_1","type":"message","role":"user","content":[{part}]}}}}"#
            )
        };
        let response = |part: &str| {
            format!(
                r#"{{"type":"response.create","response":{{"input":[{{"type":"item_reference","id":"item_1"}},{{"type":"message","content":[{part}]}}]}}}}"#
            )
        };
        for (part, name) in [
            (r#"{"type":"input_file","file_id":"f"}"#, "file_id"),
            (r#"{"type":"input_image","image_url":"http://169.254.169.254/"}"#, "image_url"),
            (r#"{"type":"input_image","image_url":"data:,","image_url":"http://10.0.0.1/"}"#, "image_url"),
        ] {
            let place = format!("item.content ({name})");
            assert_eq!(found(&item(part)).verbatim.as_deref(), Some(&*place), "{part}");
            let place = format!("response.input[1].content ({name})");
            assert_eq!(found(&response(part)).verbatim.as_deref(), Some(&*place), "{part}");
        }
        for part in [
            r#"{"type":"input_text","text":"http://localhost/ is file_1"}"#,
            r#"{"type":"output_audio","audio":"AAAA","transcript":"http://localhost/ does not answer"}"#,
            r#"{"type":"input_image","image_url":"data:image/png;base64,AAAA"}"#,
        ] {
            assert_eq!(found(&item(part)), References::default(), "{part}");
            assert_eq!(found(&response(part)), References::default(), "{part}");
        }
        let public = found(&item(r#"{"type":"input_image","image_url":"https://Images.example.com/a.png"}"#));
        assert_eq!((public.verbatim, public.hosts.len()), (None, 1));
        let append = read_client(r#"{"type":"input_audio_buffer.append","audio":"AAAA"}"#).unwrap();
        assert_eq!(append.references, References::default());
    }

    #[test]
    fn all_places_of_a_setting_count() {
        let read = |settings: &str| {
            let text = format!(r#"{{"type":"session.update","session":{settings}}}"#);
            let event = read_client(&text).unwrap();
            let names: Vec<String> =
                event.transcribers.iter().map(|name| name.clone().into_owned()).collect();
            (names, event.max_answer)
        };
        let (both, none) = (vec!["a".to_owned(), "b".to_owned()], Vec::<String>::new());
        let two = r#"{"audio":{"input":{"transcription":{"model":"a"}}},"input_audio_transcription":{"model":"b"}}"#;
        assert_eq!(read(two), (both, None));
        assert_eq!(read(r#"{"input_audio_transcription":{"language":"en"}}"#), (vec![String::new()], None));
        assert_eq!(
            read(r#"{"input_audio_transcription":null,"tools":null,"audio":null}"#),
            (none.clone(), None)
        );
        assert_eq!(
            read(r#"{"max_output_tokens":1,"max_response_output_tokens":"inf"}"#),
            (none.clone(), Some(None))
        );
        assert_eq!(read(r#"{"max_output_tokens":9,"max_response_output_tokens":7}"#), (none, Some(Some(9))));
    }

    #[test]
    fn a_text_that_is_no_event_is_refused() {
        for (text, code) in [
            ("", "invalid_json"),
            ("[]", "invalid_json"),
            ("{}", "invalid_value"),
            (r#"{"type":1}"#, "invalid_value"),
            (r#"{"type":"a","type":"b"}"#, "invalid_json"),
            (r#"{"type":"session.update","session":{"model":"a","mod\u0065l":"b"}}"#, "invalid_json"),
            (
                r#"{"type":"response.create","session":{"model":"a"},"response":{"model":"b"}}"#,
                "invalid_value",
            ),
            (r#"{"type":"session.update","session":[{"model":"a"}]}"#, "invalid_value"),
            (r#"{"type":"session.update","session":{"tools":{"type":"mcp"}}}"#, "invalid_value"),
            (
                r#"{"type":"session.update","session":{"input_audio_transcription":{"model":5}}}"#,
                "invalid_value",
            ),
        ] {
            assert_eq!(read_client(text).unwrap_err().code, code, "{text}");
        }
    }

    #[test]
    fn an_event_of_an_upstream_is_read_as_far_as_it_matters() {
        let done = read_upstream(
            r#"{"type":"response.done","response":{"id":"r","status":"completed","usage":{"total_tokens":3}}}"#,
        );
        assert_eq!((&*done.kind, done.response_id.as_deref()), ("response.done", Some("r")));
        assert_eq!((done.status.as_deref(), done.usage), (Some("completed"), Some(r#"{"total_tokens":3}"#)));
        let delta =
            read_upstream(r#"{"type":"response.output_audio.delta","response_id":"r","delta":"AAAA"}"#);
        assert_eq!((delta.delta, delta.is_sound(), delta.response_id.as_deref()), (4, true, Some("r")));
        let error = read_upstream(r#"{"type":"error","error":{"code":"c","event_id":"e"}}"#);
        assert_eq!((error.error_code.as_deref(), error.error_event_id.as_deref()), (Some("c"), Some("e")));
        let session = read_upstream(
            r#"{"type":"session.updated","session":{"audio":{"input":{"transcription":{"model":"w"}}},"max_output_tokens":"inf"}}"#,
        );
        assert_eq!((session.transcriber, session.max_answer), (Some(Some("w".into())), Some(None)));
        assert_eq!(read_upstream("nonsense"), UpstreamEvent::default());
    }
}
