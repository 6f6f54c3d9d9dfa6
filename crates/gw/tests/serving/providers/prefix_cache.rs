//! A session of twenty turns at an upstream that keeps prefixes of prompts as Anthropic does: with breakpoints and without, to the last
//! token and the last digit.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use gw_testkit::upstream::Recorded;
use gw_testkit::{Answer, FakeUpstream};
use serde_json::{Value, json};

use crate::harness::ledger::rows;
use crate::harness::{ADMIN, KEY, serve};

const MODEL: &str = "claude/claude-opus-5-5";
const TURNS: usize = 20;
/// The turn whose request has another tool.
const CHANGED: usize = 12;
const OUTPUT_TOKENS: u64 = 10;

/// The tokens of one request at the upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Billed {
    input: u64,
    read: u64,
    written: u64,
}

impl Billed {
    /// The cost in 10^-7 USD: 4 USD a million for input, 0.4 for reads, 5 for writes, 20 for output.
    fn cost(self) -> u64 {
        self.input * 40 + self.read * 4 + self.written * 50 + OUTPUT_TOKENS * 200
    }
}

/// An upstream that keeps the prefixes at whose ends a request has a marker.
#[derive(Clone, Default)]
struct PrefixCache(Arc<Mutex<(HashSet<String>, Vec<Billed>)>>);

/// A block of a prompt without its marker, and whether it had one.
fn block(kind: &str, block: &Value) -> (String, bool) {
    let text = match block {
        Value::String(text) => json!({"type": "text", "text": text}),
        other => other.clone(),
    };
    let mut block = text;
    let marker = block.as_object_mut().and_then(|members| members.remove("cache_control"));
    (format!("{kind}{block}"), marker.is_some())
}

fn blocks(body: &Value) -> Vec<(String, bool)> {
    let list = |value: &Value| match value {
        Value::Array(values) => values.clone(),
        Value::Null => Vec::new(),
        one => vec![one.clone()],
    };
    let mut all: Vec<_> = list(&body["tools"]).iter().map(|tool| block("tool", tool)).collect();
    all.extend(list(&body["system"]).iter().map(|system| block("system", system)));
    for message in list(&body["messages"]) {
        let role = message["role"].as_str().expect("a role").to_owned();
        all.extend(list(&message["content"]).iter().map(|content| block(&role, content)));
    }
    all
}

impl PrefixCache {
    fn answer(&self, request: &Recorded) -> Answer {
        let (mut prefix, mut whole, mut billed) = (String::new(), 0, Billed::default());
        let (kept, seen) = &mut *self.0.lock().expect("no test has failed");
        let (mut marked, mut new) = (0, Vec::new());
        for (text, is_marked) in blocks(&request.json()) {
            prefix += &text;
            whole += text.len() as u64 / 4 + 1;
            if kept.contains(&prefix) {
                billed.read = whole;
            }
            if is_marked {
                marked = whole;
                new.push(prefix.clone());
            }
        }
        kept.extend(new);
        // A prefix is read only up to a marker of the request.
        billed.read = billed.read.min(marked);
        billed.written = marked - billed.read;
        billed.input = whole - billed.read - billed.written;
        seen.push(billed);
        let usage = json!({"input_tokens": billed.input, "cache_creation_input_tokens": billed.written,
            "cache_read_input_tokens": billed.read, "output_tokens": OUTPUT_TOKENS});
        Answer::json(
            200,
            &json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "stop_reason": "end_turn",
                "stop_sequence": null, "content": [{"type": "text", "text": "Done."}], "usage": usage}),
        )
    }
}

/// A decimal of 10^-7 USD.
fn usd(units: u64) -> String {
    let text = format!("{}.{:07}", units / 10_000_000, units % 10_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The figures of a session.
struct Session {
    billed: Vec<Billed>,
    /// `gateway.prompt_cache` of each answer.
    shown: Vec<Value>,
    /// The report's total, as text.
    total: String,
    metrics: String,
}

async fn session(prompt_cache: &str) -> Session {
    let (upstream, cache) = (FakeUpstream::start().await, PrefixCache::default());
    let kept = cache.clone();
    upstream.respond_with(move |request| kept.answer(request));
    let gateway = serve(&format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[[keys]]\nname = \"k\"\nkey = \"{KEY}\"\n\
         [[keys]]\nname = \"boss\"\nkey = \"{ADMIN}\"\nrole = \"admin\"\n\
         [[providers]]\nname = \"claude\"\napi = \"anthropic\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n\
         prompt_cache = \"{prompt_cache}\"\n[[models]]\nid = \"{MODEL}\"\ncategory = [\"chat\"]\n\
         pricing = {{ official_input_per_m = 4.0, official_output_per_m = 20.0, cached_input_per_m = 0.4, \
         cache_write_per_m = 5.0, currency = \"USD\" }}\n",
        upstream.addr
    ))
    .await;
    let client = gateway.client().with_key(KEY).with_header("anthropic-version", "2023-06-01");
    let client = client.with_header("x-gateway-session", "run");
    let system = "All work and no play. ".repeat(400);
    let (mut messages, mut shown) = (Vec::new(), Vec::new());
    for turn in 0..TURNS {
        messages.push(
            json!({"role": "user", "content": format!("Step {turn}. {}", "Look closely. ".repeat(turn))}),
        );
        let name = if turn < CHANGED { "look" } else { "see" };
        let body = json!({"model": MODEL, "max_tokens": 64, "system": system, "messages": messages,
            "tools": [{"name": name, "input_schema": {"type": "object"}}]});
        let answer = client.post_json("/v1/messages", &body).await.ok().json();
        shown.push(answer["gateway"]["prompt_cache"].clone());
        messages.push(json!({"role": "assistant", "content": "Done."}));
    }
    rows(&gateway, TURNS).await;
    let admin = gateway.client().with_key(ADMIN);
    let report = admin.get("/admin/v1/usage?by=session").await.ok().text();
    let total = report.split_once("\"total\":").expect("a total").1.to_owned();
    let metrics = admin.get("/metrics").await.ok().text();
    let billed = cache.0.lock().expect("no test has failed").1.clone();
    Session { billed, shown, total, metrics }
}

#[tokio::test]
async fn twenty_turns_with_breakpoints_cost_what_the_upstream_read_and_wrote() {
    let (with, without) = (session("auto").await, session("off").await);
    let cost = |session: &Session| session.billed.iter().map(|billed| billed.cost()).sum::<u64>();
    assert!(without.billed.iter().all(|billed| billed.read + billed.written == 0), "{:?}", without.billed);
    assert!(without.shown.iter().all(Value::is_null), "{:?}", without.shown);
    for session in [&with, &without] {
        let expected = format!("\"cost_usd\":{},", usd(cost(session)));
        assert!(session.total.contains(&expected), "{expected} {}", session.total);
    }
    assert!(2 * cost(&with) < cost(&without), "{} of {}", usd(cost(&with)), usd(cost(&without)));
    // Each answer says what its own request read, wrote, saved and cost.
    let whole = |billed: &Billed| billed.input + billed.read + billed.written;
    for (turn, (billed, shown)) in with.billed.iter().zip(&with.shown).enumerate() {
        assert_eq!(
            (shown["read_tokens"].as_u64(), shown["write_tokens"].as_u64()),
            (Some(billed.read), Some(billed.written))
        );
        let amounts = [&shown["saved_usd"], &shown["surcharge_usd"]].map(ToString::to_string);
        let expected: [f64; 2] =
            [usd(billed.read * 36), usd(billed.written * 10)].map(|text| text.parse().expect("a number"));
        assert_eq!(amounts.map(|text| text.parse::<f64>().expect("a number")), expected, "{turn}: {shown}");
        assert_eq!(whole(billed), whole(&without.billed[turn]), "the same prompt");
        let is_warm = turn != 0 && turn != CHANGED;
        assert_eq!(billed.read > 0, is_warm, "{turn}: {billed:?}");
    }
    // The planted change of the tools is the one miss.
    let misses: Vec<usize> = (0..TURNS).filter(|turn| with.shown[*turn]["miss"].is_object()).collect();
    assert_eq!(misses, [CHANGED]);
    let (miss, before) = (&with.shown[CHANGED]["miss"], with.billed[CHANGED - 1]);
    let lost = before.read + before.written;
    assert_eq!((miss["cause"].as_str(), miss["lost_tokens"].as_u64()), (Some("tools"), Some(lost)), "{miss}");
    let sum = |of: fn(&Billed) -> u64| with.billed.iter().map(of).sum::<u64>();
    let (saved, surcharge) = (sum(|billed| billed.read) * 36, sum(|billed| billed.written) * 10);
    let sums = format!(
        "\"cache_saved_usd\":{},\"cache_surcharge_usd\":{},\"cache_lost_usd\":{},",
        usd(saved),
        usd(surcharge),
        usd(lost * 36)
    );
    assert!(with.total.contains(&sums), "{sums} {}", with.total);
    let labels = format!("provider=\"claude\",model=\"{MODEL}\"");
    for (name, more, value) in [
        ("saved_usd_total", "", usd(saved)),
        ("surcharge_usd_total", "", usd(surcharge)),
        ("lost_usd_total", "", usd(lost * 36)),
        ("tokens_total", ",kind=\"read\"", sum(|billed| billed.read).to_string()),
        ("tokens_total", ",kind=\"write\"", sum(|billed| billed.written).to_string()),
        ("tokens_total", ",kind=\"lost\"", lost.to_string()),
    ] {
        let line = format!("gateway_prompt_cache_{name}{{{labels}{more}}} {value}");
        assert!(with.metrics.lines().any(|found| found == line), "{line} {}", with.metrics);
    }
    assert!(!without.metrics.contains("gateway_prompt_cache_saved_usd_total{"));
}
