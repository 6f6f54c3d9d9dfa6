//! The lines of the journal for a running request. If the process is killed, the request is charged by them.

use std::time::Duration;

use gw_engine::{Error, Reply};
use gw_providers::settings::Api;
use gw_routing::hedge::{HedgeDelay, HedgeSettings};
use gw_wire::usage::Usage;
use serde_json::{Value, json};

use crate::harness::{Client, Head, Piece, Setup, Step, World, answer, paused, wait};

fn event(data: &Value) -> Step {
    let name = data["type"].as_str().unwrap();
    Step::Piece(Piece::Raw(format!("event: {name}\ndata: {data}\n\n")))
}

/// The beginning of a stream of Claude's, which tells this usage.
fn begun(usage: &Value) -> Step {
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage});
    event(&json!({"type": "message_start", "message": message}))
}

/// Claude's text, in two parts.
fn text() -> [Step; 3] {
    let block = json!({"type": "text", "text": ""});
    let delta = |text| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}});
    [
        event(&json!({"type": "content_block_start", "index": 0, "content_block": block})),
        event(&delta("Hi ")),
        event(&delta("all")),
    ]
}

/// Upstreams with a stream for each call, which end in silence.
fn silent(name: &'static str, api: Api, calls: Vec<Vec<Step>>) -> World {
    let script = |steps: Vec<Step>| answer(Head::Stream([steps, vec![Step::Silence]].concat()));
    Setup { api, ..Setup::new(vec![(name, calls.into_iter().map(script).collect())]) }.build()
}

/// The lines of the journal when the upstream is silent: their letters, and the tokens of the prompt that they tell.
async fn noted(world: &World, answer: impl Future<Output = Result<Reply, Error>>) -> Vec<(char, u64)> {
    let client = Client::default();
    let waiting = tokio::time::timeout(Duration::from_secs(5), client.read(answer));
    let lines = async {
        tokio::time::sleep(Duration::from_secs(4)).await;
        world.journal().into_iter().map(|(kind, entry)| (kind, entry.tokens.prompt)).collect()
    };
    let (ended, lines) = tokio::join!(waiting, lines);
    assert!(ended.is_err(), "the upstream is silent: {ended:?}");
    lines
}

#[test]
fn s17_the_first_usage_that_an_upstream_tells_is_noted_also_if_it_is_less_than_the_estimate() {
    paused(async {
        let usage = json!({"input_tokens": 100, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 2_000, "output_tokens": 1});
        let world = silent("claude", Api::ANTHROPIC, vec![[vec![begun(&usage)], text().to_vec()].concat()]);
        let mut body = world.chat(true);
        body["messages"][0]["content"] = "word ".repeat(2_000).into();
        let lines = noted(&world, world.send(&body, None)).await;
        let estimate = lines[0].1;
        assert!(estimate > 3_000, "{lines:?}");
        assert_eq!(lines, [('B', estimate), ('P', 2_100)], "one note for all of the stream");
    });
}

#[test]
fn usage_that_comes_with_the_end_of_a_chat_is_not_noted_before_the_end() {
    paused(async {
        let text = Piece::Text("Hi all".to_owned());
        let steps = [Piece::Role, text, Piece::Finish, Piece::Usage(700, 2)].map(Step::Piece);
        let world = silent("a", Api::OPENAI, vec![steps.to_vec()]);
        let lines = noted(&world, world.send(&world.chat(true), None)).await;
        assert_eq!(lines.iter().map(|(kind, _)| *kind).collect::<String>(), "B");
    });
}

#[test]
fn s17_calls_of_tools_are_noted_while_the_model_has_not_said_a_word() {
    paused(async {
        let created = json!({"type": "response.created", "sequence_number": 0, "response": {"model": "m", "status": "in_progress"}});
        let searched = |id: &str| {
            event(&json!({"type": "response.output_item.done", "sequence_number": 1, "output_index": 0,
                "item": {"type": "web_search_call", "id": id, "status": "completed", "action": {"type": "search", "query": "a"}}}))
        };
        let steps = vec![event(&created), searched("ws_1"), wait(1_000), searched("ws_2")];
        let world = silent("openai", Api::OPENAI, vec![steps]);
        let body = json!({"model": "openai/m", "stream": true, "store": false, "input": "Hello"});
        let lines = noted(&world, world.send_native(&body)).await;
        let kinds: String = lines.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, "BPP", "a note for each call: {lines:?}");
    });
}

#[test]
fn s17_usage_before_the_first_content_is_noted_beside_a_hedge() {
    paused(async {
        let script = |steps: Vec<Step>| vec![answer(Head::Stream([steps, vec![Step::Silence]].concat()))];
        let usage = json!({"input_tokens": 5_000, "output_tokens": 1});
        let mut setup =
            Setup::new(vec![("a", script(Vec::new())), ("b", script(vec![wait(1_000), begun(&usage)]))]);
        setup.api = Api::ANTHROPIC;
        let after = HedgeDelay::Fixed(Duration::from_millis(300));
        setup.routing.hedge = Some(HedgeSettings { after, max_extra_cost_percent: 100.0 });
        let world = setup.build();
        let body = world.chat(true);
        let lines = noted(&world, world.send(&body, None)).await;
        let told = world.price("b", &Usage { prompt: 5_000, completion: 1, ..Usage::default() });
        let cost = world.journal().last().unwrap().1.cost;
        assert!(lines.len() == 3 && cost > told, "{lines:?}, {cost}");
    });
}

#[test]
fn s17_each_stream_of_a_divided_request_is_noted_as_its_upstream_tells_its_usage() {
    paused(async {
        let usage = json!({"input_tokens": 5_000, "output_tokens": 1});
        let stream = |after| [vec![wait(after), begun(&usage)], text().to_vec()].concat();
        let world = silent("claude", Api::ANTHROPIC, vec![stream(0), stream(1_000)]);
        let mut body = world.chat(true);
        body["n"] = 2.into();
        let lines = noted(&world, world.send(&body, None)).await;
        let both = lines[0].1;
        assert_eq!(lines, [('B', both), ('P', 5_000 + both / 2), ('P', 10_000)]);
    });
}
