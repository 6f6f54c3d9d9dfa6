//! Everything that a model writes × every ending of its stream × every surface: one count of tokens each.

use std::collections::BTreeMap;
use std::path::Path;

use gw_store::ledger::Entry;
use gw_testkit::sse::Stream;
use gw_testkit::upstream::Recorded;
use gw_testkit::{Answer, FakeUpstream, Gateway, Launch};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::ledger::rows_in;
use crate::harness::{KEY, binary};
use crate::ledger::grouped_sums;
use crate::ledger::written_work::{
    WORDS, Work, chat_frames, chats, claude, claude_frames, converse_frames, conversed, gemini_frames, parts,
    response_frames, responses,
};

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";
/// One token at one USD per million.
const TOKEN: i128 = 1_000_000_000;

/// The endings, by the first word of a prompt, and the status of each.
const TORN: (&str, &str) = ("torn", "upstream_stream_error");
const SILENT: (&str, &str) = ("idle", "upstream_timeout");
const LEFT: (&str, &str) = ("left", "client_closed_request");
const SHUT_DOWN: (&str, &str) = ("stop", "gateway_shutdown");
const KILLED: (&str, &str) = ("kill", "interrupted");

/// What a model writes, at a provider, for a client of a surface.
struct Case {
    path: &'static str,
    provider: &'static str,
    work: Work,
}

fn cases() -> Vec<Case> {
    let all =
        |path, provider, works: Vec<Work>| works.into_iter().map(move |work| Case { path, provider, work });
    let mut cases = Vec::new();
    cases.extend(all(MESSAGES, "claude", claude()));
    cases.extend(all(MESSAGES, "aws", claude()));
    cases.extend(all(CHAT, "claude", claude()));
    cases.extend(all(RESPONSES, "claude", claude()));
    cases.extend(all(RESPONSES, "native", responses()));
    for path in [CHAT, MESSAGES, RESPONSES] {
        cases.extend(all(path, "acme", chats()));
        cases.extend(all(path, "gem", parts()));
    }
    cases.extend(all(CHAT, "aws", conversed()));
    cases.extend(all(RESPONSES, "aws", conversed()));
    cases
}

impl Case {
    fn user(&self, ending: &str) -> String {
        format!("{} {} {} {ending}", self.path, self.provider, self.work.name)
    }

    /// The streamed request with this ending.
    fn request(&self, ending: &str) -> Value {
        let model = if ending == SILENT.0 { "idle" } else { "m" };
        let prompt = format!("{ending} question {} end", self.work.name);
        let mut body = json!({ "model": format!("{}/{model}", self.provider), "stream": true });
        match self.path {
            RESPONSES => (body["input"], body["store"]) = (json!(prompt), json!(false)),
            _ => {
                body["messages"] = json!([{ "role": "user", "content": prompt }]);
                body["max_tokens"] = json!(5_000);
            }
        }
        match self.path {
            MESSAGES => body["metadata"] = json!({ "user_id": self.user(ending) }),
            _ => body["user"] = json!(self.user(ending)),
        }
        body
    }
}

/// Answers with the work that the prompt names, up to the words at its end.
fn answer(request: &Recorded) -> Answer {
    let (path, text) = (request.path.as_str(), String::from_utf8_lossy(&request.body).into_owned());
    let named = |works: Vec<Work>| {
        let found = works.into_iter().find(|work| text.contains(&format!(" question {} end", work.name)));
        found.expect("a known work")
    };
    let is_amazon = path.contains("/invoke") || path.contains("/converse");
    let frames = match () {
        () if path.contains("/converse") => converse_frames(&named(conversed())),
        () if path.contains("streamGenerateContent") => gemini_frames(&named(parts())),
        () if path.ends_with("/chat/completions") => chat_frames(&named(chats())),
        () if path.ends_with("/responses") => response_frames(&named(responses())),
        () => claude_frames(&named(claude()), is_amazon),
    };
    let head = match is_amazon {
        false => Answer::sse(),
        true => Answer::raw(
            "HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\ntransfer-encoding: chunked\r\n\r\n",
        ),
    };
    let begun = head.chunk(frames);
    if text.contains(&format!("{} question", TORN.0)) { begun.reset() } else { begun.hang() }
}

fn config(upstream: &FakeUpstream) -> String {
    let (origin, base) = (format!("http://{}", upstream.addr), upstream.base_url());
    let mut config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nshed_after_ms = 0\ndrain_seconds = 1\n[store]\nprogress_tokens = 1\n[[keys]]\nname = \"ci\"\nkey = \"{KEY}\"\ntrust_attribution = true\n\
         [routing]\nretries = 0\n[routing.breaker]\nfailures = 1000\n"
    );
    for (name, lines) in [
        ("claude", format!("api = \"anthropic\"\nbase_url = \"{origin}\"")),
        ("aws", format!("api = \"bedrock\"\nbase_url = \"{origin}\"\nregion = \"eu-west-1\"")),
        ("native", format!("api = \"openai\"\nresponses = true\nbase_url = \"{base}\"")),
        ("acme", format!("api = \"openai\"\nresponses = false\nbase_url = \"{base}\"")),
        ("gem", format!("api = \"gemini\"\nbase_url = \"{origin}\"")),
    ] {
        config += &format!("[[providers]]\nname = \"{name}\"\napi_key = \"sk-upstream-key-000\"\n{lines}\n");
        let upstream_model = if name == "aws" { "anthropic.claude-opus-5-5-v1:0" } else { "up" };
        for (model, timeouts) in [("m", ""), ("idle", "timeouts = { idle_ms = 5000 }")] {
            config += &format!(
                "[[models]]\nid = \"{name}/{model}\"\nupstream_model = \"{upstream_model}\"\ncategory = [\"chat\"]\ncontext_length = 200000\n\
                 {timeouts}\npricing = {{ official_input_per_m = 1.0, official_output_per_m = 2.0, currency = \"USD\" }}\n"
            );
        }
    }
    config
}

async fn start(config: &str, data: &Path) -> Gateway {
    let launch = Launch::new(binary()).file("gateway.toml", config);
    launch.env("MODEL_GATEWAY_DATA_DIR", &data.to_string_lossy()).start().await
}

/// Sends all requests with this ending, and reads each stream up to the words at its end.
async fn begin_all(gateway: &Gateway, ending: &str) -> Vec<Stream> {
    let mut under_way = Vec::new();
    for case in cases() {
        let client =
            gateway.client().with_key(KEY).with_header("x-gateway-tags", &format!("ending:{ending}"));
        let mut stream = client.stream(case.path, &case.request(ending)).await;
        while !stream.frame().await.unwrap_or_else(|| panic!("{}", case.user(ending))).contains(WORDS) {}
        under_way.push(stream);
    }
    under_way
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s17_everything_that_a_model_writes_counts_once_at_every_ending() {
    let data = tempfile::tempdir().expect("a directory");
    let upstream = FakeUpstream::start().await;
    upstream.respond_with(answer);
    let config = config(&upstream) + &grouped_sums::section();
    let mut gateway = start(&config, data.path()).await;
    let count = cases().len();
    for ending in [TORN, SILENT] {
        let mut reading = JoinSet::new();
        for mut stream in begin_all(&gateway, ending.0).await {
            reading.spawn(async move { stream.rest().await });
        }
        reading.join_all().await;
    }
    drop(begin_all(&gateway, LEFT.0).await);
    let rows = rows_in(&data.path().join("gateway.db"), 3 * count).await;
    grouped_sums::assert_agreement(&gateway, &rows).await;
    let under_way = begin_all(&gateway, SHUT_DOWN.0).await;
    gateway.sigterm();
    gateway.ended().await;
    drop(under_way);
    let gateway = start(&config, data.path()).await;
    let under_way = begin_all(&gateway, KILLED.0).await;
    let _ = gateway.stop();
    drop(under_way);
    let gateway = start(&config, data.path()).await;
    let rows = rows_in(&data.path().join("gateway.db"), 5 * count).await;
    assert_eq!(rows.len(), 5 * count, "one row for each call");
    grouped_sums::assert_agreement(&gateway, &rows).await;
    assert_counts(&rows.into_iter().map(|row| (row.user.clone().expect("a user"), row)).collect());
}

/// Checks that each ending of a case has the same count and the same cost.
fn assert_counts(rows: &BTreeMap<String, Entry>) {
    let mut wrong = Vec::new();
    for case in cases() {
        let prompt = rows[&case.user(LEFT.0)].tokens.prompt;
        for (ending, status) in [TORN, SILENT, LEFT, SHUT_DOWN, KILLED] {
            let user = case.user(ending);
            let row = &rows[&user];
            let found = (&*row.status, row.tokens.prompt, row.tokens.completion, row.estimated);
            let expected = (status, prompt, case.work.tokens, true);
            let cost = (i128::from(prompt) + 2 * i128::from(case.work.tokens)) * TOKEN;
            if found != expected || !row.unpriced && row.cost != cost {
                wrong.push(format!("{user}: {expected:?}, not {found:?}, cost {}\n", row.cost));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), 5 * cases().len(), wrong.concat());
}
