//! The money of retries, fallbacks, continuations and hedges: a budget and the client's own maximum hold all attempts together.

use std::time::Duration;

use gw_testkit::sse::text_of;
use gw_testkit::upstream::{Step, chat_transcript, sse_data};
use gw_testkit::{Answer, Signal};
use serde_json::{Value, json};

use crate::harness::answers::{assert_broken_off, fallback};
use crate::harness::ledger::rows;
use crate::harness::{Setup, World, assert_error, chat_with, with};
use crate::limits::budgets::{client, key};

const CHAT: &str = "/v1/chat/completions";
const CONTINUE: &str = "retries = 0\nmid_stream = \"continue\"";
const HEDGE: &str = "retries = 0\n[routing.hedge]\nafter = 20";
/// Femto-USD of a token of `acme/fast` and of `beta/fast`: input, output.
const ACME: (i128, i128) = (150_000_000, 600_000_000);
const BETA: (i128, i128) = (300_000_000, 1_200_000_000);
/// The tokens of the long prompt: 27,000 bytes and the frame of a message.
const PROMPT: i128 = 9_008;
/// The usage that the scripted upstreams report costs this much at `beta/fast`.
const BETA_ANSWER: i128 = 10 * BETA.0 + 5 * BETA.1;

/// A stream with a prompt of 0.0013512 USD at `acme/fast` and of 0.0027024 USD at `beta/fast`.
fn long() -> Value {
    let messages = json!([{ "role": "user", "content": "word ".repeat(5_400) }]);
    let asked = json!({ "stream": true, "max_tokens": 40, "messages": messages });
    with(chat_with("acme/fast", asked), fallback(&["beta/fast"]))
}

/// 16 bytes of an answer, which are 6 tokens, and then a torn connection.
fn broken() -> Answer {
    Answer::sse()
        .data(&sse_data(&json!({ "role": "assistant", "content": "Once upon" }), None))
        .data(&sse_data(&json!({ "content": " a time" }), None))
        .reset()
}

/// An answer that comes long after a hedge is due.
fn late() -> Answer {
    let pause = Step::Pause(Duration::from_millis(300));
    Answer::sse().all(&chat_transcript(&["Hello"])).done().after(pause)
}

async fn cut(budget: &str, routing: &'static str) -> World {
    let setup = key(&format!("budget_usd = {budget}\non_budget = \"cut\""));
    Setup { routing, ..setup }.start().await
}

/// The status, the number of attempts and the cost of the only request.
async fn outcome(world: &World) -> (String, usize, i128) {
    let row = rows(&world.gateway, 1).await.remove(0);
    (row.status.to_string(), row.attempts.len(), row.cost)
}

#[tokio::test]
async fn a_continuation_that_the_rest_of_a_grant_cannot_hold_is_not_made() {
    let first = PROMPT * ACME.0 + 6 * ACME.1;
    // Two prompts cost 0.0040536 USD.
    let world = cut("0.003", CONTINUE).await;
    world.upstream.enqueue(broken());
    let frames = client(&world).stream(CHAT, &long()).await.rest().await;
    assert_broken_off(&frames, "upstream_stream_error");
    assert_eq!(world.second.hits(), 0);
    assert_eq!(outcome(&world).await, ("upstream_stream_error".to_owned(), 1, first));
    // A budget that holds both pays for both.
    let world = cut("0.006", CONTINUE).await;
    world.upstream.enqueue(broken());
    let frames = client(&world).stream(CHAT, &long()).await.rest().await;
    assert!(text_of(&frames, 0).starts_with("Once upon a time"), "{frames:?}");
    assert_eq!(world.second.hits(), 1);
    assert_eq!(outcome(&world).await, ("ok".to_owned(), 2, first + BETA_ANSWER));
}

#[tokio::test]
async fn a_fallback_that_the_rest_of_a_grant_cannot_hold_is_not_made_where_streams_are_continued() {
    let world = cut("0.003", CONTINUE).await;
    world.upstream.always(Answer::default().reset());
    let answer = client(&world).try_stream(CHAT, &long()).await.expect_err("no stream");
    assert_error("torn", &answer, 502, "upstream_error", "upstream_unreachable");
    assert_eq!(world.second.hits(), 0);
    assert_eq!(outcome(&world).await, ("upstream_unreachable".to_owned(), 1, PROMPT * ACME.0));
}

#[tokio::test]
async fn a_hedge_that_a_grant_cannot_hold_is_not_made() {
    let world = cut("0.003", HEDGE).await;
    world.upstream.always(late());
    client(&world).stream(CHAT, &long()).await.rest().await;
    assert_eq!(world.second.hits(), 0);
    assert_eq!(outcome(&world).await, ("ok".to_owned(), 1, 10 * ACME.0 + 5 * ACME.1));
    // A budget that holds both pays for the loser's prompt, too.
    let world = cut("0.006", HEDGE).await;
    world.upstream.always(Answer::default().hang());
    client(&world).stream(CHAT, &long()).await.rest().await;
    assert_eq!(world.second.hits(), 1);
    assert_eq!(outcome(&world).await, ("ok".to_owned(), 2, PROMPT * ACME.0 + BETA_ANSWER));
}

/// A request without `max_tokens` takes all the money that is left, so that nothing is left beside its grant.
#[tokio::test]
async fn a_small_charge_is_paid_out_of_a_grant_that_took_everything() {
    let world = cut("0.001", "retries = 0").await;
    world.upstream.always(Answer::default().reset());
    let body = chat_with("acme/plain", fallback(&["beta/fast"]));
    let answer = client(&world).post_json(CHAT, &body).await.ok().json();
    assert_eq!(answer["gateway"]["model_used"], "beta/fast", "{answer}");
    // The lost prompt costs 0.00001 USD and the next one 0.000003 USD. The rest pays 822 tokens.
    assert_eq!(world.second.last().json()["max_tokens"], 822);
    assert_eq!(outcome(&world).await, ("ok".to_owned(), 2, 10 * 1_000_000_000 + BETA_ANSWER));
}

/// The report of a dry run of the long stream, with the client's own maximum.
async fn planned(world: &World, most: Option<&str>) -> Value {
    let dry = world.client.with_header("x-gateway-dry-run", "true");
    let dry = match most {
        Some(most) => dry.with_header("x-gateway-max-cost-usd", most),
        None => dry,
    };
    dry.post_json(CHAT, &long()).await.ok().json()
}

#[tokio::test]
async fn a_hedge_that_exceeds_the_clients_maximum_is_not_made() {
    // The longest answers cost 0.0013752 and 0.0027504 USD, which is 0.0041256 USD together.
    let world = Setup { routing: HEDGE, ..Setup::default() }.start().await;
    for (most, cost) in [(None, 0.005_452_8), (Some("0.003"), 0.003), (Some("0.0042"), 0.004_2)] {
        let report = planned(&world, most).await;
        let told = (&report["would"], &report["estimate"]["cost_usd"]);
        assert_eq!(told, (&json!("serve"), &json!(cost)), "{report}");
    }
    let bounded = |most: &str| world.client.with_header("x-gateway-max-cost-usd", most);
    world.upstream.always(late());
    bounded("0.003").stream(CHAT, &long()).await.rest().await;
    assert_eq!(world.second.hits(), 0);
    assert_eq!(outcome(&world).await, ("ok".to_owned(), 1, 10 * ACME.0 + 5 * ACME.1));
    world.upstream.always(Answer::default().hang());
    bounded("0.0042").stream(CHAT, &long()).await.rest().await;
    assert_eq!(world.second.hits(), 1);
    let costs: Vec<i128> = rows(&world.gateway, 2).await.iter().map(|row| row.cost).collect();
    assert!(costs.contains(&(PROMPT * ACME.0 + BETA_ANSWER)), "{costs:?}");
}

#[tokio::test]
async fn a_continuation_that_exceeds_the_clients_maximum_is_not_made() {
    let world = Setup { routing: CONTINUE, ..Setup::default() }.start().await;
    world.upstream.enqueue(broken());
    let bounded = world.client.with_header("x-gateway-max-cost-usd", "0.003");
    let frames = bounded.stream(CHAT, &long()).await.rest().await;
    assert_broken_off(&frames, "upstream_stream_error");
    assert_eq!(world.second.hits(), 0);
    let expected = ("upstream_stream_error".to_owned(), 1, PROMPT * ACME.0 + 6 * ACME.1);
    assert_eq!(outcome(&world).await, expected);
}

/// The next model could be paid, but its circuit has opened meanwhile, and the one behind it is too dear.
#[tokio::test]
async fn a_continuation_beyond_an_open_circuit_is_looked_at_too() {
    let routing =
        "retries = 0\nmid_stream = \"continue\"\n[routing.breaker]\nfailures = 1\ncooldown_ms = 600000";
    let world = Setup { routing, ..Setup::default() }.start().await;
    let go = Signal::new();
    let begin =
        Answer::sse().data(&sse_data(&json!({ "role": "assistant", "content": "Once upon a time" }), None));
    world.upstream.enqueue(begin.wait(&go).reset());
    let mut body = long();
    body["routing"]["fallback"] = json!(["beta/fast", "acme/plain"]);
    // `acme/plain` alone costs 0.009088 USD, and 0.0013548 USD are charged for the broken stream.
    let bounded = world.client.with_header("x-gateway-max-cost-usd", "0.01");
    let mut stream = bounded.stream(CHAT, &body).await;
    stream.frame().await.expect("the beginning");
    world.second.always(Answer::error(500, "broken", "broken"));
    let failed = world.client.post_json(CHAT, &chat_with("beta/fast", json!({}))).await;
    assert_error("the next model", &failed, 502, "upstream_error", "upstream_error");
    go.fire();
    assert_broken_off(&stream.rest().await, "upstream_stream_error");
    assert_eq!((world.upstream.hits(), world.second.hits()), (1, 1));
}

/// At `beta/fast`, 10 tokens and an answer of 40 cost 0.000051 USD. A continuation also reads 85 tokens of the instruction and 40 of the
/// answer so far: 0.0000885 USD.
#[tokio::test]
async fn the_worst_case_has_the_instruction_of_a_continuation_and_the_answer_so_far() {
    let mut setup = key("budget_usd = 0.0001395");
    setup.extra += "[[keys]]\nname = \"poorer\"\nkey = \"sk-poorer\"\nbudget_usd = 0.0001394\n";
    let world = Setup { routing: CONTINUE, ..setup }.start().await;
    let asked = with(json!({ "stream": true, "max_tokens": 40 }), fallback(&["beta/fast"]));
    let body = chat_with("acme/fast", asked);
    let dry = client(&world).with_header("x-gateway-dry-run", "true");
    let report = dry.post_json(CHAT, &body).await.ok().json();
    assert_eq!(report["estimate"]["cost_usd"], json!(0.000_139_5), "{report}");
    assert_eq!(report["would"], "serve", "{report}");
    let poorer = world.gateway.client().with_key("sk-poorer");
    let refused = poorer.try_stream(CHAT, &body).await.expect_err("too little money");
    assert_error("poorer", &refused, 429, "insufficient_quota", "insufficient_quota");
    // No attempt goes beyond the client's own maximum, so a budget need not hold more.
    let modest = poorer.with_header("x-gateway-max-cost-usd", "0.00006");
    assert!(text_of(&modest.stream(CHAT, &body).await.rest().await, 0).starts_with("Hello"));
    world.upstream.enqueue(broken());
    let frames = client(&world).stream(CHAT, &body).await.rest().await;
    assert!(text_of(&frames, 0).starts_with("Once upon a time"), "{frames:?}");
    let cost = 10 * ACME.0 + 6 * ACME.1 + BETA_ANSWER;
    let found = rows(&world.gateway, 3).await;
    assert!(found.iter().any(|row| row.status == "ok" && row.cost == cost), "{found:?}");
}
