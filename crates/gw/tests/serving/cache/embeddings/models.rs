//! Stored vectors of several models, of a changed model, and of a model that does not answer.

use gw_testkit::Answer;
use gw_testkit::wait::eventually_async;
use serde_json::{Value, json};

use super::{answer, ask, cost, embed, figures, sent, vectors, with_cache};
use crate::harness::answers::cache_result;
use crate::harness::{ADMIN, Setup, assert_error};

/// A second provider with a model of the same bare name.
pub(crate) const TWO: &str = "[[models]]\nid = \"acme/vector\"\ncategory = [\"embedding\"]\n\
                   [[models]]\nid = \"beta/vector\"\ncategory = [\"embedding\"]\n";

#[tokio::test]
async fn vectors_of_two_models_are_never_put_together() {
    let world = with_cache(Setup { routing: "retries = 0", extra: TWO.to_owned(), ..Setup::default() }).await;
    let body = |input: Value| json!({ "model": "vector", "input": input });
    ask(&world.client, &body(json!(["a", "b"]))).await.ok();
    assert_eq!((world.upstream.hits(), world.second.hits()), (1, 0));
    // The model of the stored vectors is asked for the missing ones. If it fails, the other model is asked for the whole batch.
    world.upstream.enqueue(Answer::error(500, "x", "down"));
    let anew = ask(&world.client, &body(json!(["a", "b", "c"]))).await.ok();
    assert_eq!((cache_result(&anew), anew.header("x-gateway-model")), ("MISS", Some("beta/vector")));
    assert_eq!((sent(&world.upstream), sent(&world.second)), (json!(["c"]), json!(["a", "b", "c"])));
    assert_eq!(cache_result(&ask(&world.client, &body(json!(["b", "c", "a"]))).await.ok()), "HIT");
    // Stored vectors of two models are never mixed in one answer.
    let admin = world.client.with_key(ADMIN);
    for (text, up, down) in [("p", &world.upstream, &world.second), ("q", &world.second, &world.upstream)] {
        up.respond_with(answer);
        down.always(Answer::error(500, "x", "down"));
        ask(&admin, &body(json!(text))).await.ok();
    }
    world.upstream.respond_with(answer);
    let hits = || world.upstream.hits() + world.second.hits();
    let before = hits();
    assert_eq!(cache_result(&ask(&admin, &body(json!(["p", "q"]))).await.ok()), "MISS");
    assert_eq!(
        (cache_result(&ask(&admin, &body(json!(["p", "q"]))).await.ok()), hits()),
        ("HIT", before + 1)
    );
    // An invalid request is not sent to another model.
    for upstream in [&world.upstream, &world.second] {
        upstream.always(Answer::error(400, "bad", "no"));
    }
    let refused = ask(&admin, &body(json!(["p", "new"]))).await;
    assert_eq!((refused.status, hits()), (400, before + 2), "{}", refused.text());
}

#[tokio::test]
async fn a_model_that_has_changed_behind_its_name_is_asked_for_everything_anew() {
    let world = with_cache(Setup { routing: "retries = 0", ..Setup::default() }).await;
    let vector =
        |index: u64, numbers: &Value| json!({ "object": "embedding", "index": index, "embedding": numbers });
    let told = |model: &str, numbers: &Value, count: u64| {
        let data: Value = (0..count).map(|index| vector(index, numbers)).collect();
        Answer::json(
            200,
            &json!({ "object": "list", "model": model, "data": data, "usage": { "prompt_tokens": 50, "total_tokens": 50 } }),
        )
    };
    for (text, model, numbers) in
        [("a", "embed-3", json!([1.5, 2, 3, 4, 5])), ("b", "embed-2", json!([1.5, 2]))]
    {
        ask(&world.client, &embed(&json!(text))).await.ok();
        world.upstream.enqueue(told(model, &numbers, 1));
        world.upstream.enqueue(told(model, &numbers, 2));
        let anew = ask(&world.client, &embed(&json!([text, "c"]))).await.ok();
        assert_eq!((cache_result(&anew), sent(&world.upstream)), ("MISS", json!([text, "c"])), "{model}");
        assert_eq!(anew.json()["data"][0]["embedding"], numbers);
        assert_eq!(anew.json()["usage"]["prompt_tokens"], 50);
        // Both calls are charged and listed.
        assert!((cost(&anew) - 100.0 * 0.02e-6).abs() < 1e-18, "{}", cost(&anew));
        assert_eq!(cache_result(&ask(&world.client, &embed(&json!([text, "c"]))).await.ok()), "HIT");
        world.client.with_key(ADMIN).send("DELETE", "/admin/v1/cache", None, None).await.ok();
    }
    // Each attempt is in the metrics, and those without use are told apart.
    let metrics = world.client.with_key(ADMIN).get("/metrics").await.ok().text();
    let counted = |status: &str| {
        let (model, status) = ("model=\"acme/embed\"", format!("status=\"{status}\""));
        let is_asked = |line: &&str| {
            line.starts_with("gateway_upstream_attempts_total{")
                && line.contains(model)
                && line.contains(&status)
        };
        let line = metrics.lines().find(is_asked)?;
        line.rsplit_once(' ').map(|(_, count)| count.to_owned())
    };
    assert_eq!((counted("ok").as_deref(), counted("wasted").as_deref()), (Some("4"), Some("2")), "{metrics}");
}

#[tokio::test]
async fn old_vectors_stand_in_when_all_of_them_are_there_and_no_upstream_answers() {
    let world = with_cache(Setup {
        routing: "retries = 0",
        extra: "default_ttl_seconds = 1\nstale_if_error_seconds = 600\n".to_owned(),
        ..Setup::default()
    })
    .await;
    let body = embed(&json!(["a", "b", "a"]));
    let fresh = ask(&world.client, &body).await.ok();
    world.upstream.always(Answer::error(500, "x", "down"));
    let stale = eventually_async("the vectors are too old", async || {
        let answer = ask(&world.client, &body).await.ok();
        if cache_result(&answer) != "HIT" {
            return Some(answer);
        }
        None
    })
    .await;
    assert_eq!((cache_result(&stale), vectors(&stale)), ("STALE", vectors(&fresh)));
    assert!(stale.header("age").unwrap().parse::<u64>().unwrap() >= 1);
    assert_eq!((stale.json()["usage"].clone(), cost(&stale)), (fresh.json()["usage"].clone(), 0.0));
    let failed = ask(&world.client, &embed(&json!(["a", "new"]))).await;
    assert_error("one is missing", &failed, 502, "upstream_error", "upstream_error");
    let failed = ask(&world.client.with_header("cache-control", "stale-if-error=0"), &body).await;
    assert_error("not wanted", &failed, 502, "upstream_error", "upstream_error");
    let figures = figures(&world).await;
    assert_eq!((&figures["stale"], &figures["misses"]), (&json!(1), &json!(3)), "{figures}");
}
