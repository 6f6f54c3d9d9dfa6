//! Secrets: their files, and that they are never shown.

use std::fs;
use std::path::Path;

use secrecy::ExposeSecret;

use super::super::{Source, load, parse};
use super::{bare, good, shown};

const CANARY: &str = "c4n4ry-5ecret";

/// A file's name and content.
type Written<'a> = (&'a str, &'a [u8]);

/// A directory with a configuration and the files it names.
fn directory(text: &str, files: &[Written<'_>]) -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in files {
        fs::write(directory.path().join(name), content).unwrap();
    }
    let path = directory.path().join("gateway.toml");
    fs::write(&path, text).unwrap();
    (directory, path)
}

#[test]
fn a_secret_can_be_in_a_file() {
    let text = "[[keys]]\nkey = { file = \"k\" }\n[[providers]]\nname = \"openai\"\napi = \"openai\"\napi_keys = [{ file = \
                \"k2\" }, { key = { file = \"${K:-k3}\" }, weight = 3 }]\n[server]\ndata_dir = \"data\"\n";
    let (directory, path) = directory(text, &[("k", b"one\n"), ("k2", b"two\r\n"), ("k3", b"three")]);
    let config = parse(text, &path, &bare).unwrap();
    assert_eq!(config.engine.keys[0].key.expose_secret(), "one");
    let keys: Vec<(&str, u32)> =
        config.providers[0].api_keys.iter().map(|(key, weight)| (key.expose_secret(), *weight)).collect();
    assert_eq!(keys, [("two", 1), ("three", 3)]);
    assert_eq!(config.data_dir, Some(directory.path().join("data")));
}

#[test]
fn a_secrets_file_that_cannot_serve_is_a_problem() {
    let big = vec![b'x'; 65 * 1024];
    let files: &[Written<'_>] =
        &[("empty", b""), ("blank", b" \n"), ("big", &big), ("binary", b"\xff\xfe"), ("two", b"a\nb")];
    for (name, said) in [
        ("missing", "keys[0].key.file: there is no such file"),
        ("empty", "keys[0].key.file: the file is empty"),
        ("blank", "keys[0].key.file: is blank; a secret must not be blank"),
        ("big", "keys[0].key.file: the file is larger than 64 KiB, too large for a secret"),
        ("binary", "keys[0].key.file: the file is not UTF-8 text"),
        ("two", "keys[0].key.file: contains a control character"),
        (".", "keys[0].key.file: is not a regular file"),
        ("", "keys[0].key.file: is not a path"),
    ] {
        let text = format!("[[keys]]\nkey = {{ file = \"{name}\" }}\n");
        let (_directory, path) = directory(&text, files);
        let problems = parse(&text, &path, &bare).unwrap_err();
        assert_eq!(shown(&problems), [format!("{}:2:16: {said}", path.display())]);
    }
    let problems = parse("[[keys]]\nkey = { fil = 'x' }", Path::new("g.toml"), &bare).unwrap_err();
    assert_eq!(
        shown(&problems),
        [
            "g.toml:2:1: keys[0].key.file: is missing",
            "g.toml:2:9: keys[0].key.fil: unknown key; did you mean 'file'?"
        ]
    );
}

#[test]
fn a_secret_is_shown_neither_by_a_problem_nor_by_debug() {
    let env = |name: &str| (name == "CANARY").then(|| CANARY.to_owned());
    let good = format!(
        "[store]\nurl = \"sqlite:///{CANARY}\"\n[redis]\nurl = \"redis://:{CANARY}@h\"\n[[keys]]\nkey = \"${{CANARY}}\"\n\
         [[providers]]\nname = \"openai\"\napi = \"openai\"\napi_key = \"{CANARY}\"\nheaders = {{ x = \"{CANARY}\" }}\n\
         [[providers]]\nname = \"groq\"\napi = \"openai\"\napi_keys = [\"${{CANARY}}\", {{ key = \"{CANARY}\" }}]\n"
    );
    let config = parse(&good, Path::new("g.toml"), &env).unwrap();
    assert!(!format!("{config:?}").contains(CANARY), "{config:?}");
    // In every place where a string is wrong, and where a secret is wrong itself.
    let mut texts = vec![
        format!("[server]\nlisten = \"{CANARY}\"\nretries = \"{CANARY}\"\ncors_origins = [\"{CANARY}\"]"),
        "[server]\nlisten = \"${CANARY}\"\ntls = { cert = \"${CANARY}\", key = \"${CANARY}\" }".to_owned(),
        format!("[store]\nurl = \"{CANARY}\"\n[redis]\nurl = \"http://{CANARY}\""),
        format!(
            "[[providers]]\nname = \"{CANARY}!\"\napi = \"{CANARY}\"\nbase_url = \"{CANARY}\"\napi_key = \" {CANARY}\""
        ),
        format!(
            "[[providers]]\nname = \"a\"\napi = \"openai\"\nbase_url = \"https://:{CANARY}@h\"\napi_keys = \"{CANARY}\""
        ),
        format!("[[keys]]\nkey = {{ file = \"{CANARY}\" }}\nrole = \"{CANARY}\"\nexpires_at = \"{CANARY}\""),
        format!("[[keys]]\nkey = \"{CANARY}\"\n[[keys]]\nkey = \"{CANARY}\""),
        format!("[[keys]]\nkey = {CANARY}\n"),
        format!("[[keys]]\nkey = \"{CANARY}\n"),
        format!("[[keys]]\nkey = [\"{CANARY}\"]\n"),
        format!("[[models]]\nid = \"{CANARY}\"\n[aliases]\nx = \"{CANARY} {CANARY}\""),
    ];
    texts.extend(
        good.lines().filter(|line| line.contains(CANARY)).map(|line| format!("[server]\nlisten = {line}")),
    );
    for text in texts {
        let problems = parse(&text, Path::new("g.toml"), &env).unwrap_err();
        assert!(
            !format!("{problems:?}{}", shown(&problems).join("\n")).contains(CANARY),
            "{text}\n{problems:?}"
        );
    }
}

#[test]
fn a_file_is_loaded_by_its_name() {
    let (_directory, path) = directory("[routing]\nretries = 3\n", &[]);
    let loaded = load(Source::File(path.clone())).unwrap();
    assert_eq!((loaded.config.engine.routing.retries, loaded.path.as_ref()), (3, Some(&path)));
    fs::write(&path, b"[routing]\n\nx = \"\xff\"").unwrap();
    assert_eq!(
        shown(&load(Source::File(path.clone())).unwrap_err().problems),
        [format!("{}:3:1: is not UTF-8 text", path.display())]
    );
    fs::remove_file(&path).unwrap();
    let said = shown(&load(Source::File(path)).unwrap_err().problems);
    assert!(
        said.len() == 1 && said[0].ends_with("gateway.toml: cannot be read: the file does not exist"),
        "{said:?}"
    );
    assert!(load(Source::Nothing).unwrap().path.is_none());
}

#[test]
fn what_is_shown_of_the_configuration_holds_no_secret() {
    let text = "[redis]\nurl = \"redis://:hunter2@h\"\n[[providers]]\nname = \"a\"\napi = \"openai\"\nbase_url = \"http://a/v1\"\n\
                api_keys = [\"hunter3\", { key = \"hunter4\", weight = 2 }]\nheaders = { \"x-team\" = \"hunter5\" }\n\
                [[keys]]\nname = \"ci\"\nkey = \"hunter6\"\nrpm = 5\n[routing]\nstrategy = \"cost\"\n";
    let shown = good(text).engine.shown;
    assert!(!shown.contains("hunter"), "{shown}");
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["redis"]["url"], "***");
    assert_eq!(shown["providers"][0]["headers"]["x-team"], "***");
    assert_eq!(shown["providers"][0]["api_keys"][1]["weight"], 2);
    assert_eq!((&shown["keys"][0]["name"], &shown["keys"][0]["rpm"]), (&"ci".into(), &5.into()));
    assert_eq!(shown["routing"]["strategy"], "cheapest");
}

#[test]
fn amounts_are_shown_as_numbers() {
    let text = "[[budgets]]\nname = \"b\"\nbudget_usd = 2.50\n\
                [[models]]\nid = \"openai/x\"\npricing = { official_input_per_m = 0.15, official_per_character = 0.000015 }\n";
    let shown: serde_json::Value = serde_json::from_str(&good(text).engine.shown).unwrap();
    assert_eq!(shown["budgets"][0]["budget_usd"], 2.5);
    let pricing = &shown["models"][0]["pricing"];
    assert_eq!(
        (&pricing["official_input_per_m"], &pricing["official_per_character"]),
        (&0.15.into(), &0.000_015.into())
    );
}
