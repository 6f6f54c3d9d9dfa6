//! Every ending of a request × every kind of content × every dialect: the charge is the reported usage, or the exact estimate of the
//! prompts that were sent.

use std::collections::BTreeMap;
use std::path::Path;

use gw_store::Store;
use gw_store::ledger::{Entry, Filter};
use gw_testkit::upstream::Recorded;
use gw_testkit::wait::eventually_ok;
use gw_testkit::{Answer, FakeUpstream, Gateway, Launch};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::ledger::rows_in;
use crate::harness::providers::{CLAUDE_ON_VERTEX, config_of_all, targets, words};
use crate::harness::{ADMIN, KEY, binary};
use crate::ledger::charges::{UNSAID, kinds, prompt_tokens};
use crate::ledger::{grouped_sums, hour_writes};

const CHAT: &str = "/v1/chat/completions";
/// One token at one USD per million.
const TOKEN: i128 = 1_000_000_000;
/// The hosts of Claude, whose cache can keep a prompt for an hour.
const CLAUDE: [&str; 3] = ["anthropic", CLAUDE_ON_VERTEX, "bedrock"];
/// The dialects that have a parameter for several answers.
const SEVERAL: [&str; 3] = ["openai", "azure", "mistral"];

/// The ending of a request, by a word of its prompt. All words have one length, so that the prompts cost the same.
const LEFT: &str = "left";
const TORN: &str = "torn";
const REFUSED: &str = "deny";
const TOLD: &str = "told";
/// Told, with a prompt that Claude's cache keeps for an hour.
const HOUR: &str = "hour";
const HEDGED: &str = "pair";
const DIVIDED: &str = "twin";
const KILLED: &str = "kill";
/// Killed while a hedge runs.
const KILLED_HEDGED: &str = "both";
/// Requests with very many tokens: [`RICH_CALLS`] of them fill the budget for hedges.
const RICH: &str = "rich";
const RICH_CALLS: usize = 80;

/// One request of the table.
struct Case {
    user: String,
    body: Value,
    /// The upstreams that get a call, by their index in [`targets`].
    calls: Vec<usize>,
}

/// One request for every dialect and every kind of content that it can express.
fn cases(ending: &'static str) -> Vec<Case> {
    let models: Vec<_> = targets().collect();
    let mut cases = Vec::new();
    for (place, (api, model)) in models.iter().enumerate() {
        for (kind, mut body) in kinds(ending) {
            if UNSAID.contains(&format!("{api} {kind}").as_str()) {
                continue;
            }
            let (user, mut calls) = (name(api, kind, ending), vec![place]);
            body["model"] = json!(model);
            body["max_tokens"] = json!(50);
            body["user"] = json!(user);
            body["tags"] = json!([format!("ending:{ending}"), format!("kind:{kind}")]);
            if ending == HEDGED || ending == KILLED_HEDGED {
                let second = beside(place);
                body["stream"] = json!(true);
                body["routing"] = json!({ "fallback": [models[second].1] });
                calls.push(second);
            } else if ending == DIVIDED {
                body["n"] = json!(2);
                calls.extend((!SEVERAL.contains(api)).then_some(place));
            }
            cases.push(Case { user, body, calls });
        }
    }
    cases
}

fn name(api: &str, kind: &str, ending: &str) -> String {
    format!("{api} {kind} {ending}")
}

/// The upstream of a hedge: OpenAI's, and Gemini's for requests to OpenAI's. Both accept every kind of content.
fn beside(place: usize) -> usize {
    let wanted = if place == 0 { "gemini" } else { "openai" };
    targets().position(|(api, _)| api == wanted).expect("the dialect")
}

/// Answers according to the word in the prompt.
fn answer(request: &Recorded, words: &impl Fn(&Recorded) -> Answer) -> Answer {
    let text = String::from_utf8_lossy(&request.body);
    let says =
        |ending: &str| text.contains(&format!("\"{ending} ")) || text.contains(&format!("\"{ending}\""));
    if says(TORN) {
        Answer::full(200, &[("content-type", "application/json")], "{")
    } else if says(REFUSED) {
        Answer::error(500, "x", "down")
    } else if says(TOLD) {
        words(request)
    } else if says(HOUR) {
        let is_claude = ["/v1/messages", ":rawPredict", "/converse"];
        let is_claude = is_claude.iter().any(|end| request.path.ends_with(end));
        if is_claude { hour_writes::answer(request) } else { words(request) }
    } else if says(RICH) {
        let mut body = gw_testkit::upstream::chat_body("m", "hi");
        body["usage"]["prompt_tokens"] = json!(1_000_000_000);
        Answer::json(200, &body)
    } else {
        Answer::steps(Vec::new()).hang()
    }
}

async fn start(config: &str, data: &Path) -> Gateway {
    let launch = Launch::new(binary()).file("gateway.toml", config);
    launch.env("MODEL_GATEWAY_DATA_DIR", &data.to_string_lossy()).start().await
}

/// Sends all requests at one time; gives the tasks, to be aborted, once the upstreams have every call.
async fn start_all(gateway: &Gateway, upstreams: &[FakeUpstream], cases: Vec<Case>) -> JoinSet<()> {
    let before: Vec<usize> = upstreams.iter().map(FakeUpstream::hits).collect();
    let (mut asking, mut wanted) = (JoinSet::new(), before);
    for case in cases {
        case.calls.iter().for_each(|place| wanted[*place] += 1);
        let client = gateway.client().with_key(KEY);
        asking.spawn(async move {
            let answer = client.post_json(CHAT, &case.body).await;
            panic!("{}: an answer instead of silence: {} {}", case.user, answer.status, answer.text());
        });
    }
    let counts = || upstreams.iter().map(FakeUpstream::hits).collect::<Vec<_>>();
    eventually_ok(&format!("{wanted:?} calls"), async || {
        let counts = counts();
        if counts == wanted { Ok(()) } else { Err(counts) }
    })
    .await;
    asking
}

/// Sends all requests at one time and waits for their answers.
async fn finish_all(gateway: &Gateway, cases: Vec<Case>, status: u16) {
    let mut asking = JoinSet::new();
    for case in cases {
        let client = gateway.client().with_key(KEY);
        asking.spawn(async move {
            let answer = client.post_json(CHAT, &case.body).await;
            assert_eq!(answer.status, status, "{}: {}", case.user, answer.text());
        });
    }
    asking.join_all().await;
}

/// The rows by the user of the request, once the ledger has this many.
async fn by_user(data: &Path, count: usize) -> BTreeMap<String, Entry> {
    let store = Store::open(&data.join("gateway.db")).await.expect("the store");
    let rows = eventually_ok("each request has its row", async || {
        let rows = store.requests(&Filter::default(), None, 10_000).await.expect("rows");
        if rows.len() >= count { Ok(rows) } else { Err(format!("{} rows of {count}", rows.len())) }
    })
    .await;
    store.close().await;
    rows.into_iter().filter_map(|row| Some((row.user.clone()?, row))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_ending_of_every_kind_in_every_dialect_costs_what_its_upstreams_were_sent() {
    let data = tempfile::tempdir().expect("a directory");
    let (config, upstreams) = config_of_all("").await;
    // No overload protection: a busy machine must not refuse any request.
    let mut config = config.replacen("[server]\n", "[server]\nshed_after_ms = 0\n", 1);
    config += "[routing]\nretries = 0\n[routing.breaker]\nfailures = 1000\n\
               [routing.hedge]\nafter = 20\nmax_extra_cost_percent = 100\n";
    config = config.replacen("[[keys]]\n", "[[keys]]\ntrust_attribution = true\n", 1);
    config += &format!(
        "[[keys]]\nname = \"boss\"\nkey = \"{ADMIN}\"\nrole = \"admin\"\n{}",
        grouped_sums::rules(&grouped_sums::BY_NAMES)
    );
    for (upstream, words) in upstreams.iter().zip(words()) {
        upstream.respond_with(move |request| answer(request, &words));
    }
    let gateway = start(&config, data.path()).await;
    let rich = json!({ "model": targets().next().expect("a target").1, "messages": [{ "role": "user", "content": RICH }] });
    for _ in 0..RICH_CALLS {
        gateway.client().with_key(KEY).post_json(CHAT, &rich).await.ok();
    }
    for ending in [LEFT, HEDGED, DIVIDED] {
        start_all(&gateway, &upstreams, cases(ending)).await.shutdown().await;
    }
    for (ending, status) in [(TORN, 502), (REFUSED, 502), (TOLD, 200), (HOUR, 200)] {
        finish_all(&gateway, cases(ending), status).await;
    }
    let count = cases(LEFT).len();
    by_user(data.path(), RICH_CALLS + 7 * count).await;
    assert_sums(&gateway, data.path(), RICH_CALLS + 7 * count).await;
    let under_way = (
        start_all(&gateway, &upstreams, cases(KILLED)).await,
        start_all(&gateway, &upstreams, cases(KILLED_HEDGED)).await,
    );
    let _ = gateway.stop();
    drop(under_way);
    let gateway = start(&config, data.path()).await;
    let rows = by_user(data.path(), RICH_CALLS + 9 * count).await;
    assert_charges(&rows);
    assert_sums(&gateway, data.path(), RICH_CALLS + 9 * count).await;
}

/// Every report and every rule has the sum of its rows.
async fn assert_sums(gateway: &Gateway, data: &Path, count: usize) {
    let rows = rows_in(&data.join("gateway.db"), count).await;
    grouped_sums::assert_agreement(gateway, &rows).await;
}

/// Checks each charge.
fn assert_charges(rows: &BTreeMap<String, Entry>) {
    let models: Vec<_> = targets().collect();
    for (place, (api, _)) in models.iter().enumerate() {
        for (kind, _) in kinds(LEFT) {
            if UNSAID.contains(&format!("{api} {kind}").as_str()) {
                continue;
            }
            let row = |api: &str, ending: &str| &rows[&name(api, kind, ending)];
            let cost = |ending: &str| row(api, ending).cost;
            let prompt = i128::from(prompt_tokens(api, kind, LEFT)) * TOKEN;
            assert_eq!(cost(LEFT), prompt, "{api} {kind}");
            assert_eq!((cost(TORN), cost(KILLED)), (prompt, prompt), "{api} {kind}");
            assert_eq!(cost(REFUSED), 0, "{api} {kind}: the upstream refused it");
            let told = row(api, TOLD);
            let truth = i128::from(told.tokens.prompt) + 2 * i128::from(told.tokens.completion);
            assert_eq!((told.estimated, told.cost), (false, truth * TOKEN), "{api} {kind}");
            if CLAUDE.contains(api) {
                // Input 1, output 2, and twice the input for what is kept for an hour.
                let hour = row(api, HOUR);
                assert_eq!((hour.estimated, hour.cache_write_1h), (false, 100_000), "{api} {kind}");
                assert_eq!(hour.cost, (100 + 2 * 10 + 2 * 100_000) * TOKEN, "{api} {kind}");
            }
            let second = row(models[beside(place)].0, LEFT).cost;
            assert_eq!(
                (cost(HEDGED), cost(KILLED_HEDGED)),
                (prompt + second, prompt + second),
                "{api} {kind}"
            );
            let parts = if SEVERAL.contains(api) { 1 } else { 2 };
            assert_eq!(cost(DIVIDED), parts * prompt, "{api} {kind}");
            let ends = [LEFT, TORN, KILLED].map(|ending| &*row(api, ending).status);
            assert_eq!(
                ends,
                ["client_closed_request", "upstream_invalid_response", "interrupted"],
                "{api} {kind}"
            );
        }
    }
}

/// Bytes of the text that a conversation brings back besides its own words.
const RETURNED_BYTES: usize = 12_000;

/// The requests that bring back thoughts, documents and search results, with this word as their question.
fn returned(ending: &str) -> Vec<(&'static str, Value)> {
    let text = "some words ".repeat(RETURNED_BYTES / 11 + 1);
    let plain = json!({ "type": "text", "text": text });
    let turns = |role: &str, block: Value| json!([{ "role": "user", "content": "Hello" }, { "role": role, "content": [block] }, { "role": "user", "content": ending }]);
    let message = |messages: Value| json!({ "model": "claude/m", "max_tokens": 50, "messages": messages });
    let result = json!({ "type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [
        { "type": "web_search_result", "url": "https://a", "title": "t", "encrypted_content": text }] });
    let document =
        json!({ "type": "document", "source": { "type": "text", "media_type": "text/plain", "data": text } });
    let found = json!({ "type": "search_result", "source": "https://a", "title": "t", "content": [plain] });
    let item = json!({ "type": "web_search_call", "id": "ws_1", "status": "completed", "action": { "type": "search", "query": text } });
    let mut thoughts = turns("assistant", json!({ "type": "text", "text": "Hi" }));
    thoughts[1]["reasoning_content"] = json!(text);
    let chat = |more: Value| {
        crate::harness::with(
            json!({ "model": "acme/m", "max_tokens": 50, "messages": [{ "role": "user", "content": ending }] }),
            more,
        )
    };
    vec![
        (CHAT, chat(json!({ "messages": thoughts }))),
        (CHAT, chat(json!({ "documents": [{ "text": text }] }))),
        ("/v1/messages", message(turns("user", document))),
        ("/v1/messages", message(turns("user", found))),
        ("/v1/messages", message(turns("assistant", result))),
        (
            "/v1/responses",
            json!({ "model": "native/m", "store": false, "input": [item, { "role": "user", "content": ending }] }),
        ),
    ]
}

/// Sends the requests of an ending with their users, without waiting for the answers.
fn send_returned(gateway: &Gateway, ending: &'static str) -> JoinSet<u16> {
    let mut asking = JoinSet::new();
    for (number, (path, mut body)) in returned(ending).into_iter().enumerate() {
        let user = format!("{number} {ending}");
        match path {
            "/v1/messages" => body["metadata"] = json!({ "user_id": user }),
            _ => body["user"] = json!(user),
        }
        let client = gateway.client().with_key(KEY);
        asking.spawn(async move { client.post_json(path, &body).await.status });
    }
    asking
}

/// An answer with 100 prompt tokens and 20 others, in the dialect of the URL.
fn told(request: &Recorded) -> Answer {
    let text = json!([{ "type": "text", "text": "Hi" }]);
    let output = json!([{ "type": "message", "id": "m", "role": "assistant", "status": "completed",
        "content": [{ "type": "output_text", "text": "Hi", "annotations": [], "logprobs": [] }] }]);
    Answer::json(
        200,
        &match request.path.as_str() {
            "/v1/messages" => {
                json!({ "id": "msg", "type": "message", "role": "assistant", "model": "m", "content": text,
            "stop_reason": "end_turn", "stop_sequence": null, "usage": { "input_tokens": 100, "output_tokens": 20 } })
            }
            "/v1/responses" => {
                json!({ "id": "resp", "object": "response", "created_at": 1, "status": "completed", "model": "m",
            "error": null, "incomplete_details": null, "output": output,
            "usage": { "input_tokens": 100, "output_tokens": 20, "total_tokens": 120 } })
            }
            _ => {
                let mut body = gw_testkit::upstream::chat_body("m", "Hi");
                body["usage"] = json!({ "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120 });
                body
            }
        },
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s17_thoughts_documents_and_search_results_cost_what_was_sent_at_every_ending() {
    let data = tempfile::tempdir().expect("a directory");
    let upstream = FakeUpstream::start().await;
    upstream.respond_with(|request| answer(request, &told));
    let (origin, base) = (format!("http://{}", upstream.addr), upstream.base_url());
    let mut config = format!(
        "[[keys]]\nname = \"ci\"\nkey = \"{KEY}\"\n[server]\nlisten = \"127.0.0.1:0\"\nshed_after_ms = 0\n\
                              [routing]\nretries = 0\n[routing.breaker]\nfailures = 1000\n"
    );
    for (name, lines) in [
        ("acme", format!("api = \"openai\"\nresponses = false\nbase_url = \"{base}\"")),
        ("claude", format!("api = \"anthropic\"\nbase_url = \"{origin}\"")),
        ("native", format!("api = \"openai\"\nresponses = true\nbase_url = \"{base}\"")),
    ] {
        config += &format!(
            "[[providers]]\nname = \"{name}\"\napi_key = \"sk-upstream-key-000\"\n{lines}\n[[models]]\nid = \"{name}/m\"\n\
             pricing = {{ official_input_per_m = 1.0, official_output_per_m = 2.0, currency = \"USD\" }}\n"
        );
    }
    let gateway = start(&config, data.path()).await;
    let count = returned(LEFT).len();
    let calls = async |wanted: usize| {
        gw_testkit::eventually("every call is made", || (upstream.hits() >= wanted).then_some(())).await;
    };
    let mut left = send_returned(&gateway, LEFT);
    calls(count).await;
    left.shutdown().await;
    for (ending, status) in [(TORN, 502), (REFUSED, 502), (TOLD, 200)] {
        let got = send_returned(&gateway, ending).join_all().await;
        assert_eq!(got, vec![status; count], "{ending}");
    }
    by_user(data.path(), 4 * count).await;
    let under_way = send_returned(&gateway, KILLED);
    calls(5 * count).await;
    let _ = gateway.stop();
    drop(under_way);
    let _gateway = start(&config, data.path()).await;
    let rows = by_user(data.path(), 5 * count).await;
    for number in 0..count {
        let row = |ending: &str| &rows[&format!("{number} {ending}")];
        let least = i128::try_from(RETURNED_BYTES / 3).expect("a count") * TOKEN;
        let prompt = row(LEFT).cost;
        assert!((least..least * 5 / 4).contains(&prompt), "{number}: {:?}", row(LEFT));
        assert_eq!((row(TORN).cost, row(KILLED).cost, row(REFUSED).cost), (prompt, prompt, 0), "{number}");
        assert_eq!((row(TOLD).cost, row(TOLD).estimated), (140 * TOKEN, false), "{number}");
    }
}
