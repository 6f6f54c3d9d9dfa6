//! The money of a part of a divided request that is asked for again: a budget and the client's own maximum hold the lost call, too.

use gw_testkit::upstream::Step;
use gw_testkit::{Answer, FakeUpstream, Gateway, Launch, Response, Signal};
use serde_json::{Value, json};

use crate::harness::ledger::rows;
use crate::harness::{KEY, assert_error, binary};

const CHAT: &str = "/v1/chat/completions";
/// One token at one USD per million, in femto-USD.
const TOKEN: i128 = 1_000_000_000;
/// The estimated prompt of a part: 27,000 bytes, and eight tokens around them.
const PROMPT: i128 = 9_008;
/// What a whole answer costs: 10 tokens of the prompt at one USD per million, and 5 of the answer at two.
const ANSWER: i128 = 20;
/// The worst case of the request is 0.027324 USD. With a lost prompt it is 0.036332 USD.
const TOO_LITTLE: &str = "0.036331";
const ENOUGH: &str = "0.036332";
/// What is left of it after a lost prompt and three answers.
const LEFT: &str = "0.027264";

/// A gateway whose key has these limits, which rules may follow.
async fn start(upstream: &FakeUpstream, limits: &str) -> Gateway {
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[routing]\nretries = 1\n[[keys]]\nname = \"ci\"\nkey = \"{KEY}\"\n{limits}\n\
         [[providers]]\nname = \"claude\"\napi = \"anthropic\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n\
         [[models]]\nid = \"claude/opus\"\ncategory = [\"chat\"]\npricing = {{ official_input_per_m = 1.0, official_output_per_m = 2.0 }}\n",
        upstream.addr
    );
    Launch::new(binary()).file("gateway.toml", &config).start().await
}

/// A request of three parts.
fn three() -> Value {
    let messages = json!([{ "role": "user", "content": "word ".repeat(5_400) }]);
    json!({ "model": "claude/opus", "n": 3, "max_tokens": 50, "messages": messages })
}

/// A whole answer. Its connection is closed when the gateway has read it.
fn whole() -> Answer {
    let body = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "up",
        "content": [{ "type": "text", "text": "Hi all" }], "stop_reason": "end_turn", "stop_sequence": null,
        "usage": { "input_tokens": 10, "output_tokens": 5 }
    });
    Answer::full(200, &[("content-type", "application/json"), ("connection", "close")], body.to_string())
}

/// Asks for three parts. The connection of the last one breaks when the gateway has read the others.
async fn ask(gateway: &Gateway, upstream: &FakeUpstream, most: Option<&str>) -> Response {
    let broken = Signal::new();
    [whole(), whole(), Answer::default().reset().after(Step::Wait(broken.clone()))]
        .into_iter()
        .for_each(|answer| upstream.enqueue(answer));
    upstream.always(whole());
    let client = gateway.client().with_key(KEY);
    let client = match most {
        Some(most) => client.with_header("x-gateway-max-cost-usd", most),
        None => client,
    };
    let asking = tokio::spawn(async move { client.post_json(CHAT, &three()).await });
    for place in 0..2 {
        upstream.request(place).await.until_closed().await;
    }
    upstream.request(2).await;
    broken.fire();
    asking.await.expect("an answer")
}

#[tokio::test]
async fn a_part_is_asked_for_again_only_if_the_request_can_pay_the_lost_call() {
    let budget = |usd| format!("budget_usd = {usd}");
    let rule = |of: &str, limit: &str| format!("[[budgets]]\nname = \"rule\"\nmatch = {{ {of} }}\n{limit}");
    let (of_provider, of_model) = (r#"provider = "claude""#, r#"model = "claude/*""#);
    for (name, limits, most, is_paid, left) in [
        ("no limit", String::new(), None, true, None),
        ("a budget that holds both", budget(ENOUGH), None, true, Some(LEFT)),
        ("a budget that does not", budget(TOO_LITTLE), None, false, None),
        ("a maximum that holds both", String::new(), Some(ENOUGH), true, None),
        ("a maximum that does not", String::new(), Some(TOO_LITTLE), false, None),
        ("a rule of requests alone", rule(of_provider, "rpm = 1000"), None, true, None),
        ("a rule whose budget holds both", rule(of_provider, &budget(ENOUGH)), None, true, Some(LEFT)),
        ("a rule whose budget does not", rule(of_model, &budget(TOO_LITTLE)), None, false, None),
    ] {
        let upstream = FakeUpstream::start().await;
        let gateway = start(&upstream, &limits).await;
        let answer = ask(&gateway, &upstream, most).await;
        let answers = if is_paid { 3 } else { 2 };
        if is_paid {
            let answer = answer.ok();
            assert_eq!(answer.json()["choices"].as_array().map(Vec::len), Some(3), "{name}");
            assert_eq!(answer.header("x-gateway-budget-left-usd"), left, "{name}");
        } else {
            assert_error(name, &answer, 502, "upstream_error", "upstream_unreachable");
        }
        assert_eq!(upstream.hits(), 1 + answers, "{name}");
        let row = rows(&gateway, 1).await.remove(0);
        assert_eq!(row.cost, (PROMPT + answers as i128 * ANSWER) * TOKEN, "{name}");
    }
}
