//! docs/config.md, gateway.example.toml and the contract's example agree with the loader.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gw_engine::catalog::SHIPPED;
use gw_engine::settings::Role;
use gw_providers::settings::Api;
use gw_wire::request::RequestLimits;
use secrecy::ExposeSecret;

use super::super::schema::{Kind, Section};
use super::super::tables::{APIS, ROOT};
use super::super::{parse, reference};
use super::{good, shown};

const EXAMPLE: &str = include_str!("../../../../gateway.example.toml");
const CONTRACT: &str = include_str!("contract.toml");

#[test]
fn docs_config_md_is_what_the_tables_say() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.md");
    let page = reference();
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/config.md is old; run `UPDATE=1 cargo test -p gw-config`");
}

#[test]
fn the_example_is_right_and_can_be_served() {
    let config = good(EXAMPLE);
    assert_eq!(config.providers.len(), 2);
}

/// The example with every setting switched on.
fn everything() -> String {
    let on = |line: &str| match line.strip_prefix('#') {
        Some(setting) if setting.starts_with(|c: char| c.is_ascii_lowercase() || c == '[') => {
            setting.to_owned()
        }
        _ => line.to_owned(),
    };
    EXAMPLE.lines().map(|line| on(line) + "\n").collect()
}

#[test]
fn each_setting_of_the_example_that_is_switched_off_is_right_too() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("tls")).unwrap();
    for file in ["tls/cert.pem", "tls/key.pem", "tls/clients.pem"] {
        fs::write(directory.path().join(file), "").unwrap();
    }
    fs::write(directory.path().join("codex.md"), "You write code.").unwrap();
    let env = |name: &str| name.ends_with(|c: char| c.is_ascii_alphanumeric()).then(|| name.to_lowercase());
    let env = |name: &str| env(name).filter(|_| !name.starts_with("MODEL_GATEWAY_"));
    // The secret of a signature has a form of its own.
    let signing =
        |name: &str| (name == "ALERT_SECRET").then(|| "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned());
    let env = |name: &str| signing(name).or_else(|| env(name));
    let config = parse(&everything(), &directory.path().join("gateway.toml"), &env)
        .unwrap_or_else(|problems| panic!("{}", shown(&problems).join("\n")));
    assert_eq!(config.engine.keys[0].key.expose_secret(), "ci_key");
}

#[test]
fn the_example_shows_every_key() {
    fn names(section: &'static Section, found: &mut BTreeSet<&'static str>) {
        for key in section.keys {
            found.insert(key.name);
            match key.kind {
                Kind::Table(below) | Kind::Tables(below) => names(below, found),
                _ => {}
            }
        }
    }
    let mut found = BTreeSet::new();
    names(&ROOT, &mut found);
    let text = everything();
    let missing: Vec<&&str> = found
        .iter()
        .filter(|name| {
            [format!("{name} ="), format!("{name}]"), format!("[{name}.")]
                .iter()
                .all(|part| !text.contains(part))
        })
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_documented_default_is_what_happens_without_the_key() {
    let mut text = String::new();
    for name in ["server", "timeouts", "routing"] {
        let Some(Kind::Table(section)) = ROOT.key(name).map(|key| &key.kind) else { panic!("{name}") };
        text += &format!("[{name}]\n");
        let defaults = section.keys.iter().map(|key| (key.name, key.default()));
        for (name, default) in defaults.filter(|(_, text)| !text.is_empty() && !text.starts_with('`')) {
            text += &format!("{name} = {default}\n");
        }
    }
    // The shown configuration differs, because it holds what is written, and the text is not blank.
    let mut written = good(&text);
    written.engine.shown = good("").engine.shown;
    written.is_blank = true;
    assert_eq!(format!("{written:?}"), format!("{:?}", good("")));
}

#[test]
fn the_request_limits_of_the_reference_are_those_of_requests() {
    let Some(Kind::Table(server)) = ROOT.key("server").map(|key| &key.kind) else { panic!("no server") };
    let Some(Kind::Table(limits)) = server.key("request_limits").map(|key| &key.kind) else { panic!("none") };
    let mut text = "[server.request_limits]\n".to_owned();
    for key in limits.keys {
        text += &format!("{} = {}\n", key.name, key.default());
    }
    assert_eq!(good(&text).engine.request_limits, RequestLimits::default());
    let set = good("[server.request_limits]\nmax_messages = 7\nmax_schema_depth = 8\n").engine.request_limits;
    assert_eq!(set, RequestLimits { max_messages: 7, max_schema_depth: 8, ..RequestLimits::default() });
}

#[test]
fn the_apis_are_those_of_the_providers() {
    let known: Vec<&str> = Api::ALL.iter().map(|api| api.as_str()).collect();
    assert_eq!(APIS.map(|(api, _)| api).to_vec(), known);
}

#[test]
fn each_provider_of_the_catalogue_is_known() {
    let entries: Vec<serde_json::Value> = serde_json::from_str(SHIPPED).unwrap();
    let mut text = String::new();
    for id in entries.iter().filter_map(|entry| entry["id"].as_str()) {
        text += &format!("[[models]]\nid = {id:?}\n");
    }
    assert_eq!(good(&text).engine.models.len(), entries.len());
}

#[test]
fn the_contracts_file_is_read_to_the_letter() {
    let env = |name: &str| ["ACME_API_KEY", "CI_KEY"].contains(&name).then(|| format!("value-of-{name}"));
    let config = parse(CONTRACT, Path::new("/etc/gw/gateway.toml"), &env).unwrap_or_else(|problems| {
        panic!("{}", shown(&problems).join("\n"));
    });
    let acme = &config.providers[0];
    assert_eq!((acme.name.as_str(), acme.api, acme.embedding_batch), ("acme", Api::OPENAI, Some(96)));
    assert_eq!(acme.api_keys[0].0.expose_secret(), "value-of-ACME_API_KEY");
    assert_eq!((acme.headers[0].0.as_str(), acme.headers[0].1.expose_secret()), ("x-team", "search"));
    assert_eq!((acme.timeouts.total, acme.timeouts.idle), (Some(Duration::from_secs(120)), None));
    let model = &config.engine.models[0];
    assert_eq!((model.id.as_str(), model.upstream_model.as_deref()), ("acme/fast", Some("fast-2026-01")));
    assert_eq!(model.modalities_input.as_deref(), Some(&["text".to_owned(), "image".to_owned()] as &[_]));
    assert_eq!(model.quality_scores, [Some(60.0), Some(58.0), Some(62.0), Some(55.0)]);
    assert_eq!((model.latency_p50_ms, model.availability), (Some(400.0), Some(99.9)));
    assert_eq!(model.embedding_dimensions.as_deref(), Some([256_u32, 1536].as_slice()));
    assert_eq!(model.pricing.cache_write_per_m.unwrap().to_string(), "0.19");
    assert_eq!(config.engine.aliases["gpt-4o"].targets, ["acme/fast"]);
    let key = &config.engine.keys[0];
    assert_eq!((key.name.as_str(), key.role, key.limits.rpm), ("ci", Role::Inference, Some(60)));
    assert_eq!(
        (key.models.as_deref(), key.expires_at),
        (Some(&["acme/*".to_owned()] as &[_]), Some(1_798_761_600))
    );
}

#[test]
fn options_of_a_dialect_are_handed_on() {
    let text = "[[providers]]\nname = \"az\"\napi = \"azure\"\napi_version = \"v1\"\ndeployments = { \"gpt-4.1\" = \"d\" }\n\
                [[providers]]\nname = \"o\"\napi = \"ollama\"\nnum_ctx_max = 5\n";
    let config = good(text);
    assert_eq!(config.providers[0].options["deployments"]["gpt-4.1"].as_str(), Some("d"));
    assert_eq!(config.providers[1].options["num_ctx_max"].as_integer(), Some(5));
}
