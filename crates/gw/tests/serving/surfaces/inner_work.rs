//! The upstream's own work beyond one reading of the prompt is reserved, believed and charged.

use gw_testkit::{Answer, FakeUpstream};
use serde_json::{Value, json};

use super::{ask_messages, ask_responses, message, response};
use crate::harness::{Setup, World, chat_with, with};

const CLAUDE: &str = "claude/claude-opus-5-5";
const SEARCHING: &str = "acme/searching";
/// A model without prices of tools and of sound.
const PLAIN: &str = "acme/plain-prices";
const SPEAKING: &str = "acme/speaking";

/// Models whose tokens cost 1 and 2 USD per million. `poor` may spend 0.05 USD, and `strict` no unknown price.
async fn priced() -> (World, FakeUpstream) {
    priced_with("").await
}

async fn priced_with(routing: &'static str) -> (World, FakeUpstream) {
    let upstream = FakeUpstream::start().await;
    let pricing = |more: &str| {
        format!(
            "context_length = 100000\nmax_output_tokens = 100\npricing = {{ official_input_per_m = 1.0, \
             official_output_per_m = 2.0{more} }}"
        )
    };
    let tools = pricing(", tools = { web_search_per_call = 0.01, web_fetch_per_call = 0.0 }");
    let (plain, spoken) = (pricing(""), pricing(", official_audio_output_per_m = 800.0"));
    let extra = format!(
        "[[providers]]\nname = \"claude\"\napi = \"anthropic\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n\
         [[models]]\nid = \"{CLAUDE}\"\n{tools}\n[[models]]\nid = \"{SEARCHING}\"\n{tools}\n\
         [[models]]\nid = \"acme/searching-too\"\n{tools}\n\
         [[keys]]\nname = \"poorer\"\nkey = \"sk-poorer\"\nbudget_usd = 0.03\n\
         [[models]]\nid = \"{PLAIN}\"\n{plain}\n[[models]]\nid = \"{SPEAKING}\"\n{spoken}\n\
         [[keys]]\nname = \"poor\"\nkey = \"sk-poor\"\nbudget_usd = 0.05\n\
         [[keys]]\nname = \"paced\"\nkey = \"sk-paced\"\ntpm = 500000\n\
         [[keys]]\nname = \"strict\"\nkey = \"sk-strict\"\nbudget_usd = 50.0\nunpriced = \"refuse\"\n",
        upstream.addr
    );
    let allowed = "\"web_search\", \"web_search_options\", \"tools\", \"search_parameters\"";
    let acme = format!("responses = true\nallow_members = [{allowed}]");
    (Setup { extra, acme, routing, ..Setup::default() }.start().await, upstream)
}

/// Chats whose upstream runs tools, in all forms that a chat has for it.
fn hosted_chats() -> [Value; 5] {
    [
        json!({"tools": [{"type": "namespace", "name": "n", "description": "d", "tools": [{"type": "web_search"}]}]}),
        json!({"tools": [{"type": "web_search"}]}),
        json!({"tools": [{"type": "function", "function": {"name": "f"}}, {"type": "next_month"}]}),
        json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
        json!({"Search_Parameters": {"mode": "on"}}),
    ]
}

fn chat_answer(prompt_tokens: u64) -> Answer {
    let mut answer = gw_testkit::upstream::chat_body("searching", "Hi");
    answer["usage"] =
        json!({"prompt_tokens": prompt_tokens, "completion_tokens": 50, "total_tokens": prompt_tokens + 50});
    Answer::json(200, &answer)
}

#[tokio::test]
async fn a_chats_hosted_tools_are_reserved_believed_and_charged() {
    let (world, _) = priced().await;
    world.upstream.always(chat_answer(1_000_000));
    let poor = world.gateway.client().with_key("sk-poor");
    let strict = world.gateway.client().with_key("sk-strict");
    for more in hosted_chats() {
        let body = chat_with(SEARCHING, with(more.clone(), json!({"max_tokens": 50})));
        let answer = world.chat_ok(&body).await;
        assert_eq!(answer["usage"]["prompt_tokens"], 1_000_000, "{more}: {answer}");
        // The catalogue holds the price of a search, and of no other tool here.
        let is_priced = more.get("Search_Parameters").is_none() && !more.to_string().contains("next_month");
        let (cost, warnings) = if is_priced { (1.0001, json!([])) } else { (0.0, json!(["price_unknown"])) };
        assert_eq!(answer["usage"]["cost_usd"].as_f64(), Some(cost), "{more}: {answer}");
        assert_eq!(answer["gateway"]["warnings"], warnings, "{more}");
        let calls = world.upstream.hits();
        let refused = strict.post_json("/v1/chat/completions", &body).await;
        assert_eq!(refused.status, if is_priced { 200 } else { 429 }, "{more}: {}", refused.text());
        let calls = if is_priced { calls + 1 } else { calls };
        let refused = poor.post_json("/v1/chat/completions", &body).await;
        assert_eq!(
            (refused.status, &*refused.code()),
            (429, "insufficient_quota"),
            "{more}: {}",
            refused.text()
        );
        assert_eq!(world.upstream.hits(), calls, "ten results are 80,000 tokens: {more}");
    }
    // Without such a tool, no model reads more than 16 Mi tokens.
    world.upstream.always(chat_answer(20_000_000));
    let own = json!({"tools": [{"type": "function", "function": {"name": "f"}}], "max_tokens": 50});
    let answer = world.chat_ok(&chat_with(SEARCHING, own.clone())).await;
    assert_eq!(answer["gateway"]["warnings"], json!(["usage_not_believed"]));
    world.upstream.always(chat_answer(10));
    poor.post_json("/v1/chat/completions", &chat_with(SEARCHING, own)).await.ok();
    // The client runs this tool itself.
    let patch = json!({"tools": [{"type": "apply_patch"}], "max_tokens": 50});
    poor.post_json("/v1/chat/completions", &chat_with(SEARCHING, patch)).await.ok();
}

#[tokio::test]
async fn a_part_of_an_unknown_type_in_a_chat_has_an_unknown_price() {
    let (world, claude) = priced().await;
    world.upstream.always(chat_answer(1_000));
    let strict = world.gateway.client().with_key("sk-strict");
    let path = "/v1/chat/completions";
    let with_part = |model: &str, part: &Value| {
        let messages = json!([{"role": "user", "content": [{"type": "text", "text": "Look."}, part]}]);
        chat_with(model, json!({"messages": messages, "max_tokens": 50}))
    };
    let video = json!({"type": "video_url", "video_url": {"url": "https://a.example/v.mp4"}});
    let search = json!({"type": "search_result", "source": "https://a.example", "title": "t", "content": []});
    let unknown = json!({"type": "next_month", "what": "a"});
    let refused_elsewhere = json!({"type": "mcp_call", "name": "f", "arguments": "{}"});
    for (part, is_priced) in [(video, true), (search, true), (unknown, false), (refused_elsewhere, false)] {
        let body = with_part(SEARCHING, &part);
        let answer = world.chat_ok(&body).await;
        let (cost, warnings) = if is_priced { (0.0011, json!([])) } else { (0.0, json!(["price_unknown"])) };
        assert_eq!(answer["usage"]["cost_usd"].as_f64(), Some(cost), "{part}: {answer}");
        assert_eq!(answer["gateway"]["warnings"], warnings, "{part}");
        let judged = strict.post_json(path, &body).await;
        assert_eq!(judged.status, if is_priced { 200 } else { 429 }, "{part}: {}", judged.text());
        // Another dialect has no such part.
        let refused = world.client.post_json(path, &with_part(CLAUDE, &part)).await;
        assert_eq!((refused.status, &*refused.code()), (400, "invalid_value"), "{part}: {}", refused.text());
    }
    assert_eq!(claude.hits(), 0);
}

#[tokio::test]
async fn the_tokens_that_an_upstreams_tools_read_count_as_tokens_per_minute() {
    let (world, _) = priced().await;
    let paced = world.gateway.client().with_key("sk-paced");
    let path = "/v1/chat/completions";
    let plain = chat_with(SEARCHING, json!({"max_tokens": 50}));
    world.upstream.always(chat_answer(20_000_000));
    // Of a plain chat, one context of 100,000 tokens is believed instead.
    paced.post_json(path, &plain).await.ok();
    paced.post_json(path, &plain).await.ok();
    paced.post_json(path, &with(plain.clone(), hosted_chats()[1].clone())).await.ok();
    let refused = paced.post_json(path, &plain).await;
    assert_eq!((refused.status, &*refused.code()), (429, "rate_limit_exceeded"), "{}", refused.text());
}

#[tokio::test]
async fn a_hedge_reserves_what_both_upstreams_tools_read() {
    let search = json!({"web_search_options": {}, "max_tokens": 50, "stream": true,
        "routing": {"fallback": ["acme/searching-too"]}});
    // Each upstream searches once: 0.01 USD, and 8,000 tokens are 0.008 USD. The key has 0.03 USD.
    for (routing, status) in [("", 200), ("hedge = { after = 60000 }", 429)] {
        let (world, _) = priced_with(routing).await;
        world.upstream.always(Answer::sse().all(&gw_testkit::upstream::chat_transcript(&["Hi"])).done());
        let poor = world.gateway.client().with_key("sk-poorer");
        let answer = poor.post_json("/v1/chat/completions", &chat_with(SEARCHING, search.clone())).await;
        assert_eq!(answer.status, status, "{routing}: {}", answer.text());
    }
}

#[expect(clippy::needless_pass_by_value, reason = "each caller makes the value in place")]
fn claude_answer(usage: Value) -> Answer {
    let answer = json!({"id": "msg_up", "type": "message", "role": "assistant", "model": "claude-opus-5-5",
        "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn", "stop_sequence": null, "usage": usage});
    Answer::json(200, &answer)
}

fn response_answer(prompt_tokens: u64) -> Answer {
    let usage =
        json!({"input_tokens": prompt_tokens, "output_tokens": 50, "total_tokens": prompt_tokens + 50});
    let answer = json!({"id": "resp_up", "object": "response", "created_at": 1, "status": "completed", "model": "searching",
        "error": null, "incomplete_details": null, "output": [], "usage": usage});
    Answer::json(200, &answer)
}

#[tokio::test]
async fn a_compaction_by_the_upstream_is_charged() {
    let (world, claude) = priced().await;
    claude.always(claude_answer(json!({"input_tokens": 23000, "output_tokens": 1000, "iterations": [
        {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3500}, {"type": "message"}]})));
    let edits = json!({"context_management": {"edits": [{"type": "compact_20260112"}]}});
    let answer = ask_messages(&world.client, &with(message(CLAUDE), edits.clone())).await.ok().json();
    assert_eq!(answer["usage"]["cost_usd"], json!(0.212), "{answer}");
    // The summary reads the prompt once more: 30,000 tokens twice are more than 0.05 USD.
    let long = json!({"messages": [{"role": "user", "content": "x".repeat(90_000)}]});
    let poor = world.gateway.client().with_key("sk-poor");
    let refused = ask_messages(&poor, &with(with(message(CLAUDE), long.clone()), edits)).await;
    assert_eq!(refused.status, 429, "{}", refused.text());
    ask_messages(&poor, &with(message(CLAUDE), long)).await.ok();
}

#[tokio::test]
async fn a_budget_reserves_the_results_of_hosted_tools() {
    let (world, claude) = priced().await;
    let poor = world.gateway.client().with_key("sk-poor");
    claude.always(claude_answer(json!({"input_tokens": 1_000_000, "output_tokens": 10})));
    let fetch = |more| {
        let tool = with(json!({"type": "web_fetch_20250910", "name": "web_fetch"}), more);
        with(message(CLAUDE), json!({"tools": [tool]}))
    };
    let refused = ask_messages(&poor, &fetch(json!({"max_uses": 5}))).await;
    assert_eq!(refused.status, 429, "five pages are 0.125 USD: {}", refused.text());
    let refused = ask_messages(&poor, &fetch(json!({"max_uses": 1e2, "max_content_tokens": 1000}))).await;
    assert_eq!(refused.status, 429, "a hundred short pages are 0.1 USD: {}", refused.text());
    let search = with(response(SEARCHING), json!({"tools": [{"type": "web_search"}], "max_tool_calls": 40}));
    let refused = ask_responses(&poor, &search).await;
    assert_eq!((refused.status, &*refused.code()), (429, "insufficient_quota"), "{}", refused.text());
    assert_eq!((claude.hits(), world.upstream.hits()), (0, 0));
    ask_messages(&poor, &fetch(json!({"max_uses": 5, "max_content_tokens": 5000}))).await.ok();
}

#[tokio::test]
async fn a_hosted_tool_is_believed_wherever_the_request_offers_it() {
    let (world, claude) = priced().await;
    world.upstream.always(response_answer(1_000_000));
    claude.always(claude_answer(json!({"input_tokens": 1_000_000, "output_tokens": 50})));
    let search = json!([{"type": "web_search"}]);
    let bodies = [
        json!({"input": [{"role": "user", "content": "x"}, {"type": "additional_tools", "role": "developer", "tools": search}]}),
        json!({"tools": [{"type": "namespace", "name": "n", "description": "d", "tools": search}]}),
        json!({"input": [{"role": "user", "content": "x"}, {"type": "tool_search_call", "call_id": "c", "arguments": {}},
            {"type": "tool_search_output", "call_id": "c", "tools": search}]}),
    ];
    for more in bodies {
        let answer = ask_responses(&world.client, &with(response(SEARCHING), more.clone())).await.ok().json();
        assert_eq!(answer["usage"]["input_tokens"], 1_000_000, "{more}: {answer}");
        assert_eq!(answer["gateway"]["warnings"], json!([]), "{more}");
    }
    let definition = json!({"type": "web_search_20250305", "name": "web_search"});
    let addition =
        json!({"type": "tool_addition", "tool": {"type": "tool_definition", "definition": definition}});
    let more = json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}, addition]}]});
    let answer = ask_messages(&world.client, &with(message(CLAUDE), more)).await.ok().json();
    assert_eq!(
        (&answer["usage"]["input_tokens"], &answer["gateway"]["warnings"]),
        (&json!(1_000_000), &json!([]))
    );
    // Without such a tool, no model reads more than 16 Mi tokens.
    claude.always(claude_answer(json!({"input_tokens": 20_000_000, "output_tokens": 50})));
    let answer = ask_messages(&world.client, &message(CLAUDE)).await.ok().json();
    assert_eq!(answer["gateway"]["warnings"], json!(["usage_not_believed"]));
}

#[tokio::test]
async fn a_thread_belongs_to_the_key_that_began_it() {
    let (world, claude) = priced().await;
    claude.always(claude_answer(json!({"input_tokens": 10, "output_tokens": 5})));
    let poor = world.gateway.client().with_key("sk-poor");
    let strict = world.gateway.client().with_key("sk-strict");
    let thread = |thread: Value| with(message(CLAUDE), json!({"thread": thread}));
    let go_on = thread(json!({"type": "continue", "previous_message_id": "msg_up"}));
    ask_messages(&world.client, &message(CLAUDE)).await.ok();
    for client in [&world.client, &strict] {
        let refused = ask_messages(client, &go_on).await;
        assert_eq!(refused.status, 400, "{}", refused.text());
        assert_eq!(refused.json()["error"]["details"]["error_code"], "thread_not_found");
    }
    ask_messages(&strict, &thread(json!({"type": "create"}))).await.ok();
    ask_messages(&strict, &go_on).await.ok();
    assert_eq!(claude.last().json()["thread"]["previous_message_id"], "msg_up");
    let hits = claude.hits();
    let refused = ask_messages(&world.client, &go_on).await;
    assert_eq!(refused.json()["error"]["details"]["error_code"], "thread_not_found");
    let counted = world.client.post_json("/v1/messages/count_tokens", &go_on).await;
    assert_eq!(counted.json()["error"]["details"]["error_code"], "thread_not_found", "{}", counted.text());
    // The upstream holds up to a whole context: 100,000 tokens are more than 0.05 USD.
    ask_messages(&poor, &thread(json!({"type": "create"}))).await.ok();
    let refused = ask_messages(&poor, &go_on).await;
    assert_eq!((refused.status, claude.hits()), (429, hits + 1), "{}", refused.text());
}

#[tokio::test]
async fn a_strict_budget_refuses_every_unit_without_a_price() {
    let (world, _) = priced().await;
    let strict = world.gateway.client().with_key("sk-strict");
    let search = with(response(PLAIN), json!({"tools": [{"type": "web_search"}]}));
    let refused = ask_responses(&strict, &search).await;
    assert_eq!((refused.status, &*refused.code()), (429, "insufficient_quota"), "{}", refused.text());
    let path = "/v1/chat/completions";
    let speech = json!({"modalities": ["text", "audio"], "audio": {"voice": "a", "format": "wav"}});
    for more in [
        json!({"web_search_options": {}}),
        speech.clone(),
        json!({"modalities": ["text", "image"]}),
        json!({"tools": [{"type": "web_search"}]}),
        json!({"tools": [{"type": "next_month"}]}),
    ] {
        let refused = strict.post_json(path, &chat_with(PLAIN, more.clone())).await;
        assert_eq!(
            (refused.status, &*refused.code()),
            (429, "insufficient_quota"),
            "{more}: {}",
            refused.text()
        );
    }
    assert_eq!(world.upstream.hits(), 0);
    strict.post_json(path, &chat_with(SEARCHING, json!({"web_search_options": {}}))).await.ok();
    strict.post_json(path, &chat_with(SPEAKING, speech)).await.ok();
    // A key without such a rule gets the answer, with a warning.
    let answer =
        world.client.post_json(path, &chat_with(PLAIN, json!({"web_search_options": {}}))).await.ok();
    assert_eq!(answer.json()["gateway"]["warnings"], json!(["price_unknown"]), "{}", answer.text());
}

#[tokio::test]
async fn dearer_kinds_of_tokens_are_reserved() {
    let (world, claude) = priced().await;
    claude.always(claude_answer(json!({"input_tokens": 10, "output_tokens": 5})));
    let poor = world.gateway.client().with_key("sk-poor");
    let path = "/v1/chat/completions";
    let speech =
        json!({"modalities": ["text", "audio"], "audio": {"voice": "a", "format": "wav"}, "max_tokens": 90});
    let refused = poor.post_json(path, &chat_with(SPEAKING, speech)).await;
    assert_eq!(refused.status, 429, "90 tokens of sound are 0.072 USD: {}", refused.text());
    poor.post_json(path, &chat_with(SPEAKING, json!({"max_tokens": 90}))).await.ok();
    // 30,000 tokens that are written for an hour cost 0.06 USD.
    let long = with(message(CLAUDE), json!({"messages": [{"role": "user", "content": "x".repeat(90_000)}]}));
    let hour = json!({"cache_control": {"type": "ephemeral", "ttl": "1h"}});
    let refused = ask_messages(&poor, &with(long.clone(), hour)).await;
    assert_eq!((refused.status, claude.hits()), (429, 0), "{}", refused.text());
    ask_messages(&poor, &long).await.ok();
}
