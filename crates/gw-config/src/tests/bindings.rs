//! Each row of the schema that names a field sets it.

use gw_engine::settings::ModelSettings;

use super::super::schema::{Key, Kind, Section};
use super::super::tables::ROOT;
use super::good;

/// A value of the kind that differs from the default; None: texts, paths and lists, whose values have a form.
fn other_value(key: &Key) -> Option<String> {
    let default = key.default();
    let value = match &key.kind {
        Kind::Bool => (&*default != "true").to_string(),
        Kind::Int { min, max } if *default == max.to_string() => min.to_string(),
        Kind::Int { max, .. } => max.to_string(),
        Kind::Number { min, max } if default.parse() == Ok(*max) => format!("{min:?}"),
        Kind::Number { max, .. } => format!("{max:?}"),
        Kind::Choice(words) => {
            words.iter().map(|(word, _)| format!("{word:?}")).find(|word| **word != default)?
        }
        _ => return None,
    };
    Some(value)
}

/// The sections of one table each, with their headers.
fn sections(kind: &'static Kind, path: &str, found: &mut Vec<(String, &'static Section)>) {
    let Kind::Table(section) = kind else { return };
    found.push((path.to_owned(), section));
    for key in section.keys {
        sections(&key.kind, &format!("{path}.{}", key.name), found);
    }
}

#[test]
fn each_key_with_a_field_changes_the_settings() {
    let mut found = Vec::new();
    for key in ROOT.keys {
        sections(&key.kind, key.name, &mut found);
    }
    let (mut checked, mut without_effect) = (0, Vec::new());
    // The certificates are files, and `security::tls` of the outside tests has them.
    for (path, section) in found.into_iter().filter(|(path, _)| path != "server.tls") {
        // `cache.backend` needs [redis], and some sections need a key of their own.
        let head = match path.as_str() {
            "redis" => "[redis]\nurl = \"redis://127.0.0.1\"\n".to_owned(),
            "telemetry.otlp" => format!("[{path}]\nendpoint = \"http://127.0.0.1:1\"\n"),
            path => format!("[redis]\nurl = \"redis://127.0.0.1\"\n[{path}]\n"),
        };
        let shown = |line: &str| {
            let mut config = good(&format!("{head}{line}"));
            config.engine.shown.clear();
            config.fingerprints = Default::default();
            format!("{config:?}")
        };
        for key in section.keys.iter().filter(|key| key.binding.is_some()) {
            let Some(value) = other_value(key) else { continue };
            checked += 1;
            // PROXY headers need proxies.
            let more = if key.name == "proxy_protocol" { "trusted_proxies = [\"10.0.0.0/8\"]\n" } else { "" };
            if shown(&format!("{more}{} = {value}\n", key.name)) == shown(more) {
                without_effect.push(format!("{path}.{} = {value}", key.name));
            }
        }
    }
    assert_eq!(without_effect, Vec::<String>::new());
    assert!(checked > 60, "{checked} keys");
}

#[test]
fn the_entries_of_lists_set_their_fields() {
    let text = "[[providers]]\nname = \"acme\"\napi = \"openai\"\nbase_url = \"http://127.0.0.1:1\"\nprice_multiplier = 1.5\n\
                embedding_batch = 7\ndeny_betas = [\"b\"]\ntimeouts = { idle_ms = 5 }\n\
                [[models]]\nid = \"acme/m\"\nupstream_model = \"u\"\nmax_tools = 3\nmodalities = { input = [\"text\"] }\n\
                quality_scores = { math = 4.0 }\nperformance = { availability = 99.0 }\n\
                [[guards]]\nmax_minutes = 2\nmax_cost_usd = 0.5\naction = \"warn\"\nmatch = { teams = [\"t\"] }\n\
                [[keys]]\nkey = \"sk-1\"\nrpm = 8\nbudget_usd = 1\non_budget = \"cut\"\nunpriced = \"refuse\"\n";
    let config = good(text);
    let provider = &config.providers[0];
    assert_eq!((provider.price_multiplier.to_string().as_str(), provider.embedding_batch), ("1.5", Some(7)));
    assert_eq!(provider.deny_betas, ["b"]);
    let own = provider.timeouts;
    assert_eq!((own.idle.map(|idle| idle.as_millis()), own.total), (Some(5), None));
    assert!(provider.allow_private_network && !provider.discover && !provider.file_ids);
    let expected = ModelSettings {
        id: "acme/m".to_owned(),
        upstream_model: Some("u".to_owned()),
        max_tools: Some(3),
        modalities_input: Some(vec!["text".to_owned()]),
        quality_scores: [None, None, Some(4.0), None],
        availability: Some(99.0),
        ..ModelSettings::default()
    };
    assert_eq!(config.engine.models, [expected]);
    let guard = format!("{:?}", config.engine.guards);
    for part in
        ["max_age: Some(120s)", "max_cost_femtos: Some(500000000000000)", "action: Warn", "teams: [\"t\"]"]
    {
        assert!(guard.contains(part), "{part}: {guard}");
    }
    let limits = format!("{:?}", config.engine.keys[0].limits);
    for part in ["rpm: Some(8)", "on_budget: Cut", "unpriced: Refuse"] {
        assert!(limits.contains(part), "{part}: {limits}");
    }
}
