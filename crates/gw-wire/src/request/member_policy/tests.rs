//! The members with a rule, in all spellings and with different values.

use super::*;
use crate::request::body::known;
use crate::request::folding::without_underscores;
use crate::request::{RequestLimits, chat::parse_chat, parse_completion, parse_embeddings};

fn found(members: &str) -> Vec<(String, Rule)> {
    let body = format!(r#"{{"model":"a/b","messages":[{{"role":"user","content":"x"}}],{members}}}"#);
    let guarded = parse_chat(body.into(), &RequestLimits::default()).unwrap().guarded;
    guarded.into_iter().map(|member| (member.name.into_owned(), member.rule)).collect()
}

#[test]
fn the_table_is_sorted_and_its_names_are_short_enough() {
    let folded: Vec<Vec<u8>> = RULES.iter().map(|(name, _)| without_underscores(name).collect()).collect();
    assert!(folded.is_sorted_by(|a, b| a < b), "{folded:?}");
    // `folded` cuts long names off: a longer name must not become one of these.
    assert!(folded.iter().all(|name| name.len() < size_of::<Folded>()));
    let lists = [PlainOperation::Completion, PlainOperation::Embeddings];
    let lists = lists.iter().filter_map(|operation| operation.row().checked_members);
    let checked = lists.flatten().chain(&UNCHECKED_BY_CHAT);
    assert_eq!(checked.filter(|name| known(name).is_none()).count(), 0);
    for (name, rule) in RULES {
        assert_eq!(rule_of(name), Some(rule), "{name}");
    }
}

#[test]
fn guarded_names_are_found_in_every_spelling() {
    for name in ["api_base", "API_BASE", "apiBase", "api-base", "api_ba\u{17f}e", "Api__Base"] {
        assert_eq!(rule_of(name), Some(Rule::Steers), "{name}");
    }
    for name in [
        "aws_access_key_id",
        "vertex_credentials",
        "litellm_params",
        "mock_response",
        "tensorzero::variant_name",
        "provider_specific_header",
        "lora",
        "gcs_bucket_name",
        "gcs_path_service_account",
        "turn_off_message_logging",
        "arize_api_key",
        "posthog_host",
        "humanloop_api_key",
        "wandb_api_key",
        "weave_project_id",
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
fn harmless_values_are_not_guarded() {
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
        r#""plugins":[],"provider":{},"transforms":[ ],"keep_alive":"""#,
        r#""extra_body":{"plugins":[],"provider":{ },"route":null,"search":false}"#,
        r#""metadata":{"tags":[],"provider":{}}"#,
        r#""search_mode":"","mcp_servers":[]"#,
        r#""extra_body":{}"#,
    ] {
        assert_eq!(found(members), [], "{members}");
    }
}

#[test]
fn values_with_an_effect_are_guarded() {
    for (members, name, rule) in [
        (r#""service_tier":"priority""#, "service_tier", Rule::Price),
        (r#""service_tier":"flex""#, "service_tier", Rule::Price),
        (r#""store":true"#, "store", Rule::Account),
        (r#""models":["x"]"#, "models", Rule::Fallback),
        (r#""provider":{"order":["x"]}"#, "provider", Rule::Hint),
        (r#""extra_body":{"models":["x"]}"#, "extra_body", Rule::Steers),
        (r#""metadata":{"a":"b","tags":["x"]}"#, "metadata", Rule::Hint),
        (r#""tools":[{"type":"web_search_preview_2025_03_11"}]"#, "tools", Rule::Search),
        (r#""tools":[{"type":"code_interpreter","container":{"type":"auto"}}]"#, "tools", Rule::Search),
        (r#""web_search_options":{}"#, "web_search_options", Rule::Search),
        (r#""previous_response_id":"r""#, "previous_response_id", Rule::Context),
        (r#""background":true"#, "background", Rule::Context),
        (r#""search_parameters":{}"#, "search_parameters", Rule::Search),
        (r#""keep_alive":0"#, "keep_alive", Rule::Account),
        (r#""extra_body":{"n":2}"#, "extra_body", Rule::Steers),
        (r#""extra_body":{"maxTokens":9}"#, "extra_body", Rule::Steers),
        (r#""extra_body":{"max_tokens":null}"#, "extra_body", Rule::Steers),
        (r#""extra_body":{"Model":"x"}"#, "extra_body", Rule::Steers),
        (r#""extra_body":{"messages":[]}"#, "extra_body", Rule::Steers),
        (r#""extra_body":{"search_parameters":{}}"#, "extra_body", Rule::Steers),
        (r#""apiBase":"x""#, "api_base", Rule::Steers),
        (r#""metadata":{"Tags":["x"]}"#, "metadata", Rule::Hint),
        (r#""metadata":{"model_info":{"x":1}}"#, "metadata.model_info", Rule::Steers),
        (
            r#""tools":[{"type":"function","function":{"name":"f"},"Type":"web_search"}]"#,
            "tools",
            Rule::Search,
        ),
        (r#""tools":[{"type":"custom","custom":{"name":"f"},"t_ype":"MCP"}]"#, "tools", Rule::Search),
    ] {
        assert_eq!(found(members), [(name.to_owned(), rule)], "{members}");
    }
}

#[test]
fn members_of_other_endpoints_are_treated_as_unknown() {
    let file = r#"[{"role":"user","content":[{"type":"file","file":{"file_id":"file-1"}}]}]"#;
    let found = |path: &str, members: &str| {
        let limits = RequestLimits::default();
        let (guarded, references) = match path {
            "chat" => {
                let body =
                    format!(r#"{{"model":"a/b","messages":[{{"role":"user","content":"x"}}],{members}}}"#);
                let request = parse_chat(body.into(), &limits).unwrap();
                (request.guarded, request.references)
            }
            "completions" => {
                let body = format!(r#"{{"model":"a/b","prompt":"file:///x","echo":true,{members}}}"#);
                let request = parse_completion(body.into(), &limits).unwrap();
                (request.guarded, request.references)
            }
            _ => {
                let body = format!(r#"{{"model":"a/b","input":"file:///x","user":"file:///u",{members}}}"#);
                let request = parse_embeddings(body.into(), &limits).unwrap();
                (request.guarded, request.references)
            }
        };
        let hosts: Vec<String> = references.hosts.iter().map(ToString::to_string).collect();
        (guarded.first().map(|member| member.rule), references.verbatim.is_some(), hosts.join(","))
    };
    let refers = (None, true, String::new());
    let searches = (Some(Rule::Search), false, String::new());
    let nothing = (None, false, String::new());
    for path in ["completions", "embeddings"] {
        assert_eq!(found(path, &format!(r#""messages":{file}"#)), refers, "{path}");
        assert_eq!(found(path, r#""tools":[{"type":"web_search"}]"#), searches, "{path}");
        assert_eq!(found(path, r#""tools":{"Type":"web_search"}"#), searches, "{path}");
        assert_eq!(found(path, r#""tools":[{"x":"y","file_id":"f"}]"#), refers, "{path}");
        assert_eq!(found(path, r#""prediction":{"url":"gs://b/o"}"#), refers, "{path}");
        let function =
            r#""tools":[{"type":"function","function":{"name":"f","parameters":{"file_id":"x"}}}]"#;
        assert_eq!(found(path, function), nothing, "{path}");
        let format =
            r#""response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"file_id":"x"}}}"#;
        assert_eq!(found(path, format), nothing, "{path}");
    }
    let input = r#""input":[{"type":"input_image","image_url":"https://a.example/x"}]"#;
    for path in ["chat", "completions"] {
        assert_eq!(found(path, input), (None, false, "a.example".to_owned()), "{path}");
        assert_eq!(found(path, r#""input":[{"type":"input_file","file_id":"f"}]"#), refers, "{path}");
        assert_eq!(found(path, r#""input":"gs://b/o is a place""#), nothing, "{path}");
    }
    for path in ["chat", "embeddings"] {
        assert_eq!(found(path, r#""prompt":{"file_id":"f"}"#), refers, "{path}");
        assert_eq!(found(path, r#""prompt":"gs://b/o","suffix":"gs://b/o""#), nothing, "{path}");
    }
    assert_eq!(found("chat", r#""prediction":{"type":"content","content":"gs://b/o"}"#), nothing);
    assert_eq!(found("chat", r#""prediction":{"content":[{"type":"x","file_id":"f"}]}"#), refers);
    // A list of fallbacks is never sent to a provider.
    assert_eq!(found("embeddings", r#""models":[]"#), (Some(Rule::Fallback), false, String::new()));
}

#[test]
fn long_names_are_shown_shortened() {
    for (written, shown) in [
        (format!("s{}tore", "_".repeat(1000)), "store".to_owned()),
        (format!("litellm_{}", "x".repeat(1000)), format!("litellm_{}…", "x".repeat(56))),
    ] {
        assert_eq!(
            found(&format!(r#""{written}":true"#)).first().map(|(name, _)| name.as_str()),
            Some(&*shown)
        );
        let body =
            format!(r#"{{"model":"a","messages":[{{"role":"user","content":"x"}}],"{written}":true}}"#);
        let guarded = parse_chat(body.into(), &RequestLimits::default()).unwrap().guarded;
        assert_eq!(AllowedMembers::default().withheld(&guarded), [written]);
    }
}

#[test]
fn allowed_members_are_not_withheld() {
    let members = r#""apiBase":"x","metadata":{"tags":["x"]},"models":["y"]"#;
    let body = format!(r#"{{"model":"a/b","messages":[{{"role":"user","content":"x"}}],{members}}}"#);
    let asked = parse_chat(body.into(), &RequestLimits::default()).unwrap().guarded;
    assert_eq!(AllowedMembers::default().withheld(&asked), ["apiBase", "metadata", "models"]);
    assert_eq!(AllowedMembers::new(["api_base", "metadata"]).withheld(&asked), ["models"]);
}
