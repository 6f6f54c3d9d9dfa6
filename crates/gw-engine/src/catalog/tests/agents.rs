//! The lists that coding agents read: aliases, the names for Claude Code, Anthropic's shape, and the models of Codex.

use super::*;

/// The small catalogue with aliases; those with a `!` have a name for Claude Code.
fn with_aliases(names: &[(&str, &str)]) -> std::result::Result<Catalog, Vec<String>> {
    let mut all = aliases(
        &names.iter().map(|(name, targets)| (name.trim_end_matches('!'), *targets)).collect::<Vec<_>>(),
    );
    for (name, _) in names {
        if let Some(name) = name.strip_suffix('!') {
            all.get_mut(name).unwrap().has_claude_name = true;
        }
    }
    Catalog::build(&[SMALL], &[], &all, &[provider("acme"), provider("beta")], &[]).map_err(messages)
}

fn names(body: Result<Bytes>) -> Vec<String> {
    let entries = read(body)["data"].as_array().unwrap().clone();
    entries.iter().map(|entry| entry["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_list_ends_with_the_aliases_and_their_targets() {
    let catalog = with_aliases(&[("team/chat!", "beta/fast acme/fast"), ("gpt", "acme/fast")]).unwrap();
    assert_eq!(
        listed(&catalog, ""),
        ["acme/fast", "acme/embed", "beta/fast", "beta/lab/deep:1", "gpt", "team/chat"]
    );
    let page = read(catalog.list("", None));
    let alias = &page["data"][5];
    assert_eq!((&alias["id"], &alias["object"]), (&json!("team/chat"), &json!("model")));
    assert_eq!(alias["targets"], json!(["beta/fast", "acme/fast"]));
    assert_eq!((&alias["provider"], &alias["context_length"]), (&json!("beta"), &json!(200_000)));
    assert_eq!(page["total"], 6);
    assert!(page["data"][0].get("targets").is_none());
}

#[test]
fn aliases_are_paged_filtered_and_hidden_like_models() {
    let catalog = with_aliases(&[("team/chat", "beta/fast acme/fast"), ("vectors", "acme/embed")]).unwrap();
    assert_eq!(listed(&catalog, "limit=2&after=beta/fast"), ["beta/lab/deep:1", "team/chat"]);
    assert_eq!(listed(&catalog, "after=team/chat"), ["vectors"]);
    assert_eq!(listed(&catalog, "provider=beta"), ["beta/fast", "beta/lab/deep:1", "team/chat"]);
    assert_eq!(listed(&catalog, "search=TEAM"), ["team/chat"]);
    let only_fast = |model: &Model| &*model.id == "acme/fast";
    assert_eq!(names(catalog.list("", Some(&only_fast))), ["acme/fast", "team/chat"]);
    let page = read(catalog.list("", Some(&only_fast)));
    assert_eq!(
        page["data"][1]["targets"],
        json!(["acme/fast"]),
        "the other target stays unknown to this key"
    );
}

#[test]
fn measured_figures_replace_those_of_an_alias_too() {
    let catalog = with_aliases(&[("gpt", "acme/fast")]).unwrap();
    catalog
        .get("acme/fast")
        .unwrap()
        .measured
        .record_success(std::time::Duration::from_millis(7), std::time::Instant::now());
    let page = read(catalog.list("", None));
    assert_eq!(page["data"][4]["performance"]["latency_p50_ms"], 7);
    assert_eq!((&page["data"][4]["id"], &page["data"][4]["targets"]), (&json!("gpt"), &json!(["acme/fast"])));
}

#[test]
fn an_alias_for_agents_has_a_second_name_that_resolves() {
    let catalog =
        with_aliases(&[("local/qwen!", "beta/fast"), ("my-Claude!", "acme/fast"), ("gpt", "acme/fast")])
            .unwrap();
    let resolved = |name: &str| catalog.resolve(name).map(|found| found.models[0].id.to_string());
    assert_eq!(resolved("claude-local-qwen").as_deref(), Some("beta/fast"));
    assert_eq!(resolved("claude-local-qwen:floor").as_deref(), Some("beta/fast"));
    assert_eq!(resolved("claude-my-Claude"), None, "Claude Code keeps this alias as it is");
    assert_eq!(resolved("claude-gpt"), None);
    assert!(catalog.get("beta/fast").unwrap().is_called("claude-local-qwen"));
    assert_eq!(
        names(catalog.list_for_messages("", None)),
        ["claude-local-qwen", "gpt", "local/qwen", "my-Claude", "acme/fast", "beta/fast", "beta/lab/deep:1"]
    );
    assert!(!listed(&catalog, "").contains(&"claude-local-qwen".to_owned()));
}

#[test]
fn two_aliases_cannot_have_one_name_for_claude_code() {
    let problem =
        |first: &str, second: &str| with_aliases(&[(first, "acme/fast"), (second, "beta/fast")]).unwrap_err();
    assert_eq!(
        problem("a/b!", "a-b!"),
        ["alias 'a/b': Claude Code would list it as 'claude-a-b', which is another alias"]
    );
    assert_eq!(
        problem("x!", "claude-x"),
        ["alias 'x': Claude Code would list it as 'claude-x', which is another alias"]
    );
}

#[test]
fn anthropics_list_has_its_own_pages() {
    let catalog = with_aliases(&[("gpt", "acme/fast")]).unwrap();
    let all = ["gpt", "acme/fast", "beta/fast", "beta/lab/deep:1"];
    let page = |query: &str| {
        let page = read(catalog.list_for_messages(query, None));
        (names(catalog.list_for_messages(query, None)), page["has_more"].as_bool().unwrap())
    };
    for (query, expected, has_more) in [
        ("", &all[..], false),
        ("limit=1000&beta=true", &all[..], false),
        ("limit=3", &all[..3], true),
        ("limit=2&after_id=gpt", &all[1..3], true),
        ("after_id=beta/fast", &all[3..], false),
        ("after_id=beta/lab/deep:1", &[], false),
        ("limit=2&before_id=beta/lab/deep:1", &all[1..3], true),
        ("before_id=acme/fast", &all[..1], false),
        ("before_id=gpt", &[], false),
    ] {
        assert_eq!(
            page(query),
            (expected.iter().map(|name| (*name).to_owned()).collect(), has_more),
            "{query}"
        );
    }
    let entry = &read(catalog.list_for_messages("after_id=gpt&limit=1", None));
    assert_eq!(
        entry["data"][0],
        json!({ "type": "model", "id": "acme/fast", "display_name": "Acme Fast", "created_at": "2026-01-02T00:00:00Z",
            "lifecycle": "active", "max_input_tokens": 128_000, "max_tokens": 16384 })
    );
    assert_eq!((&entry["first_id"], &entry["last_id"]), (&json!("acme/fast"), &json!("acme/fast")));
    for (query, code) in [
        ("limit=0", "integer_below_min_value"),
        ("limit=1001", "integer_above_max_value"),
        ("limit=x", "invalid_type"),
        ("after_id=none", "invalid_value"),
        ("before_id=acme/embed", "invalid_value"),
        ("after_id=gpt&before_id=gpt", "invalid_value"),
    ] {
        assert_eq!(refusal(catalog.list_for_messages(query, None)), (400, code.to_owned()), "{query}");
    }
}

#[test]
fn anthropics_list_shows_a_key_its_own_models() {
    let catalog = with_aliases(&[("a!", "beta/fast"), ("b!", "acme/fast")]).unwrap();
    let only_fast = |model: &Model| &*model.id == "acme/fast";
    assert_eq!(names(catalog.list_for_messages("", Some(&only_fast))), ["claude-b", "b", "acme/fast"]);
    assert_eq!(refusal(catalog.retrieve_for_messages("claude-a", Some(&only_fast))).0, 404);
}

#[test]
fn one_model_in_anthropics_shape_has_the_name_of_the_request() {
    let catalog = with_aliases(&[("gpt!", "acme/fast")]).unwrap();
    for (name, display_name) in [("acme/fast", "Acme Fast"), ("gpt", "gpt"), ("claude-gpt", "gpt")] {
        let model = read(catalog.retrieve_for_messages(name, None));
        assert_eq!((&model["id"], &model["display_name"]), (&json!(name), &json!(display_name)));
        assert_eq!((&model["type"], &model["max_tokens"]), (&json!("model"), &json!(16384)));
    }
    assert_eq!(refusal(catalog.retrieve_for_messages("none", None)), (404, "model_not_found".to_owned()));
}

/// The members that Codex needs in every entry: without one of them it refuses the whole list.
const CODEX_MEMBERS: [&str; 13] = [
    "slug",
    "display_name",
    "supported_reasoning_levels",
    "shell_type",
    "visibility",
    "supported_in_api",
    "priority",
    "base_instructions",
    "supports_reasoning_summaries",
    "support_verbosity",
    "truncation_policy",
    "supports_parallel_tool_calls",
    "experimental_supported_tools",
];

#[test]
fn codex_finds_its_own_list_only_when_it_asks() {
    let catalog = with_aliases(&[("gpt", "acme/fast")]).unwrap();
    assert!(read(catalog.list("limit=1", None)).get("models").is_none());
    let empty = read(catalog.list("client_version=0.160.0", None));
    assert_eq!(empty["models"], json!([]), "an entry would replace the prompt of Codex");
    assert_eq!(empty["data"].as_array().unwrap().len(), 5);
    let catalog = catalog.with_codex_instructions(Some("You write code.".into()));
    let models = read(catalog.list("client_version=0.160.0", None))["models"].as_array().unwrap().clone();
    let slugs: Vec<_> = models.iter().map(|model| model["slug"].as_str().unwrap()).collect();
    assert_eq!(slugs, ["acme/fast", "beta/lab/deep:1", "gpt"], "models without tools are of no use to Codex");
    for model in &models {
        let missing: Vec<_> =
            CODEX_MEMBERS.iter().filter(|name| model.get(**name).is_none_or(Value::is_null)).collect();
        assert!(missing.is_empty(), "{missing:?} in {model}");
    }
    let fast = &models[0];
    assert_eq!(
        (&fast["base_instructions"], &fast["context_window"]),
        (&json!("You write code."), &json!(128_000))
    );
    assert_eq!(fast["input_modalities"], json!(["text", "image"]));
    assert_eq!(fast["truncation_policy"], json!({ "mode": "bytes", "limit": 10_000 }));
    let priorities: Vec<_> = models.iter().map(|model| model["priority"].as_u64().unwrap()).collect();
    assert_eq!(priorities, [1000, 1001, 1002]);
}
