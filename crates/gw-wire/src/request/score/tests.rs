//! Pairs in the shapes of vLLM's versions, and the answer.

use super::*;

fn parse(body: &str) -> Result<ScoreRequest, Invalid> {
    parse_score(Bytes::copy_from_slice(body.as_bytes()), &RequestLimits::default())
}

#[test]
fn every_shape_is_a_list_of_pairs() {
    for (body, firsts) in [
        (r#"{"model":"a/r","text_1":"q","text_2":["x","yy"]}"#, &[r#""q""#][..]),
        (r#"{"model":"a/r","text_1":["q","r"],"text_2":["x","yy"]}"#, &[r#""q""#, r#""r""#]),
        (r#"{"model":"a/r","queries":"q","documents":["x","yy"]}"#, &[r#""q""#]),
        (r#"{"model":"a/r","queries":["q"],"items":["x","yy"]}"#, &[r#""q""#]),
        (r#"{"model":"a/r","data_1":"q","data_2":["x","yy"]}"#, &[r#""q""#]),
    ] {
        let request = parse(body).unwrap();
        assert_eq!(request.first_texts().collect::<Vec<_>>(), firsts, "{body}");
        assert_eq!(request.second_texts().collect::<Vec<_>>(), [r#""x""#, r#""yy""#], "{body}");
        assert_eq!((request.pair_count(), request.prompt_bytes, request.search_units()), (2, 5, 1), "{body}");
    }
}

#[test]
fn each_fault_has_its_code() {
    for (body, expected) in [
        (r#"{"text_1":"q","text_2":"x"}"#, "missing_required_parameter"),
        (r#"{"model":"a/r"}"#, "missing_required_parameter"),
        (r#"{"model":"a/r","queries":"q"}"#, "missing_required_parameter"),
        (r#"{"model":"a/r","text_1":"q","text_2":[]}"#, "empty_array"),
        (r#"{"model":"a/r","text_1":1,"text_2":"x"}"#, "invalid_type"),
        (r#"{"model":"a/r","text_1":"q","text_2":["x",1]}"#, "invalid_type"),
        (r#"{"model":"a/r","text_1":["q","r"],"text_2":["x","y","z"]}"#, "invalid_value"),
        (r#"{"model":"a/r","text_1":"q","text_2":"x","data_2":["",0]}"#, "invalid_type"),
        (r#"{"model":"a/r","text_1":"q","text_2":"x","stream":true}"#, "unsupported_value"),
    ] {
        assert_eq!(parse(body).unwrap_err().code, expected, "{body}");
    }
}

#[test]
fn the_answer_is_in_the_order_of_the_pairs() {
    let request = parse(r#"{"model":"a/r","text_1":"q","text_2":["x","y"]}"#).unwrap();
    let scores = vec![RankedDocument { index: 1, score: 0.5 }, RankedDocument { index: 0, score: 0.25 }];
    let usage = Usage { prompt: 7, ..Usage::default() };
    let body = request.write(&RerankReply::of(scores, 2).unwrap(), "score-1", &usage);
    assert_eq!(
        String::from_utf8(body).unwrap(),
        r#"{"id":"score-1","object":"list","model":"a/r","data":[{"index":0,"object":"score","score":0.25},{"index":1,"object":"score","score":0.5}],"usage":{"prompt_tokens":7,"total_tokens":7}}"#
    );
}
