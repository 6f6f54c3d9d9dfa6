//! Nothing that a client or an operator sends is ever executed, expanded or loaded; and strangers never reach a gateway
//! without a key.

use std::path::Path;

use gw_server::ROUTES;
use gw_testkit::{FakeUpstream, Launch, eventually};
use serde_json::{Value, json};

use super::authz::URLS;
use crate::harness::management::{ask, create};
use crate::harness::{ADMIN, KEY, Setup, binary, chat};
use gw_testkit::sources::{root, shipped_sources};

/// Texts that shells, template engines and log formatters obey.
const COMMANDS: &str = "$(touch pwned)`touch pwned`;touch pwned|touch pwned&{{7*7}}${7*7}<%= 7*7 %>#{7*7}${jndi:ldap://127.0.0.1/a}";

/// The lines of a system call that begins a program.
fn executions(trace: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(trace).unwrap_or_default();
    text.lines().filter(|line| line.contains("exec") && line.contains('(')).map(str::to_owned).collect()
}

#[tokio::test]
async fn i10_nothing_is_executed_between_the_start_and_the_end() {
    let (upstream, folder) = (FakeUpstream::start().await, tempfile::tempdir().expect("a folder"));
    let trace = folder.path().join("trace");
    let config = Setup::default().config(&upstream.base_url(), &upstream.base_url());
    // The tracer is the grandchild (-D), so the gateway is this process's child, and signals reach it.
    let launch = [
        "-D",
        "-f",
        "--seccomp-bpf",
        "-e",
        "trace=execve,execveat",
        "-o",
        trace.to_str().expect("UTF-8"),
        binary(),
        "serve",
    ]
    .iter()
    .fold(Launch::new("strace"), |launch, arg| launch.arg(*arg));
    let mut gateway = launch.file("gateway.toml", config).start().await;
    let (client, admin) = (gateway.client().with_key(KEY), gateway.client().with_key(ADMIN));
    let mut said = chat("acme/fast");
    said["messages"][0]["content"] = json!(COMMANDS);
    client.post_json("/v1/chat/completions", &said).await.ok();
    assert_eq!(upstream.request(0).await.json()["messages"][0]["content"], COMMANDS, "nothing is expanded");

    let id = create(&admin, json!({ "name": COMMANDS })).await.1["id"].as_str().expect("an id").to_owned();
    let provider = json!({ "api": "openai", "base_url": "http://127.0.0.1:9/v1", "headers": { "x-a": COMMANDS },
            "allow_private_network": true });
    ask(&admin, "PUT", "/admin/v1/config/providers/evil", &provider).await;
    for (pattern, url, _) in URLS {
        let methods = ROUTES.iter().find(|route| route.pattern == pattern).and_then(|route| route.methods);
        for method in methods.unwrap_or("GET, POST").split(", ").filter(|method| *method != "OPTIONS") {
            let url = url.replace("<id>", &id);
            let bodies = [json!({}), json!({ "name": COMMANDS, "model": COMMANDS, "input": COMMANDS })];
            for body in bodies {
                let answer = match method {
                    "GET" | "HEAD" => admin.send(method, &url, None, None).await,
                    _ => ask(&admin, method, &url, &body).await,
                };
                assert!(answer.status < 500, "{method} {url}: {} {}", answer.status, answer.text());
                let text = String::from_utf8_lossy(&answer.body).into_owned();
                assert!(!text.contains("uid=") && !text.contains("}}49"), "{method} {url}: {text}");
            }
        }
    }
    gateway.sigterm();
    assert_eq!(gateway.ended().await.code(), Some(0));
    // The last line of a process. strace pads the ids.
    let pid = gateway.pid().to_string();
    let is_last = |line: &str| line.split_whitespace().eq([&pid, "+++", "exited", "with", "0", "+++"]);
    let is_complete = || std::fs::read_to_string(&trace).ok()?.lines().any(is_last).then_some(());
    eventually("the trace is complete", is_complete).await;
    let begun = executions(&trace);
    assert_eq!(begun.len(), 1, "the start of the gateway itself, and nothing else: {begun:#?}");
    assert!(begun[0].contains(binary()), "{begun:?}");
    assert!(!gateway.dir().join("pwned").exists());
}

#[test]
fn i10_the_gateway_holds_no_template_engine_no_plug_ins_and_no_shell() {
    let locked = std::fs::read_to_string(root().join("Cargo.lock")).expect("Cargo.lock");
    let locked: Vec<_> =
        locked.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"')).collect();
    assert!(locked.contains(&"hyper"), "the list is that of the dependencies");
    for engine in [
        "tera",
        "handlebars",
        "minijinja",
        "askama",
        "liquid",
        "mustache",
        "ramhorns",
        "upon",
        "libloading",
        "dlopen2",
        "wasmtime",
        "wasmer",
        "wasmi",
        "extism",
        "mlua",
        "rlua",
        "rhai",
        "rune",
        "boa_engine",
        "deno_core",
        "rquickjs",
        "v8",
        "pyo3",
        "starlark",
        "duct",
        "xshell",
        "subprocess",
    ] {
        assert!(!locked.contains(&engine), "{engine} executes or expands text");
    }
    // `run` starts git and the agent that its user names, and `login` the user's browser. Nothing that serves requests starts a program.
    let mut starts = Vec::new();
    for (name, source) in shipped_sources() {
        let shipped = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let calls = ["process::Command", "Command::new(", "dlopen(", "libc::exec"];
        if calls.iter().any(|call| shipped.contains(call)) {
            starts.push(name);
        }
    }
    starts.sort();
    assert_eq!(starts, ["gw/src/agents/launch.rs", "gw/src/agents/workplace.rs", "gw/src/login.rs"]);
}

/// A configuration with these lines of `[server]` and these keys.
fn open_config(server: &str, keys: &str) -> String {
    format!("[server]\n{server}\n[[providers]]\nname = \"demo\"\napi = \"demo\"\n{keys}")
}

#[tokio::test]
async fn i10_an_address_that_others_can_reach_needs_a_key() {
    let refused = |label: &str, launch: Launch| {
        let output = launch.run();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{label}: {said}");
        assert!(said.contains("other machines can reach") && said.contains("needs a key"), "{label}: {said}");
    };
    for server in [
        "listen = \"0.0.0.0:0\"",
        "listen = \"[::]:0\"",
        "listen = \"192.0.2.1:4000\"",
        "listen = \"127.0.0.1:0\"\nadmin_listen = \"0.0.0.0:0\"",
    ] {
        refused(server, Launch::new(binary()).file("gateway.toml", open_config(server, "")).arg("serve"));
    }
    let plain = open_config("listen = \"127.0.0.1:0\"", "");
    let argument =
        Launch::new(binary()).file("gateway.toml", &plain).arg("serve").arg("--listen").arg("0.0.0.0:0");
    refused("--listen", argument);
    let variable = Launch::new(binary()).file("gateway.toml", &plain).arg("serve");
    refused("a variable", variable.env("MODEL_GATEWAY_SERVER__LISTEN", "0.0.0.0:0"));

    // A key of clients is enough for a start. It opens nothing of the operators'.
    let keys = format!("[[keys]]\nname = \"ci\"\nkey = \"{KEY}\"\n");
    let gateway = Launch::new(binary())
        .file("gateway.toml", open_config("listen = \"0.0.0.0:0\"", &keys))
        .start()
        .await;
    let here = gw_testkit::Client::new(([127, 0, 0, 1], gateway.addr.port()).into());
    assert_eq!(here.with_key(KEY).get("/v1/models").await.status, 200);
    for path in ["/metrics", "/admin/v1/keys", "/admin/v1/config"] {
        assert_eq!(here.get(path).await.code(), "invalid_api_key", "{path}");
        assert_eq!(here.with_key(KEY).get(path).await.code(), "admin_required", "{path}");
        let guesses: [&str; 4] = ["admin", "sk-1234", "", "password"];
        for guess in guesses {
            assert_eq!(here.with_key(guess).get(path).await.status, 401, "{path} with {guess:?}");
        }
    }
    let shown: Vec<Value> = gateway.logs();
    assert!(!shown.iter().any(|line| line.to_string().contains("sk-gw-")), "no key was made: there was one");
}
