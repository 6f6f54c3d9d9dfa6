//! The model `embed`: unit vectors of any size that depend on the text only.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};

use super::body::{BodyStep, DemoBody};
use super::response::DemoResponse;
use super::text::words;

const DEFAULT_DIMENSIONS: u64 = 256;
const MAX_DIMENSIONS: u64 = 16_384;

pub(super) fn answer(request: &Value) -> DemoResponse {
    let refuse = |message| DemoResponse::error(400, "invalid_request_error", None, message);
    let dimensions = request.get("dimensions").and_then(Value::as_u64).unwrap_or(DEFAULT_DIMENSIONS);
    if !(1..=MAX_DIMENSIONS).contains(&dimensions) {
        return refuse("'dimensions' must be between 1 and 16384.");
    }
    let inputs = match request.get("input") {
        Some(text @ Value::String(_)) => vec![text],
        Some(tokens @ Value::Array(list)) if list.first().is_some_and(Value::is_u64) => vec![tokens],
        Some(Value::Array(list)) if !list.is_empty() => list.iter().collect(),
        _ => return refuse("'input' is missing."),
    };
    let base64 = request.get("encoding_format").and_then(Value::as_str) == Some("base64");
    let tokens: u64 = inputs.iter().map(|input| input.as_str().map_or_else(|| length(input), words)).sum();
    let usage = json!({"prompt_tokens": tokens, "total_tokens": tokens});
    let texts: Vec<String> = inputs.iter().map(|input| input.to_string()).collect();
    // A short request may ask for many large vectors, so each is made when it is read.
    let entries = texts.into_iter().enumerate().map(move |(index, text)| {
        let comma = if index > 0 { "," } else { "" };
        Bytes::from(format!("{comma}{}", entry(index, &vector(&text, dimensions), base64)))
    });
    let first = Bytes::from_static(br#"{"object":"list","data":["#);
    let last = Bytes::from(format!(r#"],"model":"embed","usage":{usage}}}"#));
    let body = [BodyStep::Chunk(first), BodyStep::Pieces(Box::new(entries)), BodyStep::Chunk(last)];
    DemoResponse::new(200, "application/json", DemoBody::script(body))
}

fn entry(index: usize, vector: &[f32], base64: bool) -> Value {
    let embedding = if base64 {
        let bytes: Vec<u8> = vector.iter().flat_map(|float| float.to_le_bytes()).collect();
        json!(STANDARD.encode(bytes))
    } else {
        json!(vector)
    };
    json!({"object": "embedding", "index": index, "embedding": embedding})
}

fn length(tokens: &Value) -> u64 {
    tokens.as_array().map_or(0, Vec::len) as u64
}

/// Numbers from a hash of the text (FNV-1a, then splitmix), scaled to length 1.
fn vector(text: &str, dimensions: u64) -> Vec<f32> {
    let mut state = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let numbers: Vec<f64> = (0..dimensions)
        .map(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^= mixed >> 31;
            // The top 53 bits as a number from -1 to 1. It is never exactly 0.
            ((mixed >> 11) as f64 + 0.5) / (1_u64 << 52) as f64 - 1.0
        })
        .collect();
    let norm = numbers.iter().map(|number| number * number).sum::<f64>().sqrt();
    numbers.into_iter().map(|number| (number / norm) as f32).collect()
}
