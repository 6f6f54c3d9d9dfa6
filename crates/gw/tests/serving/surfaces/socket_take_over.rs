//! A hand-over to the next process while turns run on sockets of the Responses API.

use gw_testkit::upstream::{chat_transcript, sse_data};
use gw_testkit::{Answer, Launch, Signal};
use serde_json::{Value, json};

use super::response;
use crate::harness::ledger::rows;
use crate::harness::socket::with_key;
use crate::harness::{KEY, Setup, World, binary, with};

/// A turn. The upstream answers it by its user.
fn turn(user: &str) -> Value {
    with(response("acme/plain"), json!({"type": "response.create", "store": false, "user": user}))
}

async fn world(release: &Signal) -> World {
    let setup =
        Setup { acme: "responses = false".to_owned(), server: "drain_seconds = 8", ..Setup::default() };
    let world = setup.start().await;
    let release = release.clone();
    world.upstream.respond_with(move |request| {
        let begun = Answer::sse().all(&[sse_data(&json!({"content": "Hello"}), None)]);
        match request.json()["user"].as_str() {
            Some("ends") => begun.wait(&release).all(&chat_transcript(&[" again"])).done(),
            Some("hangs") => begun.hang(),
            _ => Answer::sse().all(&chat_transcript(&["New"])).done(),
        }
    });
    world
}

#[tokio::test]
async fn a_turn_during_a_take_over_is_whole_or_ends_with_an_error_and_is_charged_once() {
    let release = Signal::new();
    let mut world = world(&release).await;
    let mut sockets = Vec::new();
    for user in ["ends", "hangs"] {
        let mut socket = with_key(world.gateway.addr, KEY).await;
        socket.send(&turn(user)).await;
        while socket.event().await["type"] != "response.output_text.delta" {}
        sockets.push(socket);
    }
    let mut idle = with_key(world.gateway.addr, KEY).await;

    let config =
        std::fs::read_to_string(world.gateway.dir().join("gateway.toml")).expect("the configuration");
    let next = Launch::new(binary())
        .file("gateway.toml", config)
        .env("MODEL_GATEWAY_DATA_DIR", world.gateway.dir().join("data").to_str().expect("UTF-8"))
        .arg("serve")
        .arg("--take-over")
        .start()
        .await;
    assert_eq!(next.addr, world.gateway.addr);
    assert_eq!(idle.closed().await, Some(1001));
    // The next process has sockets of its own while turns of the earlier one run.
    let mut fresh = with_key(next.addr, KEY).await;
    assert_eq!(fresh.ask(&turn("new")).await["type"], "response.completed");

    release.fire();
    let [ends, hangs] = &mut sockets[..] else { panic!("two sockets") };
    let events = ends.turn().await;
    let last = &events[events.len() - 1];
    assert_eq!(last["type"], "response.completed", "{events:?}");
    assert_eq!(last["response"]["output"][0]["content"][0]["text"], "Hello again");
    let events = hangs.turn().await;
    let kind = &events[events.len() - 1]["type"];
    assert!(["error", "response.failed"].iter().any(|known| kind == known), "{events:?}");
    for socket in &mut sockets {
        assert_eq!(socket.closed().await, Some(1001));
    }
    assert!(world.gateway.ended().await.success());

    let found = rows(&world.gateway, 3).await;
    assert_eq!(found.len(), 3, "one row each: {found:?}");
    let mut statuses: Vec<&str> = found.iter().map(|row| &*row.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, ["gateway_shutdown", "ok", "ok"]);
    for row in &found {
        // 10 and 5 tokens at 1 and 2 USD per million, or what is known of the turn that was cut.
        let is_charged = if row.status == "ok" { row.cost == 20_000_000_000 } else { row.cost > 0 };
        assert!(is_charged && row.tokens.prompt > 0, "{row:?}");
    }
    assert_eq!(world.upstream.hits(), 3, "no turn was sent again");
}
