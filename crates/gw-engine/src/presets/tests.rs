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

fn request(surface: PresetSurface, body: &[u8]) -> PresetRequest<'_> {
    PresetRequest { surface, is_generation: true, url_model: None, body }
}

fn applied(presets: &Presets, surface: PresetSurface, body: &Value) -> Option<(Value, Option<String>)> {
    let text = body.to_string();
    let found = presets.apply(request(surface, text.as_bytes()), |_| true).unwrap()?;
    let version = found.preset.map(|preset| format!("{}@{}", preset.name, preset.version));
    Some((serde_json::from_slice(&found.body).unwrap(), version))
}

/// The body after this preset.
fn changed(settings: PresetSettings, surface: PresetSurface, body: &Value) -> Value {
    applied(&presets(settings), surface, body).unwrap().0
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
    for body in [json!({ "model": "acme/other" }), json!({ "models": ["acme/other"] }), json!(1)] {
        assert!(chat(body).is_none());
    }
    // Without a `model`, the first of `models` is the model.
    for models in [json!(["kind", "acme/other"]), json!(["@preset/kind"])] {
        let (body, used) = chat(json!({ "models": models, "model": null })).unwrap();
        assert_eq!((&body["n"], used.as_deref()), (&json!(1), Some("kind@3")), "{body}");
    }
    // A member that names none goes nowhere.
    for none in [json!(""), json!(null)] {
        let (body, used) = chat(json!({ "model": "acme/other", "preset": none })).unwrap();
        assert_eq!((body, used), (json!({ "model": "acme/other" }), None));
    }
    for (body, status, code) in [
        (json!({ "model": "@preset/none" }), 404, "model_not_found"),
        (json!({ "model": "kind", "preset": "none" }), 404, "model_not_found"),
        (json!({ "model": "kind", "preset": 1 }), 400, "invalid_type"),
    ] {
        let error =
            presets.apply(request(PresetSurface::Chat, body.to_string().as_bytes()), |_| true).unwrap_err();
        assert_eq!((error.status(), error.code()), (status, code), "{body}");
    }
    let hidden = presets.apply(request(PresetSurface::Chat, br#"{"model":"m","preset":"kind"}"#), |_| false);
    assert_eq!(hidden.unwrap_err().code(), "model_not_found");
    let of_url = PresetRequest { url_model: Some("@preset/kind"), ..request(PresetSurface::Gemini, b"{}") };
    let url = presets.apply(of_url, |_| true).unwrap().unwrap();
    assert_eq!(url.url_model.as_deref(), Some("kind"));
}

#[test]
fn tools_choices_and_formats_have_the_form_of_their_surface() {
    let schema = json!({ "type": "object" });
    let function = json!({ "name": "f", "description": "d", "parameters": schema, "strict": true });
    let settings = || PresetSettings {
        overrides: parameters(&json!({
            "tools": [{ "type": "function", "function": function }],
            "tool_choice": { "type": "function", "function": { "name": "f" } },
            "response_format": { "type": "json_schema", "json_schema": { "name": "s", "schema": schema } },
        })),
        ..PresetSettings::default()
    };
    let body = json!({ "model": "kind" });
    let responses = changed(settings(), PresetSurface::Responses, &body);
    let own =
        json!({ "type": "function", "name": "f", "description": "d", "parameters": schema, "strict": true });
    assert_eq!(
        (&responses["tools"], &responses["tool_choice"]),
        (&json!([own]), &json!({ "type": "function", "name": "f" }))
    );
    assert_eq!(responses["text"]["format"], json!({ "type": "json_schema", "name": "s", "schema": schema }));
    let messages = changed(settings(), PresetSurface::Messages, &body);
    let own = json!({ "name": "f", "description": "d", "input_schema": schema });
    assert_eq!(
        (&messages["tools"], &messages["tool_choice"]),
        (&json!([own]), &json!({ "type": "tool", "name": "f" }))
    );
    assert_eq!(messages["output_config"]["format"], json!({ "type": "json_schema", "schema": schema }));
    let gemini = changed(settings(), PresetSurface::Gemini, &body);
    let own = json!({ "name": "f", "description": "d", "parametersJsonSchema": schema });
    assert_eq!(gemini["tools"], json!([{ "functionDeclarations": [own] }]));
    let calling = json!({ "mode": "ANY", "allowedFunctionNames": ["f"] });
    assert_eq!(gemini["toolConfig"], json!({ "functionCallingConfig": calling }));
    let generation = json!({ "responseMimeType": "application/json", "responseJsonSchema": schema });
    assert_eq!(gemini["generationConfig"], generation);
    for (word, of_messages, mode) in
        [("auto", "auto", "AUTO"), ("required", "any", "ANY"), ("none", "none", "NONE")]
    {
        let settings = || PresetSettings {
            overrides: parameters(&json!({ "tool_choice": word })),
            ..PresetSettings::default()
        };
        assert_eq!(changed(settings(), PresetSurface::Responses, &body)["tool_choice"], word);
        let choice = changed(settings(), PresetSurface::Messages, &body);
        assert_eq!(choice["tool_choice"], json!({ "type": of_messages }));
        let choice = changed(settings(), PresetSurface::Gemini, &body);
        assert_eq!(choice["toolConfig"]["functionCallingConfig"]["mode"], mode);
    }
}

#[test]
fn stripping_takes_the_parameter_out_of_each_surface() {
    let names = ["tools", "response_format", "service_tier", "thinking", "max_tokens"];
    let settings =
        || PresetSettings { strip: names.map(str::to_owned).to_vec(), ..PresetSettings::default() };
    for (surface, body, left) in [
        (
            PresetSurface::Messages,
            json!({ "model": "kind", "tools": [], "service_tier": "auto", "thinking": {}, "max_tokens": 5, "output_config": { "format": {} } }),
            // A request of Messages without it would be wrong.
            json!({ "model": "kind", "max_tokens": 5, "output_config": {} }),
        ),
        (
            PresetSurface::Responses,
            json!({ "model": "kind", "tools": [], "service_tier": "auto", "max_output_tokens": 5, "text": { "format": {}, "verbosity": "low" } }),
            json!({ "model": "kind", "text": { "verbosity": "low" } }),
        ),
        (
            PresetSurface::Gemini,
            json!({ "model": "kind", "tools": [], "generation_config": { "response_mime_type": "x", "responseSchema": {}, "max_output_tokens": 1, "topK": 2 } }),
            json!({ "model": "kind", "generation_config": { "topK": 2 } }),
        ),
    ] {
        assert_eq!(changed(settings(), surface, &body), left, "{surface:?}");
    }
}

#[test]
fn a_replacing_prompt_leaves_no_system_message_anywhere() {
    let settings = || PresetSettings {
        system: Some("Ours.".to_owned()),
        system_mode: SystemMode::Replace,
        ..PresetSettings::default()
    };
    let turns = json!([{ "role": "system", "content": "a" }, { "role": "user", "content": "b" }, { "role": "developer", "content": "c" }]);
    for (surface, name) in [(PresetSurface::Responses, "input"), (PresetSurface::Messages, "messages")] {
        let body = changed(settings(), surface, &json!({ "model": "kind", name: turns }));
        assert_eq!(body[name], json!([{ "role": "user", "content": "b" }]), "{surface:?}");
    }
}

#[test]
fn counts_and_compactions_take_the_prompt_alone() {
    let presets = presets(preset());
    let count = |surface, body: &Value| -> Value {
        let text = body.to_string();
        let request = PresetRequest { is_generation: false, ..request(surface, text.as_bytes()) };
        serde_json::from_slice(&presets.apply(request, |_| true).unwrap().unwrap().body).unwrap()
    };
    let body = json!({ "model": "kind", "messages": [], "top_p": 1 });
    assert_eq!(
        count(PresetSurface::Messages, &body),
        json!({ "model": "kind", "messages": [], "system": "Be kind." })
    );
    let whole = json!({ "model": "kind", "generateContentRequest": { "contents": [], "systemInstruction": "Mine." } });
    let parts = json!([{ "text": "Be kind." }, { "text": "Mine." }]);
    let expected = json!({ "model": "kind", "generateContentRequest": { "contents": [], "systemInstruction": { "parts": parts } } });
    assert_eq!(count(PresetSurface::Gemini, &whole), expected);
}

#[test]
fn a_surface_gets_no_parameter_that_it_does_not_have() {
    let given = json!({
        "top_p": 1, "seed": 7, "n": 2, "logit_bias": {}, "logprobs": true, "top_k": 5, "dimensions": 64, "reasoning_effort": "none",
    });
    let settings = || PresetSettings { overrides: parameters(&given), ..PresetSettings::default() };
    for (surface, expected) in [
        (PresetSurface::OneShot, json!({ "model": "kind", "dimensions": 64 })),
        (PresetSurface::GeminiEmbedding, json!({ "model": "kind", "outputDimensionality": 64 })),
        (PresetSurface::Messages, json!({ "model": "kind", "top_p": 1, "top_k": 5 })),
        (PresetSurface::Responses, json!({ "model": "kind", "top_p": 1, "reasoning": { "effort": "none" } })),
        (
            PresetSurface::Completion,
            json!({ "model": "kind", "top_p": 1, "seed": 7, "n": 2, "logit_bias": {}, "top_k": 5 }),
        ),
    ] {
        assert_eq!(changed(settings(), surface, &json!({ "model": "kind" })), expected, "{surface:?}");
    }
    let batch = json!({ "model": "kind", "requests": [{ "content": {} }, { "output_dimensionality": 1 }] });
    let expected = json!([{ "content": {}, "outputDimensionality": 64 }, { "output_dimensionality": 64 }]);
    assert_eq!(changed(settings(), PresetSurface::GeminiEmbedding, &batch)["requests"], expected);
}

#[test]
fn faults_of_a_body_stay_for_its_reader() {
    let presets = presets(preset());
    let text = r#"{"model":"kind","temperature":1,"temperature":2,"system":7,"metadata":"zz"}"#;
    let body =
        presets.apply(request(PresetSurface::Messages, text.as_bytes()), |_| true).unwrap().unwrap().body;
    let body = std::str::from_utf8(&body).unwrap();
    for part in [r#""temperature":1,"temperature":2"#, r#""system":7"#, r#""metadata":"zz""#] {
        assert!(body.contains(part), "{body}");
    }
}
