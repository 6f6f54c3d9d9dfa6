//! Each program learns the address, the key and the model, and no argument holds the key.

use std::collections::BTreeMap;

use super::*;

const SECRET: &str = "sk-gw-canary-0815";

fn endpoint(model: Option<&str>) -> Endpoint {
    let limits =
        |name: &str| AgentModel { name: name.to_owned(), context: Some(64_000), max_output: Some(8000) };
    Endpoint { origin: "http://127.0.0.1:4000".to_owned(), model: model.map(limits) }
}

fn set(plan: &LaunchPlan) -> BTreeMap<&'static str, &str> {
    plan.set.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

const ALL: [Program; 6] =
    [Program::Codex, Program::Claude, Program::Aider, Program::Opencode, Program::Goose, Program::Other];

#[test]
fn no_argument_holds_the_key() {
    for program in ALL {
        let plan = program.plan(&endpoint(Some("acme/fast")), SECRET, true, &[]);
        assert!(plan.arguments.iter().all(|argument| !argument.contains(SECRET)), "{program:?}");
        assert!(plan.set.iter().any(|(_, value)| value.contains(SECRET)), "{program:?}");
    }
}

#[test]
fn a_program_is_known_by_the_name_of_its_file() {
    for (command, program) in [
        ("codex", Program::Codex),
        ("/usr/local/bin/claude", Program::Claude),
        ("./aider", Program::Aider),
        ("opencode", Program::Opencode),
        ("goose", Program::Goose),
        ("claude.exe", Program::Claude),
        ("claude-lint", Program::Other),
        ("python3", Program::Other),
        ("", Program::Other),
    ] {
        assert_eq!(Program::of(OsStr::new(command)), program, "{command}");
    }
}

#[test]
fn the_settings_of_codex_are_toml() {
    let plan = Program::Codex.plan(&endpoint(Some("odd/\"quoted\" name")), SECRET, true, &[]);
    let (flags, values): (Vec<_>, Vec<_>) =
        plan.arguments.chunks(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).unzip();
    assert!(flags.iter().all(|flag| *flag == "-c"));
    let document: toml::Table = values.join("\n").parse().unwrap();
    assert_eq!(document["model"].as_str(), Some("odd/\"quoted\" name"));
    assert_eq!(document["model_provider"].as_str(), Some(PROVIDER));
    assert_eq!(document["model_context_window"].as_integer(), Some(64_000));
    let provider = &document["model_providers"][PROVIDER];
    assert_eq!(provider["base_url"].as_str(), Some("http://127.0.0.1:4000/v1"));
    assert_eq!(provider["env_key"].as_str(), Some(KEY));
    assert_eq!(provider["wire_api"].as_str(), Some("responses"));
    assert_eq!(document["analytics"]["enabled"].as_bool(), Some(false));
    assert_eq!(set(&plan), BTreeMap::from([(KEY, SECRET)]));
}

#[test]
fn claude_code_gets_one_key_and_limits_of_the_model() {
    let plan = Program::Claude.plan(&endpoint(Some("local")), SECRET, false, &[]);
    let set = set(&plan);
    assert_eq!(set["ANTHROPIC_BASE_URL"], "http://127.0.0.1:4000");
    assert_eq!(set["ANTHROPIC_AUTH_TOKEN"], SECRET);
    assert!(CLAUDE_MODELS.iter().all(|name| set[name] == "local"));
    assert_eq!(
        (set["CLAUDE_CODE_MAX_OUTPUT_TOKENS"], set["CLAUDE_CODE_MAX_CONTEXT_TOKENS"]),
        ("8000", "64000")
    );
    assert!(plan.unset.contains(&"ANTHROPIC_API_KEY") && !set.contains_key("DISABLE_TELEMETRY"));
    let quiet = Program::Claude.plan(&endpoint(None), SECRET, true, &[]);
    assert!(quiet.set.iter().any(|(name, value)| *name == "DISABLE_TELEMETRY" && value == "1"));
    assert!(!quiet.set.iter().any(|(name, _)| *name == "ANTHROPIC_MODEL"));
}

#[test]
fn the_other_programs_get_their_own_variables() {
    let endpoint = endpoint(Some("acme/fast"));
    let plan = Program::Aider.plan(&endpoint, SECRET, false, &[]);
    assert_eq!(set(&plan)["AIDER_MODEL"], "openai/acme/fast");
    assert_eq!(set(&plan)["OPENAI_API_BASE"], "http://127.0.0.1:4000/v1");
    let plan = Program::Goose.plan(&endpoint, SECRET, false, &[]);
    assert_eq!(
        (set(&plan)["OPENAI_HOST"], set(&plan)["GOOSE_MODEL"]),
        ("http://127.0.0.1:4000", "acme/fast")
    );
    let plan = Program::Opencode.plan(&endpoint, SECRET, false, &[]);
    let settings: Value = serde_json::from_str(set(&plan)["OPENCODE_CONFIG_CONTENT"]).unwrap();
    assert_eq!(settings["model"], "model-gateway/acme/fast");
    assert_eq!(settings["provider"][PROVIDER]["options"]["apiKey"], SECRET);
    assert_eq!(settings["provider"][PROVIDER]["models"]["acme/fast"]["limit"]["output"], 8000);
    let plan = Program::Other.plan(&endpoint, SECRET, false, &[]);
    assert_eq!(set(&plan)["OPENAI_BASE_URL"], "http://127.0.0.1:4000/v1");
    assert_eq!(set(&plan)["ANTHROPIC_BASE_URL"], "http://127.0.0.1:4000");
    assert_eq!(plan.unset, ["ANTHROPIC_AUTH_TOKEN"]);
}

#[test]
fn codex_and_claude_code_send_where_they_work() {
    let headers = [("x-gateway-repository", "acme/shop".to_owned()), ("x-gateway-branch", "a\"b".to_owned())];
    let plan = Program::Codex.plan(&endpoint(None), SECRET, false, &headers);
    let provider = plan.arguments.iter().find(|argument| argument.contains("model_providers")).unwrap();
    let expected = r#"http_headers={"x-gateway-repository"="acme/shop","x-gateway-branch"="a\"b"}}"#;
    assert!(provider.ends_with(expected), "{provider}");
    let plan = Program::Claude.plan(&endpoint(None), SECRET, false, &headers[..1]);
    let lines = &set(&plan)["ANTHROPIC_CUSTOM_HEADERS"];
    assert!(lines.ends_with("x-gateway-repository: acme/shop"), "{lines}");
    let plan = Program::Claude.plan(&endpoint(None), SECRET, false, &[]);
    assert!(!set(&plan).contains_key("ANTHROPIC_CUSTOM_HEADERS"));
}
