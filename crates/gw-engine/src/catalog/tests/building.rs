//! Building: shipped facts, overrides, discovery, faults, and what the engine may ask of a model.

use gw_providers::adapter::ListedModel;

use super::*;

#[test]
fn the_shipped_catalogue_is_sound() {
    let names: Vec<&str> = [
        "openai",
        "google",
        "anthropic",
        "mistral",
        "xai",
        "zai",
        "amazon",
        "alibaba",
        "cohere",
        "moonshotai",
        "groq",
        "cerebras",
        "meta",
        "voyage",
        "deepseek",
        "minimax",
        "together",
        "perplexity",
    ]
    .into();
    let providers: Vec<_> = names.iter().map(|name| provider(name)).collect();
    let catalog = Catalog::build(&[SHIPPED], &[], &BTreeMap::new(), &providers, &[]).unwrap();
    assert_eq!(catalog.models().len(), 112);
    for model in catalog.models() {
        assert!(
            model.cost(&Usage { prompt: 1, completion: 1, ..Usage::default() }).is_some(),
            "{}",
            model.id
        );
        assert!(model.is_chat() != model.is_embedding(), "{}", model.id);
        assert_eq!(model.supports("streaming"), model.is_chat(), "{}", model.id);
        let full = read(catalog.retrieve(&model.id, None));
        assert_eq!(full["id"], *model.id);
        assert!(full["sources"]["pricing"]["source"].is_string(), "{}", model.id);
    }
    let none = Catalog::build(&[SHIPPED], &[], &BTreeMap::new(), &[provider("demo")], &[]).unwrap();
    assert!(none.models().is_empty());
}

#[test]
fn the_demo_stands_beside_the_shipped_catalogue() {
    let texts = [SHIPPED, gw_providers::demo::demo_catalogue()];
    let catalog = Catalog::build(&texts, &[], &BTreeMap::new(), &[provider("demo")], &[]).unwrap();
    let chat = catalog.get("demo/chat").unwrap();
    assert!(chat.is_chat() && chat.supports("streaming") && chat.supports("json_schema"));
    assert!(chat.price_sum().is_some());
    let embed = catalog.get("demo/embed").unwrap();
    assert!(embed.is_embedding_only() && embed.check_dimensions(1).is_ok());
}

/// A list whose models have contexts as long as their names.
fn listed(names: &[&str]) -> Vec<ListedModel> {
    let model = |name: &&str| ListedModel {
        name: (*name).to_owned(),
        context_length: Some(name.len() as u64),
        ..ListedModel::default()
    };
    names.iter().map(model).collect()
}

#[test]
fn shipped_first_then_added_then_discovered() {
    let discovered = vec![
        (
            "beta".to_owned(),
            listed(&["new:7b", "fast", "/models/b.gguf", "", " ", "nul\0", "org/x", "alias"]),
        ),
        ("acme".to_owned(), listed(&["fast-2026-01", &"x".repeat(300), "z"])),
        ("nobody".to_owned(), listed(&["z"])),
    ];
    let models = [entry("beta/mine"), entry("acme/fast"), entry("other/y"), entry("acme/own")];
    let providers = [provider("acme"), provider("beta")];
    let aliases = aliases(&[("beta/alias", "acme/z")]);
    let catalog = Catalog::build(&[SMALL], &models, &aliases, &providers, &discovered).unwrap();
    assert_eq!(
        ids(&catalog),
        [
            "acme/fast",
            "acme/embed",
            "beta/fast",
            "beta/lab/deep:1",
            "beta/mine",
            "acme/own",
            "acme/z",
            "beta/new:7b",
            "beta//models/b.gguf",
            "beta/org/x"
        ]
    );
    assert_eq!(catalog.unlisted(), ["other/y"]);
    assert_eq!(&*catalog.get("beta/org/x").unwrap().upstream_model, "org/x");
    let path = catalog.get("beta//models/b.gguf").unwrap();
    assert_eq!((&*path.upstream_model, path.context_length), ("/models/b.gguf", Some(14)));
    assert!(path.is_called("/models/b.gguf") && !path.is_called("models/b.gguf"));
    // A member of the entry counts; the provider's list fills in the members that the entry does not have.
    assert_eq!(catalog.get("acme/fast").unwrap().context_length, Some(128_000));
    assert_eq!(&*catalog.resolve("beta/alias").unwrap().models[0].id, "acme/z");
}

#[test]
fn every_fault_is_told_at_once() {
    let mut dear = entry("acme/fast");
    dear.pricing.currency = Some("dollars".into());
    dear.availability = Some(101.0);
    dear.latency_p50_ms = Some(f64::NAN);
    let models = [entry("bare"), entry("acme/"), entry("/x"), entry("acme/e\n"), dear, entry("acme/fast")];
    let names =
        [("acme/embed", "acme/fast"), ("lost", "acme/nothing"), ("", "acme/fast"), ("a", "b"), ("b", "a")];
    let problems = build(&models, &names).unwrap_err();
    for part in [
        "'bare': an id has the form",
        "'acme/': an id has a provider before its first slash",
        "'/x': an id has a provider before its first slash",
        "an id has no control characters",
        "'acme/fast' is there twice",
        "currency",
        "availability",
        "latency",
        "alias 'acme/embed' hides",
        "alias 'lost' stands for 'acme/nothing'",
        "alias \"\" is not a name",
        "alias 'a' stands for 'b'",
        "alias 'b' stands for 'a'",
    ] {
        assert!(problems.iter().any(|problem| problem.contains(part)), "{part} in {problems:#?}");
    }
    assert_eq!(problems.len(), 13, "{problems:#?}");
    let twice = r#"[{"id":"acme/a"},{"id":"acme/a"},{"id":"acme/b","pricing":{"official_input_per_m":-1}}]"#;
    let broken = Catalog::build(&[twice, "[{"], &[], &BTreeMap::new(), &[provider("acme")], &[]).unwrap_err();
    assert_eq!(broken.len(), 3, "{broken:#?}");
}

#[test]
fn a_model_whose_name_is_in_urls_leads_to_no_other_path() {
    let build = |api: Api, upstream: &str| {
        let model = ModelSettings { upstream_model: Some(upstream.into()), ..entry("acme/m") };
        let facts = ProviderFacts { api, ..provider("acme") };
        let listed = [("acme".to_owned(), listed(&[upstream]))];
        let built = Catalog::build(&[], &[model], &BTreeMap::new(), &[facts], &[]);
        let discovered = Catalog::build(&[], &[], &BTreeMap::new(), &[facts], &listed).unwrap();
        (built.is_ok(), discovered.get(&format!("acme/{upstream}")).is_some())
    };
    for upstream in ["../../evil", "..", "models/../x", "models/.", "a/./b"] {
        for api in Api::ALL {
            let is_in_urls = ["azure", "gemini", "vertex", "bedrock"].contains(&api.name);
            assert_eq!(build(api, upstream), (!is_in_urls, !is_in_urls), "{upstream} at {}", api.as_str());
        }
    }
    for upstream in ["a..b", "models/x.y", "...", "anthropic.claude-v1:0"] {
        assert_eq!(build(Api::GEMINI, upstream), (true, true), "{upstream}");
    }
}

#[test]
fn overrides_go_field_by_field() {
    let mut set = entry("acme/fast");
    set.name = Some("Ours".into());
    set.modalities_input = Some(vec!["text".into()]);
    set.quality_scores = [None, Some(1.0), None, None];
    set.latency_p50_ms = Some(400.0);
    set.pricing = PricingSettings {
        official_input_per_m: Some(Price::parse("1").unwrap()),
        gateway_output_per_m: Some(Price::parse("7").unwrap()),
        ..PricingSettings::default()
    };
    let dear = ProviderFacts { price_multiplier: Price::parse("1.5").unwrap(), ..provider("acme") };
    let catalog = Catalog::build(&[SMALL], &[set], &BTreeMap::new(), &[dear], &[]).unwrap();
    let full = read(catalog.retrieve("acme/fast", None));
    assert_eq!(full["name"], "Ours");
    assert_eq!(full["description"], "Quick answers.");
    assert_eq!(full["modalities"], json!({"input": ["text"], "output": ["text"]}));
    assert_eq!(full["quality_scores"], json!({"overall": 60.5, "code": 1, "math": 62, "reasoning": 55}));
    assert_eq!(
        full["performance"],
        json!({"availability": null, "latency_p50_ms": 400, "latency_p99_ms": null})
    );
    assert_eq!(
        full["pricing"],
        json!({
            "official_input_per_m": 1, "official_output_per_m": 0.6, "gateway_input_per_m": 1.5,
            "gateway_output_per_m": 7, "cached_input_per_m": 0.1125, "cache_write_per_m": 0.285, "currency": "USD",
            "tiers": [{
                "above_input_tokens": 1000, "official_input_per_m": 0.3, "official_output_per_m": 0.6,
                "gateway_input_per_m": 0.45, "gateway_output_per_m": 7, "cached_input_per_m": 0.1125,
                "cache_write_per_m": 0.285,
            }],
        })
    );
    assert_eq!(full["sources"], json!({"license": "the terms"}));
}

#[test]
fn capabilities_are_refused_only_on_knowledge() {
    let mut talker = entry("acme/talker");
    talker.category = Some(vec!["chat".into()]);
    let catalog = build(&[entry("acme/plain"), talker], &[]).unwrap();
    let model = |id: &str| Arc::clone(catalog.get(id).unwrap());
    let plain = model("acme/plain");
    assert!(plain.supports("vision") && plain.accepts_input("audio") && plain.gives_output("image"));
    assert!(plain.is_chat() && plain.is_embedding() && plain.check_dimensions(7).is_ok());
    let fast = model("acme/fast");
    assert!(fast.supports("vision") && !fast.supports("audio") && !fast.accepts_input("audio"));
    assert!(fast.is_chat() && !fast.is_embedding() && !fast.gives_output("audio"));
    let embed = model("acme/embed");
    assert!(embed.is_embedding_only() && embed.is_embedding() && !embed.is_chat());
    assert!(!model("acme/talker").is_embedding());
}

#[test]
fn vector_lengths_are_native_a_set_or_a_range() {
    let outcome = |choice: Option<Vec<u32>>, wanted| {
        let mut set = entry("acme/embed");
        set.embedding_dimensions = choice;
        let catalog = build(&[set], &[]).unwrap();
        catalog.get("acme/embed").unwrap().check_dimensions(wanted).map_err(|error| error.code().to_owned())
    };
    let outside = || Err("unsupported_value".to_owned());
    for (choice, wanted, expected) in [
        (None, 1536, Ok(())),
        (None, 256, Ok(())),
        (None, 1537, outside()),
        (Some(vec![256, 1536]), 300, Ok(())),
        (Some(vec![1536, 256]), 255, outside()),
        (Some(vec![512]), 512, Ok(())),
        (Some(vec![512]), 256, outside()),
        (Some(vec![256, 512, 1024]), 1024, Ok(())),
        (Some(vec![256, 512, 1024]), 300, outside()),
        (Some(vec![]), 512, Err("unsupported_parameter".to_owned())),
    ] {
        assert_eq!(outcome(choice.clone(), wanted), expected, "{choice:?} {wanted}");
    }
    let mut zero = entry("acme/embed");
    zero.embedding_dimensions = Some(vec![0, 5]);
    assert_eq!(build(&[zero], &[]).unwrap_err().len(), 1);
}

/// A client sees by the fingerprint that its model's configuration is another one.
#[test]
fn the_revision_of_a_model_changes_with_its_entry_alone() {
    let revisions = |models: &[ModelSettings]| {
        let catalog = build(models, &[]).unwrap();
        let of = |id: &str| catalog.models().iter().find(|model| &*model.id == id).unwrap().revision;
        ["acme/fast", "acme/other"].map(of)
    };
    let settings = |context_length| ModelSettings { context_length, ..entry("acme/fast") };
    let [first, other] = revisions(&[settings(Some(1_000)), entry("acme/other")]);
    assert_ne!(first, other);
    assert_eq!(revisions(&[settings(Some(1_000)), entry("acme/other")]), [first, other]);
    let changed = revisions(&[settings(Some(2_000)), entry("acme/other")]);
    assert_ne!(changed[0], first);
    assert_eq!(changed[1], other);
}
