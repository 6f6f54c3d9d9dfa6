//! The management API in tests: its requests, keys that are created over it, and a gateway with a ledger.

use gw_store::Store;
use gw_store::ledger::Entry;
use gw_testkit::{Client, Gateway, Launch, Response};
use serde_json::Value;

use super::{ADMIN, Setup, World, binary, world};

const KEYS: &str = "/admin/v1/keys";
/// A gateway of the demo with the admin key of the tests, named `boss`.
pub(crate) const CONFIG: &str = "[[providers]]\nname = \"demo\"\napi = \"demo\"\n[server]\nlisten = \"127.0.0.1:0\"\n\
    [[keys]]\nname = \"boss\"\nkey = \"sk-test-admin\"\nrole = \"admin\"\n";

/// Sends a management request.
pub(crate) async fn ask(client: &Client, method: &str, path: &str, body: &Value) -> Response {
    let body = body.to_string();
    client.send(method, path, Some("application/json"), Some(body.as_bytes())).await
}

/// Creates a key with these members; gives its secret and its public record.
#[track_caller]
pub(crate) fn create(admin: &Client, members: Value) -> impl Future<Output = (String, Value)> {
    let place = std::panic::Location::caller();
    let admin = admin.clone();
    async move {
        let answer = ask(&admin, "POST", KEYS, &members).await;
        assert_eq!(answer.status, 201, "{members} at {place}: {}", answer.text());
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        let key = answer.json();
        (key["key"].as_str().expect("a secret").to_owned(), key)
    }
}

/// The id of the configured key `boss`, computed as the documentation describes.
pub(crate) fn boss() -> String {
    gw_engine::auth::configured_id("boss")
}

/// A gateway whose store holds these rows, and a client with an admin key.
pub(crate) async fn with_ledger(entries: &[Entry]) -> (Gateway, Client) {
    // The rows have fixed dates. The retention must never purge them, whenever the test runs.
    let config = format!("{CONFIG}\n[store]\nretention_days = 0\n");
    let launch = Launch::new(binary()).file("gateway.toml", config);
    let data = launch.dir().join("data");
    std::fs::create_dir_all(&data).expect("a directory");
    let store = Store::open(&data.join("gateway.db")).await.expect("a store");
    store.record(entries).await.expect("recorded");
    store.close().await;
    let gateway = launch.start().await;
    let admin = gateway.client().with_key(ADMIN);
    (gateway, admin)
}

/// One default gateway on SQLite and one on PostgreSQL.
pub(crate) async fn worlds() -> [World; 2] {
    let url = gw_testkit::postgres::database();
    let extra = format!("[store]\nurl = \"{url}\"\n");
    [world().await, Setup { extra, ..Setup::default() }.start().await]
}
