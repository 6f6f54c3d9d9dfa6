//! Secrets that are empty or too short: the gateway does not start, and says which setting it is.

use std::collections::BTreeSet;

use gw_testkit::Launch;
use serde_json::{Value, json};

use crate::harness::management::ask;
use crate::harness::{Differences, binary};

/// Every secret of a configuration: its place in the schema, its place in a message, and a configuration in which `<secret>`
/// stands for its value.
const SECRETS: [(&str, &str, &str); 16] = [
    ("keys[].key", "keys[0].key", "[[keys]]\nname = \"a\"\nrole = \"admin\"\nkey = <secret>"),
    ("providers[].api_key", "providers[0].api_key", "[[providers]]\nname = \"openai\"\napi_key = <secret>"),
    (
        "providers[].api_keys[]",
        "providers[0].api_keys[0]",
        "[[providers]]\nname = \"openai\"\napi_keys = [<secret>]",
    ),
    (
        "providers[].api_keys[].key",
        "providers[0].api_keys[0].key",
        "[[providers]]\nname = \"openai\"\napi_keys = [{ key = <secret>, weight = 2 }]",
    ),
    (
        "providers[].headers.*",
        "providers[0].headers.x-token",
        "[[providers]]\nname = \"openai\"\nheaders = { \"x-token\" = <secret> }",
    ),
    (
        "passthrough[].headers.*",
        "passthrough[0].headers.x-token",
        "[[passthrough]]\npath = \"/a\"\ntarget = \"http://127.0.0.1:9\"\nheaders = { \"x-token\" = <secret> }",
    ),
    (
        "alerts[].url",
        "alerts[0].url",
        "[[alerts]]\nname = \"a\"\non = [\"budget:1\"]\nformat = \"slack\"\nurl = <secret>",
    ),
    (
        "alerts[].secret",
        "alerts[0].secret",
        "[[alerts]]\nname = \"a\"\non = [\"budget:1\"]\nurl = \"https://127.0.0.1:9/\"\nsecret = <secret>",
    ),
    (
        "alerts[].routing_key",
        "alerts[0].routing_key",
        "[[alerts]]\nname = \"a\"\non = [\"budget:1\"]\nformat = \"pagerduty\"\nrouting_key = <secret>",
    ),
    (
        "reconcile[].admin_key",
        "reconcile[0].admin_key",
        "[[providers]]\nname = \"acme\"\napi = \"openai\"\nbase_url = \"http://127.0.0.1:9\"\n[[reconcile]]\nprovider = \"acme\"\nadmin_key = <secret>",
    ),
    ("redis.url", "redis.url", "[redis]\nurl = <secret>"),
    ("store.url", "store.url", "[store]\nurl = <secret>"),
    (
        "store.keys[].key_hash",
        "store.keys[0].key_hash",
        "[[store.keys]]\nid = \"sk-gw-abcdef\"\nname = \"a\"\nkey_hash = <secret>",
    ),
    (
        "store.keys[].previous_key_hash",
        "store.keys[0].previous_key_hash",
        "[[store.keys]]\nid = \"sk-gw-abcdef\"\nname = \"a\"\nprevious_key_hash = <secret>",
    ),
    (
        "telemetry.otlp.headers.*",
        "telemetry.otlp.headers.authorization",
        "[telemetry.otlp]\nendpoint = \"http://127.0.0.1:9\"\nheaders = { authorization = <secret> }",
    ),
    (
        "identity.issuers[].client_secret",
        "identity.issuers[0].client_secret",
        "[[identity.issuers]]\nissuer = \"https://127.0.0.1:9\"\naudiences = [\"a\"]\nclient_id = \"a\"\nclient_secret = <secret>",
    ),
];

/// The places of the secrets in a JSON Schema. A secret is a text or a table with the key `file`.
fn secrets_of(schema: &Value, place: &str, all: &mut BTreeSet<String>) {
    let below = |name: &str| if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        secrets_of(property, &below(name), all);
    }
    if schema["items"].is_object() {
        secrets_of(&schema["items"], &format!("{place}[]"), all);
    }
    if schema["additionalProperties"].is_object() {
        secrets_of(&schema["additionalProperties"], &below("*"), all);
    }
    let forms = schema["anyOf"].as_array().cloned().unwrap_or_default();
    let is_file =
        |form: &Value| form["properties"].as_object().is_some_and(|members| members.keys().eq(["file"]));
    if forms.iter().any(is_file) {
        all.insert(place.to_owned());
    }
    for form in forms.iter().filter(|form| !is_file(form)) {
        secrets_of(form, place, all);
    }
}

#[test]
fn i16_an_empty_secret_is_an_error_that_names_its_setting() {
    let schema = Launch::new(binary()).arg("config").arg("schema").run();
    let schema: Value = serde_json::from_slice(&schema.stdout).expect("a JSON Schema");
    let mut known = BTreeSet::new();
    secrets_of(&schema, "", &mut known);
    let listed: BTreeSet<_> = SECRETS.iter().map(|(place, _, _)| (*place).to_owned()).collect();
    assert_eq!(known, listed, "each secret of the schema has its row");
    let values = [
        "\"\"",
        "\"  \"",
        "\"${EMPTY_SECRET}\"",
        "\"${NO_SUCH_SECRET}\"",
        "\"${NO_SUCH_SECRET:-}\"",
        "{ file = \"empty\" }",
        "{ file = \"blank\" }",
        "{ file = \"missing\" }",
    ];
    let mut rows = Differences::default();
    for (_, setting, text) in SECRETS {
        for value in values {
            let config = format!("[server]\nlisten = \"127.0.0.1:0\"\n{}\n", text.replace("<secret>", value));
            let launch =
                Launch::new(binary()).file("gateway.toml", config).file("empty", "").file("blank", " \n");
            let output = launch.arg("serve").env("EMPTY_SECRET", "").run();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let found = (output.status.code(), said.contains(setting));
            rows.check(format!("{setting} = {value}: {said}"), found, (Some(2), true));
        }
    }
    for (name, setting) in
        [("MODEL_GATEWAY_REDIS__URL", "redis.url"), ("MODEL_GATEWAY_STORE__URL", "store.url")]
    {
        let output = Launch::new(binary()).file("gateway.toml", "").arg("serve").env(name, " ").run();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        rows.check(
            format!("{name}: {said}"),
            (output.status.code(), said.contains(setting)),
            (Some(2), true),
        );
    }
    rows.finish();
}

#[test]
fn i16_an_encryption_key_has_32_bytes() {
    let right = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    // 31, 33 and 16 bytes, and a password.
    let wrong =
        ["", "  ", &right[2..], &format!("{right}00"), &right[..32], "hunter2hunter2hunter2hunter2hunter2"];
    let config = "[server]\nlisten = \"127.0.0.1:0\"\n[[keys]]\nname = \"a\"\nkey = \"sk-a\"\n";
    let launch = || Launch::new(binary()).file("gateway.toml", config).arg("serve");
    let mut rows = Differences::default();
    let mut check = |label: String, launch: Launch, code: i32, words: &[&str]| {
        let output = launch.run();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let tells = words.iter().all(|word| said.contains(word))
            && !said.contains("hunter2")
            && !said.contains("99aabb");
        rows.check(format!("{label}: {said}"), (output.status.code(), tells), (Some(code), true));
    };
    for value in wrong {
        const NAME: &str = "MODEL_GATEWAY_ENCRYPTION_KEY";
        const PREVIOUS: &str = "MODEL_GATEWAY_PREVIOUS_ENCRYPTION_KEY";
        check(format!("{NAME}={value:?}"), launch().env(NAME, value), 2, &[NAME, "32 bytes"]);
        check(
            format!("{PREVIOUS}={value:?}"),
            launch().env(NAME, right).env(PREVIOUS, value),
            2,
            &[PREVIOUS, "32 bytes"],
        );
        let with_file = launch();
        let data = with_file.dir().join("data");
        std::fs::create_dir(&data).expect("a directory");
        std::fs::write(data.join("secret.key"), value).expect("a file");
        check(format!("secret.key with {value:?}"), with_file, 1, &["secret.key", "32 bytes"]);
    }
    rows.finish();
}

/// The contract lets operators choose their keys. The hash of a key has its whole length.
#[test]
fn i16_a_gateway_key_is_any_text_and_a_hash_is_whole() {
    let check = |config: &str| {
        let output = Launch::new(binary()).file("gateway.toml", config).arg("check").run();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let provider = "[[providers]]\nname = \"demo\"\napi = \"demo\"\n";
    let (code, said) = check(&format!("{provider}[[keys]]\nname = \"a\"\nkey = \"x\"\n"));
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = check(&format!(
        "{provider}[[store.keys]]\nid = \"sk-gw-abcdef\"\nname = \"a\"\nkey_hash = \"{}\"\n",
        "a".repeat(63)
    ));
    assert!(code == Some(2) && said.contains("store.keys[0].key_hash"), "{said}");
}

#[tokio::test]
async fn a_configured_key_that_can_be_guessed_is_told_by_the_check_and_at_the_start() {
    const STRONG: &str = "9f3c51d07be24a8896e1d4427c0ab35f";
    const NOTE: &str = "keys: 'weak' can be guessed: the text has no room for 128 random bits";
    let config = |key: &str| {
        format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n[[providers]]\nname = \"demo\"\n[[keys]]\nname = \"strong\"\n\
             key = \"{STRONG}\"\n[[keys]]\nname = \"weak\"\nkey = \"{key}\"\n"
        )
    };
    for (key, is_told) in [("a", true), ("hunter2-canary", true), (&*STRONG.replace('9', "8"), false)] {
        let launch = Launch::new(binary()).file("gateway.toml", config(key));
        let checked = launch.arg("check").run();
        let said = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert_eq!((checked.status.code(), said.contains(NOTE)), (Some(0), is_told), "{key}: {said}");
        let gateway = Launch::new(binary()).file("gateway.toml", config(key)).arg("serve").start().await;
        let logged = gateway.stderr().join("\n");
        assert_eq!(logged.contains(NOTE), is_told, "{key}: {logged}");
        assert!(
            !said.contains("canary") && !logged.contains("canary") && !logged.contains(STRONG),
            "{logged}"
        );
    }
}

#[tokio::test]
async fn a_configured_key_that_can_be_guessed_is_told_once_beside_entries_of_the_api() {
    let config = "[server]\nlisten = \"127.0.0.1:0\"\n[[providers]]\nname = \"demo\"\n[[keys]]\nname = \"weak\"\n\
                  key = \"hunter2\"\nrole = \"admin\"\n";
    let data = tempfile::tempdir().expect("a directory");
    let launch = || {
        let launch = Launch::new(binary()).file("gateway.toml", config).arg("serve");
        launch.env("MODEL_GATEWAY_DATA_DIR", &data.path().display().to_string())
    };
    let gateway = launch().start().await;
    let admin = gateway.client().with_key("hunter2");
    let answer = ask(&admin, "PUT", "/admin/v1/config/timeouts", &json!({ "total_ms": 123_456 })).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    drop(gateway.stop());
    let logged = launch().start().await.stderr().join("\n");
    assert_eq!(logged.matches("keys: 'weak' can be guessed").count(), 1, "{logged}");
}
