//! Presets on each surface.

use serde_json::{Value, json};

use super::*;
use crate::settings::{PresetSettings, SystemMode};

fn parameters(value: &Value) -> Vec<(String, Value)> {
    value.as_object().cloned().unwrap_or_default().into_iter().collect()
}

fn preset() -> PresetSettings {
    PresetSettings {
        defaults: parameters(&json!({ "max_tokens": 9, "stop": "X", "reasoning_effort": "low" })),
        overrides: parameters(&json!({ "temperature": 0.5 })),
        strip: vec!["top_p".to_owned(), "seed".to_owned()],
        system: Some("Be kind.".to_owned()),
        system_mode: SystemMode::Prepend,
    }
}

fn presets(settings: PresetSettings) -> Presets {
    let alias = AliasSettings {
        targets: vec!["acme/fast".to_owned()],
        preset: settings,
        version: "3".to_owned(),
        ..AliasSettings::default()
    };
    let plain = AliasSettings { targets: vec!["acme/fast".to_owned()], ..AliasSettings::default() };
    Presets::new(&Aliases::from([("kind".to_owned(), alias), ("plain".to_owned(), plain)]))
}

fn applied(presets: &Presets, surface: PresetSurface, body: &Value) -> Option<(Value, Option<String>)> {
    let text = body.to_string();
    let AppliedPreset { body, preset, .. } =
        presets.apply(surface, None, text.as_bytes(), |_| true).unwrap()?;
    let version = preset.map(|preset| format!("{}@{}", preset.name, preset.version));
    Some((serde_json::from_slice(&body).unwrap(), version))
}

#[test]
fn each_surface_gets_the_parameters_under_its_own_names() {
    let presets = presets(preset());
    for (surface, body, expected) in [
        (
            PresetSurface::Chat,
            json!({ "model": "kind", "messages": [{ "role": "user", "content": "x" }], "top_p": 1, "seed": 7 }),
            json!({
                "model": "kind", "max_tokens": 9, "stop": "X", "reasoning_effort": "low", "temperature": 0.5,
                "messages": [{ "role": "system", "content": "Be kind." }, { "role": "user", "content": "x" }],
            }),
        ),
        (
            PresetSurface::Chat,
            json!({ "model": "kind:floor", "messages": [], "max_completion_tokens": 3, "stop": null, "temperature": 1 }),
            json!({
                "model": "kind:floor", "max_completion_tokens": 3, "stop": "X", "reasoning_effort": "low",
                "temperature": 0.5, "messages": [{ "role": "system", "content": "Be kind." }],
            }),
        ),
        (
            PresetSurface::Completion,
            json!({ "model": "kind", "prompt": "x", "max_tokens": 2 }),
            json!({ "model": "kind", "prompt": "x", "max_tokens": 2, "stop": "X", "temperature": 0.5 }),
        ),
        (
            PresetSurface::Messages,
            json!({ "model": "kind", "messages": [], "system": "Mine.", "top_p": 0.1 }),
            json!({
                "model": "kind", "messages": [], "system": "Be kind.\n\nMine.", "max_tokens": 9,
                "stop_sequences": ["X"], "output_config": { "effort": "low" }, "temperature": 0.5,
            }),
        ),
        (
            PresetSurface::Messages,
            json!({ "model": "kind", "system": [{ "type": "text", "text": "Mine." }], "max_tokens": 1 }),
            json!({
                "model": "kind", "max_tokens": 1, "stop_sequences": ["X"], "output_config": { "effort": "low" },
                "temperature": 0.5,
                "system": [{ "type": "text", "text": "Be kind." }, { "type": "text", "text": "Mine." }],
            }),
        ),
        (
            PresetSurface::Responses,
            json!({ "model": "kind", "input": "x", "reasoning": { "summary": "auto" } }),
            json!({
                "model": "kind", "input": "x", "instructions": "Be kind.", "max_output_tokens": 9,
                "reasoning": { "summary": "auto", "effort": "low" }, "temperature": 0.5,
            }),
        ),
        (
            PresetSurface::Gemini,
            json!({
                "model": "kind", "generation_config": { "top_p": 1, "max_output_tokens": 4 },
                "systemInstruction": { "parts": [{ "text": "Mine." }] },
            }),
            json!({
                "model": "kind",
                "generation_config": { "max_output_tokens": 4, "stopSequences": ["X"], "temperature": 0.5 },
                "systemInstruction": { "parts": [{ "text": "Be kind." }, { "text": "Mine." }] },
            }),
        ),
        (
            PresetSurface::OneShot,
            json!({ "model": "kind", "input": "x" }),
            json!({ "model": "kind", "input": "x" }),
        ),
    ] {
        let (changed, used) = applied(&presets, surface, &body).unwrap();
        assert_eq!(changed, expected, "{surface:?} {body}");
        assert_eq!(used.as_deref(), Some("kind@3"));
    }
}

#[test]
fn a_replacing_prompt_takes_the_place_of_the_clients_own() {
    let settings = PresetSettings {
        system: Some("Ours.".to_owned()),
        system_mode: SystemMode::Replace,
        ..PresetSettings::default()
    };
    let presets = presets(settings);
    let messages = json!([
        { "role": "system", "content": "a" }, { "role": "user", "content": "b" }, { "role": "developer", "content": "c" },
    ]);
    let body = json!({ "model": "kind", "messages": messages, "system": "a", "instructions": "a" });
    for (surface, path, expected) in [
        (
            PresetSurface::Chat,
            "/messages",
            json!([{ "role": "system", "content": "Ours." }, { "role": "user", "content": "b" }]),
        ),
        (PresetSurface::Messages, "/system", json!("Ours.")),
        (PresetSurface::Responses, "/instructions", json!("Ours.")),
        (PresetSurface::Gemini, "/systemInstruction/parts", json!([{ "text": "Ours." }])),
    ] {
        let (changed, _) = applied(&presets, surface, &body).unwrap();
        assert_eq!(changed.pointer(path), Some(&expected), "{surface:?}");
    }
}

#[test]
fn a_preset_is_named_by_its_alias_by_a_prefix_or_by_a_member() {
    let presets =
        presets(PresetSettings { overrides: parameters(&json!({ "n": 1 })), ..PresetSettings::default() });
    let chat = |body: Value| applied(&presets, PresetSurface::Chat, &body);
    let (body, used) = chat(json!({ "model": "@preset/kind", "messages": [] })).unwrap();
    assert_eq!((body, used.as_deref()), (json!({ "model": "kind", "messages": [], "n": 1 }), Some("kind@3")));
    let (body, used) = chat(json!({ "preset": "kind", "model": "acme/other" })).unwrap();
    assert_eq!((body, used.as_deref()), (json!({ "model": "acme/other", "n": 1 }), Some("kind@3")));
    let (body, used) = chat(json!({ "preset": "plain", "model": "acme/other" })).unwrap();
    assert_eq!((body, used), (json!({ "model": "acme/other" }), None), "a plain alias changes nothing");
    for body in [json!({ "model": "acme/other" }), json!({ "model": "acme/other", "preset": null }), json!(1)]
    {
        assert!(chat(body).is_none());
    }
    for (body, status, code) in [
        (json!({ "model": "@preset/none" }), 404, "model_not_found"),
        (json!({ "model": "kind", "preset": "none" }), 404, "model_not_found"),
        (json!({ "model": "kind", "preset": 1 }), 400, "invalid_type"),
    ] {
        let error =
            presets.apply(PresetSurface::Chat, None, body.to_string().as_bytes(), |_| true).unwrap_err();
        assert_eq!((error.status(), error.code()), (status, code), "{body}");
    }
    let hidden = presets.apply(PresetSurface::Chat, None, br#"{"model":"m","preset":"kind"}"#, |_| false);
    assert_eq!(hidden.unwrap_err().code(), "model_not_found");
    let url = presets.apply(PresetSurface::Gemini, Some("@preset/kind"), b"{}", |_| true).unwrap().unwrap();
    assert_eq!(url.url_model.as_deref(), Some("kind"));
}
