//! Lists, pages and single entries.

use super::*;

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
fn lists_are_filtered() {
    let catalog = build(&[], &[]).unwrap();
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
    let catalog = build(&[], &[]).unwrap();
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
        assert_eq!(
            (page["total"].as_u64(), page["has_more"].as_bool()),
            (Some(total), Some(more)),
            "{query}"
        );
        assert_eq!(page["object"], "list");
    }
}

#[test]
fn a_limited_key_sees_its_own_models_only() {
    let catalog = small();
    let only_beta = |model: &Model| &*model.provider == "beta";
    let visible: Visible<'_> = Some(&only_beta);
    let page = read(catalog.list("limit=1", visible));
    let first = page["data"][0]["id"].as_str();
    assert_eq!(
        (page["total"].as_u64(), first),
        (Some(3), Some("beta/fast")),
        "two models and the alias of one"
    );
    assert_eq!(refusal(catalog.list("after=acme/fast", visible)).0, 400);
    assert_eq!(read(catalog.retrieve("fast", visible))["id"], "beta/fast");
    assert_eq!(refusal(catalog.retrieve("acme/fast", visible)).0, 404);
    assert_eq!(refusal(catalog.retrieve("gpt", visible)).0, 404);
    assert_eq!(refusal(catalog.compare("models=acme/fast,beta/fast", visible)).0, 404);
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
