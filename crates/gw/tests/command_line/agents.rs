//! `model-gateway run` and `model-gateway setup`. The started program is a script that prints its arguments and environment.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

use gw_testkit::{Gateway, Launch};
use serde_json::Value;

use crate::harness::{ADMIN, KEY, binary, chat, serve};

const SECRET: &str = "sk-gw-canary-4711";
const CONFIG: &str = "[server]\nlisten = \"0.0.0.0:4123\"\n[[providers]]\nname = \"demo\"\n[[models]]\nid = \"demo/chat\"\n\
                      context_length = 64000\nmax_output_tokens = 8000\n";

/// A launch beside an executable script of this name.
fn with_script(name: &str, script: &str) -> Launch {
    let launch =
        Launch::new(binary()).file("gateway.toml", CONFIG).file(name, format!("#!/bin/sh\n{script}\n"));
    let path = launch.dir().join(name);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("an executable file");
    launch
}

/// A script that prints its arguments, one a line, then a line `--`, then its environment.
const PRINTER: &str = "for argument in \"$@\"; do printf '%s\\n' \"$argument\"; done; echo --; env";

fn with_args(launch: Launch, args: &[&str]) -> Launch {
    args.iter().fold(launch, |launch, arg| launch.arg(*arg))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The arguments and the environment of the started script.
#[track_caller]
fn started(output: &Output) -> (Vec<String>, BTreeMap<String, String>) {
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "run prints nothing of its own");
    let all = text(&output.stdout);
    let (arguments, environment) = all.split_once("--\n").expect("a line between the two");
    let variables = environment.lines().filter_map(|line| line.split_once('='));
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    (arguments.lines().map(str::to_owned).collect(), variables)
}

#[test]
fn codex_gets_the_gateway_by_options_and_the_key_by_its_environment() {
    let launch =
        with_script("codex", PRINTER).env("MODEL_GATEWAY_KEY", SECRET).env("MODEL_GATEWAY_ADMIN_KEY", ADMIN);
    let run = ["run", "--model", "demo/chat", "--no-telemetry", "--no-git", "--"];
    let args = [&run[..], &["./codex", "exec", "-m", "x", "do it"]].concat();
    let (arguments, variables) = started(&with_args(launch, &args).run());
    let (options, rest) = arguments.split_at(arguments.len() - 4);
    assert_eq!(rest, ["exec", "-m", "x", "do it"], "the user's own arguments come last");
    assert!(options.iter().step_by(2).all(|option| option == "-c"), "{options:?}");
    let settings: Vec<&str> = options.iter().skip(1).step_by(2).map(String::as_str).collect();
    assert_eq!(
        settings,
        [
            "model_provider=\"model-gateway\"",
            "model_providers.model-gateway={name=\"Model Gateway\",base_url=\"http://127.0.0.1:4123/v1\",\
             env_key=\"MODEL_GATEWAY_KEY\",wire_api=\"responses\"}",
            "model=\"demo/chat\"",
            "model_context_window=64000",
            "analytics.enabled=false",
            "feedback.enabled=false",
            "check_for_update_on_startup=false",
        ]
    );
    assert_eq!(variables["MODEL_GATEWAY_KEY"], SECRET);
    assert!(!variables.values().any(|value| value.contains(ADMIN)), "the admin key is not for the program");
}

#[test]
fn claude_code_gets_the_gateway_by_its_environment_alone() {
    let launch = with_script("claude", PRINTER)
        .env("ANTHROPIC_API_KEY", "sk-ant-of-the-user")
        .env("CLAUDE_CODE_USE_BEDROCK", "1")
        .env("MODEL_GATEWAY_KEY", "sk-gw-other");
    let args = ["run", "--key", SECRET, "--model", "demo/chat", "./claude", "-p", "--model", "y"];
    let (arguments, variables) = started(&with_args(launch, &args).run());
    assert_eq!(arguments, ["-p", "--model", "y"]);
    for (name, value) in [
        ("ANTHROPIC_BASE_URL", "http://127.0.0.1:4123"),
        ("ANTHROPIC_AUTH_TOKEN", SECRET),
        ("ANTHROPIC_MODEL", "demo/chat"),
        ("ANTHROPIC_DEFAULT_HAIKU_MODEL", "demo/chat"),
        ("CLAUDE_CODE_MAX_OUTPUT_TOKENS", "8000"),
        ("CLAUDE_CODE_MAX_CONTEXT_TOKENS", "64000"),
        ("CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY", "1"),
    ] {
        assert_eq!(variables.get(name).map(String::as_str), Some(value), "{name}");
    }
    for name in ["ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK", "DISABLE_TELEMETRY"] {
        assert!(!variables.contains_key(name), "{name}");
    }
}

const PLACE: [&str; 3] = ["MODEL_GATEWAY_REPOSITORY", "MODEL_GATEWAY_BRANCH", "MODEL_GATEWAY_PULL_REQUEST"];

#[test]
fn a_program_learns_its_repository_and_its_branch_from_git() {
    let launch = with_script("claude", PRINTER).env("ANTHROPIC_CUSTOM_HEADERS", "x-own: 1");
    let git = |args: &[&str]| {
        let done = Command::new("git").arg("-C").arg(launch.dir()).args(args).output().expect("git");
        assert!(done.status.success(), "{args:?}: {}", text(&done.stderr));
    };
    git(&["init", "-q"]);
    git(&["symbolic-ref", "HEAD", "refs/heads/fix/rounding"]);
    git(&["remote", "add", "origin", "https://user:secret@git.example/acme/shop.git"]);
    let args = ["run", "--key", SECRET, "--", "./claude"];
    let output = with_args(launch, &args).run();
    let (_, variables) = started(&output);
    let place = PLACE.map(|name| variables.get(name).map(String::as_str));
    assert_eq!(place, [Some("acme/shop"), Some("fix/rounding"), None]);
    let all = text(&output.stdout);
    let lines = "ANTHROPIC_CUSTOM_HEADERS=x-own: 1\nx-gateway-repository: acme/shop\nx-gateway-branch: fix/rounding\n";
    assert!(all.contains(lines), "{all}");
    assert!(!all.contains("secret@"), "credentials stay in git");
}

#[test]
fn a_program_learns_its_pull_request_from_the_ci() {
    let github = |launch: Launch| {
        launch
            .env("GITHUB_REPOSITORY", "acme/shop")
            .env("GITHUB_REF", "refs/pull/12/merge")
            .env("GITHUB_REF_NAME", "12/merge")
            .env("GITHUB_HEAD_REF", "fix")
    };
    let args = ["run", "--key", SECRET, "--", "./codex"];
    let (arguments, variables) = started(&with_args(github(with_script("codex", PRINTER)), &args).run());
    let place = PLACE.map(|name| variables.get(name).map(String::as_str));
    assert_eq!(place, [Some("acme/shop"), Some("fix"), Some("12")]);
    let headers = "http_headers={\"x-gateway-repository\"=\"acme/shop\",\"x-gateway-branch\"=\"fix\",\
                   \"x-gateway-pull-request\"=\"12\"}";
    assert!(arguments.iter().any(|argument| argument.contains(headers)), "{arguments:?}");
    let args = ["run", "--key", SECRET, "--no-git", "--", "./codex"];
    let (arguments, variables) = started(&with_args(github(with_script("codex", PRINTER)), &args).run());
    assert!(PLACE.iter().all(|name| !variables.contains_key(*name)));
    assert!(!arguments.iter().any(|argument| argument.contains("http_headers")), "{arguments:?}");
}

#[test]
fn another_program_gets_the_variables_of_the_sdks() {
    let launch = with_script("tool", PRINTER).env("ANTHROPIC_AUTH_TOKEN", "sk-ant-other");
    let args =
        ["run", "--url", "https://gw.example:8443/v1/", "--key", SECRET, "--model", "m", "--", "./tool"];
    let (arguments, variables) = started(&with_args(launch, &args).run());
    assert!(arguments.is_empty());
    assert_eq!(variables["OPENAI_BASE_URL"], "https://gw.example:8443/v1");
    assert_eq!(variables["ANTHROPIC_BASE_URL"], "https://gw.example:8443");
    assert_eq!(
        (variables["OPENAI_API_KEY"].as_str(), variables["ANTHROPIC_API_KEY"].as_str()),
        (SECRET, SECRET)
    );
    assert_eq!(variables["OPENAI_MODEL"], "m");
    assert!(!variables.contains_key("ANTHROPIC_AUTH_TOKEN"));
    let launch = with_script("wrapper", PRINTER);
    let args = ["run", "--as", "claude", "--key", SECRET, "--", "./wrapper"];
    let (_, variables) = started(&with_args(launch, &args).run());
    assert_eq!(variables["ANTHROPIC_AUTH_TOKEN"], SECRET);
}

#[tokio::test]
async fn the_gateway_behind_url_tells_the_limits_of_the_model() {
    let gateway = serve(&format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[[providers]]\nname = \"demo\"\n[[models]]\nid = \"demo/chat\"\n\
         context_length = 65536\nmax_output_tokens = 4096\n[aliases]\n\"small-one\" = \"demo/chat\"\n\
         [[keys]]\nname = \"user\"\nkey = \"{KEY}\"\n"
    ))
    .await;
    let url = format!("http://{}/v1", gateway.addr);
    for name in ["demo/chat", "small-one"] {
        let args = ["run", "--url", &url, "--key", KEY, "--model", name, "--", "./claude"];
        let (_, variables) = started(&with_args(with_script("claude", PRINTER), &args).run());
        assert_eq!(variables["CLAUDE_CODE_MAX_CONTEXT_TOKENS"], "65536", "{name}");
        assert_eq!(variables["CLAUDE_CODE_MAX_OUTPUT_TOKENS"], "4096", "{name}");
        let args = ["run", "--url", &url, "--key", KEY, "--model", name, "--", "./codex"];
        let (arguments, _) = started(&with_args(with_script("codex", PRINTER), &args).run());
        assert!(arguments.contains(&"model_context_window=65536".to_owned()), "{name}: {arguments:?}");
    }
    // A gateway that does not tell is a warning, and the program starts.
    let args = ["run", "--url", &url, "--key", SECRET, "--model", "demo/chat", "--", "./claude"];
    let output = with_args(with_script("claude", PRINTER), &args).run();
    assert_eq!(output.status.code(), Some(0));
    let said = text(&output.stderr);
    assert!(said.contains("limits of the model") && !said.contains(SECRET), "{said}");
    assert!(!text(&output.stdout).contains("CLAUDE_CODE_MAX_CONTEXT_TOKENS"));
}

#[test]
fn the_exit_status_is_the_programs_own() {
    for (script, code, signal) in
        [("exit 0", Some(0), None), ("exit 7", Some(7), None), ("kill -TERM $$", None, Some(15))]
    {
        let launch = with_script("tool", script).env("MODEL_GATEWAY_KEY", SECRET);
        let status = with_args(launch, &["run", "--", "./tool"]).run().status;
        assert_eq!((status.code(), status.signal()), (code, signal), "{script}");
    }
}

#[test]
fn a_signal_reaches_the_program() {
    let script = "trap 'echo told; exit 3' TERM; echo ready; while :; do sleep 0.01; done";
    let launch = with_script("tool", script);
    let mut child = Command::new(binary())
        .args(["run", "--url", "http://127.0.0.1:1", "--key", SECRET, "--", "./tool"])
        .current_dir(launch.dir())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    assert_eq!(lines.next().expect("a line").expect("text"), "ready");
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
    assert_eq!(lines.next().expect("a line").expect("text"), "told");
    assert_eq!(child.wait().expect("it ends").code(), Some(3));
}

#[test]
fn a_start_without_a_key_or_a_program_says_what_is_missing() {
    for (args, code, words) in [
        (&["run", "--", "./tool"][..], 2, &["MODEL_GATEWAY_KEY", "keys create", "--create-key"][..]),
        (&["run", "--key", " ", "--", "./tool"], 2, &["--key holds no key"]),
        (&["run", "--key", "sk-a\nb", "--", "./tool"], 2, &["--key holds no key"]),
        (
            &["run", "--key", "sk", "--", "./not-there"],
            1,
            &["'./not-there' cannot be started", "not installed"],
        ),
        (&["run", "--key", "sk", "--url", "gw", "--", "./tool"], 2, &["--url", "http://127.0.0.1:4000"]),
        (&["run", "--key", "sk", "--create-key", "--", "./tool"], 2, &["cannot be used with"]),
        (&["run"], 2, &["<COMMAND>"]),
    ] {
        let output = with_args(with_script("tool", "echo started"), args).run();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(words.iter().all(|word| said.contains(word)) && !said.contains("sk-a"), "{args:?}: {said}");
        assert_eq!(text(&output.stdout), "", "{args:?}");
    }
}

/// The gateway whose store the command opens.
async fn gateway() -> Gateway {
    serve(&format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[[providers]]\nname = \"demo\"\n[[keys]]\nname = \"user\"\nkey = \"{KEY}\"\n\
         [[keys]]\nname = \"boss\"\nkey = \"{ADMIN}\"\nrole = \"admin\"\n"
    ))
    .await
}

/// Checks that the created key works, is named after the program, and expires.
async fn assert_created(gateway: &Gateway, key: &str) {
    let client = gateway.client().with_key(key);
    gw_testkit::wait::within("the gateway knows the key", async {
        while client.get("/v1/models").await.status != 200 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    client.post_json("/v1/chat/completions", &chat("demo/chat")).await.ok();
    assert_eq!(client.get("/admin/v1/keys").await.status, 403, "it is an inference key");
    let listed = gateway.client().with_key(ADMIN).get("/admin/v1/keys").await.ok().json();
    let row = listed["data"].as_array().expect("keys").iter().find(|row| row["name"] == "run-codex");
    let row = row.unwrap_or_else(|| panic!("{listed}"));
    assert_eq!(row["id"].as_str(), key.get(..12));
    assert!(row["expires_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{row}");
}

#[tokio::test]
async fn a_key_can_be_created_for_the_run() {
    let gateway = gateway().await;
    let url = format!("http://{}", gateway.addr);
    let data = gateway.dir().join("data").to_string_lossy().into_owned();
    let config = gateway.dir().join("gateway.toml").to_string_lossy().into_owned();
    let launch = with_script("codex", PRINTER).env("MODEL_GATEWAY_ADMIN_KEY", ADMIN);
    let remote = with_args(launch, &["run", "--create-key", "--url", &url, "--", "./codex"]).run();
    let (arguments, variables) = started(&remote);
    let key = &variables["MODEL_GATEWAY_KEY"];
    assert!(
        gw_store::keys::is_well_formed(key)
            && !arguments.iter().any(|argument| argument.contains(key.as_str()))
    );
    assert_created(&gateway, key).await;
    // Without --url the command opens the store itself.
    let launch = with_script("codex", PRINTER).env("MODEL_GATEWAY_DATA_DIR", &data);
    let local = with_args(launch, &["run", "--create-key", "--", "./codex"]).run();
    let (_, variables) = started(&local);
    gw_testkit::wait::within("the key of the store is known", async {
        let client = gateway.client().with_key(&variables["MODEL_GATEWAY_KEY"]);
        while client.get("/v1/models").await.status != 200 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // The system chose the port of this gateway, so its configuration does not tell the address.
    let launch = with_script("codex", PRINTER).env("MODEL_GATEWAY_CONFIG", &config);
    let refused = with_args(launch, &["run", "--key", SECRET, "--config", &config, "--", "./codex"]).run();
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("--url"), "{}", text(&refused.stderr));
}

/// The configuration that `setup` prints, which holds no secret.
#[track_caller]
fn printed(args: &[&str]) -> String {
    let launch = Launch::new(binary()).file("gateway.toml", CONFIG).env("MODEL_GATEWAY_KEY", SECRET);
    let output = with_args(launch.arg("setup"), args).run();
    let (out, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
    assert!(
        said.contains("keys create") && !said.contains(SECRET) && !out.contains(SECRET),
        "{args:?}: {out}{said}"
    );
    out
}

#[test]
fn setup_prints_configurations_that_their_readers_accept() {
    let codex: toml::Table = printed(&["codex", "--model", "demo/chat"]).parse().expect("TOML");
    assert_eq!(codex["model"].as_str(), Some("demo/chat"));
    let provider = &codex["model_providers"]["model-gateway"];
    assert_eq!(provider["base_url"].as_str(), Some("http://127.0.0.1:4123/v1"));
    assert_eq!(provider["env_key"].as_str(), Some("MODEL_GATEWAY_KEY"));
    for (tool, pointer, value) in [
        ("claude-settings", "/env/ANTHROPIC_BASE_URL", "http://127.0.0.1:4123"),
        ("claude-settings", "/env/DISABLE_TELEMETRY", "1"),
        ("opencode", "/provider/model-gateway/options/baseURL", "http://127.0.0.1:4123/v1"),
    ] {
        let settings: Value = serde_json::from_str(&printed(&[tool])).expect("JSON");
        assert_eq!(settings.pointer(pointer).and_then(Value::as_str), Some(value), "{tool}");
    }
    for (tool, variable, value) in [
        ("claude", "ANTHROPIC_AUTH_TOKEN", "YOUR_KEY"),
        ("claude", "CLAUDE_CODE_MAX_OUTPUT_TOKENS", "32000"),
        ("openai", "OPENAI_BASE_URL", "https://gw.example/v1"),
        ("anthropic", "ANTHROPIC_BASE_URL", "https://gw.example"),
        ("aider", "AIDER_MODEL", "openai/it's"),
        ("goose", "OPENAI_HOST", "https://gw.example"),
    ] {
        let commands = printed(&[tool, "--url", "https://gw.example", "--model", "it's"]);
        let script = format!("set -eu\n{commands}printf %s \"${variable}\"");
        let output = Command::new("sh").arg("-c").arg(script).output().expect("a shell");
        assert_eq!(text(&output.stdout), value, "{tool}: {}", text(&output.stderr));
    }
}

#[test]
fn setup_names_a_model_of_the_catalogue_when_none_is_given() {
    let codex: toml::Table = printed(&["codex"]).parse().expect("TOML");
    assert!(codex["model"].as_str().is_some_and(|model| model.starts_with("demo/")), "{codex}");
    let unknown = Launch::new(binary()).file("gateway.toml", CONFIG).arg("setup").arg("emacs").run();
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("claude-settings"), "{}", text(&unknown.stderr));
}
