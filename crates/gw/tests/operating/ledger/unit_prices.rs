//! Prices of units other than tokens: set in the file, shown by the lists of models, and charged.

use serde_json::{Value, json};

use crate::harness::{ADMIN, Setup, World, logged};

/// A gateway with models that are priced by units.
async fn start() -> World {
    let model = |id: &str, category: &str, pricing: &str| {
        format!("[[models]]\nid = \"{id}\"\ncategory = [\"{category}\"]\npricing = {{ {pricing} }}\n")
    };
    let images = "[{ size = \"1024x1024\", quality = \"high\", official_per_image = 0.167 }, { size = \"1K\", \
                  official_per_image = 0.03, gateway_per_image = 0.05 }]";
    let extra = [
        model("acme/fee", "moderation", "official_per_query = 0.0015"),
        model("acme/set", "rerank", "official_per_search_unit = 0.002, gateway_per_search_unit = 0.0031"),
        model("acme/draw", "image", &format!("official_per_image = 0.2, images = {images}")),
        model("acme/dots", "image", "official_per_pixel = 3.751e-8, official_image_input_per_m = 10.0"),
        model("acme/voice", "speech", "official_per_character = 0.000015, official_per_second = 0.0001"),
        model("acme/pages", "chat", "official_per_page = 0.001, gateway_image_output_per_m = 7.0"),
    ];
    Setup { extra: extra.concat(), ..Setup::default() }.start().await
}

#[tokio::test]
async fn lists_show_official_and_gateway_prices_of_every_unit() {
    let world = start().await;
    let pricing = async |id: &str| -> Value {
        world.client.get(&format!("/v1/models/{id}")).await.ok().json()["pricing"].clone()
    };
    let paint = pricing("acme/draw").await;
    assert_eq!((&paint["official_per_image"], &paint["gateway_per_image"]), (&json!(0.2), &json!(0.2)));
    let rows = json!([
        {"size": "1024x1024", "quality": "high", "official_per_image": 0.167, "gateway_per_image": 0.167},
        {"size": "1K", "official_per_image": 0.03, "gateway_per_image": 0.05}
    ]);
    assert_eq!(paint["images"], rows);
    let dots = pricing("acme/dots").await;
    assert_eq!(
        (&dots["official_per_pixel"], &dots["gateway_per_pixel"]),
        (&json!(3.751e-8), &json!(3.751e-8))
    );
    assert_eq!(dots["gateway_image_input_per_m"], json!(10));
    let compared = world
        .client
        .get("/v1/models/compare?models=acme/draw,acme/set,acme/voice,acme/pages")
        .await
        .ok()
        .json();
    let side = |id: &str| compared["comparison"][id]["pricing"].clone();
    let painted = side("acme/draw");
    assert_eq!((&painted["images"], &painted["gateway_per_image"]), (&rows, &json!(0.2)));
    assert_eq!(side("acme/set")["official_per_search_unit"], json!(0.002));
    assert_eq!(side("acme/set")["gateway_per_search_unit"], json!(0.0031));
    assert_eq!(side("acme/voice")["gateway_per_character"], json!(0.000_015));
    assert_eq!(side("acme/voice")["official_per_second"], json!(0.0001));
    assert_eq!(side("acme/pages")["official_per_page"], json!(0.001));
    assert_eq!(side("acme/pages")["gateway_image_output_per_m"], json!(7));
    assert_eq!(side("acme/pages")["gateway_input_per_m"], Value::Null);
    // Without prices of tokens, the lowest price of a common unit counts.
    let images = world.client.get("/v1/models/compare?models=acme/dots,acme/draw").await.ok().json();
    assert_eq!(images["highlights"]["cheapest"], "acme/draw");
}

#[tokio::test]
async fn a_fee_is_a_whole_price_and_a_gateway_price_is_charged() {
    let world = start().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let judged =
        world.client.post_json("/v1/moderations", &json!({"model": "acme/fee", "input": "x"})).await.ok();
    assert_eq!(judged.header("x-gateway-cost-usd"), Some("0.0015"));
    let row = logged(&admin, judged.header("x-request-id").expect("an id")).await;
    assert_eq!((&row["cost_usd"], row.get("unpriced")), (&json!(0.0015), None), "{row}");
    assert_eq!(row["cost"]["matches_log"], json!(true), "{row}");
    let body = json!({"model": "acme/set", "query": "q", "documents": vec!["a"; 101]});
    let ranked = world.client.post_json("/v1/rerank", &body).await.ok();
    assert_eq!(ranked.header("x-gateway-cost-usd"), Some("0.0062"));
    let row = logged(&admin, ranked.header("x-request-id").expect("an id")).await;
    assert_eq!(row["units"], json!({"search_unit": 2}), "{row}");
    let per_unit = json!([
        {"unit": "search_unit", "count": 2, "usd_per_unit": 0.0031, "cost_usd": 0.0062, "price_as_of": null}
    ]);
    assert_eq!(row["cost"]["units"], per_unit, "{row}");
}
