//! The catalogue as text.

use gw_engine::catalog::ProviderFacts;
use gw_providers::settings::Api;
use gw_wire::money::Price;

use super::*;

const SHIPPED: &str = r#"[
  {"id": "acme/fast", "name": "Acme\u001b[31m Fast", "provider": "acme", "category": ["chat"], "context_length": 128000,
   "max_output_tokens": 4096, "features": ["streaming", "vision"],
   "pricing": {"official_input_per_m": 0.15, "official_output_per_m": 0.6, "currency": "USD"}},
  {"id": "acme/bare", "name": "Bare", "provider": "acme", "pricing": {"currency": "USD"}}
]"#;

fn catalog() -> Catalog {
    let facts = [ProviderFacts {
        name: "acme",
        api: Api::OPENAI,
        price_multiplier: Price::from_nanos(1_000_000_000),
        discovers: false,
    }];
    Catalog::build(&[SHIPPED], &[], &std::collections::BTreeMap::new(), &facts, &[]).unwrap()
}

fn value(what: &ModelsCommand) -> Value {
    answer(&body(&catalog(), Some(what)).unwrap()).unwrap().0
}

#[test]
fn a_list_is_a_table() {
    let (all, is_empty) = answer(&body(&catalog(), None).unwrap()).unwrap();
    let text = table::list(&all);
    let lines: Vec<_> = text.lines().collect();
    assert!(!is_empty);
    assert_eq!(lines[0], "MODEL      CONTEXT  MAX OUTPUT  INPUT/M  OUTPUT/M  FEATURES");
    assert_eq!(lines[1], "acme/fast   128000        4096     0.15       0.6  streaming vision");
    assert!(lines[2].starts_with("acme/bare        -"), "{text}");
    assert_eq!(lines.last(), Some(&"2 models"));
}

#[test]
fn filters_reach_the_catalogue_whatever_is_in_them() {
    let list = |search: &str| ModelsCommand::List {
        provider: None,
        feature: None,
        search: Some(search.to_owned()),
        include: None,
    };
    assert_eq!(value(&list("FAST"))["total"], 1);
    assert_eq!(value(&list("a&search=zzz%"))["total"], 0);
    assert!(answer(&body(&catalog(), Some(&list("nothing"))).unwrap()).unwrap().1);
    let some = ModelsCommand::List {
        provider: Some("acme".to_owned()),
        feature: Some("vision".to_owned()),
        search: None,
        include: None,
    };
    assert_eq!(value(&some)["total"], 1);
}

#[test]
fn a_comparison_has_the_prices_of_units() {
    let side = |per_image: &str| {
        serde_json::from_str::<Value>(&format!(
            r#"{{"pricing": {{"gateway_input_per_m": null, "gateway_per_image": {per_image}, "gateway_image_output_per_m": 40}}}}"#
        ))
        .unwrap()
    };
    let answer = serde_json::json!({
        "models": ["a/x", "a/y"], "comparison": {"a/x": side("0.04"), "a/y": side("null")},
        "highlights": {"cheapest": "a/x"}
    });
    let text = table::comparison(&answer);
    let line = |label: &str| {
        let found = text.lines().find(|line| line.starts_with(label)).unwrap_or_else(|| panic!("{text}"));
        found.trim_start_matches(label).split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(line("per image"), ["0.04", "-"]);
    assert_eq!(line("image output/M"), ["40", "40"]);
    assert_eq!(line("cheapest"), ["a/x"]);
}

#[test]
fn one_model_is_shown_whole_and_harmless() {
    let text = table::one(&value(&ModelsCommand::Show { id: "fast".to_owned() }));
    assert!(text.contains("pricing.gateway_input_per_m"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
    let unknown = body(&catalog(), Some(&ModelsCommand::Show { id: "nobody".to_owned() })).unwrap_err();
    assert!(unknown.to_string().contains("nobody"), "{unknown}");
}

#[test]
fn a_models_rules_are_shown_with_their_source_and_date() {
    let shipped = r#"[{"id": "a/claude-opus-5-5", "name": "O", "provider": "a"}, {"id": "a/claude-opus-6", "name": "N", "provider": "a"}]"#;
    let facts = [ProviderFacts {
        name: "a",
        api: Api::ANTHROPIC,
        price_multiplier: Price::from_nanos(1_000_000_000),
        discovers: false,
    }];
    let catalog = Catalog::build(&[shipped], &[], &std::collections::BTreeMap::new(), &facts, &[]).unwrap();
    let show = |id: &str| {
        let body = body(&catalog, Some(&ModelsCommand::Show { id: id.to_owned() })).unwrap();
        answer(&body).unwrap().0
    };
    let rules = &show("claude-opus-5-5")["rules"];
    assert_eq!((&rules["table"], &rules["name"]), (&"claude".into(), &"claude-opus-5-5".into()));
    assert_eq!((&rules["forced_tools"], &rules["assumed"]), (&"refused".into(), &false.into()));
    assert!(rules["source"].as_str().unwrap().starts_with("platform.claude.com/"), "{rules}");
    assert_eq!((&rules["context_tokens"], &rules["max_output_tokens"]), (&1_000_000.into(), &128_000.into()));
    let limits = ["claude-opus-5-5", "claude-opus-6"].map(|id| show(id)["context_length"].as_u64());
    assert_eq!(limits, [Some(1_000_000), None], "an assumed row says nothing of limits");
    let text = table::one(&show("claude-opus-5-5"));
    assert!(text.contains("rules.limits_source"), "{text}");
    assert!(text.contains("rules.as_of") && text.contains("2026-11-22"), "{text}");
    let newest = &show("claude-opus-6")["rules"];
    assert_eq!((&newest["name"], &newest["assumed"]), (&"claude-opus-5-5".into(), &true.into()));
}

#[test]
fn models_stand_side_by_side() {
    let ids = vec!["acme/fast".to_owned(), "acme/bare".to_owned()];
    let text = table::comparison(&value(&ModelsCommand::Compare { ids }));
    assert!(text.lines().next().unwrap().contains("acme/fast"), "{text}");
    assert!(text.contains("longest context"), "{text}");
}
