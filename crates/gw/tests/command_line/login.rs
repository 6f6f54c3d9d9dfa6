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

/// The link that `login` prints, without its token, and its words on standard error.
fn printed(output: &Output) -> (String, String) {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let link = String::from_utf8_lossy(&output.stdout).into_owned();
    let base = link.split_once("/ui/#token=").expect("a link").0.to_owned();
    (base, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test]
async fn the_link_leads_to_the_gateway_that_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data").to_string_lossy().into_owned();
    let start = || Launch::new(binary()).arg("--no-discover").env("MODEL_GATEWAY_DATA_DIR", &data);
    let first = start().arg("--listen").arg("127.0.0.1:0").start().await;
    // The configuration of `login` names the address of the first gateway.
    let login = || {
        let listen = first.addr.to_string();
        Launch::new(binary())
            .env("MODEL_GATEWAY_DATA_DIR", &data)
            .env("MODEL_GATEWAY_SERVER__LISTEN", &listen)
    };
    let at = |gateway: &Gateway| format!("http://{}", gateway.addr);
    let mut second = start().arg("--listen").arg("127.0.0.1:0").start().await;
    // A gateway that answers has noted its address.
    second.client().get("/healthz").await.ok();
    assert_eq!(printed(&login().arg("login").run()), (at(&second), String::new()), "the newest one");
    second.sigterm();
    second.ended().await;
    assert_eq!(printed(&login().arg("login").run()), (at(&first), String::new()), "the one that is left");
    // A killed gateway leaves its note behind.
    let note = format!("http://{}", second.addr);
    std::fs::write(dir.path().join("data/console-address"), &note).expect("written");
    assert_eq!(
        printed(&login().arg("login").run()),
        (at(&first), String::new()),
        "the note is of no gateway"
    );
}

#[test]
fn a_link_without_a_gateway_says_so() {
    let made =
        Launch::new(binary()).arg("keys").arg("create").arg("--name").arg("a").arg("--role").arg("admin");
    assert_eq!(made.run().status.code(), Some(0));
    let data = made.dir().join("data").to_string_lossy().into_owned();
    let login = Launch::new(binary()).env("MODEL_GATEWAY_DATA_DIR", &data).arg("login");
    // Nothing listens on the port 1.
    let (base, said) = printed(&login.env("MODEL_GATEWAY_SERVER__LISTEN", "127.0.0.1:1").run());
    assert_eq!(base, "http://127.0.0.1:1");
    assert!(
        said.contains("no gateway answers at http://127.0.0.1:1; start it before you open the link"),
        "{said}"
    );
}
