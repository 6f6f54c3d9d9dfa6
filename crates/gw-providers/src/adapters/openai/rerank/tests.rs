//! Rerank at servers that differ in the URL, the members and the answer.

use bytes::Bytes;
use gw_wire::request::{RequestLimits, parse_rerank};
use http::HeaderMap;

use super::*;
use crate::adapters::failure::classify;
use crate::adapters::trial::target;
use crate::settings::Api;

fn request(body: &str) -> RerankRequest {
    parse_rerank(Bytes::copy_from_slice(body.as_bytes()), &RequestLimits::default()).unwrap()
}

fn sent(form: CallForm) -> (String, String) {
    let request = request(
        r#"{"model":"a/r","query":"q","documents":["x",{"text":"y"}],"top_n":5,"max_tokens_per_doc":9,"user":"u"}"#,
    );
    let call = OpenAiRerank::new("top_n", SurfaceUrls::BelowOrBesideV1)
        .encode(&request, form, &target(Api::OPENAI, "r-1", None))
        .unwrap();
    (call.path, String::from_utf8(call.body.to_vec()).unwrap())
}

fn scores(body: &str) -> Result<RerankReply, FailureKind> {
    decode(body.as_bytes(), 2).map_err(|failure| failure.kind)
}

#[test]
fn a_call_has_the_url_and_the_members_of_its_form() {
    let usual = r#"{"model":"r-1","query":"q","documents":["x","y"],"top_n":2,"max_tokens_per_doc":9,"return_documents":false}"#;
    let texts = r#"{"model":"r-1","query":"q","texts":["x","y"]}"#;
    assert_eq!(sent(0), ("/rerank".to_owned(), usual.to_owned()));
    assert_eq!(sent(AT_ROOT), ("/../rerank".to_owned(), usual.to_owned()));
    assert_eq!(sent(TEXTS), ("/rerank".to_owned(), texts.to_owned()));
    assert_eq!(sent(AT_ROOT | TEXTS), ("/../rerank".to_owned(), texts.to_owned()));
}

#[test]
fn each_url_is_tried_once_and_the_form_is_remembered() {
    let rerank = OpenAiRerank::new("top_n", SurfaceUrls::BelowOrBesideV1);
    let failed = |status, body: &str| classify(status, &HeaderMap::new(), body.as_bytes());
    let next = |tried, failure: &Failure| rerank.next_form(tried, failure, &target(Api::OPENAI, "r-1", None));
    for status in [404, 405, 501] {
        assert_eq!(next((0, 0), &failed(status, "Not Found")), Some(AT_ROOT));
        assert_eq!(next((0, AT_ROOT), &failed(status, "Not Found")), None);
        assert_eq!(next((AT_ROOT, AT_ROOT), &failed(status, "Not Found")), Some(0));
    }
    let missing = r#"{"error":{"message":"The model `r-1` does not exist.","code":"model_not_found"}}"#;
    assert_eq!(next((0, 0), &failed(404, missing)), None);
    assert_eq!(next((0, 0), &failed(503, "busy")), None);
    let tei =
        "Failed to deserialize the JSON body into the target type: missing field `texts` at line 1 column 74";
    assert_eq!(next((0, AT_ROOT), &failed(422, tei)), Some(AT_ROOT | TEXTS));
    assert_eq!(next((0, AT_ROOT | TEXTS), &failed(422, tei)), None);
    // A message may quote the client. The name is changed once, whatever it says.
    let both = "missing field `documents`, got texts: missing";
    assert_eq!(next((0, 0), &failed(422, both)), Some(TEXTS));
    assert_eq!(next((0, TEXTS), &failed(422, both)), None);
    assert_eq!(next((TEXTS, TEXTS), &failed(422, both)), Some(0));
    assert_eq!(next((TEXTS, 0), &failed(422, both)), None);
    rerank.learn_form(AT_ROOT | TEXTS);
    assert_eq!(rerank.form(), AT_ROOT | TEXTS);
    rerank.forget_learned();
    assert_eq!(rerank.form(), 0);
}

#[test]
fn only_a_base_url_that_ends_in_v1_has_a_second_url() {
    let unknown = classify(404, &HeaderMap::new(), b"Not Found");
    for (base, other) in [
        (None, Some(AT_ROOT)),
        (Some("http://h/v1"), Some(AT_ROOT)),
        (Some("http://h/v1/"), Some(AT_ROOT)),
        (Some("http://h"), None),
        (Some("http://h/v1/team-a"), None),
    ] {
        let rerank = OpenAiRerank::new("top_n", SurfaceUrls::of(base));
        assert_eq!(rerank.next_form((0, 0), &unknown, &target(Api::OPENAI, "r-1", None)), other, "{base:?}");
    }
}

#[test]
fn the_answers_of_all_servers_are_read() {
    let usage = |prompt, units| Usage { prompt, units: Units::new(Unit::Search, units), ..Usage::default() };
    for (body, used) in [
        (
            r#"{"id":"1","results":[{"index":1,"relevance_score":0.5},{"index":0,"relevance_score":0.25}],"meta":{"api_version":{"version":"2"},"billed_units":{"search_units":3}}}"#,
            Some(usage(0, 3)),
        ),
        (
            r#"{"object":"list","data":[{"index":0,"relevance_score":0.25},{"index":1,"relevance_score":0.5}],"model":"r-1","usage":{"total_tokens":26}}"#,
            Some(usage(26, 0)),
        ),
        (
            r#"{"model":"r-1","results":[{"index":0,"relevance_score":25e-2,"document":{"text":"x"}},{"index":1,"relevance_score":0.5}],"meta":{"tokens":{"input_tokens":40},"billed_units":{"search_units":1}}}"#,
            Some(usage(40, 1)),
        ),
        (r#"[{"index":0,"score":0.25},{"index":1,"score":0.5,"text":"y"}]"#, None),
    ] {
        let reply = scores(body).unwrap();
        let ranked = RerankReply::of(
            vec![RankedDocument { index: 1, score: 0.5 }, RankedDocument { index: 0, score: 0.25 }],
            2,
        );
        assert_eq!(reply.usage, used, "{body}");
        let ranked = ranked.unwrap();
        assert_eq!(reply.results(), ranked.results(), "{body}");
    }
}

#[test]
fn answers_that_are_no_ranking_are_failures() {
    for body in [
        "",
        "{}",
        "<html>",
        r#"{"results":{}}"#,
        r#"{"results":[{"relevance_score":0.5}]}"#,
        r#"{"results":[{"index":2,"relevance_score":0.5}]}"#,
        r#"{"results":[{"index":-1,"relevance_score":0.5}]}"#,
        r#"{"results":[{"index":0,"relevance_score":0.5},{"index":0,"relevance_score":0.4}]}"#,
        r#"{"results":[{"index":0}]}"#,
        r#"{"results":[{"index":0,"relevance_score":null}]}"#,
        r#"{"results":[{"index":0,"relevance_score":"0.5"}]}"#,
        r#"{"results":[{"index":0,"relevance_score":1e999}]}"#,
    ] {
        assert_eq!(scores(body).unwrap_err(), FailureKind::InvalidResponse, "{body}");
    }
    assert_eq!(
        scores(r#"{"error":{"message":"slow down","code":429}}"#).unwrap_err(),
        FailureKind::RateLimited
    );
}
