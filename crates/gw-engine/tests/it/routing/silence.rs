//! The wait for the first content: an upstream whose model works out of sight has the whole time of the request, and every
//! other one `first_token_ms`.

use std::time::Duration;

use gw_providers::settings::Api;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::harness::{
    Client, Ended, Head, Piece, Script, Setup, Step, World, answer, chat_stream, document, paused, wait,
};

/// The default clocks.
const FIRST_TOKEN_MS: u128 = 120_000;
const IDLE_MS: u128 = 120_000;
const TOTAL_MS: u128 = 600_000;

fn event(data: &Value) -> Step {
    let name = data["type"].as_str().unwrap();
    Step::Piece(Piece::Raw(format!("event: {name}\ndata: {data}\n\n")))
}

/// A step every ten seconds, for five minutes.
fn for_five_minutes(step: &Step) -> Vec<Step> {
    (0..30).flat_map(|_| [step.clone(), wait(10_000)]).collect()
}

fn stream(parts: Vec<Vec<Step>>) -> Script {
    answer(Head::Stream(parts.into_iter().flatten().collect()))
}

/// One upstream of this name and dialect.
fn world(name: &'static str, api: Api, script: Script) -> World {
    let mut setup = Setup::new(vec![(name, vec![script])]);
    setup.api = api;
    setup.build()
}

/// Sends the request; gives its end and its duration in milliseconds.
async fn timed(world: &World, body: &Value, is_native: bool) -> (Ended, u128) {
    let begun = Instant::now();
    let client = Client::default();
    let ended = match is_native {
        true => client.read(world.send_native(body)).await,
        false => client.read(world.send(body, None)).await,
    };
    (ended, begun.elapsed().as_millis())
}

/// Checks that no content came in time.
#[track_caller]
fn assert_late(ended: &Ended, took: u128, limit: u128) {
    let text = match ended {
        Ended::Refused(error) => error.message.to_string(),
        // The head and signs of life were sent after ten seconds.
        Ended::Answered(body) | Ended::Left(body) => body.clone(),
    };
    assert!(text.contains(" in time."), "{ended:?}");
    assert_eq!(took, limit);
}

fn message(more: &Value) -> Value {
    let mut body = json!({"model": "anthropic/m", "max_tokens": 2000, "stream": true,
        "messages": [{"role": "user", "content": "Hello"}]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn message_start() -> Step {
    event(&json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
        "model": "m", "content": [], "usage": {"input_tokens": 5, "output_tokens": 1}}}))
}

fn block(index: u32, block: &Value) -> Step {
    event(&json!({"type": "content_block_start", "index": index, "content_block": block}))
}

fn block_end(index: u32) -> Step {
    event(&json!({"type": "content_block_stop", "index": index}))
}

/// A block of text.
fn text(index: u32, text: &str) -> Vec<Step> {
    let delta = json!({"type": "text_delta", "text": text});
    vec![
        block(index, &json!({"type": "text", "text": ""})),
        event(&json!({"type": "content_block_delta", "index": index, "delta": delta})),
        block_end(index),
    ]
}

/// A text and the end of the message.
fn spoken(index: u32) -> Vec<Step> {
    let mut steps = text(index, "Well.");
    steps.push(event(
        &json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}}),
    ));
    steps.push(event(&json!({"type": "message_stop"})));
    steps
}

fn ping() -> Step {
    event(&json!({"type": "ping"}))
}

/// Thinking that is not shown, with a ping every ten seconds.
fn omitted_thinking() -> Script {
    let thought = block(0, &json!({"type": "thinking", "thinking": "", "signature": ""}));
    let stop = event(&json!({"type": "content_block_stop", "index": 0}));
    stream(vec![vec![message_start(), thought], for_five_minutes(&ping()), vec![stop], spoken(1)])
}

#[test]
fn thinking_that_is_not_shown_is_no_timeout_for_any_client() {
    paused(async {
        let chat = json!({"model": "anthropic/m", "stream": true, "messages": [{"role": "user", "content": "Hello"}]});
        for (body, is_native) in [(message(&json!({})), true), (chat, false)] {
            let world = world("anthropic", Api::ANTHROPIC, omitted_thinking());
            let (ended, took) = timed(&world, &body, is_native).await;
            assert!(ended.body().contains("Well."), "{ended:?}");
            assert_eq!(took, 300_000);
        }
    });
}

#[test]
fn work_after_the_first_content_is_no_silence() {
    paused(async {
        let chat = json!({"model": "anthropic/m", "stream": true, "messages": [{"role": "user", "content": "Hello"}]});
        let thought = block(1, &json!({"type": "thinking", "thinking": "", "signature": ""}));
        let call = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "bash_code_execution", "input": {}});
        let result =
            json!({"type": "bash_code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": {}});
        let begun = || vec![vec![message_start()], text(0, "I look.")];
        let pings = || for_five_minutes(&ping());
        let thinks = vec![vec![thought], pings(), vec![block_end(1)]];
        let runs = vec![vec![block(1, &call), block_end(1)], pings(), vec![block(2, &result), block_end(2)]];
        for work in [thinks, runs] {
            let script = stream([begun(), work, vec![spoken(3)]].concat());
            let (ended, took) = timed(&world("anthropic", Api::ANTHROPIC, script), &chat, false).await;
            assert!(ended.body().contains("Well.") && !ended.body().contains("error"), "{ended:?}");
            assert_eq!(took, 300_000);
        }
        // Pings alone are no work, before a tool runs and after its end.
        let after = vec![vec![block(1, &call), block_end(1), block(2, &result), block_end(2)], pings()];
        for idle in [vec![pings()], after] {
            let script = stream([begun(), idle, vec![spoken(3)]].concat());
            let (ended, took) = timed(&world("anthropic", Api::ANTHROPIC, script), &chat, false).await;
            assert!(ended.body().contains("The upstream sent nothing for too long"), "{ended:?}");
            assert_eq!(took, IDLE_MS);
        }
    });
}

#[test]
fn a_turn_that_asks_for_thinking_may_be_silent() {
    paused(async {
        let silent = || stream(vec![vec![message_start()], for_five_minutes(&ping()), spoken(0)]);
        let thinking = json!({"thinking": {"type": "enabled", "budget_tokens": 1024, "display": "omitted"}});
        let world_of = || world("anthropic", Api::ANTHROPIC, silent());
        let (ended, took) = timed(&world_of(), &message(&thinking), true).await;
        assert!(ended.body().contains("Well."), "{ended:?}");
        assert_eq!(took, 300_000);
        let (ended, took) = timed(&world_of(), &message(&json!({})), true).await;
        assert_late(&ended, took, FIRST_TOKEN_MS);
    });
}

fn response_event(kind: &str, more: &Value) -> Step {
    let mut data = json!({"type": kind, "sequence_number": 0, "output_index": 0});
    data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event(&data)
}

#[test]
fn states_of_a_hosted_tool_are_signs_of_work() {
    paused(async {
        let created =
            response_event("response.created", &json!({"response": {"model": "m", "status": "in_progress"}}));
        let item = json!({"item": {"type": "web_search_call", "id": "ws_1", "status": "in_progress"}});
        let searching = response_event("response.web_search_call.searching", &json!({"item_id": "ws_1"}));
        let text =
            response_event("response.output_text.delta", &json!({"delta": "Found.", "item_id": "msg_1"}));
        let object = json!({"response": {"id": "resp_1", "model": "m", "status": "completed", "output": [],
            "usage": {"input_tokens": 5, "output_tokens": 2}}});
        let end = vec![text, response_event("response.completed", &object)];
        let request = json!({"model": "openai/m", "stream": true, "store": false, "input": "Hello"});
        for sign in [response_event("response.output_item.added", &item), searching.clone()] {
            let script = stream(vec![vec![created.clone(), sign], for_five_minutes(&created), end.clone()]);
            let world = world("openai", Api::OPENAI, script);
            let (ended, took) = timed(&world, &request, true).await;
            assert!(ended.body().contains("Found."), "{ended:?}");
            assert_eq!(took, 300_000);
        }
        // Nothing but the beginning of the response is no work yet.
        let script = stream(vec![for_five_minutes(&created), end]);
        let (ended, took) = timed(&world("openai", Api::OPENAI, script), &request, true).await;
        assert_late(&ended, took, FIRST_TOKEN_MS);
    });
}

#[test]
fn u14_work_without_content_ends_at_the_total_deadline_and_comments_before() {
    paused(async {
        let thought = block(0, &json!({"type": "thinking", "thinking": "", "signature": ""}));
        let endless =
            |step: &Step| [for_five_minutes(step), for_five_minutes(step), for_five_minutes(step)].concat();
        let comment = Step::Piece(Piece::Comment);
        let empty = event(
            &json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": ""}}),
        );
        for again in [ping(), empty, comment.clone()] {
            let script = stream(vec![vec![message_start(), thought.clone()], endless(&again)]);
            let (ended, took) =
                timed(&world("anthropic", Api::ANTHROPIC, script), &message(&json!({})), true).await;
            assert_late(&ended, took, TOTAL_MS);
        }
        let script = stream(vec![endless(&comment)]);
        let (ended, took) =
            timed(&world("anthropic", Api::ANTHROPIC, script), &message(&json!({})), true).await;
        assert_late(&ended, took, FIRST_TOKEN_MS);
    });
}

#[test]
fn a_chat_that_asks_for_reasoning_waits_for_the_total_deadline() {
    paused(async {
        let chat = |effort: Value, stream: bool| {
            json!({"model": "a/m", "stream": stream, "reasoning_effort": effort,
                "messages": [{"role": "user", "content": "Hello"}]})
        };
        let late = || stream(vec![vec![wait(300_000)], chat_stream(&["Well."], Some((5, 5)))]);
        let whole = || answer(Head::Document(document("Well.", Some((5, 5))), Vec::new())).after(300_000);
        for (script, is_stream) in [(late(), true), (whole(), false)] {
            for effort in [json!("high"), json!("minimal")] {
                let world = world("a", Api::OPENAI, script.clone());
                let (ended, took) = timed(&world, &chat(effort, is_stream), false).await;
                assert_eq!((ended.text(), took), ("Well.".to_owned(), 300_000));
            }
            for effort in [json!("none"), Value::Null] {
                let world = world("a", Api::OPENAI, script.clone());
                let (ended, took) = timed(&world, &chat(effort, is_stream), false).await;
                assert_late(&ended, took, FIRST_TOKEN_MS);
            }
        }
        // Chunks without content are no sign of work.
        let piece = |delta: &str| {
            let chunk = format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n");
            Step::Piece(Piece::Raw(chunk))
        };
        let after =
            |delta: &str| stream(vec![vec![piece(delta), wait(300_000)], chat_stream(&["Well."], None)]);
        let begins = world("a", Api::OPENAI, after(r#"{"role":"assistant","content":""}"#));
        let (ended, took) = timed(&begins, &chat(Value::Null, true), false).await;
        assert_late(&ended, took, FIRST_TOKEN_MS);
    });
}

#[test]
fn a_model_that_reasons_unasked_waits_for_the_total_deadline() {
    paused(async {
        let chat = |more: Value, stream: bool| {
            let mut body =
                json!({"model": "a/m", "stream": stream, "messages": [{"role": "user", "content": "Hello"}]});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            body
        };
        let whole = || answer(Head::Document(document("Well.", Some((5, 5))), Vec::new())).after(300_000);
        let late = || stream(vec![vec![wait(300_000)], chat_stream(&["Well."], Some((5, 5)))]);
        let world_of = |name: &'static str, features: &[&str], script: Script| {
            let mut setup = Setup::new(vec![("a", vec![script])]);
            setup.upstream_model = Some(name);
            setup.features =
                (!features.is_empty()).then(|| features.iter().map(ToString::to_string).collect());
            setup.build()
        };
        let silent = json!({});
        for (name, features) in [("gpt-5", &[][..]), ("o3", &[]), ("deepseek-reasoner", &["reasoning"])] {
            for (script, is_stream) in [(late(), true), (whole(), false)] {
                let world = world_of(name, features, script);
                let (ended, took) = timed(&world, &chat(silent.clone(), is_stream), false).await;
                assert_eq!((ended.text(), took), ("Well.".to_owned(), 300_000), "{name}");
            }
        }
        let off = json!({"reasoning_effort": "none"});
        for (name, features, more) in [
            ("gpt-6", &[][..], &off),
            ("deepseek-reasoner", &["reasoning"], &off),
            // Models that reason when they are asked, or never.
            ("gpt-5.2", &["reasoning"], &silent),
            ("gpt-4o", &[], &silent),
            ("deepseek-chat", &[], &silent),
        ] {
            let world = world_of(name, features, whole());
            let (ended, took) = timed(&world, &chat(more.clone(), false), false).await;
            assert_late(&ended, took, FIRST_TOKEN_MS);
        }
    });
}

#[test]
fn a_shorter_first_token_timeout_holds_for_a_model_that_reasons_unasked() {
    paused(async {
        let hangs = stream(vec![vec![wait(300_000)], chat_stream(&["Well."], Some((5, 5)))]);
        let mut setup = Setup::new(vec![("a", vec![hangs])]);
        setup.upstream_model = Some("gpt-5");
        setup.timeouts.first_token = Duration::from_secs(20);
        let asked =
            json!({"model": "a/m", "stream": true, "messages": [{"role": "user", "content": "Hello"}]});
        let (ended, took) = timed(&setup.build(), &asked, false).await;
        assert_late(&ended, took, 20_000);
    });
}

#[test]
fn a_sign_of_work_shortly_before_the_deadline_is_in_time() {
    paused(async {
        let thought = block(0, &json!({"type": "thinking", "thinking": "", "signature": ""}));
        let late = |after: Duration| {
            let after = Step::Wait(after);
            stream(vec![vec![message_start(), after, thought.clone(), wait(100_000)], spoken(1)])
        };
        let (ended, _) = timed(
            &world("anthropic", Api::ANTHROPIC, late(Duration::from_millis(119_990))),
            &message(&json!({})),
            true,
        )
        .await;
        assert!(ended.body().contains("Well."), "{ended:?}");
        let (ended, took) = timed(
            &world("anthropic", Api::ANTHROPIC, late(Duration::from_millis(120_010))),
            &message(&json!({})),
            true,
        )
        .await;
        assert_late(&ended, took, FIRST_TOKEN_MS);
    });
}
