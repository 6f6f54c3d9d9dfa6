//! The look at an event of a client before the upstream gets it: what it asks for, and what only the gateway decides.

use gw_engine::error::{Error, Kind};
use gw_engine::realtime::RealtimeSession;
use gw_wire::json::{View, write_str};
use gw_wire::realtime::{ClientEvent, read_client};

/// An event that the upstream may get.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Inspected {
    /// The id that the client gave it.
    pub(super) event_id: Option<String>,
    /// It asks for a response.
    pub(super) is_create: bool,
    /// The bound on answers that it sets.
    pub(super) max_answer: Option<Option<u64>>,
    /// The models that it has transcribe. An empty name: the upstream chooses the model.
    pub(super) transcribers: Vec<String>,
    /// It has the upstream transcribe what the client has said.
    pub(super) is_commit: bool,
    pub(super) audio_chars: u64,
    /// The text that the upstream gets in its place.
    pub(super) rewritten: Option<String>,
}

/// The model of a session, under its three names.
#[derive(Clone, Copy, Debug)]
pub(super) struct SessionModel<'a> {
    pub(super) requested: &'a str,
    pub(super) id: &'a str,
    pub(super) upstream: &'a str,
}

/// Inspects an event.
///
/// # Errors
/// The reason for which the upstream does not get it, and the id that the client gave it.
pub(super) fn inspect(session: &RealtimeSession, text: &str) -> Result<Inspected, (Error, Option<String>)> {
    let event = read_client(text).map_err(|bad| (invalid(bad.code, bad.message), None))?;
    let event_id = event.event_id.as_deref().map(str::to_owned);
    let refused = |error| (error, event_id.clone());
    check(session, &event).map_err(refused)?;
    let model = SessionModel {
        requested: session.requested_model(),
        id: session.model(),
        upstream: session.upstream_model(),
    };
    let rewritten = rewritten(text, event.model, model).map_err(refused)?;
    Ok(Inspected {
        is_create: event.kind == "response.create",
        max_answer: event.max_answer,
        is_commit: event.kind == "input_audio_buffer.commit",
        transcribers: event.transcribers.into_iter().map(std::borrow::Cow::into_owned).collect(),
        audio_chars: event.audio_chars,
        rewritten,
        event_id,
    })
}

fn check(session: &RealtimeSession, event: &ClientEvent<'_>) -> Result<(), Error> {
    let is_transcription = event.kind.starts_with("transcription_session.");
    if is_transcription || event.session_type.as_deref() == Some("transcription") {
        let message =
            "Invalid 'session.type': the gateway relays conversations only, so that it is 'realtime'.";
        return Err(Error::new(Kind::UnsupportedValue, message));
    }
    if let Some(tool) = event.tools.iter().find(|tool| !session.takes_tool(tool)) {
        let shown: String = tool.chars().take(100).collect();
        let message = format!(
            "Invalid 'tools': the provider is not sent tools of the type '{shown}', because they may reach other accounts and \
             hosts, or cost what the catalogue does not hold. The operator can allow the type with allow_members."
        );
        return Err(Error::new(Kind::UnsupportedValue, message));
    }
    if event.has_stored_prompt && !session.takes_references() {
        let message = "Invalid 'prompt': it names a resource of the operator's account at the provider. The operator can allow \
                       such references with file_ids = true in the provider's configuration.";
        return Err(Error::new(Kind::UnsupportedValue, message));
    }
    if let Some(place) = session.refused_reference(&event.references) {
        let message = format!(
            "Invalid '{place}': it names a resource of the operator's account at the provider, or an address in its network. The \
             operator can allow such references with file_ids = true in the provider's configuration."
        );
        return Err(Error::new(Kind::UnsupportedValue, message));
    }
    Ok(())
}

/// The text with the upstream's name of the model, if it names the model of the session by another name. None: it stays as it is.
fn rewritten(text: &str, named: Option<View<'_>>, model: SessionModel<'_>) -> Result<Option<String>, Error> {
    let Some(view) = named else { return Ok(None) };
    let name = view.string();
    match name.as_deref() {
        Some(name) if name == model.upstream => Ok(None),
        Some(name) if name == model.requested || name == model.id => {
            let start = view.text().as_ptr() as usize - text.as_ptr() as usize;
            let (before, rest) = text.split_at_checked(start).unwrap_or((text, ""));
            let after = rest.get(view.text().len()..).unwrap_or_default();
            let mut literal = Vec::with_capacity(model.upstream.len() + 2);
            write_str(&mut literal, model.upstream);
            let literal = String::from_utf8(literal).unwrap_or_default();
            Ok(Some([before, &literal, after].concat()))
        }
        _ => {
            let message = "Invalid 'model': a session keeps the model of its URL. Open another session for another model.";
            Err(invalid("invalid_value", message.to_owned()))
        }
    }
}

fn invalid(code: &'static str, message: String) -> Error {
    Error { code: Some(code.into()), ..Error::new(Kind::Invalid, message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_of_a_session_cannot_be_changed_and_has_the_upstreams_name() {
        let model = SessionModel { requested: "voice", id: "acme/voice", upstream: "gpt-voice" };
        let rewrite = |name: &str| {
            let text = format!(r#"{{"type":"session.update","session":{{"model":{name},"a":1}}}}"#);
            let event = read_client(&text).unwrap();
            rewritten(&text, event.model, model).map_err(|error| error.code().to_owned())
        };
        assert_eq!(rewrite("\"gpt-voice\""), Ok(None));
        let named = r#"{"type":"session.update","session":{"model":"gpt-voice","a":1}}"#.to_owned();
        assert_eq!(rewrite("\"voice\""), Ok(Some(named.clone())));
        assert_eq!(rewrite("\"acme\\/voice\""), Ok(Some(named)));
        assert_eq!(rewrite("\"gpt-dear\""), Err("invalid_value".to_owned()));
        assert_eq!(rewrite("7"), Err("invalid_value".to_owned()));
    }
}
