//! Presets that are made over the API: their parameters are checked as a request's.

use serde_json::{Value, json};

use super::configuration::{Place, admin, put, show};

#[tokio::test]
async fn a_preset_with_a_wrong_parameter_is_not_stored() {
    let place = Place::new().await;
    let gateway = place.start().await;
    let boss = admin(&gateway);
    for (list, parameters, word) in [
        ("defaults", json!({ "temperature": "hot" }), "'temperature'"),
        ("overrides", json!({ "temprature": 1 }), "did you mean 'temperature'?"),
        ("defaults", json!({ "tools": [{ "type": "function" }] }), "'tools"),
    ] {
        let body = json!({ "targets": ["demo/chat"], list: parameters });
        let answer = put(&boss, "aliases/broken", body.clone()).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_configuration"), "{body}");
        assert!(answer.message().contains(word), "{body}: {}", answer.message());
    }
    let null = json!({ "targets": ["demo/chat"], "overrides": { "seed": null } });
    let answer = put(&boss, "aliases/broken", null).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_value"));
    assert!(answer.message().contains("'overrides.seed'"), "{}", answer.message());
    assert_eq!(show(&boss, "history").await["data"], json!([]));
    let body = json!({ "targets": ["demo/chat"], "defaults": { "temperature": 0.2, "tool_choice": "auto" } });
    let answer = put(&boss, "aliases/fine", body).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let shown: Value = show(&boss, "aliases/fine").await["value"]["defaults"].clone();
    assert_eq!(shown, json!({ "temperature": 0.2, "tool_choice": "auto" }));
}
