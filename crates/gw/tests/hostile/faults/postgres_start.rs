//! The program on a PostgreSQL store: it waits for an unreachable server and logs that without the password.

use gw_testkit::postgres::{PASSWORD, Postgres};
use gw_testkit::wait::eventually_true;
use gw_testkit::{Launch, eventually};

use crate::harness::binary;

fn config(url: &str, seconds: u32) -> String {
    format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[store]\nurl = \"{url}\"\nstart_timeout_seconds = {seconds}\n\
         [[keys]]\nname = \"a\"\nkey = \"sk-test-key\"\n"
    )
}

#[tokio::test]
async fn s05_a_start_waits_for_postgres_and_ends_when_it_has_waited_long_enough() {
    let mut server = Postgres::start();
    let url = server.database();
    server.stop();
    let launch = Launch::new(binary()).file("gateway.toml", config(&url, 1)).arg("serve");
    let output = launch.run();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot be reached") && said.contains("trying again"), "{said}");
    assert!(!said.contains(PASSWORD), "{said}");

    let launch = Launch::new(binary()).file("gateway.toml", config(&url, 60)).arg("serve");
    let starting = tokio::spawn(launch.start());
    server.resume();
    let gateway = starting.await.expect("it starts");
    let ready = gateway.client().get("/readyz").await;
    assert_eq!(ready.status, 200);
    // The server stops: the gateway is not ready, keeps running, and becomes ready again.
    server.stop();
    let client = gateway.client();
    let status = async |wanted: u16| {
        eventually_true(&format!("readiness is {wanted}"), async || {
            client.get("/readyz").await.status == wanted
        })
        .await;
    };
    status(503).await;
    server.resume();
    status(200).await;
    let logs = eventually("the log", || Some([gateway.stdout(), gateway.stderr()].concat().join("\n"))).await;
    assert!(!logs.contains(PASSWORD), "{logs}");
}
