//! Default answers of the scripted upstream: bodies of an OpenAI-compatible server.

use serde_json::{Value, json};

use super::{Answer, Recorded};

/// A chat completion with this text, 10 prompt and 5 completion tokens.
#[must_use]
pub fn chat_body(model: &str, text: &str) -> Value {
    json!({
        "id": "chatcmpl-upstream", "object": "chat.completion", "created": 1_700_000_000, "model": model,
        "system_fingerprint": "fp_upstream",
        "choices": [{ "index": 0, "message": { "role": "assistant", "content": text },
                      "logprobs": null, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 }
    })
}

/// One chunk of a streamed chat completion.
#[must_use]
pub fn sse_data(delta: &Value, finish_reason: Option<&str>) -> Value {
    json!({
        "id": "chatcmpl-upstream", "object": "chat.completion.chunk", "created": 1_700_000_000,
        "model": "fast-2026-01", "system_fingerprint": "fp_upstream",
        "choices": [{ "index": 0, "delta": delta, "finish_reason": finish_reason }]
    })
}

/// The chunks of a whole streamed chat completion, usage included, without `[DONE]`.
#[must_use]
pub fn chat_transcript(pieces: &[&str]) -> Vec<Value> {
    let mut chunks = vec![sse_data(&json!({ "role": "assistant", "content": "" }), None)];
    chunks.extend(pieces.iter().map(|piece| sse_data(&json!({ "content": piece }), None)));
    chunks.push(sse_data(&json!({}), Some("stop")));
    let mut usage = sse_data(&json!({}), None);
    usage["choices"] = json!([]);
    usage["usage"] = json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 });
    chunks.push(usage);
    chunks
}

/// The answer to any request of the OpenAI API that the gateway makes.
#[must_use]
pub fn default_answer(request: &Recorded) -> Answer {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let model = body["model"].as_str().unwrap_or("some-model").to_owned();
    let streamed = body["stream"] == json!(true);
    match request.path.rsplit('/').next().unwrap_or_default() {
        _ if request.path.ends_with("/chat/completions") => {
            if streamed {
                return Answer::sse().all(&chat_transcript(&["Hello", " from", " upstream"])).done();
            }
            let mut answer = chat_body(&model, "Hello from upstream");
            let first = answer["choices"][0].clone();
            for index in 1..body["n"].as_u64().unwrap_or(1) {
                let mut choice = first.clone();
                choice["index"] = json!(index);
                if let Some(choices) = answer["choices"].as_array_mut() {
                    choices.push(choice);
                }
            }
            Answer::json(200, &answer)
        }
        "completions" if streamed => text_stream(&model),
        "completions" => Answer::json(200, &text_body(&body, &model)),
        "embeddings" => Answer::json(200, &embeddings_body(&body, &model)),
        "rerank" => Answer::json(200, &rerank_body(&body, &model)),
        "score" => Answer::json(200, &score_body(&body, &model)),
        "moderations" => Answer::json(200, &moderation_body(&body, &model)),
        "generations" if streamed => image_stream(),
        "generations" | "edits" => Answer::json(200, &images_body(&body)),
        "speech" => Answer::full(200, &[("content-type", "audio/mpeg")], b"sound"),
        "transcriptions" | "translations" => Answer::json(200, &json!({ "text": "Hello from upstream" })),
        "models" => Answer::json(
            200,
            &json!({ "object": "list", "data": [
                { "id": "found-one", "object": "model", "created": 1, "owned_by": "x" },
                { "id": "found-two", "object": "model", "created": 1, "owned_by": "x" }
            ] }),
        ),
        _ => Answer::error(404, "unknown_url", "no such path"),
    }
}

fn prompts(body: &Value) -> u64 {
    match body["prompt"].as_array() {
        Some(items) if items.iter().all(Value::is_number) => 1,
        Some(items) => items.len() as u64,
        None => 1,
    }
}

fn text_body(body: &Value, model: &str) -> Value {
    let total = prompts(body) * body["n"].as_u64().unwrap_or(1);
    let choices: Vec<_> = (0..total)
        .map(|index| json!({ "index": index, "text": format!("text {index}"), "logprobs": null, "finish_reason": "stop" }))
        .collect();
    json!({
        "id": "cmpl-upstream", "object": "text_completion", "created": 1_700_000_000, "model": model,
        "choices": choices, "usage": { "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 }
    })
}

fn text_stream(model: &str) -> Answer {
    let chunk = |text: &str, finish: Option<&str>| {
        json!({
            "id": "cmpl-upstream", "object": "text_completion", "created": 1, "model": model,
            "choices": [{ "index": 0, "text": text, "logprobs": null, "finish_reason": finish }]
        })
    };
    let usage = json!({
        "id": "cmpl-upstream", "object": "text_completion", "created": 1, "model": model, "choices": [],
        "usage": { "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 }
    });
    Answer::sse().all(&[chunk("Once", None), chunk(" upon", None), chunk("", Some("stop")), usage]).done()
}

fn embeddings_body(body: &Value, model: &str) -> Value {
    let inputs = match body["input"].as_array() {
        Some(items) if items.iter().all(Value::is_number) => 1,
        Some(items) => items.len(),
        None => 1,
    };
    let length = body["dimensions"].as_u64().unwrap_or(4).max(1);
    // The first number is the index of the input; the others are exact in f32.
    let data: Vec<_> = (0..inputs)
        .map(|index| {
            let vector: Vec<f64> = (0..length)
                .map(|place| match place {
                    0 => f64::from(u32::try_from(index).unwrap_or(0)),
                    1 => 0.25,
                    2 => -0.5,
                    _ => 1.0,
                })
                .collect();
            json!({ "object": "embedding", "index": index, "embedding": vector })
        })
        .collect();
    json!({ "object": "list", "data": data, "model": model, "usage": { "prompt_tokens": 8, "total_tokens": 8 } })
}

/// A ranking in which each document is more relevant than the one before it.
fn rerank_body(body: &Value, model: &str) -> Value {
    let count = body["documents"].as_array().map_or(0, Vec::len);
    let results: Vec<_> = (0..count)
        .map(|index| {
            let share = f64::from(u32::try_from(index + 1).unwrap_or(0)) / 4.0;
            json!({ "index": index, "relevance_score": share })
        })
        .collect();
    json!({ "object": "list", "model": model, "results": results, "usage": { "prompt_tokens": 8, "total_tokens": 8 } })
}

/// A score for each pair.
fn score_body(body: &Value, model: &str) -> Value {
    let count = body["text_2"].as_array().map_or(1, Vec::len);
    let data: Vec<_> =
        (0..count).map(|index| json!({ "index": index, "object": "score", "score": 0.5 })).collect();
    json!({ "object": "list", "model": model, "data": data, "usage": { "prompt_tokens": 8, "total_tokens": 8 } })
}

/// A result for each text, or one for all parts.
fn moderation_body(body: &Value, model: &str) -> Value {
    let texts = body["input"].as_array().filter(|list| list.iter().all(Value::is_string));
    let result = json!({ "flagged": false, "categories": { "violence": false }, "category_scores": { "violence": 0.25 } });
    json!({ "id": "modr-1", "model": model, "results": vec![result; texts.map_or(1, Vec::len)] })
}

/// A PNG of one pixel, in base64.
pub const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// So many images of the usual size.
fn images_body(body: &Value) -> Value {
    let count = body["n"].as_u64().unwrap_or(1);
    let images = vec![json!({ "b64_json": PIXEL }); usize::try_from(count).unwrap_or(1)];
    json!({
        "created": 1_700_000_000, "data": images, "size": "1024x1024", "quality": "low", "output_format": "png",
        "usage": {
            "input_tokens": 10, "output_tokens": 272 * count, "total_tokens": 10 + 272 * count,
            "input_tokens_details": { "text_tokens": 10, "image_tokens": 0 }
        }
    })
}

/// A partial image, and the complete one.
fn image_stream() -> Answer {
    let partial = json!({
        "type": "image_generation.partial_image", "partial_image_index": 0, "b64_json": PIXEL, "created_at": 1_700_000_000,
        "size": "1024x1024", "quality": "low", "background": "opaque", "output_format": "png"
    });
    let completed = json!({
        "type": "image_generation.completed", "b64_json": PIXEL, "created_at": 1_700_000_000, "size": "1024x1024",
        "quality": "low", "background": "opaque", "output_format": "png",
        "usage": {
            "input_tokens": 10, "output_tokens": 372, "total_tokens": 382,
            "input_tokens_details": { "text_tokens": 10, "image_tokens": 0 }
        }
    });
    let event =
        |value: &Value| format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap_or_default());
    Answer::sse().chunk(event(&partial)).chunk(event(&completed)).end()
}
