//! Whatever text is sent counts: in the estimate, in the reservation and in the charge (S17).

use gw_testkit::upstream::sse_data;
use gw_testkit::{Answer, FakeUpstream, Signal};
use serde_json::{Value, json};

use crate::harness::ledger::rows;
use crate::harness::{Differences, Setup, World, assert_error, with};
use crate::limits::budgets::{client, key};

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";
/// One token of `acme/plain` at one USD per million.
const TOKEN: i128 = 1_000_000_000;
/// Bytes of the text in a member, and the least that they count.
const TEXT_BYTES: usize = 30_000;
const TEXT_TOKENS: u64 = TEXT_BYTES as u64 / 3;

const CLAUDE: &str = "claude/claude-opus-5-5";

/// A gateway whose provider `acme` has a Responses API, and whose provider `claude` speaks the Messages API.
async fn natives() -> (World, FakeUpstream) {
    let claude = FakeUpstream::start().await;
    let extra = format!(
        "[[providers]]\nname = \"claude\"\napi = \"anthropic\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n\
         file_ids = true\nallow_members = [\"mcp_tool_use\", \"mcp_tool_result\"]\n\
         [[models]]\nid = \"{CLAUDE}\"\n",
        claude.addr
    );
    let acme = "responses = true\nfile_ids = true\nallow_members = [\"mcp_call\", \"mcp_list_tools\"]";
    let setup = Setup { acme: acme.to_owned(), extra, ..Setup::default() };
    (setup.start().await, claude)
}

fn text() -> String {
    "some words ".repeat(TEXT_BYTES / 11 + 1)
}

/// Blocks of the Messages API with text in one member, and the role of their message.
fn blocks() -> Vec<(&'static str, &'static str, Value)> {
    let text = text();
    let plain = json!({"type": "text", "text": text});
    let source = |content: Value| json!({"type": "content", "content": content});
    vec![
        ("user", "text", plain.clone()),
        (
            "user",
            "document of text",
            json!({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}}),
        ),
        ("user", "document of blocks", json!({"type": "document", "source": source(json!([plain]))})),
        (
            "user",
            "title of a document",
            json!({"type": "document", "title": text, "source": source(json!("a"))}),
        ),
        (
            "user",
            "context of a document",
            json!({"type": "document", "context": text, "source": source(json!("a"))}),
        ),
        (
            "user",
            "search_result",
            json!({"type": "search_result", "source": "https://a", "title": "t", "content": [plain]}),
        ),
        (
            "assistant",
            "server_tool_use",
            json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": text}}),
        ),
        (
            "assistant",
            "web_search_tool_result",
            json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [
            {"type": "web_search_result", "url": "https://a", "title": "t", "encrypted_content": text, "page_age": null}]}),
        ),
        (
            "assistant",
            "web_fetch_tool_result",
            json!({"type": "web_fetch_tool_result", "tool_use_id": "srvtoolu_1", "content": {
            "type": "web_fetch_result", "url": "https://a", "content": {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}}}}),
        ),
        (
            "assistant",
            "code_execution_tool_result",
            json!({"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_1",
            "content": {"type": "code_execution_result", "stdout": text, "stderr": "", "return_code": 0, "content": []}}),
        ),
        (
            "assistant",
            "mcp_tool_use",
            json!({"type": "mcp_tool_use", "id": "m_1", "name": "f", "server_name": "s", "input": {"a": text}}),
        ),
        (
            "assistant",
            "mcp_tool_result",
            json!({"type": "mcp_tool_result", "tool_use_id": "m_1", "is_error": false, "content": [plain]}),
        ),
        ("assistant", "compaction", json!({"type": "compaction", "content": text})),
        (
            "assistant",
            "citations",
            json!({"type": "text", "text": "a", "citations": [{"type": "char_location", "cited_text": text,
            "document_index": 0, "document_title": "t", "start_char_index": 0, "end_char_index": 1}]}),
        ),
    ]
}

/// Items of the Responses API with text in one member.
fn items() -> Vec<(&'static str, Value)> {
    let text = text();
    vec![
        ("message", json!({"role": "user", "content": [{"type": "input_text", "text": text}]})),
        (
            "output_text",
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text, "annotations": []}]}),
        ),
        (
            "annotations",
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a",
            "annotations": [{"type": "url_citation", "url": "https://a", "title": text, "start_index": 0, "end_index": 1}]}]}),
        ),
        (
            "web_search_call",
            json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": text}}),
        ),
        (
            "file_search_call",
            json!({"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["q"],
            "results": [{"filename": "f", "score": 1, "text": text}]}),
        ),
        (
            "code_interpreter_call",
            json!({"type": "code_interpreter_call", "id": "ci_1", "status": "completed", "container_id": "c",
            "code": text, "outputs": []}),
        ),
        (
            "mcp_call",
            json!({"type": "mcp_call", "id": "mcp_1", "name": "f", "server_label": "s", "arguments": "{}", "output": text}),
        ),
        (
            "mcp_list_tools",
            json!({"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "s",
            "tools": [{"name": "f", "description": text, "input_schema": {"type": "object"}}]}),
        ),
        ("local_shell_call_output", json!({"type": "local_shell_call_output", "id": "ls_1", "output": text})),
        (
            "apply_patch_call",
            json!({"type": "apply_patch_call", "call_id": "ap_1", "status": "completed",
            "operation": {"type": "create_file", "path": "a", "diff": text}}),
        ),
    ]
}

/// A Messages request of one user message.
fn hello() -> Value {
    json!({"model": CLAUDE, "max_tokens": 64, "messages": [{"role": "user", "content": "Hello"}]})
}

fn answer_of_messages() -> Value {
    json!({"id": "msg_up", "type": "message", "role": "assistant", "model": "claude-opus-5-5",
        "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn", "stop_sequence": null})
}

fn answer_of_responses() -> Value {
    json!({"id": "resp_up", "object": "response", "created_at": 1, "status": "completed", "model": "m", "error": null,
        "incomplete_details": null, "output": [{"type": "message", "id": "msg_up", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}]}]})
}

/// The prompt tokens of the newest row.
async fn counted(world: &World, count: usize) -> u64 {
    let newest = rows(&world.gateway, count).await.into_iter().max_by_key(|row| row.request_id.clone());
    let newest = newest.expect("a row");
    assert!(newest.estimated, "{newest:?}");
    newest.tokens.prompt
}

/// Checks one request: its member reached the upstream, and it counts once.
fn check(found: &mut Differences, label: &str, sent: &[u8], tokens: u64) {
    let arrived = sent.len() >= TEXT_BYTES;
    found.check(format!("{label} was sent"), arrived, true);
    found.check(
        format!("{label}: {tokens} tokens"),
        (TEXT_TOKENS..TEXT_TOKENS * 5 / 4).contains(&tokens),
        true,
    );
}

#[tokio::test]
async fn s17_every_text_of_a_forwarded_message_counts() {
    let (world, claude) = natives().await;
    claude.always(Answer::json(200, &answer_of_messages()));
    let mut found = Differences::default();
    let mut count = 0;
    for (role, label, block) in blocks() {
        let mut messages = vec![json!({"role": "user", "content": "Hello"})];
        if role == "assistant" {
            messages.push(json!({"role": role, "content": [block]}));
            messages.push(json!({"role": "user", "content": "Go on"}));
        } else {
            messages = vec![json!({"role": role, "content": [block]})];
        }
        let body = json!({"model": CLAUDE, "max_tokens": 64, "messages": messages});
        let answer = world.client.post_json(MESSAGES, &body).await;
        assert_eq!(answer.status, 200, "{label}: {}", answer.text());
        count += 1;
        check(&mut found, label, &claude.last().body, counted(&world, count).await);
    }
    let members = [
        ("system", json!({"system": [{"type": "text", "text": text()}]})),
        (
            "description of a tool",
            json!({"tools": [{"name": "f", "description": text(), "input_schema": {"type": "object"}}]}),
        ),
        (
            "schema of the answer",
            json!({"output_config": {"format": {"type": "json_schema",
            "schema": {"type": "object", "description": text(), "additionalProperties": false}}}}),
        ),
    ];
    for (label, member) in members {
        let body = with(hello(), member);
        let answer = world.client.post_json(MESSAGES, &body).await;
        assert_eq!(answer.status, 200, "{label}: {}", answer.text());
        count += 1;
        check(&mut found, label, &claude.last().body, counted(&world, count).await);
    }
    found.finish();
}

#[tokio::test]
async fn s17_every_text_of_a_forwarded_response_counts() {
    let (world, _) = natives().await;
    world.upstream.always(Answer::json(200, &answer_of_responses()));
    let mut found = Differences::default();
    let mut count = 0;
    let mut bodies: Vec<_> = items().into_iter().map(|(label, item)| {
        (label, json!({"model": "acme/fast", "store": false, "input": [item, {"role": "user", "content": "Go on"}]}))
    }).collect();
    bodies.push((
        "instructions",
        json!({"model": "acme/fast", "store": false, "input": "a", "instructions": text()}),
    ));
    for (label, body) in bodies {
        let answer = world.client.post_json(RESPONSES, &body).await;
        assert_eq!(answer.status, 200, "{label}: {}", answer.text());
        count += 1;
        check(&mut found, label, &world.upstream.last().body, counted(&world, count).await);
    }
    found.finish();
}

#[tokio::test]
async fn s17_every_text_of_a_chat_counts() {
    let world = Setup { acme: "responses = false".to_owned(), ..Setup::default() }.start().await;
    let mut answer = gw_testkit::upstream::chat_body("m", "Hi");
    answer.as_object_mut().expect("an object").remove("usage");
    world.upstream.always(Answer::json(200, &answer));
    let of = |messages: Value| json!({"model": "acme/fast", "messages": messages});
    let assistant = |more: Value| {
        of(
            json!([{"role": "user", "content": "Hello"}, with(json!({"role": "assistant", "content": "a"}), more),
            {"role": "user", "content": "Go on"}]),
        )
    };
    let call = |more: Value| {
        with(json!({"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}), more)
    };
    let user = |more: Value| of(json!([with(json!({"role": "user", "content": "Hello"}), more)]));
    let plain = || user(json!({}));
    let cases = [
        ("reasoning_content", assistant(json!({"reasoning_content": text()}))),
        ("reasoning", assistant(json!({"reasoning": text()}))),
        (
            "reasoning_details",
            assistant(json!({"reasoning_details": [{"type": "reasoning.text", "text": text()}]})),
        ),
        (
            "annotations",
            assistant(json!({"annotations": [{"type": "url_citation", "url_citation": {"title": text()}}]})),
        ),
        ("refusal", assistant(json!({"refusal": text()}))),
        ("a later member", assistant(json!({"news": {"at": [text()]}}))),
        (
            "a member of a call",
            assistant(json!({"tool_calls": [call(json!({"extra_content": {"a": text()}}))]})),
        ),
        ("the id of a call", assistant(json!({"tool_calls": [call(json!({"id": text()}))]}))),
        ("name", user(json!({"name": text()}))),
        ("a member of the user", user(json!({"news": text()}))),
        (
            "a member of a part",
            of(json!([{"role": "user", "content": [{"type": "text", "text": "a", "news": text()}]}])),
        ),
        ("an unknown part", of(json!([{"role": "user", "content": [{"type": "news", "at": text()}]}]))),
        ("documents", with(plain(), json!({"documents": [{"title": "t", "text": text()}]}))),
        ("chat_template_kwargs", with(plain(), json!({"chat_template_kwargs": {"custom": text()}}))),
        ("prediction", with(plain(), json!({"prediction": {"type": "content", "content": text()}}))),
    ];
    let mut found = Differences::default();
    for (count, (label, body)) in cases.into_iter().enumerate() {
        let answer = world.client.post_json(CHAT, &body).await;
        assert_eq!(answer.status, 200, "{label}: {}", answer.text());
        check(&mut found, label, &world.upstream.last().body, counted(&world, count + 1).await);
    }
    found.finish();
}

#[tokio::test]
async fn s17_unknown_members_of_completions_and_embeddings_count() {
    let world = Setup::default().start().await;
    let choice = json!({"index": 0, "text": "Hi", "finish_reason": "stop"});
    let completed =
        json!({"id": "c", "object": "text_completion", "created": 1, "model": "m", "choices": [choice]});
    let vector = json!({"object": "embedding", "index": 0, "embedding": [0.5, 0.5]});
    let embedded = json!({"object": "list", "model": "m", "data": [vector]});
    let cases = [
        (
            "/v1/completions",
            completed,
            json!({"model": "acme/fast", "prompt": "Hello", "documents": [text()]}),
        ),
        ("/v1/embeddings", embedded, json!({"model": "acme/embed", "input": "Hello", "instruction": text()})),
    ];
    let mut found = Differences::default();
    for (count, (path, answer, body)) in cases.into_iter().enumerate() {
        world.upstream.enqueue(Answer::json(200, &answer));
        let answer = world.client.post_json(path, &body).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        check(&mut found, path, &world.upstream.last().body, counted(&world, count + 1).await);
    }
    found.finish();
}

/// A chat whose earlier answer has this many bytes of thought.
fn thoughtful(bytes: usize) -> Value {
    let thought = "thought ".repeat(bytes / 8);
    json!({"model": "acme/plain", "stream": true, "max_tokens": 5, "messages": [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi", "reasoning_content": thought},
        {"role": "user", "content": "Go on"}]})
}

/// Sends sixty such streams at one time under a budget of 0.05 USD. All are left after their first content. Returns the
/// number of streams that the upstream got, and the charges.
async fn sixty_streams(bytes: usize) -> (usize, i128) {
    let world = key("budget_usd = 0.05").start().await;
    let never = Signal::new();
    world.upstream.always(Answer::sse().data(&sse_data(&json!({"content": "Well"}), None)).wait(&never));
    let mut streams = tokio::task::JoinSet::new();
    for _ in 0..60 {
        let client = client(&world);
        streams.spawn(async move {
            match client.try_stream(CHAT, &thoughtful(bytes)).await {
                Ok(mut stream) => {
                    stream.frame().await.expect("content");
                    Some(stream)
                }
                Err(refused) => {
                    assert_error("no money", &refused, 429, "insufficient_quota", "insufficient_quota");
                    None
                }
            }
        });
    }
    // All are under way together, and then all of them are left.
    let open = streams.join_all().await;
    let served = open.iter().flatten().count();
    drop(open);
    assert_eq!(world.upstream.hits(), served);
    let mut count = served;
    loop {
        // Refused streams have rows, too.
        let found = rows(&world.gateway, count).await;
        let charged: Vec<i128> = found.iter().map(|row| row.cost).filter(|cost| *cost > 0).collect();
        if charged.len() >= served {
            return (served, charged.iter().sum());
        }
        count = found.len() + 1;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s17_sixty_streams_with_thoughts_do_not_cross_their_budget() {
    // 200 kB are 66,667 tokens and 0.067 USD.
    assert_eq!(sixty_streams(200_000).await, (0, 0));
    // 20 kB and the other words are 6,671 tokens, and the frames of three messages 24.
    let (served, charged) = sixty_streams(20_000).await;
    let budget = 50_000 * TOKEN;
    assert_eq!(served, 7);
    assert_eq!(charged, 7 * (6_695 + 2 * 2) * TOKEN, "{charged}");
    assert!(charged <= budget, "{charged}");
}

#[tokio::test]
async fn s17_what_a_model_writes_for_a_hosted_tool_counts_when_its_client_leaves() {
    let acme = "responses = true\nallow_members = [\"tools\"]".to_owned();
    let world = Setup { acme, ..Setup::default() }.start().await;
    let never = Signal::new();
    let frames = [
        json!({"type": "response.created", "sequence_number": 0, "response": {"id": "resp_up", "object": "response", "status": "in_progress",
            "model": "m", "output": []}}),
        json!({"type": "response.output_item.added", "sequence_number": 1, "output_index": 0,
            "item": {"type": "code_interpreter_call", "id": "ci_1", "status": "in_progress", "code": ""}}),
        json!({"type": "response.code_interpreter_call_code.delta", "sequence_number": 2, "output_index": 0, "item_id": "ci_1",
            "delta": "x".repeat(3_000)}),
        json!({"type": "response.output_text.delta", "sequence_number": 3, "output_index": 1, "item_id": "msg_1", "content_index": 0,
            "delta": "Hi"}),
    ];
    let text: String = frames
        .iter()
        .map(|data| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().expect("a type")))
        .collect();
    world.upstream.enqueue(Answer::sse().chunk(text).wait(&never));
    let tools = json!([{"type": "code_interpreter", "container": {"type": "auto"}}]);
    let body =
        json!({"model": "acme/fast", "store": false, "stream": true, "input": "Hello", "tools": tools});
    let mut stream = world.client.stream(RESPONSES, &body).await;
    while !stream.frame().await.expect("a frame").contains("output_text.delta") {}
    drop(stream);
    let row = rows(&world.gateway, 1).await.remove(0);
    assert_eq!((&*row.status, row.estimated), ("client_closed_request", true), "{row:?}");
    // 3,002 bytes.
    assert_eq!(row.tokens.completion, 1_001, "{row:?}");
}
