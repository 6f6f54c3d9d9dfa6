//! Recorded pages of the three reports.

use bytes::Bytes;
use gw_wire::money::Money;

use super::*;
use crate::bill::BilledTokens;

const RANGE: DayRange = DayRange { first: 20_392, last: 20_393 };

fn usd(text: &str) -> Money {
    Money::parse_rounded(text, 0).unwrap()
}

/// The pages have the form of OpenAI's reference; the second day is 2025-11-01.
#[test]
fn openais_line_items_name_models_tiers_and_tools() {
    let mut bill = Bill::default();
    let usage = br#"{"object":"page","data":[{"object":"bucket","start_time":1761955200,"end_time":1762041600,"results":[
        {"object":"organization.usage.completions.result","input_tokens":1000,"output_tokens":500,"input_cached_tokens":800,
         "input_audio_tokens":0,"output_audio_tokens":0,"num_model_requests":5,"model":"gpt-4o-2024-08-06","batch":false},
        {"object":"organization.usage.completions.result","input_tokens":10,"output_tokens":5,"input_cached_tokens":0,
         "num_model_requests":1,"model":"gpt-4o-2024-08-06","batch":true},
        {"object":"organization.usage.completions.result","input_tokens":7,"output_tokens":7,"num_model_requests":1,"model":"gpt-4o"}]}],
        "has_more":true,"next_page":"page_AAAA"}"#;
    let next = openai::add_usage(&mut bill, &Bytes::from_static(usage), RANGE).unwrap();
    assert_eq!(next.as_deref(), Some("page_AAAA"));
    let costs = br#"{"object":"page","data":[{"object":"bucket","start_time":1761955200,"end_time":1762041600,"results":[
        {"object":"organization.costs.result","amount":{"value":0.06,"currency":"usd"},"line_item":"gpt-4o-2024-08-06, input","project_id":null},
        {"object":"organization.costs.result","amount":{"value":"0.01","currency":"usd"},"line_item":"GPT-4o-2024-08-06, cached input"},
        {"object":"organization.costs.result","amount":{"value":0.002,"currency":"usd"},"line_item":"gpt-4o-2024-08-06, batch output"},
        {"object":"organization.costs.result","amount":{"value":0.03,"currency":"usd"},"line_item":"gpt-4o, output"},
        {"object":"organization.costs.result","amount":{"value":0.05,"currency":"usd"},"line_item":"web search tool calls"},
        {"object":"organization.costs.result","amount":{"value":1,"currency":"usd"},"line_item":"gpt-4o-audio-preview, audio input"},
        {"object":"organization.costs.result","amount":{"value":2,"currency":"usd"},"line_item":"text-embedding-3-small"},
        {"object":"organization.costs.result","amount":{"value":7,"currency":"eur"},"line_item":"o3, input"}]},
        {"object":"bucket","start_time":1700000000,"results":[]}],"has_more":false,"next_page":null}"#;
    assert_eq!(openai::add_costs(&mut bill, &Bytes::from_static(costs), RANGE).unwrap(), None);
    let day = 20_393;
    let dated = bill.entry(day, Some("gpt-4o-2024-08-06")).clone();
    assert_eq!(
        (dated.token_cost, dated.tier_cost, dated.tool_cost),
        (usd("0.07"), Some(usd("0.002")), Money::ZERO)
    );
    let tokens = BilledTokens { uncached: 200, cached: 800, completion: 500, ..BilledTokens::default() };
    assert_eq!((dated.tokens, dated.tier_tokens.total(), dated.requests), (Some(tokens), 15, Some(6)));
    assert_eq!(bill.entry(day, Some("gpt-4o")).token_cost, usd("0.03"));
    // A longer name is another model.
    assert_eq!(bill.entry(day, Some("gpt-4o-audio-preview")).token_cost, usd("1"));
    assert_eq!(bill.entry(day, Some("text-embedding-3-small")).token_cost, usd("2"));
    assert_eq!(bill.entry(day, None).tool_cost, usd("0.05"));
    assert_eq!(bill.entry(day, Some("o3")).foreign, ["7 EUR"]);
}

#[test]
fn anthropics_amounts_are_cents() {
    let mut bill = Bill::default();
    let usage = br#"{"data":[{"starting_at":"2025-11-01T00:00:00Z","ending_at":"2025-11-02T00:00:00Z","results":[
        {"uncached_input_tokens":1500,"cache_creation":{"ephemeral_1h_input_tokens":1000,"ephemeral_5m_input_tokens":500},
         "cache_read_input_tokens":200,"output_tokens":500,"server_tool_use":{"web_search_requests":10},"api_key_id":null,
         "workspace_id":null,"model":"claude-sonnet-4-5-20250929","service_tier":"standard","context_window":"0-200k"},
        {"uncached_input_tokens":15,"cache_creation":null,"output_tokens":5,"model":"claude-sonnet-4-5-20250929","service_tier":"batch"}]}],
        "has_more":false,"next_page":null}"#;
    anthropic::add_usage(&mut bill, &Bytes::from_static(usage), RANGE).unwrap();
    let costs = br#"{"data":[{"starting_at":"2025-11-01T00:00:00Z","ending_at":"2025-11-02T00:00:00Z","results":[
        {"currency":"USD","amount":"123.78912","workspace_id":null,"description":"Claude Sonnet 4.5 Usage - Input Tokens","cost_type":"tokens",
         "context_window":"0-200k","model":"claude-sonnet-4-5-20250929","service_tier":"standard","token_type":"uncached_input_tokens"},
        {"currency":"USD","amount":"1","cost_type":"tokens","model":"claude-sonnet-4-5-20250929","service_tier":"batch","token_type":"output_tokens"},
        {"currency":"USD","amount":"10","cost_type":"web_search","description":"Web Search","model":null}]}],"has_more":false}"#;
    anthropic::add_costs(&mut bill, &Bytes::from_static(costs), RANGE).unwrap();
    let entry = bill.entry(20_393, Some("claude-sonnet-4-5-20250929")).clone();
    assert_eq!((entry.token_cost, entry.tier_cost), (usd("1.2378912"), Some(usd("0.01"))));
    let tokens = BilledTokens { uncached: 1500, cached: 200, write_5m: 500, write_1h: 1000, completion: 500 };
    assert_eq!(
        (entry.tokens, entry.tier_tokens.total(), entry.tiers),
        (Some(tokens), 20, vec!["batch".to_owned(); 2])
    );
    let tools = bill.entry(20_393, None);
    assert_eq!((tools.tool_cost, tools.tools.clone()), (usd("0.1"), vec!["Web Search".to_owned()]));
}

#[test]
fn openrouters_rows_are_added_up() {
    let mut bill = Bill::default();
    let page = br#"{"data":[
        {"date":"2025-11-01","model":"openai/gpt-4.1","model_permaslug":"openai/gpt-4.1-2025-04-14","endpoint_id":"e","provider_name":"OpenAI",
         "usage":0.015,"byok_usage_inference":0.012,"requests":5,"prompt_tokens":50,"completion_tokens":125,"reasoning_tokens":25},
        {"date":"2025-11-01","model":"openai/gpt-4.1","provider_name":"Azure","usage":1e-3,"requests":1,"prompt_tokens":5,"completion_tokens":5},
        {"date":"2025-08-24","model":"openai/gpt-4.1","usage":9,"requests":1,"prompt_tokens":5,"completion_tokens":5}]}"#;
    openrouter::add_activity(&mut bill, &Bytes::from_static(page), RANGE).unwrap();
    let entry = bill.entry(20_393, Some("openai/gpt-4.1"));
    assert_eq!((entry.token_cost, entry.requests), (usd("0.016"), Some(6)));
    let tokens = entry.tokens.unwrap();
    assert_eq!((tokens.prompt(), tokens.completion, entry.is_cache_unknown), (55, 130, true));
}

#[test]
fn a_page_that_is_no_report_says_so() {
    let read = |page: &'static [u8]| {
        openrouter::add_activity(&mut Bill::default(), &Bytes::from_static(page), RANGE)
    };
    for (page, expected) in [
        (&b"<html>"[..], "/activity: the answer is not the report"),
        (br#"{"data":[{"date":"x","usage":1}]}"#, "/activity: 'x' is no date"),
        (br#"{"data":[{"date":"2025-11-01","usage":"much"}]}"#, "/activity: 'much' is no amount"),
    ] {
        let error = read(page).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}
