//! The catalogue as a whole: building, names, lists, entries, comparisons.

use std::collections::BTreeMap;

use gw_wire::money::Price;
use gw_wire::usage::Usage;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::error::Error;
use crate::settings::PricingSettings;

const SMALL: &str = r#"[
 {"id":"acme/fast","upstream_model":"fast-2026-01","name":"Acme Fast","description":"Quick answers.",
  "category":["chat","vision"],"context_length":128000,"max_output_tokens":16384,
  "modalities":{"input":["text","image"],"output":["text"]},"features":["streaming","function_calling","vision"],
  "license":"proprietary","license_source":"the terms","open_weights":false,"release_date":"2026-01-02",
  "pricing":{"official_input_per_m":0.15,"official_output_per_m":0.60,"cached_input_per_m":0.075,
   "cache_write_per_m":0.19,"tiers":[{"above_input_tokens":1000,"official_input_per_m":0.3}],"currency":"USD",
   "as_of":"2026-11-20","source":"price page"},
  "quality_scores":{"overall":60.5,"code":58.0,"math":62.0,"reasoning":55.0,"benchmark":"B","source":"a table"}},
 {"id":"acme/embed","category":["embedding"],"modalities":{"input":["text"],"output":["embedding"]},"features":[],
  "pricing":{"official_input_per_m":0.02,"official_output_per_m":0.0},"embedding_dimensions":1536},
 {"id":"beta/fast","name":"Beta Fast","category":["chat"],"context_length":200000,"features":["streaming"],
  "pricing":{"official_input_per_m":0.1,"official_output_per_m":0.2},"quality_scores":{"overall":60.5}},
 {"id":"beta/lab/deep:1","category":["chat","reasoning"],"quality_scores":{"overall":null,"code":99.0}},
 {"id":"gone/x","pricing":{"official_input_per_m":1}}
]"#;

fn provider(name: &str) -> ProviderFacts<'_> {
    ProviderFacts { name, price_multiplier: Price::from_nanos(1_000_000_000), discovers: false }
}

fn entry(id: &str) -> ModelSettings {
    ModelSettings { id: id.into(), ..ModelSettings::default() }
}

fn aliases(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(alias, target)| ((*alias).to_owned(), (*target).to_owned())).collect()
}

fn build(models: &[ModelSettings], names: &[(&str, &str)]) -> std::result::Result<Catalog, Vec<String>> {
    Catalog::build(&[SMALL], models, &aliases(names), &[provider("acme"), provider("beta")], &[])
}

fn small() -> Catalog {
    build(&[], &[("gpt", "acme/fast"), ("beta-lab", "lab/deep:1"), ("g", "gpt")]).unwrap()
}

fn ids(catalog: &Catalog) -> Vec<&str> {
    catalog.models().iter().map(|model| &*model.id).collect()
}

fn read(body: Result<Bytes>) -> Value {
    serde_json::from_slice(&body.unwrap()).unwrap()
}

fn listed(catalog: &Catalog, query: &str) -> Vec<String> {
    let page = read(catalog.list(query, None));
    page["data"].as_array().unwrap().iter().map(|entry| entry["id"].as_str().unwrap().to_owned()).collect()
}

fn refusal(body: Result<Bytes>) -> (u16, String) {
    let error: Error = body.unwrap_err();
    (error.status(), error.code().to_owned())
}

#[test]
fn the_shipped_catalogue_is_sound() {
    let names: Vec<&str> = [
        "openai", "google", "anthropic", "mistral", "xai", "zai", "amazon", "alibaba", "cohere", "moonshotai",
        "groq", "cerebras", "meta", "voyage", "deepseek", "minimax", "together", "perplexity",
    ]
    .into();
    let providers: Vec<_> = names.iter().map(|name| provider(name)).collect();
    let catalog = Catalog::build(&[SHIPPED], &[], &BTreeMap::new(), &providers, &[]).unwrap();
    assert_eq!(catalog.models().len(), 112);
    for model in catalog.models() {
        assert!(model.cost(&Usage { prompt: 1, completion: 1, ..Usage::default() }).is_some(), "{}", model.id);
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
fn shipped_first_then_added_then_discovered() {
    let discovered = vec![
        (
            "beta".to_owned(),
            ["new:7b", "fast", "a//b", "", "nul\0", "org/x"].map(str::to_owned).to_vec(),
        ),
        ("acme".to_owned(), vec!["fast-2026-01".to_owned(), "x".repeat(300)]),
        ("nobody".to_owned(), vec!["z".to_owned()]),
    ];
    let models = [entry("beta/mine"), entry("acme/fast"), entry("other/y"), entry("acme/own")];
    let providers = [provider("acme"), provider("beta")];
    let catalog = Catalog::build(&[SMALL], &models, &BTreeMap::new(), &providers, &discovered).unwrap();
    assert_eq!(
        ids(&catalog),
        [
            "acme/fast", "acme/embed", "beta/fast", "beta/lab/deep:1", "beta/mine", "acme/own", "beta/new:7b",
            "beta/org/x"
        ]
    );
    assert_eq!(catalog.unlisted(), ["other/y"]);
    assert_eq!(&*catalog.get("beta/org/x").unwrap().upstream_model, "org/x");
}

#[test]
fn every_fault_is_told_at_once() {
    let mut dear = entry("acme/fast");
    dear.pricing.currency = Some("dollars".into());
    dear.availability = Some(101.0);
    dear.latency_p50_ms = Some(f64::NAN);
    let models =
        [entry("bare"), entry("acme//x"), entry("acme/"), entry("/x"), entry("acme/e\n"), dear, entry("acme/fast")];
    let names = [("acme/embed", "acme/fast"), ("lost", "acme/nothing"), ("", "acme/fast"), ("a", "b"), ("b", "a")];
    let problems = build(&models, &names).unwrap_err();
    for part in [
        "'bare': an id has the form",
        "'acme//x': an id has no empty part",
        "'acme/': an id has no empty part",
        "'/x': an id has no empty part",
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
    assert_eq!(problems.len(), 14, "{problems:#?}");
    let twice = r#"[{"id":"acme/a"},{"id":"acme/a"},{"id":"acme/b","pricing":{"official_input_per_m":-1}}]"#;
    let broken = Catalog::build(&[twice, "[{"], &[], &BTreeMap::new(), &[provider("acme")], &[]).unwrap_err();
    assert_eq!(broken.len(), 3, "{broken:#?}");
}

#[test]
fn an_alias_waits_for_a_model_that_may_still_be_discovered() {
    let late = ProviderFacts { discovers: true, ..provider("acme") };
    let catalog =
        Catalog::build(&[], &[], &aliases(&[("a", "acme/later"), ("b", "later")]), &[late], &[]).unwrap();
    assert!(catalog.resolve("a").is_none());
    assert!(Catalog::build(&[], &[], &aliases(&[("a", "beta/later")]), &[late], &[]).is_err());
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
fn an_entry_nobody_described_has_every_field() {
    let catalog = build(&[entry("acme/plain")], &[]).unwrap();
    assert_eq!(
        read(catalog.retrieve("plain", None)),
        json!({
            "id": "acme/plain", "object": "model", "created": 1_795_132_800, "owned_by": "acme", "name": "plain",
            "provider": "acme", "description": "", "category": [], "context_length": null,
            "max_output_tokens": null, "modalities": {"input": [], "output": []}, "features": [],
            "license": "unknown",
            "pricing": {
                "official_input_per_m": null, "official_output_per_m": null, "gateway_input_per_m": null,
                "gateway_output_per_m": null, "cached_input_per_m": null, "currency": "",
            },
            "performance": {"availability": null, "latency_p50_ms": null, "latency_p99_ms": null},
            "quality_scores": {"overall": null, "code": null, "math": null, "reasoning": null},
        })
    );
    assert_eq!(catalog.get("acme/plain").unwrap().cost(&Usage::estimate(4, 4)), None);
}

#[test]
fn a_full_entry_carries_its_sources_and_a_listed_one_does_not() {
    let catalog = small();
    let full = read(catalog.retrieve("acme/fast", None));
    assert_eq!(full["created"], 1_767_312_000);
    assert_eq!(full["open_weights"], false);
    assert_eq!(full["release_date"], "2026-01-02");
    assert_eq!(full["sources"]["pricing"], json!({"source": "price page", "as_of": "2026-11-20"}));
    assert_eq!(full["sources"]["quality_scores"], json!({"benchmark": "B", "source": "a table"}));
    let mut listed = full;
    listed.as_object_mut().unwrap().remove("sources");
    assert_eq!(read(catalog.list("", None))["data"][0], listed);
    assert_eq!(read(catalog.retrieve("acme/embed", None))["embedding_dimensions"], 1536);
}

#[test]
fn names_find_their_models() {
    let catalog = small();
    for (name, expected, strategy) in [
        ("acme/fast", &["acme/fast"][..], None),
        ("fast", &["acme/fast", "beta/fast"], None),
        ("fast:floor", &["acme/fast", "beta/fast"], Some("cheapest")),
        ("acme/fast:nitro", &["acme/fast"], Some("throughput")),
        ("gpt", &["acme/fast"], None),
        ("gpt:floor", &["acme/fast"], Some("cheapest")),
        ("g", &["acme/fast"], None),
        ("beta-lab", &["beta/lab/deep:1"], None),
        ("lab/deep:1", &["beta/lab/deep:1"], None),
        ("beta/lab/deep:1:floor", &["beta/lab/deep:1"], Some("cheapest")),
        ("deep:1", &[], None),
        ("Fast", &[], None),
        ("gone/x", &[], None),
        ("fast:floor:nitro", &[], None),
        (":floor", &[], None),
        ("", &[], None),
    ] {
        let found = catalog.resolve(name);
        let found_ids: Vec<&str> =
            found.iter().flat_map(|found| found.models).map(|model| &*model.id).collect();
        assert_eq!(found_ids, expected, "{name}");
        assert_eq!(found.and_then(|found| found.strategy), strategy, "{name}");
    }
}

#[test]
fn an_exact_id_beats_a_suffix_and_an_alias_beats_a_bare_name() {
    let catalog = build(&[entry("acme/fast:floor")], &[("fast", "acme/embed")]).unwrap();
    let exact = catalog.resolve("acme/fast:floor").unwrap();
    assert_eq!((&*exact.models[0].id, exact.strategy), ("acme/fast:floor", None));
    let aliased = catalog.resolve("fast").unwrap();
    assert_eq!((aliased.models.len(), &*aliased.models[0].id), (1, "acme/embed"));
    let own = build(&[], &[("fast", "fast")]).unwrap();
    assert_eq!(own.resolve("fast").unwrap().models.len(), 2);
}

#[test]
fn strange_ids_are_just_unknown() {
    let catalog = small();
    let long = "x/".repeat(5000);
    for id in [
        "../", "%2e%2e%2f", "//", "%00", "\0", ";", "?", "#", "a/../../v1/files", "@evil", "acme%2Ffast", " ", &long,
    ] {
        let error = catalog.retrieve(id, None).unwrap_err();
        assert_eq!((error.status(), error.code()), (404, "model_not_found"), "{id}");
        assert!(error.message.len() < 600);
    }
    let error = catalog.retrieve("x/y", None).unwrap_err();
    assert_eq!(error.message, "The model 'x/y' does not exist or you do not have access to it.");
    assert_eq!(read(catalog.retrieve("beta/fast/", None))["id"], "beta/fast");
}

#[test]
fn lists_are_filtered() {
    let catalog = small();
    let all = ["acme/fast", "acme/embed", "beta/fast", "beta/lab/deep:1"];
    for (query, expected) in [
        ("", &all[..]),
        ("whatever=1&provider=", &all),
        ("provider=beta", &all[2..]),
        ("provider=beta,acme", &all),
        ("provider=beta&provider=acme", &all),
        ("provider=nobody", &[]),
        ("category=embedding%2Creasoning", &["acme/embed", "beta/lab/deep:1"]),
        ("feature=streaming", &["acme/fast", "beta/fast"]),
        ("feature=streaming,vision", &all[..1]),
        ("feature=flying", &[]),
        ("modality=image", &all[..1]),
        ("modality=embedding", &all[1..2]),
        ("search=QUICK+answers", &all[..1]),
        ("search=beta", &all[2..]),
        ("category=chat&provider=beta&search=DEEP", &all[3..]),
        ("limit=2", &all[..2]),
        ("limit=2&offset=1", &all[1..3]),
        ("offset=9", &[]),
        ("offset=99999999999999999999999", &[]),
        ("after=acme%2Fembed", &all[2..]),
        ("after=acme/embed&provider=acme", &[]),
        ("after=acme/embed&category=chat&limit=1", &all[2..3]),
    ] {
        assert_eq!(listed(&catalog, query), expected, "{query}");
    }
    for (query, code) in [
        ("limit=0", "integer_below_min_value"),
        ("limit=1001", "integer_above_max_value"),
        ("limit=ten", "invalid_type"),
        ("offset=-1", "integer_below_min_value"),
        ("after=nobody", "invalid_value"),
        ("after=fast", "invalid_value"),
        ("after=acme/fast&offset=0", "invalid_value"),
    ] {
        assert_eq!(refusal(catalog.list(query, None)), (400, code.into()), "{query}");
    }
}

#[test]
fn total_counts_matches_and_has_more_looks_past_the_page() {
    let catalog = small();
    for (query, total, more) in [
        ("", 4, false),
        ("limit=4", 4, false),
        ("limit=3", 4, true),
        ("provider=beta&limit=1", 2, true),
        ("provider=beta&limit=1&after=beta/fast", 2, false),
        ("offset=4", 4, false),
        ("provider=no", 0, false),
    ] {
        let page = read(catalog.list(query, None));
        assert_eq!((page["total"].as_u64(), page["has_more"].as_bool()), (Some(total), Some(more)), "{query}");
        assert_eq!(page["object"], "list");
    }
}

#[test]
fn a_limited_key_sees_its_own_models_only() {
    let catalog = small();
    let only_beta = |model: &Model| &*model.provider == "beta";
    let visible: Visible<'_> = Some(&only_beta);
    let page = read(catalog.list("limit=1", visible));
    assert_eq!((page["total"].as_u64(), page["data"][0]["id"].as_str()), (Some(2), Some("beta/fast")));
    assert_eq!(refusal(catalog.list("after=acme/fast", visible)).0, 400);
    assert_eq!(read(catalog.retrieve("fast", visible))["id"], "beta/fast");
    assert_eq!(refusal(catalog.retrieve("acme/fast", visible)).0, 404);
    assert_eq!(refusal(catalog.retrieve("gpt", visible)).0, 404);
    assert_eq!(refusal(catalog.compare("models=acme/fast,beta/fast", visible)).0, 404);
}

#[test]
fn comparisons_are_in_request_order() {
    let mut local = entry("acme/local");
    local.latency_p50_ms = Some(400.0);
    local.availability = Some(99.9);
    let catalog = build(&[local], &[]).unwrap();
    let body = catalog.compare("models=+lab/deep:1,%20acme%2Ffast&models=beta/fast,acme/local,,fast", None);
    let text = String::from_utf8(body.clone().unwrap().to_vec()).unwrap();
    let compared = read(body);
    assert_eq!(compared["object"], "model_comparison");
    assert_eq!(compared["models"], json!(["beta/lab/deep:1", "acme/fast", "beta/fast", "acme/local"]));
    let places = ["beta/lab/deep:1", "acme/fast", "beta/fast", "acme/local"]
        .map(|id| text.find(&format!("\"{id}\":{{")).unwrap());
    assert!(places.is_sorted());
    assert_eq!(
        compared["comparison"]["acme/local"],
        json!({
            "name": "local", "provider": "acme", "context_length": null,
            "pricing": {"gateway_input_per_m": null, "gateway_output_per_m": null},
            "performance": {"latency_p50_ms": 400, "availability": 99.9},
            "quality_scores": {"overall": null, "code": null, "math": null, "reasoning": null},
        })
    );
    assert_eq!(
        compared["highlights"],
        json!({
            "cheapest": "beta/fast", "fastest": "acme/local", "best_quality": "acme/fast",
            "best_code": "beta/lab/deep:1", "longest_context": "beta/fast",
        })
    );
}

#[test]
fn comparisons_refuse_in_the_contracts_order() {
    let catalog = small();
    for (query, status, code) in [
        ("", 400, "missing_required_parameter"),
        ("models=", 400, "missing_required_parameter"),
        ("models=,+,", 400, "missing_required_parameter"),
        ("models=acme/fast", 400, "invalid_value"),
        ("models=acme/fast,fast,gpt,g", 400, "invalid_value"),
        ("models=nobody,nobody", 400, "invalid_value"),
        ("models=a,b,c,d,e", 400, "invalid_value"),
        ("models=a,acme/fast", 404, "model_not_found"),
    ] {
        assert_eq!(refusal(catalog.compare(query, None)), (status, code.into()), "{query}");
    }
    let error = catalog.compare("models=acme/fast,who,what", None).unwrap_err();
    assert!(error.message.contains("'who'"), "{}", error.message);
}

#[test]
fn highlights_without_comparable_figures_name_the_first() {
    let mut euro = entry("beta/fast");
    euro.pricing.currency = Some("eur".into());
    let catalog = build(&[euro, entry("acme/a"), entry("acme/b")], &[]).unwrap();
    let mixed = read(catalog.compare("models=acme/fast,beta/fast", None));
    assert_eq!(mixed["highlights"]["cheapest"], "acme/fast");
    assert_eq!(read(catalog.retrieve("beta/fast", None))["pricing"]["currency"], "EUR");
    assert_eq!(catalog.get("beta/fast").unwrap().cost(&Usage::estimate(4, 4)), None);
    let nothing = read(catalog.compare("models=acme/b,acme/a", None));
    for highlight in nothing["highlights"].as_object().unwrap().values() {
        assert_eq!(highlight, "acme/b");
    }
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

proptest! {
    #[test]
    fn paging_shows_every_entry_once(limit in 1_usize..6, by_offset: bool, extra in 0_usize..12) {
        let models: Vec<_> = (0..extra).map(|n| entry(&format!("beta/m{n}"))).collect();
        let catalog = build(&models, &[]).unwrap();
        let mut seen: Vec<String> = Vec::new();
        loop {
            let start = match seen.last() {
                None => String::new(),
                Some(_) if by_offset => format!("&offset={}", seen.len()),
                Some(last) => format!("&after={}", last.replace('/', "%2F")),
            };
            let query = format!("limit={limit}{start}");
            let page = read(catalog.list(&query, None));
            prop_assert_eq!(page["total"].as_u64(), Some(4 + extra as u64));
            seen.extend(listed(&catalog, &query));
            if page["has_more"] == false {
                break;
            }
        }
        prop_assert_eq!(seen, ids(&catalog));
    }

    #[test]
    fn any_query_is_answered(query in any::<String>(), name in any::<String>()) {
        let catalog = small();
        for query in [query.clone(), format!("models={query}"), format!("limit={query}&search={name}")] {
            if let Ok(body) = catalog.list(&query, None) {
                prop_assert!(serde_json::from_slice::<Value>(&body).is_ok());
            }
            let _ = catalog.compare(&query, None);
        }
        let _ = catalog.retrieve(&name, None);
    }

    #[test]
    fn any_texts_make_an_entry_that_reads_back(name in any::<String>(), description in any::<String>()) {
        let mut set = entry("acme/x");
        set.name = Some(name.clone());
        set.description = Some(description.clone());
        let catalog = build(&[set], &[]).unwrap();
        let full = read(catalog.retrieve("acme/x", None));
        prop_assert_eq!((full["name"].as_str(), full["description"].as_str()), (Some(&*name), Some(&*description)));
    }
}
