//! Tests of embeddings requests.

use bytes::Bytes;

use crate::request::{EncodingFormat, Inputs, RequestLimits, parse_embeddings};

fn code(body: &str) -> &'static str {
    parse_embeddings(Bytes::copy_from_slice(body.as_bytes()), &RequestLimits::default())
        .err()
        .map_or("", |invalid| invalid.code)
}

#[test]
fn inputs_have_four_forms() {
    let array = |count: usize, item: &str| format!("[{}]", vec![item; count].join(","));
    for (input, expected) in [
        ("\"hi\"", ""),
        ("[\"a\",\"b\"]", ""),
        ("[1,2]", ""),
        ("[[1],[2,3]]", ""),
        ("null", "missing_required_parameter"),
        ("\"\"", "empty_string"),
        ("[\"a\",\"\"]", "empty_string"),
        ("[]", "empty_array"),
        ("[[]]", "empty_array"),
        ("[[1],[]]", "empty_array"),
        ("1", "invalid_type"),
        ("true", "invalid_type"),
        ("{}", "invalid_type"),
        ("[\"a\",1]", "invalid_type"),
        ("[1,\"a\"]", "invalid_type"),
        ("[[1],\"a\"]", "invalid_type"),
        ("[\"a\",null]", "invalid_type"),
        ("[null]", "invalid_type"),
        ("[1.5]", "invalid_type"),
        ("[-1]", "integer_below_min_value"),
        ("[[4294967296]]", "integer_above_max_value"),
        (&array(2048, "\"a\""), ""),
        (&array(2049, "\"a\""), "array_above_max_length"),
        (&array(2048, "[1]"), ""),
        (&array(2049, "[1]"), "array_above_max_length"),
        (&array(900_000, "\"a\""), "array_above_max_length"),
        (&array(8191, "1"), ""),
    ] {
        assert_eq!(code(&format!(r#"{{"model":"m","input":{input}}}"#)), expected, "{input:.40}");
    }
    assert_eq!(code(r#"{"model":"m"}"#), "missing_required_parameter");
    assert_eq!(code(r#"{"input":"x"}"#), "missing_required_parameter");
    assert_eq!(code(r#"{"model":"","input":"x"}"#), "empty_string");
}

#[test]
fn fields_have_their_codes() {
    for (members, expected) in [
        (r#""encoding_format":"float""#, ""),
        (r#""encoding_format":"base64""#, ""),
        (r#""encoding_format":null,"dimensions":null,"user":null"#, ""),
        (r#""encoding_format":"int8""#, "invalid_value"),
        (r#""encoding_format":"""#, "invalid_value"),
        (r#""encoding_format":1"#, "invalid_type"),
        (r#""dimensions":1"#, ""),
        (r#""dimensions":0"#, "integer_below_min_value"),
        (r#""dimensions":-1"#, "integer_below_min_value"),
        (r#""dimensions":18446744073709551616"#, "integer_above_max_value"),
        (r#""dimensions":4294967296"#, "integer_above_max_value"),
        (r#""dimensions":1.0"#, "invalid_type"),
        (r#""dimensions":"256""#, "invalid_type"),
        (r#""user":1"#, "invalid_type"),
        (r#""routing":7,"cache":7,"input_type":"query""#, ""),
    ] {
        assert_eq!(code(&format!(r#"{{"model":"m","input":"x",{members}}}"#)), expected, "{members}");
    }
}

#[test]
fn parsed_fields_are_kept() {
    let read = |members: &str| {
        parse_embeddings(Bytes::from(format!(r#"{{"model":"m",{members}}}"#)), &RequestLimits::default())
            .unwrap()
    };
    let request = read(r#""input":[ "a\n" , "é"],"dimensions":256,"encoding_format":"base64""#);
    let Inputs::Texts(texts) = &request.inputs else { panic!("texts") };
    let literals: Vec<_> = texts.iter().map(|range| request.body.text(range)).collect();
    assert_eq!(literals, ["\"a\\n\"", "\"é\""]);
    assert_eq!((request.dimensions, request.encoding), (Some(256), EncodingFormat::Base64));
    assert_eq!((request.prompt_bytes, request.inputs.len()), (4, 2));
    let request = read(r#""input":[7,8,9]"#);
    assert_eq!(request.inputs, Inputs::Tokens(vec![vec![7, 8, 9]]));
    assert_eq!(
        (request.dimensions, request.encoding, request.prompt_bytes),
        (None, EncodingFormat::Float, 12)
    );
    assert_eq!(read(r#""input":[[7],[8,9]]"#).inputs, Inputs::Tokens(vec![vec![7], vec![8, 9]]));
    let single = read(r#""input":"x""#);
    assert_eq!((single.inputs.len(), single.inputs.is_empty()), (1, false));
}

#[test]
fn fixed_members_are_all_members_but_the_inputs() {
    let body = r#"{"model":"m","input":["aaaaaaaaaaaaaaaaaaaaaaaa"],"x":null,"long":[1, 2, 3],"user":"u"}"#;
    let request = parse_embeddings(Bytes::from(body), &RequestLimits::default()).unwrap();
    let repeated = request.fixed_members();
    assert_eq!((repeated.bytes, repeated.largest), (8 + 13 + 7, "long"));
}
