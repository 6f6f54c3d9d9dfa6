//! The examples of README.md and docs/ work as they stand, with one provider key in the environment.
//!
//! Every fenced block with a language is run. A comment on the line before the fence says what differs:
//! `<!-- example: demo -->` (a gateway without any provider key), `<!-- example: local -->` (a gateway with an Ollama server),
//! `<!-- example: file NAME -->` (checked, and kept for the commands of the page), `<!-- example: set NAME … -->` (with these
//! variables), `<!-- example: skip: REASON -->`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gw_testkit::upstream::Recorded;
use gw_testkit::{Answer, FakeUpstream, Gateway, Launch};
use serde_json::{Value, json};

use crate::harness::{ADMIN, KEY, UPSTREAM_KEY, binary};

/// A fenced block.
struct Example {
    page: String,
    line: usize,
    language: String,
    /// The comment before the block.
    marker: String,
    text: String,
}

/// A drill ends with 1 when a route fails. The drill's short timeouts can fail a route on a busy machine, so this test only
/// checks that the drill runs. `drill.rs` shows that routes survive.
const DRILL: &str =
    "model-gateway() { command model-gateway \"$@\" || { code=$?; [ \"$1\" = drill ] && [ $code = 1 ]; }; }";

/// Pages whose shell commands another test runs in order.
const RUN_ELSEWHERE: [(&str, &str); 1] = [("docs/keys.md", "crates/gw/tests/command_line/keys_docs.rs")];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pages() -> Vec<String> {
    let docs = std::fs::read_dir(root().join("docs")).expect("docs/");
    let names = docs.map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned());
    let mut pages: Vec<_> =
        names.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}")).collect();
    pages.push("README.md".to_owned());
    pages.sort();
    pages
}

fn examples(page: &str) -> Vec<Example> {
    let text = std::fs::read_to_string(root().join(page)).expect("a page");
    let (mut examples, mut marker) = (Vec::new(), String::new());
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        if let Some(rest) = line.strip_prefix("<!-- example: ") {
            marker = rest.trim_end_matches(" -->").to_owned();
            continue;
        }
        let Some(language) = line.strip_prefix("```") else { continue };
        let body: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
        examples.push(Example {
            page: page.to_owned(),
            line: at + 1,
            language: language.to_owned(),
            marker: std::mem::take(&mut marker),
            text: body.join("\n") + "\n",
        });
    }
    examples
}

impl Example {
    fn place(&self) -> String {
        format!("{}:{}", self.page, self.line)
    }

    fn is_skipped(&self) -> bool {
        let elsewhere = RUN_ELSEWHERE.iter().any(|(page, _)| self.page == *page && self.language == "sh");
        elsewhere || self.marker.starts_with("skip: ")
    }
}

/// A gateway, and the folder in which the commands of a page run.
struct Stage {
    _upstream: FakeUpstream,
    gateway: Gateway,
    folder: tempfile::TempDir,
    /// Whether commands have a provider's key.
    has_key: bool,
}

const GATEWAY_KEYS: &str = "[[keys]]\nname = \"user\"\nkey = \"sk-test-inference\"\n\
    [[keys]]\nname = \"boss\"\nkey = \"sk-test-admin\"\nrole = \"admin\"\n[server]\nlisten = \"127.0.0.1:0\"\n";

impl Stage {
    async fn start(kind: &str) -> Self {
        let upstream = FakeUpstream::start().await;
        let provider = match kind {
            // A start with only this variable set, and with a free port.
            "" => format!(
                "[[providers]]\nname = \"openai\"\napi_key = \"${{OPENAI_API_KEY}}\"\nbase_url = \"{}\"\n",
                upstream.base_url()
            ),
            "demo" => "[[providers]]\nname = \"demo\"\n".to_owned(),
            "local" => {
                upstream.respond_with(ollama);
                let url = upstream.base_url();
                let url = url.trim_end_matches("/v1");
                format!("[[providers]]\nname = \"ollama\"\nbase_url = \"{url}\"\ndiscover = true\n")
            }
            other => panic!("no such start: {other}"),
        };
        let has_key = kind.is_empty();
        let launch = Launch::new(binary()).file("gateway.toml", provider + GATEWAY_KEYS);
        let launch = if has_key { launch.env("OPENAI_API_KEY", UPSTREAM_KEY) } else { launch };
        let gateway = launch.start().await;
        let folder = tempfile::tempdir().expect("a directory");
        std::fs::write(folder.path().join("openai.py"), include_str!("openai_stub.py")).expect("a file");
        let stage = Self { _upstream: upstream, gateway, folder, has_key };
        if kind == "local" {
            let client = stage.gateway.client().with_key(KEY);
            gw_testkit::wait::within("the model server's list is read", async {
                while !client.get("/v1/models").await.ok().text().contains("ollama/llama3.2") {
                    tokio::task::yield_now().await;
                }
            })
            .await;
        }
        stage
    }

    /// Runs a program in the folder, with the keys of the gateway and the key of the provider.
    fn run(&self, program: &str, args: &[&str]) -> Output {
        let programs = Path::new(binary()).parent().expect("a directory").to_string_lossy().into_owned();
        let path = format!("{programs}:{}", std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new(program);
        command.args(args).current_dir(self.folder.path()).env_clear();
        command.env("PATH", path).env("HOME", self.folder.path()).env("PYTHONPATH", self.folder.path());
        command.env("MODEL_GATEWAY_DATA_DIR", self.folder.path().join("data"));
        command.env("KEY", KEY).env("ADMIN", ADMIN);
        if self.has_key {
            command.env("OPENAI_API_KEY", UPSTREAM_KEY);
        }
        command.output().unwrap_or_else(|error| panic!("{program}: {error}"))
    }

    /// The example with the address of this gateway in place of the usual one.
    fn here(&self, text: &str) -> String {
        text.replace("127.0.0.1:4000", &self.gateway.addr.to_string())
    }

    async fn try_out(&self, example: &Example) {
        let (place, text) = (example.place(), self.here(&example.text));
        match example.language.as_str() {
            // curl must fail at a status of 400 or more.
            "sh" => {
                let script = format!("{DRILL}\n{}", text.replace("curl ", "curl -sSf "));
                ok(&place, &self.run("bash", &["-euo", "pipefail", "-c", &script]));
            }
            "python" => ok(&place, &self.run("python3", &["-c", &text])),
            "json" => {
                let body: Value =
                    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{place}: {error}"));
                let client = self.gateway.client().with_key(KEY);
                let answer = client.post_json("/v1/chat/completions", &body).await;
                assert_eq!(answer.status, 200, "{place}: {}", answer.text());
            }
            "toml" => self.check(example),
            "text" | "" => {}
            other => panic!("{place}: nobody says how an example in {other} is run"),
        }
    }

    fn check(&self, example: &Example) {
        let place = example.place();
        let launch =
            Launch::new(binary()).file("example.toml", &example.text).arg("check").arg("example.toml");
        let names = example.marker.strip_prefix("set ").unwrap_or_default().split_whitespace();
        let launch = names
            .fold(launch, |launch, name| launch.env(name, "a-value-0f-an-Example-with-enough-characters"));
        let output = launch.env("OPENAI_API_KEY", UPSTREAM_KEY).run();
        ok(&place, &output);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!said.contains("note:"), "{place}: {said}");
        if let Some(name) = example.marker.strip_prefix("file ") {
            std::fs::write(self.folder.path().join(name), &example.text).expect("a file");
        }
    }
}

#[track_caller]
fn ok(place: &str, output: &Output) {
    assert!(
        output.status.success(),
        "{place}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Ollama's own API, as far as the examples need it.
fn ollama(request: &Recorded) -> Answer {
    match request.path.as_str() {
        "/api/tags" => Answer::json(200, &json!({ "models": [{ "name": "llama3.2", "model": "llama3.2" }] })),
        "/api/chat" => Answer::json(
            200,
            &json!({
                "model": "llama3.2", "created_at": "2026-11-22T00:00:00Z", "done": true, "done_reason": "stop",
                "message": { "role": "assistant", "content": "Hello" }, "prompt_eval_count": 10, "eval_count": 5
            }),
        ),
        other => Answer::error(404, "unknown_url", other),
    }
}

/// Runs the examples of a page that belong to this start; gives how many there are.
async fn run_page(page: &str, kind: &str) -> usize {
    let is_of = |example: &Example| match kind {
        "" => !["demo", "local"].contains(&example.marker.as_str()),
        kind => example.marker == kind,
    };
    let examples = examples(page).into_iter().filter(|example| is_of(example) && !example.is_skipped());
    let examples: Vec<_> =
        examples.filter(|example| !["", "text"].contains(&example.language.as_str())).collect();
    if examples.is_empty() {
        return 0;
    }
    let stage = Stage::start(kind).await;
    for example in &examples {
        stage.try_out(example).await;
    }
    examples.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_examples_of_readme_work_with_one_provider_key() {
    assert!(run_page("README.md", "").await >= 5, "curl, python, toml and shell blocks");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_examples_of_readme_work_without_a_key_and_with_a_local_server() {
    assert_eq!(run_page("README.md", "demo").await, 1);
    assert_eq!(run_page("README.md", "local").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_examples_of_docs_work_with_one_provider_key() {
    let mut count = 0;
    for page in pages().iter().filter(|page| *page != "README.md") {
        count += run_page(page, "").await;
    }
    assert!(count >= 25, "{count} examples were found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_examples_of_docs_work_without_a_key() {
    assert!(
        run_page("docs/quickstart.md", "demo").await >= 4,
        "a call, the cache, a fallback and the reports"
    );
    assert_eq!(run_page("docs/api.md", "demo").await, 4, "a ranking, a moderation, an image and speech");
    for page in pages().iter().filter(|page| *page != "README.md") {
        assert_eq!(run_page(page, "local").await, 0, "{page}: no test runs such an example");
        if !["docs/quickstart.md", "docs/api.md"].contains(&page.as_str()) {
            assert_eq!(run_page(page, "demo").await, 0, "{page}: no test runs such an example");
        }
    }
}

#[test]
fn each_marker_of_an_example_is_known() {
    for page in pages() {
        for Example { marker, line, .. } in examples(&page) {
            let known = ["", "demo", "local"].contains(&&*marker)
                || ["file ", "set ", "skip: "].iter().any(|start| marker.starts_with(start));
            assert!(known, "{page}:{line}: {marker}");
        }
    }
    for (page, test) in RUN_ELSEWHERE {
        let test = std::fs::read_to_string(root().join(test)).expect("the test");
        assert!(test.contains(page), "{page}");
    }
}
