//! The embeddings of the probed server. Each text has its own vector.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gw_testkit::Answer;
use serde_json::{Value, json};

use super::server::Planted;

/// The length of a vector.
const LENGTH: usize = 96;

/// Numbers from -1 to 1 that depend on the text.
fn vector(text: &str, length: usize) -> Vec<f32> {
    let mut state =
        text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f32::from(u16::try_from(state >> 16).unwrap_or(0)) / 32_768.0 - 1.0
    };
    (0..length).map(|_| next()).collect()
}

/// The answer to an embeddings request.
pub(super) fn answer(body: &Value, fault: Planted) -> Answer {
    let texts: Vec<String> = match &body["input"] {
        Value::Array(list) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        other => vec![other.as_str().unwrap_or_default().to_owned()],
    };
    let asked = body["dimensions"].as_u64().and_then(|length| usize::try_from(length).ok());
    let length = asked.filter(|_| fault != Planted::DimensionsIgnored).unwrap_or(LENGTH);
    let mut vectors: Vec<Vec<f32>> = texts.iter().map(|text| vector(text, length)).collect();
    if fault == Planted::VectorsSwapped {
        vectors.reverse();
    }
    let is_base64 = body["encoding_format"] == "base64" && fault != Planted::Base64Ignored;
    let coded = |vector: &Vec<f32>| {
        let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
        if is_base64 { json!(STANDARD.encode(bytes)) } else { json!(vector) }
    };
    let item = |(index, vector): (usize, &Vec<f32>)| json!({ "object": "embedding", "index": index, "embedding": coded(vector) });
    let mut data: Vec<Value> = vectors.iter().enumerate().map(item).collect();
    if fault == Planted::VectorsReversed {
        data.reverse();
    }
    let tokens = texts.iter().map(|text| text.len() / 4 + 1).sum::<usize>();
    let usage = match fault {
        Planted::NoVectorUsage => Value::Null,
        _ => json!({ "prompt_tokens": tokens, "total_tokens": tokens }),
    };
    Answer::json(200, &json!({ "object": "list", "data": data, "model": "e", "usage": usage }))
}
