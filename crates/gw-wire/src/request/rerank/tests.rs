//! Requests in the shapes of Cohere, Jina and Voyage, and the answer.

use super::*;

fn parse(body: &str) -> Result<RerankRequest, Invalid> {
    parse_rerank(Bytes::copy_from_slice(body.as_bytes()), &RequestLimits::default())
}

fn code(body: &str) -> &'static str {
    parse(body).unwrap_err().code
}

fn ranked(results: &[(usize, f64)]) -> Vec<RankedDocument> {
    results.iter().map(|(index, score)| RankedDocument { index: *index, score: *score }).collect()
}

#[test]
fn the_shapes_of_all_vendors_are_one_request() {
    for (body, top_n, returns) in [
        (r#"{"model":"a/r","query":"q\"","documents":["x","y\n"],"top_n":1}"#, Some(1), false),
        (
            r#"{"model":"a/r","query":"q\"","documents":["x","y\n"],"top_k":2,"return_documents":true}"#,
            Some(2),
            true,
        ),
        (
            r#"{"model":"a/r","query":"q\"","documents":[{"text":"x"},{"title":"t","text":"y\n"}],"rank_fields":["text"]}"#,
            None,
            false,
        ),
        (
            r#"{"model":"a/r","query":"q\"","documents":["x","y\n"],"top_n":3,"top_k":2,"stream":false,"priority":1}"#,
            Some(3),
            false,
        ),
        (
            r#"{"model":"a/r","query":"q\"","documents":["x","y\n"],"top_n":null,"truncation":true}"#,
            None,
            false,
        ),
    ] {
        let request = parse(body).unwrap();
        let texts: Vec<&str> = request.documents().collect();
        assert_eq!((request.query(), texts), (r#""q\"""#, vec![r#""x""#, r#""y\n""#]), "{body}");
        assert_eq!((request.top_n, request.return_documents), (top_n, returns), "{body}");
        assert_eq!((request.query_bytes, request.prompt_bytes, request.search_units()), (2, 5, 1), "{body}");
    }
}

#[test]
fn each_fault_has_its_code() {
    for (body, expected) in [
        ("[]", "invalid_json"),
        (r#"{"query":"q","documents":["x"]}"#, "missing_required_parameter"),
        (r#"{"model":"a/r","documents":["x"]}"#, "missing_required_parameter"),
        (r#"{"model":"a/r","query":"q"}"#, "missing_required_parameter"),
        (r#"{"model":"a/r","query":"","documents":["x"]}"#, "empty_string"),
        (r#"{"model":"a/r","query":["q"],"documents":["x"]}"#, "invalid_type"),
        (r#"{"model":"a/r","query":"q","documents":[]}"#, "empty_array"),
        (r#"{"model":"a/r","query":"q","documents":"x"}"#, "invalid_type"),
        (r#"{"model":"a/r","query":"q","documents":["x",1]}"#, "invalid_type"),
        (r#"{"model":"a/r","query":"q","documents":[{"title":"x"}]}"#, "missing_required_parameter"),
        (r#"{"model":"a/r","query":"q","documents":[{"text":1}]}"#, "invalid_type"),
        (r#"{"model":"a/r","query":"q","documents":["x"],"top_n":0}"#, "integer_below_min_value"),
        (r#"{"model":"a/r","query":"q","documents":["x"],"top_k":1.5}"#, "invalid_type"),
        (r#"{"model":"a/r","query":"q","documents":["x"],"return_documents":"no"}"#, "invalid_type"),
        (r#"{"model":"a/r","query":"q","documents":["x"],"stream":true}"#, "unsupported_value"),
        (r#"{"model":"a/r","query":"q","documents":["x"],"routing":{"strateg":"x"}}"#, "unknown_parameter"),
    ] {
        assert_eq!(code(body), expected, "{body}");
    }
    let documents = vec![r#""x""#; MAX_DOCUMENTS + 1].join(",");
    assert_eq!(
        code(&format!(r#"{{"model":"a/r","query":"q","documents":[{documents}]}}"#)),
        "array_above_max_length"
    );
}

#[test]
fn a_search_unit_is_begun_with_each_hundred_documents() {
    for (count, units) in [(1, 1), (100, 1), (101, 2), (1000, 10)] {
        let documents = vec![r#""x""#; count].join(",");
        let request = parse(&format!(r#"{{"model":"a/r","query":"q","documents":[{documents}]}}"#)).unwrap();
        assert_eq!(request.search_units(), units, "{count}");
    }
}

#[test]
fn results_are_sorted_and_cut_and_have_documents_only_on_request() {
    let usage = Usage { prompt: 7, units: crate::usage::Units::new(Unit::Search, 1), ..Usage::default() };
    let reply = || RerankReply::of(ranked(&[(0, 0.25), (1, 0.5), (2, 0.25)]), 3).unwrap();
    let body = |more: &str| {
        let body = format!(r#"{{"model":"a/r","query":"q","documents":["x","y","z"]{more}}}"#);
        let request = parse(&body).unwrap();
        String::from_utf8(request.write(&reply(), "rerank-1", &usage)).unwrap()
    };
    let list = r#"[{"index":1,"relevance_score":0.5},{"index":0,"relevance_score":0.25}]"#;
    assert_eq!(
        body(r#","top_n":2"#),
        format!(
            r#"{{"id":"rerank-1","object":"list","model":"a/r","results":{list},"data":{list},"meta":{{"billed_units":{{"search_units":1}},"tokens":{{"input_tokens":7}}}},"usage":{{"prompt_tokens":7,"total_tokens":7}}}}"#
        )
    );
    assert!(body(r#","top_n":9,"return_documents":true"#).contains(
        r#""results":[{"index":1,"relevance_score":0.5,"document":{"text":"y"}},{"index":0,"relevance_score":0.25,"document":{"text":"x"}},{"index":2,"relevance_score":0.25,"document":{"text":"z"}}]"#
    ));
}

#[test]
fn a_list_that_is_no_ranking_is_refused() {
    for (results, fault) in [
        (&[(3, 0.1)][..], RankingError::Range),
        (&[(0, 0.1), (0, 0.2)], RankingError::Twice),
        (&[(0, f64::NAN)], RankingError::NotFinite),
        (&[(0, f64::INFINITY)], RankingError::NotFinite),
    ] {
        assert_eq!(RerankReply::of(ranked(results), 3).unwrap_err(), fault);
    }
}
