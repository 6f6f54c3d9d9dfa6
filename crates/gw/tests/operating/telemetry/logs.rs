//! The logs: text at a terminal, JSON elsewhere.

use gw_testkit::{Launch, eventually};
use serde_json::Value;

use crate::harness::{binary, chat, world};

#[tokio::test]
async fn logs_that_no_terminal_reads_are_json() {
    let world = world().await;
    world.chat_ok(&chat("acme/fast")).await;
    let program = world.gateway.stderr();
    assert!(!program.is_empty());
    for line in program.iter().chain(&world.gateway.stdout()) {
        let read: Result<Value, _> = serde_json::from_str(line);
        assert!(read.is_ok_and(|line| line.is_object()), "{line}");
    }
}

/// `script` of util-linux gives the gateway a terminal, and copies what the gateway writes to its own output.
#[tokio::test]
async fn logs_at_a_terminal_are_text() {
    let config = "[[providers]]\nname = \"demo\"\n[[keys]]\nkey = \"sk-terminal\"\n";
    let serve = format!("echo $$ > pid; exec {} --config gateway.toml serve --listen 127.0.0.1:0", binary());
    let launch =
        Launch::new("script").file("gateway.toml", config).env("SHELL", "/bin/sh").env("TERM", "xterm");
    let gateway = launch.arg("-qec").arg(serve).arg("/dev/null").start().await;
    gateway.client().with_key("sk-terminal").post_json("/v1/chat/completions", &chat("demo/chat")).await.ok();
    let is_access_line = |line: &String| line.contains(" 200 POST /v1/chat/completions ");
    let access =
        eventually("a line of the access log", || gateway.stdout().into_iter().find(is_access_line)).await;
    assert!(access.contains(" ms demo/chat ") && access.contains(" tokens "), "{access}");
    let lines = gateway.stdout();
    assert!(lines.iter().any(|line| line.contains("listening on http://127.0.0.1:")), "{lines:?}");
    let objects: Vec<_> = lines.iter().filter(|line| line.trim_start().starts_with('{')).collect();
    assert!(objects.is_empty(), "{objects:?}");
    // A gateway takes the end of its terminal for SIGHUP and goes on, so the test ends it by its own id.
    let pid = std::fs::read_to_string(gateway.dir().join("pid")).expect("the id of the gateway");
    let killed = std::process::Command::new("kill").args(["-TERM", pid.trim()]).status().expect("kill runs");
    assert!(killed.success());
    let has_stopped = || gateway.stdout().iter().any(|line| line.contains("stopped")).then_some(());
    eventually("the gateway stops", has_stopped).await;
}
