//! Every ending of a request × hosted tools and prompts that a cache keeps for an hour, on every surface that has them, plain and
//! streamed: one amount each.

use std::any::Any;
use std::collections::BTreeMap;
use std::path::Path;

use gw_store::ledger::Entry;
use gw_testkit::upstream::Recorded;
use gw_testkit::{Answer, Client, FakeUpstream, Gateway, Launch};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::ledger::rows_in;
use crate::harness::{KEY, binary, with};
use crate::ledger::grouped_sums;
use crate::ledger::scripted_work::{Script, script};

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";
/// One token at one USD per million.
const TOKEN: i128 = 1_000_000_000;

/// The endings, by the first word of a prompt. All words have one length, so that the prompts cost the same.
const DONE: &str = "done";
const LEFT: &str = "left";
const TORN: &str = "torn";
const REFUSED: &str = "deny";
/// The upstream tells an error inside its stream.
const TOLD_ERROR: &str = "fail";
const TIMED_OUT: &str = "slow";
const SHUT_DOWN: &str = "stop";
const KILLED: &str = "kill";

/// One request of the table, and its amounts in tokens of the prompt.
struct Case {
    name: &'static str,
    path: &'static str,
    provider: &'static str,
    body: Value,
    /// The answer was complete.
    done: i128,
    /// The upstream had told nothing.
    silent: i128,
    /// The stream had told its beginning.
    begun: i128,
}

/// A search costs 0.01 USD.
const SEARCH: i128 = 10_000;
/// The two tokens of text in a stream that has begun.
const TEXT: i128 = 2 * 2;

fn cases() -> Vec<Case> {
    let text =
        |content: Value| json!({ "messages": [{ "role": "user", "content": content }], "max_tokens": 50 });
    let plain = || text(json!("WORD question"));
    let kept = || {
        text(
            json!([{ "type": "text", "text": "WORD question", "cache_control": { "type": "ephemeral", "ttl": "1h" } }]),
        )
    };
    let search = json!({ "tools": [{ "type": "web_search_20250305", "name": "web_search" }] });
    let options = json!({ "web_search_options": {} });
    let input = || json!({ "input": "WORD question", "store": false });
    let case = |name, path, provider, body, [done, silent, begun]: [i128; 3]| Case {
        name,
        path,
        provider,
        body,
        done,
        silent,
        begun,
    };
    // Two searches. The stream has told 1,000 tokens and two calls: three readings, two results of 8,000 tokens, and 10 tokens of output.
    let searched = |silent| [9_000 + 2 * 50 + 2 * SEARCH, silent, 3 * 1_000 + 16_000 + 2 * 10 + 2 * SEARCH];
    // A stream of the Responses API tells no tokens before its end: three readings of 13 estimated tokens. Both searches are one token.
    let responded = [9_000 + 2 * 50 + 2 * SEARCH, 13, 3 * 13 + 16_000 + 2 + TEXT + 2 * SEARCH];
    // A chat tells no calls. Each answer is charged for one search.
    let chatted = [1_000 + 2 * 50 + SEARCH, 13 + SEARCH, 13 + TEXT + SEARCH];
    let grounded = [1_000 + 2 * 50 + 2 * SEARCH, 13, 1_000 + 2 + 2 * SEARCH];
    // The upstream tells the size of the search. Else it is the smallest.
    let fee = [1_000 + 2 * 50 + 8_000, 13 + 5_000, 13 + TEXT + 5_000];
    // 100,000 tokens at twice the price of the input.
    let hour = |silent| [100 + 2 * 10 + 200_000, silent, 100 + TEXT + 200_000];
    // Converse tells its tokens at the end of the stream.
    let conversed = |silent| [100 + 2 * 10 + 200_000, silent, silent + TEXT];
    vec![
        case("search", MESSAGES, "claude", with(plain(), search.clone()), searched(32)),
        case("search", MESSAGES, "gcp", with(plain(), search), searched(32)),
        case(
            "search",
            RESPONSES,
            "native",
            with(input(), json!({ "tools": [{ "type": "web_search" }] })),
            responded,
        ),
        case("search", CHAT, "acme", with(plain(), options.clone()), chatted),
        case("search", CHAT, "gem", with(plain(), options), grounded),
        case("fee", CHAT, "sonar", plain(), fee),
        case("hour", CHAT, "claude", kept(), hour(23)),
        case("hour", CHAT, "gcp", kept(), hour(23)),
        case("hour", CHAT, "aws", kept(), conversed(23)),
        case("hour", MESSAGES, "claude", kept(), hour(39)),
        case("hour", MESSAGES, "gcp", kept(), hour(39)),
        case("hour", MESSAGES, "aws", kept(), hour(39)),
        case("hour", RESPONSES, "claude", input(), hour(13)),
        case("hour", RESPONSES, "gcp", input(), hour(13)),
        case("hour", RESPONSES, "aws", input(), conversed(13)),
    ]
}

impl Case {
    fn user(&self, ending: &str, streams: bool) -> String {
        format!(
            "{} {} {} {ending} {}",
            self.name,
            self.path,
            self.provider,
            if streams { "stream" } else { "plain" }
        )
    }

    /// The request with this ending.
    fn request(&self, ending: &str, streams: bool) -> Value {
        let body = self.body.to_string().replace("WORD", ending);
        let mut body: Value = serde_json::from_str(&body).expect("JSON");
        let user = self.user(ending, streams);
        match self.path {
            MESSAGES => body["metadata"] = json!({ "user_id": user }),
            _ => body["user"] = json!(user),
        }
        let model = match (ending, streams) {
            (TIMED_OUT, true) => "idle",
            (TIMED_OUT, false) => "late",
            _ => self.name,
        };
        body["model"] = json!(format!("{}/{model}", self.provider));
        body["stream"] = json!(streams);
        body
    }
}

/// Answers by the first word of the prompt.
fn answer(request: &Recorded) -> Answer {
    let text = String::from_utf8_lossy(&request.body).into_owned();
    let says = |ending: &str| text.contains(&format!("\"{ending} question"));
    if says(REFUSED) {
        return Answer::error(500, "x", "down");
    }
    let script = script(request);
    if !script.streams {
        return match () {
            () if says(DONE) => Answer::json(200, &script.whole),
            () if says(TORN) => Answer::full(200, &[("content-type", "application/json")], "{"),
            () => Answer::steps(Vec::new()).hang(),
        };
    }
    let Script { frames, begun, .. } = &script;
    if says(DONE) {
        return script.head().chunk(frames.concat()).end();
    }
    let half = script.head().chunk(frames[..*begun].concat());
    match () {
        () if says(TORN) => half.reset(),
        () if says(TOLD_ERROR) => half.chunk(&script.error).hang(),
        () => half.hang(),
    }
}

async fn start(config: &str, data: &Path) -> Gateway {
    let launch = Launch::new(binary()).file("gateway.toml", config);
    launch.env("MODEL_GATEWAY_DATA_DIR", &data.to_string_lossy()).start().await
}

fn config(upstream: &FakeUpstream) -> String {
    let (origin, base) = (format!("http://{}", upstream.addr), upstream.base_url());
    let mut config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nshed_after_ms = 0\ndrain_seconds = 1\n[store]\nprogress_tokens = 1\n[[keys]]\nname = \"ci\"\nkey = \"{KEY}\"\ntrust_attribution = true\n\
         [routing]\nretries = 0\n[routing.breaker]\nfailures = 1000\n"
    );
    let pricing = "pricing = { official_input_per_m = 1.0, official_output_per_m = 2.0, currency = \"USD\"";
    for (name, lines) in [
        ("claude", format!("api = \"anthropic\"\nbase_url = \"{origin}\"")),
        (
            "gcp",
            format!("api = \"vertex\"\nbase_url = \"{origin}\"\nproject = \"p\"\nregion = \"europe-west4\""),
        ),
        ("aws", format!("api = \"bedrock\"\nbase_url = \"{origin}\"\nregion = \"eu-west-1\"")),
        ("native", format!("api = \"openai\"\nresponses = true\nbase_url = \"{base}\"")),
        ("acme", format!("api = \"openai\"\nresponses = false\nbase_url = \"{base}\"")),
        ("sonar", format!("api = \"openai\"\nresponses = false\nbase_url = \"{base}\"")),
        ("gem", format!("api = \"gemini\"\nbase_url = \"{origin}\"")),
    ] {
        config += &format!("[[providers]]\nname = \"{name}\"\napi_key = \"sk-upstream-key-000\"\n{lines}\n");
        let tools = match name {
            "sonar" => "search_request_low = 0.005, search_request_medium = 0.008",
            _ => "web_search_per_call = 0.01",
        };
        let upstream_model = match name {
            "gcp" => "claude-opus-5-5",
            "aws" => "anthropic.claude-opus-5-5-v1:0",
            _ => "up",
        };
        for (model, timeouts) in [
            ("search", ""),
            ("hour", ""),
            ("fee", ""),
            ("idle", "timeouts = { idle_ms = 5000 }"),
            ("late", "timeouts = { total_ms = 3000 }"),
        ] {
            config += &format!(
                "[[models]]\nid = \"{name}/{model}\"\nupstream_model = \"{upstream_model}\"\ncategory = [\"chat\"]\ncontext_length = 200000\n\
                 {timeouts}\n{pricing}, tools = {{ {tools} }} }}\n"
            );
        }
    }
    config
}

/// The requests with this ending.
fn requests(ending: &'static str) -> Vec<(&'static str, Value)> {
    let forms = cases()
        .into_iter()
        .flat_map(|case| [false, true].map(|streams| (case.path, case.request(ending, streams))));
    // An error inside a stream needs a stream.
    forms.filter(|(_, body)| ending != TOLD_ERROR || body["stream"] == true).collect()
}

fn tagged(gateway: &Gateway, ending: &str) -> Client {
    gateway.client().with_key(KEY).with_header("x-gateway-tags", &format!("ending:{ending}"))
}

/// Sends all requests and reads the answers.
fn send_all(gateway: &Gateway, ending: &'static str) -> JoinSet<()> {
    let mut asking = JoinSet::new();
    for (path, body) in requests(ending) {
        let client = tagged(gateway, ending);
        asking.spawn(async move {
            if body["stream"] == true && ending != REFUSED {
                client.stream(path, &body).await.rest().await;
                return;
            }
            let answer = client.post_json(path, &body).await;
            assert_eq!(answer.status == 200, ending == DONE, "{body}: {} {}", answer.status, answer.text());
        });
    }
    asking
}

/// Sends all requests until their upstreams are silent: each streamed answer has begun. The clients wait.
async fn begin_all(
    gateway: &Gateway,
    upstream: &FakeUpstream,
    ending: &'static str,
    count: &mut usize,
) -> Vec<Box<dyn Any>> {
    let mut under_way: Vec<Box<dyn Any>> = Vec::new();
    let mut silent = JoinSet::new();
    for (path, body) in requests(ending) {
        let client = tagged(gateway, ending);
        *count += 1;
        if body["stream"] == true {
            let mut stream = client.stream(path, &body).await;
            while !stream.frame().await.expect("a frame").contains("Hi all") {}
            under_way.push(Box::new(stream));
        } else {
            silent.spawn(async move {
                let mut wire = client
                    .open("POST", path, Some("application/json"), Some(body.to_string().as_bytes()))
                    .await;
                assert!(wire.head().await.is_none_or(|head| head.status != 200));
            });
        }
    }
    under_way.push(Box::new(silent));
    gw_testkit::eventually("every call is made", || (upstream.hits() >= *count).then_some(())).await;
    under_way
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s17_hosted_tools_and_hour_writes_cost_one_amount_at_every_ending() {
    let data = tempfile::tempdir().expect("a directory");
    let upstream = FakeUpstream::start().await;
    upstream.respond_with(answer);
    let config = config(&upstream) + &grouped_sums::section();
    let mut gateway = start(&config, data.path()).await;
    let (all, streams) = (2 * cases().len(), cases().len());
    for ending in [DONE, TORN, REFUSED, TOLD_ERROR, TIMED_OUT] {
        send_all(&gateway, ending).join_all().await;
    }
    let mut count = 4 * all + streams;
    let under_way = begin_all(&gateway, &upstream, LEFT, &mut count).await;
    drop(under_way);
    let rows = rows_in(&data.path().join("gateway.db"), count).await;
    grouped_sums::assert_agreement(&gateway, &rows).await;
    let under_way = begin_all(&gateway, &upstream, SHUT_DOWN, &mut count).await;
    gateway.sigterm();
    gateway.ended().await;
    drop(under_way);
    let gateway = start(&config, data.path()).await;
    let under_way = begin_all(&gateway, &upstream, KILLED, &mut count).await;
    let _ = gateway.stop();
    drop(under_way);
    let gateway = start(&config, data.path()).await;
    let rows = rows_in(&data.path().join("gateway.db"), count).await;
    assert_eq!((rows.len(), upstream.hits()), (count, count), "one row for each call");
    grouped_sums::assert_agreement(&gateway, &rows).await;
    let rows = rows.into_iter().map(|row| (row.user.clone().expect("a user"), row)).collect();
    assert_amounts(&rows);
}

/// Checks the amount and the status of each ending.
fn assert_amounts(rows: &BTreeMap<String, Entry>) {
    let mut wrong = Vec::new();
    for case in cases() {
        for streams in [false, true] {
            let begun = if streams { case.begun } else { case.silent };
            let torn = if streams { "upstream_stream_error" } else { "upstream_invalid_response" };
            let expected = [
                (DONE, case.done, "ok"),
                (TORN, begun, torn),
                (REFUSED, 0, "upstream_error"),
                (TIMED_OUT, begun, "upstream_timeout"),
                (LEFT, begun, "client_closed_request"),
                (SHUT_DOWN, begun, "gateway_shutdown"),
                // Usage that the upstream reports is noted at once, and text after one token.
                (KILLED, begun, "interrupted"),
            ];
            let told = streams.then_some((TOLD_ERROR, begun, "upstream_stream_error"));
            for (ending, tokens, status) in expected.into_iter().chain(told) {
                let user = case.user(ending, streams);
                let row = &rows[&user];
                if (&*row.status, row.cost, row.unpriced) != (status, tokens * TOKEN, false) {
                    wrong.push(format!("{user}: {status} {tokens}, not {row:?}\n"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.concat());
}
