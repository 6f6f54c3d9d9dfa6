//! Changes a body: first `strip`, then `defaults`, `overrides` and the system prompt.

use gw_wire::json::{Kind, View};
use serde_json::{Value, json};

use super::members::{ObjectMembers, quoted};
use super::places::{ParameterPlace, PresetSurface, place, twin};
use crate::settings::{PresetSettings, SystemMode};

/// Applies a preset to a body.
pub(super) fn apply(surface: PresetSurface, preset: &PresetSettings, body: &mut ObjectMembers<'_>) {
    for name in &preset.strip {
        if let Some(place) = place(surface, name) {
            body.remove_at(place.names());
        }
        if let Some(twin) = twin(surface, name) {
            body.remove(twin);
        }
    }
    for (name, value) in &preset.defaults {
        if let Some(place) = place(surface, name)
            && body.at(place.names()).is_none()
            && twin(surface, name).is_none_or(|twin| body.get(twin).is_none())
        {
            body.set_at(place.names(), written(&place, value));
        }
    }
    for (name, value) in &preset.overrides {
        if let Some(place) = place(surface, name) {
            if let Some(twin) = twin(surface, name) {
                body.remove(twin);
            }
            body.set_at(place.names(), written(&place, value));
        }
    }
    if let Some(prompt) = &preset.system {
        system(surface, prompt, preset.system_mode, body);
    }
}

fn written(place: &ParameterPlace<'_>, value: &Value) -> String {
    if place.is_list && !value.is_array() { json!([value]).to_string() } else { value.to_string() }
}

/// Adds a system prompt where the surface has it.
fn system(surface: PresetSurface, prompt: &str, mode: SystemMode, body: &mut ObjectMembers<'_>) {
    let keeps = mode == SystemMode::Prepend;
    match surface {
        PresetSurface::Chat => messages(prompt, keeps, body),
        PresetSurface::Messages => {
            let block = json!({ "type": "text", "text": prompt }).to_string();
            let own = body.get("system").filter(|_| keeps).map(str::to_owned);
            body.set("system", before(prompt, &block, own.as_deref()));
        }
        PresetSurface::Responses => {
            let own = body.get("instructions").filter(|_| keeps).map(str::to_owned);
            body.set("instructions", before(prompt, "", own.as_deref()));
        }
        PresetSurface::Gemini => {
            const NAME: &str = "systemInstruction";
            let part = json!({ "text": prompt }).to_string();
            let own = body.at(&[NAME, "parts"]).filter(|_| keeps);
            let parts = own.as_deref().map(View::new);
            // Google's API reads a single part in place of a list.
            let parts = match parts.map(View::kind) {
                Some(Kind::Array) => list(&part, parts.into_iter().flat_map(View::elements)),
                _ => list(&part, parts.into_iter()),
            };
            body.set_at(&[NAME, "parts"], parts);
        }
        PresetSurface::Completion | PresetSurface::OneShot => {}
    }
}

/// The prompt before the client's: a text before a text, a block before blocks.
fn before(prompt: &str, block: &str, own: Option<&str>) -> String {
    let own = own.map(View::new);
    match own.map(|own| (own.kind(), own)) {
        Some((Kind::Array, own)) if !block.is_empty() => list(block, own.elements()),
        Some((Kind::String, own)) => {
            let own = own.string().unwrap_or_default();
            let blank = if own.is_empty() { "" } else { "\n\n" };
            quoted(&format!("{prompt}{blank}{own}"))
        }
        _ => quoted(prompt),
    }
}

/// The first message of a chat is the prompt. The client's own system prompts follow, or go.
fn messages(prompt: &str, keeps: bool, body: &mut ObjectMembers<'_>) {
    let Some(own) = body.get("messages").map(str::to_owned) else { return };
    let own = View::new(&own);
    if own.kind() != Kind::Array {
        return;
    }
    let is_system = |message: &View<'_>| {
        let [role] = message.pick(["role"]);
        role.and_then(View::string).is_some_and(|role| matches!(&*role, "system" | "developer"))
    };
    let first = json!({ "role": "system", "content": prompt }).to_string();
    let others = own.elements().filter(|message| keeps || !is_system(message));
    body.set("messages", list(&first, others));
}

/// A list of a value and others behind it.
fn list<'a>(first: &str, others: impl Iterator<Item = View<'a>>) -> String {
    let mut out = format!("[{first}");
    for other in others {
        out.push(',');
        out.push_str(other.text());
    }
    out.push(']');
    out
}
