//! Comparisons and their highlights.

use super::*;

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
