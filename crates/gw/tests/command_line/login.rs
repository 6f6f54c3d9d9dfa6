//! `model-gateway login`: the link that it prints signs in, from the store and over the management API.

use std::process::Output;

use gw_testkit::{Gateway, Launch};
use serde_json::{Value, json};

use crate::harness::browser::{page, page_with, session, session_of};
use crate::harness::{ADMIN, KEY, World, binary, world};

/// Runs `login` beside this gateway: on its configuration and its store.
fn beside(gateway: &Gateway) -> Launch {
    let config = gateway.dir().join("gateway.toml");
    Launch::new(binary())
        .env("MODEL_GATEWAY_DATA_DIR", &gateway.dir().join("data").to_string_lossy())
        .env("MODEL_GATEWAY_CONFIG", &config.to_string_lossy())
        .arg("login")
}

/// Runs `login` against the gateway's address, with this key.
fn remote(gateway: &Gateway, key: &str) -> Output {
    let launch = Launch::new(binary()).env("MODEL_GATEWAY_ADMIN_KEY", key).arg("login");
    launch.arg("--url").arg(format!("http://{}", gateway.addr)).run()
}

/// The session of a browser that opens the printed link.
async fn signed_in(world: &World, output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let printed = String::from_utf8_lossy(&output.stdout);
    let start = format!("http://{}/ui/#token=", world.gateway.addr);
    let (link, rest) = printed.split_once('\n').expect("a line");
    assert_eq!(rest, "\nThe link signs in once, within 15 minutes.\n");
    let token = link.strip_prefix(&start).unwrap_or_else(|| panic!("{link} begins with {start}"));
    let answer = page(&world.gateway).post_json("/auth/link", &json!({ "token": token })).await.ok();
    let (id, _) = session_of(&answer).expect("a session");
    session(&page_with(&world.gateway, &id)).await
}

#[tokio::test]
async fn the_link_of_login_signs_in_as_the_admin() {
    let world = world().await;
    for output in [beside(&world.gateway).run(), remote(&world.gateway, ADMIN)] {
        assert_eq!(signed_in(&world, &output).await["role"], "admin");
    }
}

#[tokio::test]
async fn a_link_over_http_has_the_rights_of_its_key() {
    let world = world().await;
    assert_eq!(signed_in(&world, &remote(&world.gateway, KEY)).await["role"], "inference");
    let refused = remote(&world.gateway, "sk-nobody");
    assert_eq!((refused.status.code(), refused.stdout.as_slice()), (Some(2), b"".as_slice()));
}
