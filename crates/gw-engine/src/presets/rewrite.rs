//! Changes a body: first `strip`, then `defaults`, `overrides` and the system prompt.

use gw_wire::json::{Kind, View};
use serde_json::{Value, json};

use super::forms::values;
use super::members::{ObjectMembers, quoted};
use super::places::{PresetSurface, places, stripped, twin};
use crate::settings::{PresetSettings, SystemMode};

/// The member of Google's `countTokens` that holds a whole request.
const WHOLE_REQUEST: &str = "generateContentRequest";
/// The member of Google's `batchEmbedContents` that holds the requests.
const REQUESTS: &str = "requests";

/// Applies a preset to a body. `is_generation`: an answer is generated. Otherwise, for a count of tokens or a compaction, only the
/// parts of the prompt count.
pub(super) fn apply(
    surface: PresetSurface,
    is_generation: bool,
    preset: &PresetSettings,
    body: &mut ObjectMembers<'_>,
) {
    match surface {
        PresetSurface::Gemini if body.get(WHOLE_REQUEST).is_some() => {
            body.change(WHOLE_REQUEST, |inner| apply_to(surface, is_generation, preset, inner));
        }
        PresetSurface::GeminiEmbedding if body.get(REQUESTS).is_some() => {
            let requests = body.get(REQUESTS).unwrap_or_default().to_owned();
            let view = View::new(&requests);
            if view.kind() == Kind::Array {
                let changed = view.elements().map(|request| {
                    let mut inner = ObjectMembers::read(request, true);
                    apply_to(surface, is_generation, preset, &mut inner);
                    if request.kind() == Kind::Object { inner.write() } else { request.text().to_owned() }
                });
                body.set(REQUESTS, array(changed));
            }
        }
        _ => apply_to(surface, is_generation, preset, body),
    }
}

fn apply_to(
    surface: PresetSurface,
    is_generation: bool,
    preset: &PresetSettings,
    body: &mut ObjectMembers<'_>,
) {
    for name in &preset.strip {
        stripped(surface, name).iter().for_each(|place| body.remove_at(&place.path()));
        if let Some(twin) = twin(surface, name) {
            body.remove(twin);
        }
    }
    for (name, value) in preset.defaults.iter().filter(|_| is_generation) {
        let is_absent = places(surface, name).first().is_some_and(|place| body.at(&place.path()).is_none())
            && twin(surface, name).is_none_or(|twin| body.get(twin).is_none());
        if is_absent {
            set(surface, name, value, body);
        }
    }
    for (name, value) in preset.overrides.iter().filter(|_| is_generation) {
        if let Some(twin) = twin(surface, name) {
            body.remove(twin);
        }
        set(surface, name, value, body);
    }
    if let Some(prompt) = &preset.system {
        system(surface, prompt, preset.system_mode, body);
    }
}

/// Sets a parameter. The other places of a parameter that has several are cleared.
fn set(surface: PresetSurface, name: &str, value: &Value, body: &mut ObjectMembers<'_>) {
    let values = values(surface, name, value);
    if values.is_empty() {
        return;
    }
    let mut values = values.into_iter();
    for place in places(surface, name) {
        match values.next() {
            Some(value) => body.set_at(&place.path(), value.to_string()),
            None => body.remove_at(&place.path()),
        }
    }
}

/// Adds a system prompt where the surface has it.
fn system(surface: PresetSurface, prompt: &str, mode: SystemMode, body: &mut ObjectMembers<'_>) {
    let keeps = mode == SystemMode::Prepend;
    match surface {
        PresetSurface::Chat => {
            let first = json!({ "role": "system", "content": prompt }).to_string();
            messages("messages", Some(first), keeps, body);
        }
        PresetSurface::Messages => {
            let block = json!({ "type": "text", "text": prompt }).to_string();
            before("system", prompt, &block, keeps, body);
            messages("messages", None, keeps, body);
        }
        PresetSurface::Responses => {
            before("instructions", prompt, "", keeps, body);
            messages("input", None, keeps, body);
        }
        PresetSurface::Gemini => instruction(prompt, keeps, body),
        PresetSurface::Completion | PresetSurface::OneShot | PresetSurface::GeminiEmbedding => {}
    }
}

/// Puts the prompt before the client's: a text before a text, a block before blocks. A value of another type stays, for the reader of
/// the request to refuse.
fn before(name: &str, prompt: &str, block: &str, keeps: bool, body: &mut ObjectMembers<'_>) {
    let own = body.get(name).map(str::to_owned);
    let own = own.as_deref().map(View::new);
    let written = match own.map(|own| (own.kind(), own)) {
        None => quoted(prompt),
        Some((Kind::Array, own)) if !block.is_empty() => {
            let others = own.elements().filter(|_| keeps).map(|own| own.text().to_owned());
            array(std::iter::once(block.to_owned()).chain(others))
        }
        Some((Kind::String, own)) => {
            let own = own.string().filter(|own| keeps && !own.is_empty()).unwrap_or_default();
            let blank = if own.is_empty() { "" } else { "\n\n" };
            quoted(&format!("{prompt}{blank}{own}"))
        }
        Some(_) => return,
    };
    body.set(name, written);
}

/// Puts a message before those of the client, and takes the client's own system prompts out unless they are kept.
fn messages(name: &str, first: Option<String>, keeps: bool, body: &mut ObjectMembers<'_>) {
    if first.is_none() && keeps {
        return;
    }
    let Some(own) = body.get(name).map(str::to_owned) else { return };
    let own = View::new(&own);
    if own.kind() != Kind::Array {
        return;
    }
    let is_system = |message: &View<'_>| {
        let [role] = message.pick(["role"]);
        role.and_then(View::string).is_some_and(|role| matches!(&*role, "system" | "developer"))
    };
    let others = own.elements().filter(|message| keeps || !is_system(message));
    body.set(name, array(first.into_iter().chain(others.map(|message| message.text().to_owned()))));
}

/// Google's system instruction: a list of parts, a single part, or a text.
fn instruction(prompt: &str, keeps: bool, body: &mut ObjectMembers<'_>) {
    const NAME: &str = "systemInstruction";
    let part = |text: &str| json!({ "text": text }).to_string();
    let own = body.get(NAME).filter(|_| keeps).map(str::to_owned);
    let own = own.as_deref().map(View::new);
    let parts = |own: View<'_>| -> Vec<String> {
        if let Some(text) = own.string() {
            return vec![part(&text)];
        }
        let Some(parts) = ObjectMembers::read(own, true).at(&["parts"]) else { return Vec::new() };
        let parts = View::new(&parts);
        match parts.kind() {
            Kind::Array => parts.elements().map(|part| part.text().to_owned()).collect(),
            _ => vec![parts.text().to_owned()],
        }
    };
    let own = own.map(parts).unwrap_or_default();
    let all = array(std::iter::once(part(prompt)).chain(own));
    body.set(NAME, format!("{{\"parts\":{all}}}"));
}

/// A list of these values.
fn array(values: impl Iterator<Item = String>) -> String {
    let mut out = String::from("[");
    for value in values {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(&value);
    }
    out.push(']');
    out
}
