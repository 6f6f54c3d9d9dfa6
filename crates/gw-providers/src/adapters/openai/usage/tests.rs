//! Usage of OpenAI's answers, read from texts.

use gw_wire::usage::{MAX_BELIEVABLE, Usage};
use serde_json::value::RawValue;

use super::RawText;

fn read(json: &str) -> Option<Usage> {
    super::read(RawText(RawValue::from_string(json.to_owned()).unwrap().get()))
}

fn counts(json: &str) -> (u64, u64, bool) {
    let usage = read(json).unwrap();
    (usage.prompt, usage.completion, usage.estimated)
}

#[test]
fn reads_every_known_spelling() {
    let openai = r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,
        "prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":2,"audio_tokens":0},
        "completion_tokens_details":{"reasoning_tokens":3,"audio_tokens":1,"accepted_prediction_tokens":2,"rejected_prediction_tokens":0}}"#;
    let full = Usage {
        prompt: 10,
        completion: 5,
        cached: Some(4),
        cache_write: Some(2),
        cache_write_1h: None,
        reasoning: Some(3),
        audio_prompt: Some(0),
        audio_completion: Some(1),
        image_completion: None,
        accepted_prediction: Some(2),
        rejected_prediction: Some(0),
        estimated: false,
        ..Usage::default()
    };
    assert_eq!(read(openai), Some(full));
    let deepseek = r#"{"prompt_tokens":10,"completion_tokens":5,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":6}"#;
    assert_eq!(read(deepseek).and_then(|usage| usage.cached), Some(4));
    assert_eq!(counts(r#"{"input_tokens":1,"output_tokens":2}"#), (1, 2, false));
    for (json, is_total) in
        [(r#"{"total_tokens":7}"#, true), (r#"{"prompt_tokens":7,"total_tokens":7}"#, false)]
    {
        assert_eq!((counts(json), read(json).unwrap().is_total), ((7, 0, false), is_total));
    }
    let apart = r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":35,"completion_tokens_details":{"reasoning_tokens":20}}"#;
    assert_eq!(counts(apart), (10, 25, false));
}

#[test]
fn cache_writes_of_alibaba_are_in_the_details_of_the_prompt() {
    for tokens in ["100", "\"100\""] {
        let usage = read(&format!(
            r#"{{"prompt_tokens":{tokens},"completion_tokens":5,"prompt_tokens_details":{{"cached_tokens":10,
                "cache_creation_input_tokens":50,"cache_creation":{{"ephemeral_5m_input_tokens":30,
                "ephemeral_1h_input_tokens":20}},"cache_type":"ephemeral"}}}}"#
        ))
        .unwrap();
        let cache = (usage.cached, usage.cache_write, usage.cache_write_1h);
        assert_eq!((usage.prompt, cache), (100, (Some(10), Some(50), Some(20))), "{tokens}");
    }
}

#[test]
fn u24_impossible_numbers_are_clamped_and_flagged() {
    for (number, read) in [
        ("-5", 0),
        ("9223372036854775808", MAX_BELIEVABLE),
        ("18446744073709551616", MAX_BELIEVABLE),
        ("1e300", MAX_BELIEVABLE),
        ("\"12\"", 12),
        ("\"-3\"", 0),
        ("7.5", 7),
    ] {
        assert_eq!(
            counts(&format!(r#"{{"prompt_tokens":{number},"completion_tokens":2}}"#)),
            (read, 2, true)
        );
    }
    for number in ["\"NaN\"", "true", "[]", "{}", "\"x\""] {
        assert_eq!(counts(&format!(r#"{{"prompt_tokens":{number},"completion_tokens":2}}"#)), (0, 2, true));
    }
    assert_eq!(counts(r#"{"completion_tokens":2}"#), (0, 2, true));
    assert_eq!(counts(r#"{"prompt_tokens":1,"prompt_tokens":3,"completion_tokens":2}"#), (3, 2, false));
}

#[test]
fn hosted_tools_are_counted_as_perplexity_and_xai_report_them() {
    let hosted = |json: &str| {
        let calls = read(json).unwrap().hosted;
        (
            calls.web_search,
            calls.file_search,
            calls.code_runs,
            calls.search_low,
            calls.search_medium,
            calls.search_high,
        )
    };
    for tokens in ["5", "\"5\""] {
        let with =
            |more: &str| hosted(&format!(r#"{{"prompt_tokens":{tokens},"completion_tokens":2{more}}}"#));
        assert_eq!(with(""), (0, 0, 0, 0, 0, 0));
        assert_eq!(with(r#","search_context_size":"low","num_search_queries":null"#), (0, 0, 0, 1, 0, 0));
        assert_eq!(with(r#","search_context_size":"medium""#), (0, 0, 0, 0, 1, 0));
        assert_eq!(with(r#","search_context_size":"high","num_search_queries":7"#), (7, 0, 0, 0, 0, 1));
        assert_eq!(with(r#","search_context_size":null,"num_search_queries":-7"#), (0, 0, 0, 0, 0, 0));
        let xai = r#","num_sources_used":4,"server_side_tool_usage_details":{"web_search_calls":2,"x_search_calls":3,
            "code_interpreter_calls":4,"file_search_calls":5,"mcp_calls":6,"document_search_calls":0}"#;
        assert_eq!(with(xai), (5, 5, 4, 0, 0, 0));
    }
}

#[test]
fn calls_of_tools_that_no_table_knows_have_no_known_price() {
    for tokens in ["5", "\"5\""] {
        for (counter, has_unpriced) in [
            (r#""web_search_calls":2,"mcp_calls":6,"document_search_calls":0"#, false),
            (r#""document_search_calls":8"#, true),
            (r#""next_month_calls":1"#, true),
            (r#""next_month_calls":null"#, false),
        ] {
            let json = format!(
                r#"{{"prompt_tokens":{tokens},"completion_tokens":2,"server_side_tool_usage_details":{{{counter}}}}}"#
            );
            assert_eq!(read(&json).unwrap().has_unpriced, has_unpriced, "{json}");
        }
    }
}

#[test]
fn u24_parts_never_exceed_their_whole() {
    let usage =
        read(r#"{"prompt_tokens":3,"completion_tokens":2,"cached_tokens":50,"reasoning_tokens":9}"#).unwrap();
    assert_eq!((usage.cached, usage.reasoning, usage.estimated), (Some(3), Some(2), true));
    for nothing in ["{}", "[]", "null", "5", "{\"prompt_tokens\":null}", "{\"prompt_tokens\":1e999}"] {
        assert_eq!(read(nothing), None, "{nothing}");
    }
}

#[test]
fn a_stated_cost_is_read_exactly_and_never_spoils_the_counts() {
    let amount = |more: &str| {
        let usage = read(&format!(r#"{{"prompt_tokens":1,"completion_tokens":2{more}}}"#)).unwrap();
        assert_eq!((usage.prompt, usage.completion), (1, 2), "{more}");
        usage.stated_cost.map(|cost| cost.amount().to_string())
    };
    for (more, expected) in [
        (r#","cost":0.1"#, Some("0.1")),
        (r#","cost_in_usd_ticks":37756000"#, Some("0.0037756")),
        (r#","cost":null,"cost_in_usd_ticks":5"#, Some("0.0000000005")),
        // Unusual usage goes through the other reader.
        (r#","reasoning_tokens":"0","cost":0.1"#, Some("0.1")),
        (r#","cost":"0.1""#, None),
        (r#","cost":-0.1"#, None),
        ("", None),
    ] {
        assert_eq!(amount(more).as_deref(), expected, "{more}");
    }
}
