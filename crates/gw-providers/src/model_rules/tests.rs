//! The shipped tables are free of faults, and every name finds its row.

use super::*;
use crate::settings::Api;

fn of(api: Api, name: &str) -> ModelRules {
    ModelRules::of(api.rules, name, "p/m")
}

#[test]
fn all_tables_are_read_without_a_fault() {
    let shipped = Tables::shipped();
    assert_eq!(shipped.problems, Vec::<String>::new());
    assert_eq!(shipped.tables.len(), FILES.len());
    for row in tables().iter().flat_map(|table| table.rows.iter().chain(&table.otherwise)) {
        assert!(row.as_of.starts_with("20") && row.source.contains('.'), "{}", row.name);
    }
}

#[test]
fn a_dated_prefixed_or_cloud_name_finds_its_row() {
    for (api, name, row) in [
        (Api::ANTHROPIC, "claude-3-5-sonnet-20241022", "claude-3-5"),
        (Api::ANTHROPIC, "claude-3-5-haiku-latest", "claude-3-5"),
        (Api::ANTHROPIC, "claude-3-opus-20240229", "claude-3-5"),
        (Api::ANTHROPIC, "claude-2.1", "claude-3-5"),
        (Api::ANTHROPIC, "claude-instant-1.2", "claude-3-5"),
        (Api::ANTHROPIC, "claude-3-7-sonnet-20250219", "claude-4-0"),
        (Api::ANTHROPIC, "claude-sonnet-4-20250514", "claude-4-0"),
        (Api::ANTHROPIC, "claude-opus-4-1-20250805", "claude-opus-4-1"),
        (Api::ANTHROPIC, "claude-opus-4-5@20251101", "claude-4-5"),
        (Api::ANTHROPIC, "anthropic/claude-haiku-4.5", "claude-4-5"),
        (Api::ANTHROPIC, "claude-sonnet-4-5[1m]", "claude-4-5"),
        (Api::ANTHROPIC, "CLAUDE-OPUS-5-5", "claude-opus-5-5"),
        (Api::ANTHROPIC, "claude-mythos-preview", "claude-fable-5-1"),
        (Api::ANTHROPIC, "glm-4.6", "anthropic-api"),
        (Api::ANTHROPIC, "claude-test", "anthropic-api"),
        (Api::BEDROCK, "us.anthropic.claude-sonnet-4-6-v1:0", "claude-4-6"),
        (Api::BEDROCK, "anthropic.claude-3-5-sonnet-20241022-v2:0", "claude-3-5"),
        (Api::BEDROCK, "anthropic.claude-v2:1", "claude-3-5"),
        (Api::BEDROCK, "us.amazon.nova-2-lite-v1:0", "nova-2"),
        (Api::BEDROCK, "amazon.nova-pro-v1:0", "nova-1"),
        (Api::BEDROCK, "meta.llama3-3-70b-instruct-v1:0", "llama"),
        (Api::BEDROCK, "us.deepseek.r1-v1:0", "deepseek"),
        (Api::BEDROCK, "cohere.command-r-v1:0", "cohere-on-bedrock"),
        (Api::BEDROCK, "arn:aws:bedrock:eu-west-1:1:application-inference-profile/abc", "bedrock-api"),
        (Api::GEMINI, "models/gemini-2.5-flash-lite", "gemini-2.5-flash"),
        (Api::VERTEX, "publishers/google/models/gemini-3.5-flash", "gemini-3.6-flash"),
        (Api::VERTEX, "claude-opus-4-5@20251101", "claude-4-5"),
        (Api::VERTEX, "anthropic/claude-sonnet-5-5", "claude-sonnet-5-5"),
        (Api::VERTEX, "publishers/anthropic/models/claude-3-5-haiku@20241022", "claude-3-5"),
        (Api::VERTEX, "projects/p/locations/eu/publishers/anthropic/models/new", "anthropic-api"),
        (Api::VERTEX, "projects/opus/locations/eu/endpoints/1", "google-api"),
        (Api::VERTEX, "publishers/google/models/haiku-writer", "google-api"),
        (Api::VERTEX, "endpoints/1", "google-api"),
        (Api::GEMINI, "gemini-3-pro-preview", "gemini-3-pro"),
        (Api::GEMINI, "gemini-2.0-flash-001", "gemini-2.0"),
        (Api::GEMINI, "gemini-flash-latest", "gemini-3.8-flash"),
        (Api::GEMINI, "gemma-3-27b-it", "gemma-3"),
        (Api::GEMINI, "tunedModels/mine", "google-api"),
        (Api::MISTRAL, "mistral-large-latest", "mistral-large-4"),
        (Api::MISTRAL, "mistral-large-2512", "mistral-plain"),
        (Api::MISTRAL, "ft:mine", "mistral-api"),
        (Api::MISTRAL, "codestral-2508", "codestral"),
        (Api::COHERE, "command-a-reasoning-08-2025", "command-a-reasoning"),
        (Api::COHERE, "command-r7b-12-2024", "command"),
        (Api::OLLAMA, "qwen3:8b", "thinking"),
        (Api::OLLAMA, "qwen3-coder:30b", "not-thinking"),
        (Api::OLLAMA, "mine", "ollama-api"),
        (Api::OPENAI, "gpt-5-mini-2025-08-07", "gpt-5"),
        (Api::AZURE, "openai/o3-mini", "o-series"),
        (Api::OPENAI, "gpt-oss-120b", "gpt-oss"),
        (Api::OPENAI, "olmo-2", "openai-api"),
        (Api::OPENAI, "", "openai-api"),
    ] {
        let rules = of(api, name);
        assert_eq!((rules.name.as_str(), rules.warning()), (row, None), "{name}");
    }
}

#[test]
fn a_model_that_no_row_names_gets_the_newest_of_its_family_and_a_warning() {
    for (api, name, row) in [
        (Api::ANTHROPIC, "claude-opus-6", "claude-opus-5-5"),
        (Api::ANTHROPIC, "claude-opus-12-3", "claude-opus-5-5"),
        (Api::ANTHROPIC, "claude-haiku-6", "claude-haiku-5-5"),
        (Api::BEDROCK, "eu.anthropic.claude-sonnet-5-6-v1:0", "claude-sonnet-5-5"),
        (Api::ANTHROPIC, "claude-song-7", "claude-opus-5-5"),
        (Api::GEMINI, "gemini-4-flash", "gemini-3.8-flash"),
        (Api::GEMINI, "gemini-4.5-flash-lite", "gemini-3.5-flash-lite"),
        (Api::VERTEX, "gemini-5-neon", "gemini-4-argon"),
        (Api::VERTEX, "claude-opus-7", "claude-opus-5-5"),
        (Api::MISTRAL, "mistral-small-2705", "mistral-small-4"),
        (Api::COHERE, "command-b-02-2027", "command-a-reasoning"),
        (Api::OPENAI, "gpt-7", "gpt-6"),
    ] {
        let rules = of(api, name);
        assert_eq!(rules.name, row, "{name}");
        assert_eq!(rules.warning().as_deref(), Some(format!("model_rules_assumed:{row}").as_str()), "{name}");
    }
}

#[test]
fn an_opaque_name_is_looked_up_by_its_catalogue_id() {
    let rules = ModelRules::of(Api::AZURE.rules, "deployment-7", "azure/gpt-5");
    assert_eq!(rules.name, "gpt-5");
    let profile = "arn:aws:bedrock:eu-west-1:1:application-inference-profile/abc";
    assert_eq!(ModelRules::of(Api::BEDROCK.rules, profile, "aws/claude-opus-5-5").name, "claude-opus-5-5");
}

#[test]
fn every_generation_of_claude_has_its_rules() {
    let claude = |name: &str| of(Api::BEDROCK, name);
    for name in ["claude-opus-5-5", "claude-sonnet-5-5", "claude-fable-5-1"] {
        assert_eq!(claude(name).forced_tools, ForcedTools::Refused, "{name}");
    }
    for name in ["claude-opus-5", "claude-haiku-5-5", "claude-fable-5", "claude-opus-4-8"] {
        assert_eq!(claude(name).forced_tools, ForcedTools::Named, "{name}");
    }
    assert_eq!(claude("claude-haiku-4-5").prefill, Prefill::WithoutThinking);
    assert_eq!(claude("claude-sonnet-4-6").prefill, Prefill::Refused);
    assert_eq!(claude("claude-sonnet-5-5").thinking_off, Off::BetweenTools);
}

#[test]
fn an_unsupported_effort_becomes_a_supported_one() {
    for (api, name, wanted, sent) in [
        (Api::ANTHROPIC, "claude-opus-4-6", Effort::Xhigh, Some(Effort::High)),
        (Api::ANTHROPIC, "claude-opus-4-6", Effort::Max, Some(Effort::Max)),
        (Api::ANTHROPIC, "claude-opus-4-7", Effort::Minimal, Some(Effort::Low)),
        (Api::GEMINI, "gemini-3-pro-preview", Effort::Medium, Some(Effort::High)),
        (Api::GEMINI, "gemini-4-argon", Effort::Xhigh, Some(Effort::High)),
        (Api::MISTRAL, "mistral-small-latest", Effort::Low, Some(Effort::High)),
        (Api::MISTRAL, "mistral-small-latest", Effort::Minimal, Some(Effort::None)),
        (Api::OLLAMA, "deepseek-v4-pro:0813-cloud", Effort::Max, Some(Effort::Max)),
        (Api::OLLAMA, "qwen3", Effort::High, None),
    ] {
        assert_eq!(of(api, name).effort(wanted), sent, "{name} {wanted:?}");
    }
}

#[test]
fn limits_come_from_the_row_of_the_model() {
    for (api, name, limits) in [
        (Api::VERTEX, "claude-opus-5-5", (Some(1_000_000), Some(128_000))),
        (Api::BEDROCK, "us.anthropic.claude-sonnet-4-5-20250929-v1:0", (None, Some(64_000))),
        (Api::VERTEX, "gemini-4-argon", (Some(1_048_576), Some(1_048_576))),
        (Api::BEDROCK, "us.anthropic.claude-opus-7", (None, None)),
        (Api::ANTHROPIC, "claude-sonnet-4-20250514", (None, None)),
        (Api::OPENAI, "mine", (None, None)),
    ] {
        let rules = of(api, name);
        assert_eq!((rules.context_tokens(), rules.max_output_tokens()), limits, "{name}");
    }
}

#[test]
fn a_faulty_table_is_refused_with_its_reason() {
    let table = |rows: &str| Table::parse(&format!("vendor = 'x'\n{rows}")).unwrap_err().to_string();
    let row = "[[rows]]\nname = 'a'\nnames = ['a']\n";
    let sourced = format!("{row}source = 'x.y'\nas_of = '2026-11-22'\n");
    assert!(table(row).contains("source and as_of"));
    assert!(table(&format!("{sourced}thoughts = 'never'")).contains("thoughts"));
    assert!(table(&format!("{sourced}thinks = 'never'\nefforts = ['low']")).contains("does not think"));
    assert!(table(&format!("{sourced}thinks = 'always'\nefforts = ['high', 'low']")).contains("ascending"));
    assert!(table(&format!("{sourced}context_tokens = 8")).contains("limits_source"));
    assert!(table(&format!("newest = 'b'\n{sourced}")).contains("is not a row"));
    assert!(table(&format!("{sourced}{sourced}")).contains("two rows"));
}

#[test]
fn declared_reasoning_counts_for_a_model_that_no_row_names() {
    for (api, name, counts) in [
        (Api::OLLAMA, "my-own", true),
        (Api::OLLAMA, "gpt-oss", false),
        (Api::COHERE, "my-own", true),
        (Api::COHERE, "command-r", false),
    ] {
        assert!(!of(api, name).with_declared_reasoning(false).is_declared_to_reason(), "{name}");
        assert_eq!(of(api, name).with_declared_reasoning(true).is_declared_to_reason(), counts, "{name}");
    }
}
