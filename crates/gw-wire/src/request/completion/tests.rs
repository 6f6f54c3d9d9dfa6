//! Tests of text completion requests.

use bytes::Bytes;

use crate::request::{Prompt, RequestLimits, parse_completion};

fn code(body: &str) -> &'static str {
    parse_completion(Bytes::copy_from_slice(body.as_bytes()), &RequestLimits::default())
        .err()
        .map_or("", |invalid| invalid.code)
}

#[test]
fn prompts_have_four_forms() {
    let array = |count: usize, item: &str| format!("[{}]", vec![item; count].join(","));
    for (prompt, expected) in [
        ("\"hi\"", ""),
        ("\"\"", ""),
        ("[\"a\",\"\"]", ""),
        ("[1,2]", ""),
        ("[[1],[2,3]]", ""),
        ("null", "missing_required_parameter"),
        ("1", "invalid_type"),
        ("{}", "invalid_type"),
        ("[]", "empty_array"),
        ("[[]]", "empty_array"),
        ("[[1],[]]", "empty_array"),
        ("[\"a\",1]", "invalid_type"),
        ("[1,\"a\"]", "invalid_type"),
        ("[[1],2]", "invalid_type"),
        ("[[1],[\"a\"]]", "invalid_type"),
        ("[[[1]]]", "invalid_type"),
        ("[null]", "invalid_type"),
        ("[\"a\",null]", "invalid_type"),
        ("[1.0]", "invalid_type"),
        ("[1,1e2]", "invalid_type"),
        ("[-1]", "integer_below_min_value"),
        ("[4294967296]", "integer_above_max_value"),
        (&array(2048, "\"a\""), ""),
        (&array(2049, "\"a\""), "array_above_max_length"),
        (&array(2049, "[1]"), "array_above_max_length"),
        (&array(9000, "1"), ""),
    ] {
        assert_eq!(code(&format!(r#"{{"model":"m","prompt":{prompt}}}"#)), expected, "{prompt:.40}");
    }
    assert_eq!(code(r#"{"model":"m"}"#), "missing_required_parameter");
    assert_eq!(code(r#"{"prompt":"x"}"#), "missing_required_parameter");
}

#[test]
fn fields_have_their_codes() {
    for (members, expected) in [
        (r#""best_of":0,"n":1"#, ""),
        (r#""best_of":20"#, ""),
        (r#""best_of":21"#, "integer_above_max_value"),
        (r#""best_of":-1"#, "integer_below_min_value"),
        (r#""best_of":1.0"#, "invalid_type"),
        (r#""n":129"#, "integer_above_max_value"),
        (r#""n":0"#, "integer_below_min_value"),
        (r#""max_tokens":0"#, ""),
        (r#""max_tokens":-1"#, "integer_below_min_value"),
        (r#""max_tokens":18446744073709551616"#, "integer_above_max_value"),
        (r#""max_tokens":"5""#, "invalid_type"),
        (r#""logprobs":5"#, ""),
        (
            r#""logprobs":null,"seed":null,"suffix":null,"user":null,"stop":null,"stream":null,"echo":null"#,
            "",
        ),
        (r#""logprobs":6"#, "integer_above_max_value"),
        (r#""logprobs":true"#, "invalid_type"),
        (r#""temperature":2.0000001"#, "decimal_above_max_value"),
        (r#""temperature":2.00000000000000000001"#, "decimal_above_max_value"),
        (r#""presence_penalty":-2.00000000000000000001"#, "decimal_below_min_value"),
        (r#""temperature":-0.1"#, "decimal_below_min_value"),
        (r#""top_p":1.1"#, "decimal_above_max_value"),
        (r#""frequency_penalty":-2.1"#, "decimal_below_min_value"),
        (r#""presence_penalty":2.1"#, "decimal_above_max_value"),
        (r#""logit_bias":{"1":101}"#, "decimal_above_max_value"),
        (r#""stop":["1","2","3","4","5"]"#, "array_above_max_length"),
        (r#""stream":"true""#, "invalid_type"),
        (r#""stream_options":{"include_usage":"x"}"#, "invalid_type"),
        (r#""echo":1"#, "invalid_type"),
        (r#""suffix":1"#, "invalid_type"),
        (r#""user":1"#, "invalid_type"),
        (r#""seed":1.5"#, "invalid_type"),
        (r#""routing":{"strategy":"x"}"#, "invalid_value"),
        (r#""routing":{"fallback":[""]}"#, "empty_string"),
        (r#""anything":1e999"#, ""),
        (r#""cache":7"#, "invalid_type"),
        (r#""response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{}}}"#, ""),
        (r#""response_format":{"type":"text"}"#, ""),
        (r#""response_format":null"#, ""),
        (r#""response_format":7"#, "invalid_type"),
        (r#""response_format":{}"#, "invalid_value"),
        (r#""response_format":{"type":"x"}"#, "invalid_value"),
        (r#""response_format":{"type":"json_schema"}"#, "invalid_value"),
        (r#""response_format":{"type":"json_schema","json_schema":{"name":"n","schema":1}}"#, "invalid_type"),
    ] {
        assert_eq!(code(&format!(r#"{{"model":"m","prompt":"x",{members}}}"#)), expected, "{members}");
    }
}

#[test]
fn parsed_fields_are_kept() {
    let read = |members: &str| {
        parse_completion(Bytes::from(format!(r#"{{"model":"m",{members}}}"#)), &RequestLimits::default())
            .unwrap()
    };
    let request = read(r#""prompt":["a\n","b"],"suffix":"s","echo":true,"n":2,"max_tokens":9,"stream":true"#);
    assert_eq!(request.prompts, [Prompt::Text("a\n".to_owned()), Prompt::Text("b".to_owned())]);
    assert!(request.suffix && request.echo && request.stream && !request.include_usage);
    assert_eq!((request.n, request.max_tokens, request.prompt_bytes), (2, Some(9), 3));
    let request = read(r#""prompt":[[1,2],[4294967295]],"suffix":"""#);
    assert_eq!(request.prompts, [Prompt::Tokens(vec![1, 2]), Prompt::Tokens(vec![u32::MAX])]);
    assert_eq!((request.suffix, request.prompt_bytes), (false, 12));
    assert_eq!(read(r#""prompt":[5,6]"#).prompts, [Prompt::Tokens(vec![5, 6])]);
    let format = r#"{"type":"json_schema","json_schema":{"name":"n","schema":{}}}"#;
    let request = read(&format!(r#""prompt":["a","b"],"response_format":{format}"#));
    assert_eq!((request.extras.frames, request.extras.bytes), (2, 2 * format.len() as u64));
    assert_eq!(read(r#""prompt":"a","response_format":{"type":"json_object"}"#).extras.bytes, 0);
    assert_eq!(read(r#""prompt":["a","b"],"suffix":"cd\n""#).extras.bytes, 6);
}
