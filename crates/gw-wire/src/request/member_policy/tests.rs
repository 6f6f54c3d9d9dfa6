//! Which members have a rule, in which spelling and with which values.

use super::*;
use crate::request::{RequestLimits, chat::parse_chat};

fn found(members: &str) -> Vec<(String, Rule)> {
    let body = format!(r#"{{"model":"a/b","messages":[{{"role":"user","content":"x"}}],{members}}}"#);
    let guarded = parse_chat(body.into(), &RequestLimits::default()).unwrap().guarded;
    guarded.into_iter().map(|member| (member.name.into_string(), member.rule)).collect()
}

#[test]
fn the_table_is_sorted_and_its_names_are_short_enough() {
    let folded: Vec<Vec<u8>> = RULES.iter().map(|(name, _)| without_joints(name).collect()).collect();
    assert!(folded.is_sorted_by(|a, b| a < b), "{folded:?}");
    assert!(folded.iter().all(|name| name.len() < Folded::LONGEST));
    for (name, rule) in RULES {
        assert_eq!(rule_of(name), Some(rule), "{name}");
    }
}

#[test]
fn names_are_found_however_a_lenient_reader_spells_them() {
    for name in ["api_base", "API_BASE", "apiBase", "api-base", "api_ba\u{17f}e", "Api__Base"] {
        assert_eq!(rule_of(name), Some(Rule::Steers), "{name}");
    }
    for name in [
        "aws_access_key_id",
        "vertex_credentials",
        "litellm_params",
        "mock_response",
        "tensorzero::variant_name",
    ] {
        assert_eq!(rule_of(name), Some(Rule::Steers), "{name}");
    }
    for name in [
        "top_k",
        "min_p",
        "guided_json",
        "chat_template_kwargs",
        "repetition_penalty",
        "",
        "_",
        "ap\u{ef}_base",
    ] {
        assert_eq!(rule_of(name), None, "{name}");
    }
    assert_eq!(rule_of(&"a".repeat(1000)), None);
}

#[test]
fn values_that_change_nothing_are_not_guarded() {
    for members in [
        r#""service_tier":"auto""#,
        r#""service_tier":"Default""#,
        r#""store":false,"background":false,"enable_search":false"#,
        r#""models":null"#,
        r#""metadata":{"tags":"a","provider":"b"}"#,
        r#""extra_body":{"top_k":3}"#,
        r#""tools":[{"type":"function","function":{"name":"web_search"}},{"type":"custom","custom":{"name":"x"}}]"#,
        r#""tools":[{"type":"apply_patch"}]"#,
        r#""top_k":5,"min_p":0.1,"guided_json":{"models":["a"]}"#,
    ] {
        assert_eq!(found(members), [], "{members}");
    }
}

#[test]
fn the_others_are() {
    for (members, name, rule) in [
        (r#""service_tier":"priority""#, "service_tier", Rule::Price),
        (r#""service_tier":"flex""#, "service_tier", Rule::Price),
        (r#""store":true"#, "store", Rule::Account),
        (r#""models":["x"]"#, "models", Rule::Fallback),
        (r#""provider":{"order":["x"]}"#, "provider", Rule::Steers),
        (r#""extra_body":{"models":["x"]}"#, "extra_body", Rule::Steers),
        (r#""metadata":{"a":"b","tags":["x"]}"#, "metadata.tags", Rule::Steers),
        (r#""tools":[{"type":"web_search_preview_2025_03_11"}]"#, "tools", Rule::Search),
        (r#""tools":[{"type":"code_interpreter","container":{"type":"auto"}}]"#, "tools", Rule::Search),
        (r#""web_search_options":{}"#, "web_search_options", Rule::Search),
        (r#""previous_response_id":"r""#, "previous_response_id", Rule::Context),
        (r#""background":true"#, "background", Rule::Context),
    ] {
        assert_eq!(found(members), [(name.to_owned(), rule)], "{members}");
    }
}

#[test]
fn what_is_allowed_is_not_withheld() {
    let guarded = |name: &str| Guarded { name: name.into(), rule: Rule::Steers };
    let asked = [guarded("apiBase"), guarded("metadata.tags"), guarded("models")];
    assert_eq!(AllowedMembers::default().withheld(&asked), ["apiBase", "metadata.tags", "models"]);
    assert_eq!(AllowedMembers::new(["api_base", "metadata"]).withheld(&asked), ["models"]);
}
