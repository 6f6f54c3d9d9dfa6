//! The cost that an upstream states in its answer is kept beside the gateway's own, to the last digit.

use gw_store::ledger::Entry;
use gw_testkit::upstream::Recorded;
use gw_testkit::{Answer, Client, FakeUpstream, Gateway};
use serde_json::{Value, json};

use crate::harness::ledger::{rows, spans};
use crate::harness::{ADMIN, KEY, logged, serve, with};

/// A chat upstream, one with the Messages API and one with the Responses API, all played by one server.
async fn start(stated: &'static str) -> (Gateway, Client, FakeUpstream) {
    let upstream = FakeUpstream::start().await;
    upstream.respond_with(move |request| answer(request, stated));
    let mut config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[[keys]]\nname = \"k\"\nkey = \"{KEY}\"\n\
         [[keys]]\nname = \"boss\"\nkey = \"{ADMIN}\"\nrole = \"admin\"\n"
    );
    for (name, api, more) in
        [("router", "openai", ""), ("claude", "anthropic", ""), ("native", "openai", "responses = true\n")]
    {
        config += &format!(
            "[[providers]]\nname = \"{name}\"\napi = \"{api}\"\nbase_url = \"{}\"\napi_key = \"sk-upstream-key-000\"\n{more}\
             [[models]]\nid = \"{name}/m\"\ncategory = [\"chat\"]\n\
             pricing = {{ official_input_per_m = 1.0, official_output_per_m = 2.0, currency = \"USD\" }}\n",
            if api == "anthropic" { format!("http://{}", upstream.addr) } else { upstream.base_url() }
        );
    }
    config += "[[models]]\nid = \"router/embed\"\ncategory = [\"embedding\"]\n\
               pricing = { official_input_per_m = 1.0, currency = \"USD\" }\n";
    let gateway = serve(&config).await;
    let client = gateway.client().with_key(KEY).with_header("anthropic-version", "2023-06-01");
    (gateway, client, upstream)
}

/// An answer of 10 tokens and 5, in the form of the request's path, whose usage has the members `stated`.
fn answer(request: &Recorded, stated: &str) -> Answer {
    let is_stream = request.json()["stream"] == true;
    let path = request.path.as_str();
    let body = if path.ends_with("/messages") {
        let usage = format!(r#""usage":{{"input_tokens":10,"output_tokens":5{stated}}}"#);
        if is_stream {
            return Answer::sse().chunk(message_events(stated)).end();
        }
        format!(
            r#"{{"id":"msg_1","type":"message","role":"assistant","model":"up","content":[{{"type":"text","text":"Hi"}}],
            "stop_reason":"end_turn","stop_sequence":null,{usage}}}"#
        )
    } else if path.ends_with("/responses") {
        let response = format!(
            r#"{{"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"up","output":[{{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{{"type":"output_text","text":"Hi","annotations":[]}}]}}],"usage":{{"input_tokens":10,"output_tokens":5,"total_tokens":15{stated}}}}}"#
        );
        if is_stream {
            let event =
                format!(r#"{{"type":"response.completed","sequence_number":0,"response":{response}}}"#);
            return Answer::sse().chunk(format!("event: response.completed\ndata: {event}\n\n")).end();
        }
        response
    } else if path.ends_with("/embeddings") {
        format!(
            r#"{{"object":"list","model":"up","data":[{{"object":"embedding","index":0,"embedding":[0.5,1]}}],"usage":{{"prompt_tokens":10,"total_tokens":10{stated}}}}}"#
        )
    } else {
        let usage = format!(r#"{{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15{stated}}}"#);
        if is_stream {
            let head = r#""id":"c","object":"chat.completion.chunk","created":1,"model":"up""#;
            let chunks = [
                format!(
                    r#"{{{head},"choices":[{{"index":0,"delta":{{"role":"assistant","content":"Hi"}},"finish_reason":"stop"}}]}}"#
                ),
                format!(r#"{{{head},"choices":[],"usage":{usage}}}"#),
            ];
            let text: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
            return Answer::sse().chunk(text + "data: [DONE]\n\n").end();
        }
        format!(
            r#"{{"id":"c","object":"chat.completion","created":1,"model":"up","choices":[{{"index":0,"message":{{"role":"assistant","content":"Hi"}},"finish_reason":"stop"}}],"usage":{usage}}}"#
        )
    };
    Answer::full(200, &[("content-type", "application/json")], body.into_bytes())
}

fn message_events(stated: &str) -> String {
    [
        ("message_start", r#""message":{"id":"msg_1","type":"message","role":"assistant","model":"up","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":1}}"#.to_owned()),
        ("content_block_start", r#""index":0,"content_block":{"type":"text","text":""}"#.to_owned()),
        ("content_block_delta", r#""index":0,"delta":{"type":"text_delta","text":"Hi"}"#.to_owned()),
        ("content_block_stop", r#""index":0"#.to_owned()),
        ("message_delta", format!(r#""delta":{{"stop_reason":"end_turn"}},"usage":{{"output_tokens":5{stated}}}"#)),
        ("message_stop", String::new()),
    ]
    .iter()
    .map(|(name, rest)| {
        let comma = if rest.is_empty() { "" } else { "," };
        format!("event: {name}\ndata: {{\"type\":\"{name}\"{comma}{rest}}}\n\n")
    })
    .collect()
}

/// A request on each surface whose usage is read.
fn requests() -> Vec<(&'static str, Value)> {
    let mut all = Vec::new();
    for model in ["router/m", "claude/m", "native/m"] {
        let messages = json!([{"role": "user", "content": "Hi"}]);
        for (path, body) in [
            ("/v1/chat/completions", json!({"model": model, "messages": messages})),
            ("/v1/messages", json!({"model": model, "max_tokens": 9, "messages": messages})),
            ("/v1/responses", json!({"model": model, "input": "Hi"})),
        ] {
            all.push((path, with(body.clone(), json!({"stream": true}))));
            all.push((path, body));
        }
    }
    all.push(("/v1/completions", json!({"model": "router/m", "prompt": "Hi"})));
    all.push(("/v1/embeddings", json!({"model": "router/embed", "input": "Hi"})));
    all
}

/// Sends every request, and returns what its row says: the path, the model, and the cost that was stated.
async fn stated(members: &'static str) -> Vec<(String, Option<String>)> {
    let (gateway, client, _upstream) = start(members).await;
    let admin = gateway.client().with_key(ADMIN);
    let mut found = Vec::new();
    for (path, body) in requests() {
        let answer = client.post_json(path, &body).await.ok();
        let id = answer.header("x-request-id").expect("an id").to_owned();
        let row = logged(&admin, &id).await;
        assert!(row["cost_usd"].as_f64().is_some_and(|cost| cost > 0.0), "{path}: {row}");
        let shown = row["provider_cost_usd"].as_number().map(ToString::to_string);
        assert!(row.as_object().expect("a row").contains_key("provider_cost_usd"), "{path}: {row}");
        found.push((format!("{path} {body}"), shown));
    }
    found
}

#[tokio::test]
async fn a_row_has_the_cost_that_the_answer_states() {
    for (members, expected) in [
        (r#","cost":0.00012345678901"#, Some("0.00012345678901")),
        (r#","cost_in_usd_ticks":37756000"#, Some("0.0037756")),
        (r#","cost":0,"cost_details":{"upstream_inference_cost":1}"#, Some("0")),
        (r#","cost":-1"#, None),
        (r#","cost":1e99"#, None),
        (r#","cost":"0.5""#, None),
        (r#","cost":{"total_cost":0.5}"#, None),
        ("", None),
    ] {
        for (request, shown) in stated(members).await {
            assert_eq!(shown.as_deref(), expected, "{members}: {request}");
        }
    }
}

#[tokio::test]
async fn the_list_has_it_and_a_hit_of_the_cache_has_none() {
    let (gateway, client, upstream) = start(r#","cost":0.25"#).await;
    let body = json!({"model": "router/m", "messages": [{"role": "user", "content": "Hi"}], "cache": {"enabled": true}});
    for _ in 0..2 {
        client.post_json("/v1/chat/completions", &body).await.ok();
    }
    assert_eq!(upstream.hits(), 1, "the second answer comes from the cache");
    let mut found: Vec<_> =
        rows(&gateway, 2).await.iter().map(|row| (row.cache_hit, row.provider_cost)).collect();
    found.sort_unstable();
    assert_eq!(found, [(false, Some(250_000_000_000_000)), (true, None)]);
    let admin = gateway.client().with_key(ADMIN);
    let list = admin.get("/admin/v1/requests").await.ok().json();
    let shown: Vec<&Value> =
        list["data"].as_array().expect("rows").iter().map(|row| &row["provider_cost_usd"]).collect();
    assert_eq!(shown, [&Value::Null, &json!(0.25)]);
}

#[tokio::test]
async fn reports_have_the_sum_and_null_where_no_row_has_one() {
    let (gateway, client, upstream) = start(r#","cost":0.25"#).await;
    let ask = async |model: &str, user: &str| {
        let body = json!({"model": model, "user": user, "messages": [{"role": "user", "content": "Hi"}]});
        client.post_json("/v1/chat/completions", &body).await.ok();
    };
    ask("router/m", "ann").await;
    ask("router/m", "ben").await;
    ask("native/m", "ann").await;
    upstream.respond_with(|request| answer(request, ""));
    ask("claude/m", "ann").await;
    let recorded = rows(&gateway, 4).await;
    let admin = gateway.client().with_key(ADMIN);
    let sums = async |query: &str| {
        let report = admin.get(&format!("/admin/v1/usage?{query}")).await.ok().json();
        let of = |row: &Value| row["provider_cost_usd"].clone();
        let mut rows: Vec<Value> = report["data"].as_array().expect("rows").iter().map(of).collect();
        rows.push(of(&report["total"]));
        rows.sort_by_key(ToString::to_string);
        json!(rows)
    };
    assert_eq!(sums("by=provider").await, json!([0.25, 0.5, 0.75, null]));
    assert_eq!(sums("by=provider&provider=claude").await, json!([null, null]));
    for by in ["key", "surface", "team"] {
        assert_eq!(sums(&format!("by={by}")).await, json!([0.75, 0.75]), "{by}");
    }
    // The four requests may lie in two hours or days. Each row that states a cost states a quarter of a dollar.
    for (by, span_ms) in [("hour", 3_600_000), ("day", 86_400_000)] {
        let cost = |rows: &Vec<&Entry>| match rows.iter().filter(|row| row.provider_cost.is_some()).count() {
            0 => Value::Null,
            count => json!(0.25 * count as f64),
        };
        let mut expected: Vec<Value> = spans(&recorded, span_ms).iter().map(cost).collect();
        expected.push(json!(0.75));
        expected.sort_by_key(ToString::to_string);
        assert_eq!(sums(&format!("by={by}")).await, json!(expected), "{by}");
    }
    // The key is not believed, so no request has an end user.
    assert_eq!(sums("by=end_user").await, json!([0.75, 0.75]));
    let csv = admin.get("/admin/v1/usage?by=provider&format=csv").await.ok().text();
    let (head, body) = csv.split_once("\r\n").expect("a head");
    let column = head.split(',').position(|name| name == "provider_cost_usd").expect("a column");
    let mut cells: Vec<&str> = body.lines().filter_map(|line| line.split(',').nth(column)).collect();
    cells.sort_unstable();
    assert_eq!(cells, ["", "0.25", "0.5"], "{csv}");
    let overview = admin.get("/admin/v1/overview").await.ok().json();
    assert_eq!(overview["total"]["provider_cost_usd"], 0.75, "{overview}");
}
