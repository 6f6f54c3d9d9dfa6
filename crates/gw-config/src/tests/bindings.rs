//! Each row of the schema that names a field sets it.

use gw_engine::settings::{Budget, ModelSettings, Period};
use gw_wire::hosted_tools::HostedTool;
use secrecy::ExposeSecret;

use super::super::schema::{Key, Kind, Section};
use super::super::tables::ROOT;
use super::{check, good};

const PROVIDER: &str =
    "[[providers]]\nname = \"acme\"\napi = \"openai\"\nbase_url = \"http://127.0.0.1:1\"\n";

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
            // The setting changes the aliases for agents.
            "agents" => {
                "[[aliases]]\nname = \"fast\"\ntargets = [\"demo/chat\"]\nagent = true\n[agents]\n".to_owned()
            }
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

/// Adds the paths of the keys that have no setter and are no tables.
fn without_setter(kind: &'static Kind, path: &str, found: &mut Vec<String>) {
    match kind {
        Kind::Table(section) | Kind::Tables(section) => {
            for key in section.keys {
                let path = format!("{path}.{}", key.name);
                let is_table = matches!(key.kind, Kind::Table(_) | Kind::Tables(_));
                if key.binding.is_none() && !is_table {
                    found.push(path.clone());
                }
                without_setter(&key.kind, &path, found);
            }
        }
        Kind::List { of, .. } | Kind::Map { of, .. } => without_setter(of, path, found),
        Kind::Either(one, other) => {
            without_setter(one, path, found);
            without_setter(other, path, found);
        }
        _ => {}
    }
}

#[test]
fn the_row_of_every_setting_has_its_setter() {
    let mut found = Vec::new();
    for key in ROOT.keys {
        without_setter(&key.kind, key.name, &mut found);
    }
    // It is the name under which the settings of the alias stand.
    assert_eq!(found, ["aliases.name"]);
}

#[test]
fn every_hosted_tool_has_a_price() {
    let text = HostedTool::ALL.iter().map(|tool| format!("{} = 0.5\n", tool.price_name()));
    let head = "[[models]]\nid = \"acme/m\"\n[models.pricing.tools]\n";
    let config = good(&format!("{PROVIDER}{head}{}", text.collect::<String>()));
    let prices = config.engine.models[0].pricing.tools;
    for tool in HostedTool::ALL {
        assert_eq!(prices.of(tool).map(|price| price.to_string()), Some("0.5".to_owned()), "{tool:?}");
    }
}

#[test]
fn values_that_make_one_field_together_are_all_read() {
    let text = "responses = \"auto\"\n\
                token_arrays = true\napi_keys = [\"a\", { key = \"b\", weight = 3 }]\nheaders = { X-A = \"1\" }\n\
                [[keys]]\nkey = \"sk-1\"\nbudget_usd = 1.5\nbudget_period = \"quarter\"\n\
                [[store.keys]]\nid = \"sk-gw-abcdef\"\nname = \"n\"\n";
    let hash = |digit: &str, name: &str| format!("{name} = \"{}\"\n", digit.repeat(64));
    let text = format!("{PROVIDER}{text}{}{}", hash("1", "key_hash"), hash("a", "previous_key_hash"));
    let config = good(&format!("{text}previous_valid_until = 2027-01-01T00:00:00Z\n"));
    let provider = &config.providers[0];
    let options: Vec<&str> = provider.options.keys().map(String::as_str).collect();
    assert_eq!(options, ["responses", "token_arrays"]);
    let keys: Vec<_> = provider.api_keys.iter().map(|(key, weight)| (key.expose_secret(), *weight)).collect();
    assert_eq!(keys, [("a", 1), ("b", 3)]);
    assert_eq!((provider.headers[0].0.as_str(), provider.headers[0].1.expose_secret()), ("X-A", "1"));
    let key = &config.engine.keys[0];
    let budget = Budget { nano: 1_500_000_000, period: Period::Quarter };
    assert_eq!((key.name.as_str(), key.limits.budget), ("key-1", Some(budget)));
    let rolling = "[[keys]]\nkey = \"sk-1\"\nbudget_usd = 1\nbudget_period = ";
    let limits = good(&format!("{rolling}\"30d\"")).engine.keys[0].limits;
    assert_eq!(limits.budget.map(|budget| budget.period.as_str()), Some("30d"));
    check(
        &format!("{rolling}\"400d\""),
        &[
            "4:17: keys[0].budget_period: unknown word; expected one of \"day\", \"week\", \"month\", \"quarter\", \
           \"total\", or a string: 1 to 366 days, such as \"30d\"",
        ],
    );
    let stored = &config.store.content.keys[0];
    assert_eq!((stored.hash, stored.previous), ([0x11; 32], Some(([0xaa; 32], 1_798_761_600))));
    // An earlier secret without an end is none.
    assert_eq!(good(&text).store.content.keys[0].previous, None);
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
