//! Embeddings of Titan and Cohere models.

use bytes::Bytes;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::reply::Vector;
use gw_wire::request::{RequestLimits, parse_embeddings};
use serde_json::{Value, json};

use super::{Bedrock, target};
use crate::adapter::Adapter;
use crate::adapters::native::Native;

fn encode(model: &str, body: Value) -> Result<(String, Value), Failure> {
    let mut body = body;
    body["model"] = json!("m");
    let request = parse_embeddings(Bytes::from(body.to_string()), &RequestLimits::default()).unwrap();
    let call = Native(Bedrock).embeddings(&request, 0..request.inputs.len(), &target(model))?;
    Ok((call.path, serde_json::from_slice(&call.body).unwrap()))
}

fn decode(body: &str, expected: usize) -> Result<(Vec<String>, Option<u64>), Failure> {
    let reply = Native(Bedrock).decode_embeddings(body.as_bytes(), expected)?;
    let texts = reply.vectors.iter().map(|vector| match vector {
        Vector::Json { text, .. } => (*text).to_owned(),
        Vector::Floats(floats) => format!("{floats:?}"),
        Vector::Packed(_) => panic!("it comes from an upstream"),
    });
    Ok((texts.collect(), reply.usage.map(|usage| usage.prompt)))
}

#[test]
fn titan_takes_one_text() {
    let titan = "amazon.titan-embed-text-v2:0";
    let path = "/model/amazon.titan-embed-text-v2%3A0/invoke".to_owned();
    assert_eq!(
        encode(titan, json!({"input": "東京", "dimensions": 256})).unwrap(),
        (path, json!({"inputText": "東京", "dimensions": 256}))
    );
    let answer =
        r#"{"embedding":[0.5,-1e-3],"embeddingsByType":{"float":[0.5,-1e-3]},"inputTextTokenCount":3}"#;
    assert_eq!(decode(answer, 1).unwrap(), (vec!["[0.5,-1e-3]".to_owned()], Some(3)));
}

#[test]
fn cohere_takes_ninety_six() {
    let (path, body) = encode("cohere.embed-v4:0", json!({"input": ["a", "b"], "dimensions": 512})).unwrap();
    assert_eq!(path, "/model/cohere.embed-v4%3A0/invoke");
    let wanted = json!({
        "texts": ["a", "b"], "input_type": "search_document", "embedding_types": ["float"], "output_dimension": 512,
    });
    assert_eq!(body, wanted);
    let (_, body) =
        encode("cohere.embed-multilingual-v3", json!({"input": ["a", "b"], "input_type": "search_query"}))
            .unwrap();
    assert_eq!(body["input_type"], "search_query");
    let wanted = (vec!["[1,2]".to_owned(), "[3,4]".to_owned()], None);
    assert_eq!(
        decode(r#"{"embeddings":{"float":[[1,2],[3,4]]},"response_type":"embeddings_by_type"}"#, 2).unwrap(),
        wanted
    );
    assert_eq!(decode(r#"{"embeddings":[[1,2],[3,4]],"texts":["a","b"],"id":"x"}"#, 2).unwrap(), wanted);
}

#[test]
fn unsupported_options_of_a_model_are_refused() {
    let many: Vec<&str> = std::iter::repeat_n("a", 97).collect();
    for (model, body) in [
        ("amazon.titan-embed-text-v2:0", json!({"input": ["a", "b"]})),
        ("amazon.titan-embed-text-v1", json!({"input": "a", "dimensions": 256})),
        ("cohere.embed-english-v3", json!({"input": "a", "dimensions": 256})),
        ("cohere.embed-english-v3", json!({"input": many})),
        ("anthropic.claude-3-haiku-20240307-v1:0", json!({"input": "a"})),
        ("cohere.embed-english-v3", json!({"input": [1, 2]})),
    ] {
        let failure = encode(model, body).unwrap_err();
        assert_eq!(
            (failure.kind, failure.code.as_deref()),
            (FailureKind::Unsupported, Some("unsupported_value"))
        );
    }
}

#[test]
fn a_body_without_vectors_is_an_invalid_response() {
    for body in [
        "{}",
        "",
        r#"{"embedding":[]}"#,
        r#"{"embedding":[1,null]}"#,
        r#"{"embeddings":{"int8":[[1],[2]]}}"#,
        r#"{"embeddings":[[1]]}"#,
        r#"{"embeddings":[[1],[1,2]]}"#,
        r#"{"embeddings":5}"#,
    ] {
        assert_eq!(decode(body, 2).unwrap_err().kind, FailureKind::InvalidResponse, "{body}");
    }
}
