//! Background responses in the database whose process dies, or that another replica ends.

use std::path::Path;

use gw_testkit::upstream::{chat_transcript, sse_data};
use gw_testkit::{Answer, FakeUpstream, Faketime, Gateway, Launch, Signal, postgres};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::background::{assert_was_stopped, follow, rest, until};
use super::{ask_responses, response};
use crate::harness::{ADMIN, KEY, Setup, binary, with};

/// Processes on one database.
struct Shared {
    upstream: FakeUpstream,
    config: String,
    data: TempDir,
    time: Faketime,
}

impl Shared {
    async fn new(url: &str, data: TempDir) -> Self {
        let upstream = FakeUpstream::start().await;
        let extra = format!("[store]\nurl = \"{url}\"\n[responses]\nstore = \"database\"\n");
        let setup = Setup { acme: "responses = false".to_owned(), extra, ..Setup::default() };
        let config = setup.config(&upstream.base_url(), &upstream.base_url());
        Self { upstream, config, data, time: Faketime::at("+0s") }
    }

    /// A process with a data directory of its own.
    async fn process(&self, name: &str) -> Gateway {
        self.process_at(name, &self.time).await
    }

    /// A process with a data directory and a clock of its own.
    async fn process_at(&self, name: &str, time: &Faketime) -> Gateway {
        let data = self.data.path().join(name);
        std::fs::create_dir_all(&data).expect("a directory");
        let launch = Launch::new(binary()).file("gateway.toml", &self.config);
        let launch = launch.env("MODEL_GATEWAY_DATA_DIR", &data.to_string_lossy());
        time.apply(launch).start().await
    }

    /// Has the process make a response that waits for the signal; gives its id.
    async fn begin(&self, gateway: &Gateway, hold: &Signal) -> String {
        self.upstream.enqueue(
            Answer::sse()
                .all(&[sse_data(&json!({"content": "Hello"}), None)])
                .wait(hold)
                .all(&chat_transcript(&[" again"]))
                .done(),
        );
        let client = gateway.client().with_key(KEY);
        let body = with(response("acme/fast"), json!({"background": true}));
        let id = ask_responses(&client, &body).await.ok().json()["id"].as_str().expect("an id").to_owned();
        until(&client, &id, "in_progress").await;
        id
    }
}

async fn get(gateway: &Gateway, id: &str) -> Value {
    gateway.client().with_key(KEY).get(&format!("/v1/responses/{id}")).await.ok().json()
}

fn assert_abandoned(object: &Value) {
    assert_eq!(
        (&object["status"], &object["error"]["code"]),
        (&json!("failed"), &json!("server_error")),
        "{object}"
    );
}

fn sqlite(data: &Path) -> String {
    format!("sqlite://{}", data.join("gateway.db").display())
}

#[tokio::test]
async fn a_response_of_a_killed_process_is_failed_after_the_restart() {
    let data = tempfile::tempdir().expect("a directory");
    let shared = Shared::new(&sqlite(data.path()), data).await;
    let gateway = shared.process("a").await;
    let id = shared.begin(&gateway, &Signal::new()).await;
    let _ = gateway.stop();
    shared.time.set("+120s");
    let gateway = shared.process("a").await;
    assert_abandoned(&get(&gateway, &id).await);
    let cancel = format!("/v1/responses/{id}/cancel");
    let cancelled = gateway.client().with_key(KEY).send("POST", &cancel, None, None).await.ok().json();
    assert_abandoned(&cancelled);
}

#[tokio::test]
async fn another_replica_notices_the_death_of_a_process() {
    let data = tempfile::tempdir().expect("a directory");
    let url = postgres::database();
    let shared = Shared::new(&url, data).await;
    let (maker, other) = (shared.process("a").await, shared.process("b").await);
    let id = shared.begin(&maker, &Signal::new()).await;
    assert_eq!(get(&other, &id).await["status"], "in_progress");
    let _ = maker.stop();
    // Two minutes pass for the database.
    postgres::sql_at(&url, "UPDATE responses SET running_until = running_until - 120");
    assert_abandoned(&get(&other, &id).await);
}

#[tokio::test]
async fn a_replica_whose_clock_is_fast_or_slow_does_not_end_a_response_that_runs() {
    let data = tempfile::tempdir().expect("a directory");
    let shared = Shared::new(&postgres::database(), data).await;
    let (fast, slow) = (Faketime::at("+10m"), Faketime::at("-10m"));
    let maker = shared.process("a").await;
    let others = [shared.process_at("b", &fast).await, shared.process_at("c", &slow).await];
    let hold = Signal::new();
    let id = shared.begin(&maker, &hold).await;
    for other in &others {
        assert_eq!(get(other, &id).await["status"], "in_progress");
    }
    hold.fire();
    until(&maker.client().with_key(KEY), &id, "completed").await;
    // The clock of the process that makes the response does not matter either.
    let hold = Signal::new();
    let id = shared.begin(&others[1], &hold).await;
    assert_eq!(get(&maker, &id).await["status"], "in_progress");
    hold.fire();
    until(&maker.client().with_key(KEY), &id, "completed").await;
}

#[tokio::test]
async fn clients_that_follow_a_response_that_another_replica_deleted_get_its_last_event() {
    let data = tempfile::tempdir().expect("a directory");
    let shared = Shared::new(&postgres::database(), data).await;
    let (maker, other) = (shared.process("a").await, shared.process("b").await);
    let hold = Signal::new();
    let id = shared.begin(&maker, &hold).await;
    let follower = follow(&maker.client().with_key(KEY), &id).await;
    let path = format!("/v1/responses/{id}");
    other.client().with_key(KEY).send("DELETE", &path, None, None).await.ok();
    assert_was_stopped(&rest(follower).await);
    shared.upstream.last().until_closed().await;
    assert_eq!(maker.client().with_key(KEY).get(&path).await.status, 404);
}

#[tokio::test]
async fn a_response_that_another_replica_cancelled_stays_cancelled() {
    let data = tempfile::tempdir().expect("a directory");
    let shared = Shared::new(&postgres::database(), data).await;
    let (maker, other) = (shared.process("a").await, shared.process("b").await);
    let hold = Signal::new();
    let id = shared.begin(&maker, &hold).await;
    let (follower, path) = (maker.client().with_key(KEY), format!("/v1/responses/{id}?stream=true"));
    let following = tokio::spawn(async move { follower.get(&path).await.ok().text() });
    let cancel = format!("/v1/responses/{id}/cancel");
    let cancelled = other.client().with_key(KEY).send("POST", &cancel, None, None).await.ok().json();
    assert_eq!(cancelled["status"], "cancelled");
    let followed = gw_testkit::wait::within("the maker notices", following).await.expect("an answer");
    let (_, last) = followed.rsplit_once("event: ").expect("events");
    assert!(last.starts_with("response.failed\n") && last.contains("\"status\":\"cancelled\""), "{last}");
    assert!(last.ends_with("data: [DONE]\n\n"), "{last}");
    hold.fire();
    // The maker's request is in the log once its answer is complete.
    let admin = maker.client().with_key(ADMIN);
    gw_testkit::wait::within("the maker's request ends", async {
        while admin.get("/admin/v1/requests").await.ok().json()["data"].as_array().is_none_or(Vec::is_empty) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(get(&maker, &id).await["status"], "cancelled");
}
