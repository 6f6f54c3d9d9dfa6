//! The end of a process with fifty responses in the background (P13): they are waited for like streams, and none is
//! `in_progress` afterwards.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use gw_testkit::upstream::{chat_transcript, sse_data};
use gw_testkit::wait::eventually;
use gw_testkit::{Answer, Client, FakeUpstream, Faketime, Gateway, Launch, Signal};
use serde_json::json;
use tempfile::TempDir;

use super::ask_responses;
use super::background::{in_background, until};
use crate::harness::ledger::rows_in;
use crate::harness::{KEY, Setup, binary};

const RESPONSES: usize = 50;

/// The ways in which a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Sigterm,
    TakeOver,
    Kill,
}

/// A process with fifty responses in the background. Half of them end when their signal is fired, the others never.
struct Busy {
    gateway: Gateway,
    config: String,
    data: TempDir,
    time: Faketime,
    release: Vec<Signal>,
    ids: Vec<String>,
    _upstream: FakeUpstream,
}

impl Busy {
    async fn start(store: &str) -> Self {
        let upstream = FakeUpstream::start().await;
        let release: Vec<Signal> = (0..RESPONSES / 2).map(|_| Signal::new()).collect();
        let (signals, next) = (release.clone(), AtomicUsize::new(0));
        upstream.respond_with(move |request| {
            let begun = Answer::sse().all(&[sse_data(&json!({"content": "Hello"}), None)]);
            match request.json()["user"] == "ends" {
                true => {
                    let signal = &signals[next.fetch_add(1, Ordering::Relaxed)];
                    begun.wait(signal).all(&chat_transcript(&[" again"])).done()
                }
                false => begun.hang(),
            }
        });
        let setup = Setup {
            acme: "responses = false".to_owned(),
            server: "drain_seconds = 6",
            extra: format!("[responses]\nstore = \"{store}\"\n"),
            ..Setup::default()
        };
        let config = setup.config(&upstream.base_url(), &upstream.base_url());
        let data = tempfile::tempdir().expect("a directory");
        let time = Faketime::at("+0s");
        let gateway = launch(&config, &data, &time).start().await;
        let client = gateway.client().with_key(KEY);
        let begin = async |at: usize| {
            let mut body = in_background();
            body["user"] = json!(if at.is_multiple_of(2) { "ends" } else { "hangs" });
            ask_responses(&client, &body).await.ok().json()["id"].as_str().expect("an id").to_owned()
        };
        let ids = join_all((0..RESPONSES).map(begin)).await;
        eventually("every response has its call", || (upstream.hits() == RESPONSES).then_some(())).await;
        Self { gateway, config, data, time, release, ids, _upstream: upstream }
    }

    fn launch(&self) -> Launch {
        launch(&self.config, &self.data, &self.time)
    }

    /// The statuses of all responses and their number.
    async fn statuses(&self, client: &Client) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for id in &self.ids {
            let answer = client.get(&format!("/v1/responses/{id}")).await;
            let object = answer.json();
            let status = object["status"].as_str().unwrap_or("gone").to_owned();
            if status == "failed" {
                assert_eq!(object["error"]["code"], "server_error", "{object}");
                let message = object["error"]["message"].as_str().expect("a message");
                assert!(message.contains("shutting down") || message.contains("process"), "{message}");
            }
            *counts.entry(status).or_insert(0) += 1;
        }
        counts
    }
}

fn launch(config: &str, data: &TempDir, time: &Faketime) -> Launch {
    let launch = Launch::new(binary()).file("gateway.toml", config);
    time.apply(launch.env("MODEL_GATEWAY_DATA_DIR", &data.path().to_string_lossy()))
}

fn counts<const N: usize>(of: [(&str, usize); N]) -> BTreeMap<String, usize> {
    of.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

/// The statuses of the rows of a ledger.
async fn row_statuses(database: PathBuf) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for row in rows_in(&database, RESPONSES).await {
        *counts.entry(row.status.into_owned()).or_insert(0) += 1;
    }
    counts
}

/// Waits until the responses that end have ended.
async fn until_released(busy: &Busy, client: &Client) {
    busy.release.iter().for_each(Signal::fire);
    for id in busy.ids.iter().step_by(2) {
        until(client, id, "completed").await;
    }
}

/// Kills the process and waits for its end.
async fn kill(gateway: &mut Gateway) {
    let sent = std::process::Command::new("kill").args(["-KILL", &gateway.pid().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
    gateway.ended().await;
}

async fn check(store: &str, ending: Ending) {
    let mut busy = Busy::start(store).await;
    let is_kept = store == "database";
    let half = RESPONSES / 2;
    let database = busy.data.path().join("gateway.db");
    if ending == Ending::Kill {
        let launch = busy.launch();
        kill(&mut busy.gateway).await;
        busy.time.set("+120s");
        let next = launch.start().await;
        let statuses = busy.statuses(&next.client().with_key(KEY)).await;
        let expected = if is_kept { "failed" } else { "gone" };
        assert_eq!(statuses, counts([(expected, RESPONSES)]));
        assert_eq!(row_statuses(database).await, counts([("interrupted", RESPONSES)]));
        return;
    }
    let next = match ending {
        Ending::TakeOver => Some(busy.launch().arg("serve").arg("--take-over").start().await),
        _ => {
            busy.gateway.sigterm();
            None
        }
    };
    // The responses go on, and clients of this process (or of the next one, with a database) see their ends.
    if is_kept || next.is_none() {
        let client = next.as_ref().unwrap_or(&busy.gateway).client().with_key(KEY);
        until_released(&busy, &client).await;
    } else {
        busy.release.iter().for_each(Signal::fire);
    }
    assert!(busy.gateway.ended().await.success());
    let codes = busy.gateway.logs().into_iter().filter(|line| line["route"] == "/v1/responses");
    let mut ended = BTreeMap::new();
    for line in codes.filter(|line| line["method"] == "POST") {
        *ended.entry(line["code"].as_str().unwrap_or_default().to_owned()).or_insert(0) += 1;
    }
    assert_eq!(ended, counts([("ok", half), ("gateway_shutdown", half)]), "{store} {ending:?}");
    assert_eq!(row_statuses(database).await, counts([("ok", half), ("gateway_shutdown", half)]));
    if is_kept {
        let next = match next {
            Some(next) => next,
            None => busy.launch().start().await,
        };
        let client = next.client().with_key(KEY);
        assert_eq!(busy.statuses(&client).await, counts([("completed", half), ("failed", half)]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p13_sigterm_waits_for_responses_in_memory_and_settles_what_it_cuts() {
    check("memory", Ending::Sigterm).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p13_sigterm_waits_for_responses_in_the_database_and_fails_what_it_cuts() {
    check("database", Ending::Sigterm).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p13_a_take_over_waits_for_responses_in_memory_and_settles_what_it_cuts() {
    check("memory", Ending::TakeOver).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p13_a_take_over_waits_for_responses_in_the_database_and_fails_what_it_cuts() {
    check("database", Ending::TakeOver).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p13_a_killed_process_leaves_one_row_each_and_no_response_in_progress() {
    check("memory", Ending::Kill).await;
    check("database", Ending::Kill).await;
}
