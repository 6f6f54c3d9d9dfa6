//! Stores that fail under a running gateway: locked by another process, on a full disk, or unusable.

use std::path::{Path, PathBuf};
use std::process::Command;

use gw_testkit::upstream::chat_transcript;
use gw_testkit::wait::eventually_ok;
use gw_testkit::{Answer, Gateway, Launch, Signal, eventually};
use serde_json::json;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection, Row};
use tempfile::TempDir;

use crate::harness::database::{open, run};
use crate::harness::forms::{form, post_form, wav};
use crate::harness::management::ask;
use crate::harness::signs::{count_log_lines, metric};
use crate::harness::{ADMIN, KEY, Setup, World, assert_error, binary, chat, chat_with, serve, world};

/// Opens a gateway's database like another program.
async fn other_program(gateway: &Gateway) -> SqliteConnection {
    open(&gateway.dir().join("data/gateway.db")).await
}

/// The request ids of the ledger.
async fn written(connection: &mut SqliteConnection) -> Vec<String> {
    let rows =
        sqlx::query("SELECT request_id FROM ledger ORDER BY at, request_id").fetch_all(connection).await;
    rows.expect("the ledger can be read").iter().map(|row| row.get(0)).collect()
}

/// Waits until the ledger has this many rows.
async fn written_all(connection: &mut SqliteConnection, count: usize) -> Vec<String> {
    eventually_ok("the rows are in the ledger", async || {
        let rows = written(connection).await;
        if rows.len() >= count { Ok(rows) } else { Err(format!("{} rows of {count}", rows.len())) }
    })
    .await
}

/// A chat that must succeed; gives its request id.
async fn served(world: &World) -> String {
    let answer = world.chat(&chat("acme/fast")).await.ok();
    answer.header("x-request-id").expect("an id").to_owned()
}

async fn until_metric(gateway: &Gateway, name: &str, holds: impl Fn(f64) -> bool) {
    eventually_ok(name, async || {
        let value = metric(gateway, name).await;
        if holds(value) { Ok(()) } else { Err(value) }
    })
    .await;
}

#[tokio::test]
async fn s01_sqlite_locked_by_another_process() {
    let world = world().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let mut ids = vec![served(&world).await];
    let (mut lock, mut reader) = (other_program(&world.gateway).await, other_program(&world.gateway).await);
    written_all(&mut reader, 1).await;
    run(&mut lock, "BEGIN EXCLUSIVE").await;

    // A change waits for the lock and fails within its timeout.
    let change = tokio::spawn({
        let admin = admin.clone();
        async move { ask(&admin, "POST", "/admin/v1/keys", &json!({ "name": "too late" })).await }
    });
    for _ in 0..30 {
        ids.push(served(&world).await);
    }
    let streamed =
        world.client.stream("/v1/chat/completions", &chat_with("acme/fast", json!({ "stream": true }))).await;
    ids.push(streamed.head.header("x-request-id").expect("an id").to_owned());
    let mut streamed = streamed;
    assert!(streamed.rest().await.iter().any(|frame| frame.contains("[DONE]")));
    admin.get("/admin/v1/keys").await.ok();
    admin.get("/admin/v1/usage?by=key").await.ok();
    let refused = change.await.expect("an answer");
    assert_error("a change", &refused, 503, "server_error", "store_unavailable");
    assert_eq!(written(&mut reader).await.len(), 1, "no write while the store is locked");
    until_metric(&world.gateway, "gateway_ledger_waiting", |waiting| waiting == 31.0).await;
    until_metric(&world.gateway, "gateway_ledger_lag_seconds", |age| age > 0.2).await;

    // A change succeeds when the lock ends in time.
    let change = tokio::spawn({
        let admin = admin.clone();
        async move { ask(&admin, "PUT", "/admin/v1/teams/blue", &json!({ "rpm": 5 })).await }
    });
    ids.push(served(&world).await);
    run(&mut lock, "ROLLBACK").await;
    let made = change.await.expect("an answer");
    assert_eq!(made.status, 201, "{}", made.text());
    let mut rows = written_all(&mut reader, ids.len()).await;
    rows.sort();
    ids.sort();
    assert_eq!(rows, ids);
    until_metric(&world.gateway, "gateway_ledger_waiting", |waiting| waiting == 0.0).await;
    until_metric(&world.gateway, "gateway_ledger_lag_seconds", |age| age == 0.0).await;
    let names = admin.get("/admin/v1/keys?name=too%20late").await.ok().json();
    assert_eq!(names["data"].as_array().map(Vec::len), Some(0), "a refused change has no effect");
    let lines = world.gateway.logs();
    assert!(!lines.iter().any(|line| line["status"] == 500), "{lines:?}");
}

#[tokio::test]
async fn s01_a_stop_while_the_store_is_locked_loses_no_row() {
    let mut world = world().await;
    let mut lock = other_program(&world.gateway).await;
    run(&mut lock, "BEGIN EXCLUSIVE").await;
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(served(&world).await);
    }
    world.gateway.sigterm();
    assert!(world.gateway.ended().await.success());
    run(&mut lock, "ROLLBACK").await;
    assert!(written(&mut lock).await.is_empty());
    let data = world.gateway.dir().join("data");
    let config = Setup::default().config(&world.upstream.base_url(), &world.second.base_url());
    let launch = Launch::new(binary()).file("gateway.toml", config);
    let next = launch.env("MODEL_GATEWAY_DATA_DIR", &data.to_string_lossy()).start().await;
    let mut rows = written_all(&mut lock, ids.len()).await;
    rows.sort();
    ids.sort();
    assert_eq!(rows, ids);
    drop(next);
}

/// A small disk of memory at a directory, until it is dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: PathBuf, options: &str) -> Self {
        std::fs::create_dir_all(&at).expect("a directory");
        let disk = Self(at);
        disk.mount_with(&["-t", "tmpfs", "-o", options, "tmpfs"]);
        disk
    }

    fn read_only(&self) {
        self.mount_with(&["-o", "remount,ro"]);
    }

    fn mount_with(&self, arguments: &[&str]) {
        let output =
            Command::new("mount").args(arguments).arg(&self.0).output().expect("mount can be executed");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "this test mounts a small disk, so it must be run as root: {words}");
    }

    /// Takes all the space that is left, to the byte.
    fn fill(&self) -> PathBuf {
        use std::io::Write;
        let path = self.0.join("filler");
        let mut file = std::fs::File::create(&path).expect("a file");
        for size in [65_536, 4_096, 512, 1] {
            while matches!(file.write(&vec![0; size]), Ok(count) if count == size) {}
        }
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A gateway whose data directory is a disk of 1 MiB.
async fn on_a_small_disk() -> (World, SmallDisk) {
    let (upstream, second) =
        (gw_testkit::FakeUpstream::start().await, gw_testkit::FakeUpstream::start().await);
    let config = Setup::default().config(&upstream.base_url(), &second.base_url());
    let launch = Launch::new(binary()).file("gateway.toml", config);
    let disk = SmallDisk::mount(launch.dir().join("data"), "size=1m");
    let gateway = launch.start().await;
    let client = gateway.client().with_key(KEY);
    (World { upstream, second, gateway, client }, disk)
}

#[tokio::test]
async fn s02_disk_full() {
    let (mut world, disk) = on_a_small_disk().await;
    let mut ids = vec![served(&world).await];
    let mut reader = other_program(&world.gateway).await;
    written_all(&mut reader, 1).await;

    // A stream that began before the disk was full.
    let more = Signal::new();
    let pieces = chat_transcript(&["Hello, ", "world"]);
    world.upstream.enqueue(Answer::sse().all(&pieces[..2]).wait(&more).all(&pieces[2..]).done());
    let body = chat_with("acme/fast", json!({ "stream": true }));
    let mut stream = world.client.stream("/v1/chat/completions", &body).await;
    ids.push(stream.head.header("x-request-id").expect("an id").to_owned());
    stream.data().await;
    let filler = disk.fill();
    for _ in 0..100 {
        ids.push(served(&world).await);
    }
    more.fire();
    assert!(stream.rest().await.iter().any(|frame| frame.contains("[DONE]")), "the stream finishes");
    until_metric(&world.gateway, "gateway_journal_unwritten", |lines| lines > 0.0).await;
    let before = metric(&world.gateway, "gateway_journal_unwritten").await;
    for _ in 0..50 {
        ids.push(served(&world).await);
    }
    until_metric(&world.gateway, "gateway_journal_unwritten", |lines| lines >= before + 50.0).await;
    until_metric(&world.gateway, "gateway_ledger_waiting", |waiting| waiting >= 50.0).await;
    eventually("the log says it", || {
        (count_log_lines(&world.gateway, "the ledger cannot be written") == 1).then_some(())
    })
    .await;
    assert_eq!(count_log_lines(&world.gateway, "the journal cannot be written"), 1, "once");
    let admin = world.gateway.client().with_key(ADMIN);
    let refused = ask(&admin, "POST", "/admin/v1/keys", &json!({ "name": "k" })).await;
    assert_error("a change", &refused, 503, "server_error", "store_unavailable");

    std::fs::remove_file(filler).expect("the filler");
    written_all(&mut reader, ids.len()).await;
    until_metric(&world.gateway, "gateway_ledger_waiting", |waiting| waiting == 0.0).await;
    let unwritten = metric(&world.gateway, "gateway_journal_unwritten").await;
    for _ in 0..20 {
        ids.push(served(&world).await);
    }
    let mut rows = written_all(&mut reader, ids.len()).await;
    rows.sort();
    ids.sort();
    assert_eq!(rows, ids, "every row, each once");
    assert_eq!(
        metric(&world.gateway, "gateway_journal_unwritten").await,
        unwritten,
        "the journal is written again"
    );
    assert_eq!(count_log_lines(&world.gateway, "the ledger cannot be written"), 1, "once");
    assert_eq!(count_log_lines(&world.gateway, "the ledger can be written again"), 1);
    let made = ask(&admin, "POST", "/admin/v1/keys", &json!({ "name": "k" })).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let verdict: String =
        sqlx::query("PRAGMA integrity_check").fetch_one(&mut reader).await.expect("a verdict").get(0);
    assert_eq!(verdict, "ok");
    reader.close().await.expect("closed");
    world.gateway.sigterm();
    assert!(world.gateway.ended().await.success());
    assert_eq!(std::fs::read_dir(disk.0.join("journal")).expect("the journal").count(), 0, "nothing is left");
}

#[tokio::test]
async fn s02_a_stop_on_a_full_disk_waits_for_room_and_tells_what_it_loses() {
    for has_room in [true, false] {
        let (mut world, disk) = on_a_small_disk().await;
        served(&world).await;
        let mut reader = other_program(&world.gateway).await;
        written_all(&mut reader, 1).await;
        let filler = disk.fill();
        for _ in 0..100 {
            served(&world).await;
        }
        until_metric(&world.gateway, "gateway_ledger_waiting", |waiting| waiting >= 50.0).await;
        world.gateway.sigterm();
        if has_room {
            std::fs::remove_file(filler).expect("the filler");
            written_all(&mut reader, 101).await;
        }
        reader.close().await.expect("closed");
        assert!(world.gateway.ended().await.success());
        let told = count_log_lines(&world.gateway, "the rows are lost");
        assert_eq!(told, usize::from(!has_room), "room: {has_room}");
    }
}

/// Starts a gateway on this data directory. The start must fail with one line and exit code 1, and must not change the file.
fn refuses(data: &Path, told: &str) {
    let path = data.join("gateway.db");
    let before = std::fs::read(&path).expect("the file");
    let launch = Launch::new(binary())
        .file(
            "gateway.toml",
            "[[providers]]\nname = \"demo\"\napi = \"demo\"\n[server]\nlisten = \"127.0.0.1:0\"\n",
        )
        .arg("serve")
        .env("MODEL_GATEWAY_DATA_DIR", &data.to_string_lossy());
    let output = launch.run();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}: {said}");
    assert_eq!(said.lines().count(), 1, "{told}: {said}");
    assert!(
        said.starts_with("model-gateway: ") && said.contains("gateway.db") && said.contains(told),
        "{told}: {said}"
    );
    assert!(output.stdout.is_empty(), "{told}: nothing to use is shown");
    assert!(std::fs::read(&path).expect("the file") == before, "{told}: the file was changed");
}

#[tokio::test]
async fn s02_an_upload_that_the_disk_does_not_take_is_kept_in_memory() {
    let (world, disk) = on_a_small_disk().await;
    let filler = disk.fill();
    let sound = wav(20_000);
    let body = form(&[("file", Some("a.wav"), &sound), ("model", None, b"acme/hear")]);
    // The disk has no room, or it has room for the first part.
    for room in [0, 128 << 10] {
        let file = std::fs::File::options().write(true).open(&filler).expect("the filler");
        let length = file.metadata().expect("its size").len();
        file.set_len(length - room).expect("room");
        world.upstream.enqueue(Answer::json(200, &json!({ "text": "Hello" })));
        post_form(&world.client, "/v1/audio/transcriptions", &body).await.ok();
        let sent = world.upstream.last();
        assert!(sent.body.windows(sound.len()).any(|part| part == sound.as_slice()), "room: {room}");
    }
    until_metric(&world.gateway, "gateway_request_body_bytes", |bytes| bytes == 0.0).await;
}

#[tokio::test]
async fn s02_a_start_on_a_full_disk_says_that_the_disk_is_full() {
    let (mut world, disk) = on_a_small_disk().await;
    world.gateway.sigterm();
    assert!(world.gateway.ended().await.success());
    disk.fill();
    refuses(&disk.0, "its disk is full");
}

#[tokio::test]
async fn s03_a_store_that_cannot_be_used_is_one_line_and_left_as_it_is() {
    let mut first =
        serve("[[providers]]\nname = \"demo\"\napi = \"demo\"\n[server]\nlisten = \"127.0.0.1:0\"\n").await;
    first.sigterm();
    assert!(first.ended().await.success());
    let good = std::fs::read(first.dir().join("data/gateway.db")).expect("a store");
    let with = |bytes: &[u8]| -> TempDir {
        let data = tempfile::tempdir().expect("a directory");
        std::fs::write(data.path().join("gateway.db"), bytes).expect("a file");
        data
    };
    refuses(with(&good[..good.len() / 2]).path(), "damaged");
    refuses(with(&good[..100]).path(), "damaged");
    refuses(with(b"a note about something else").path(), "damaged or not a gateway store");
    let newer = with(&good);
    let mut connection = open(&newer.path().join("gateway.db")).await;
    run(
        &mut connection,
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
         VALUES (999, 'later', 1, x'00', 1)",
    )
    .await;
    connection.close().await.expect("closed");
    refuses(newer.path(), "newer version");
    let place = tempfile::tempdir().expect("a directory");
    let disk = SmallDisk::mount(place.path().join("data"), "size=4m");
    std::fs::write(disk.0.join("gateway.db"), &good).expect("a file");
    disk.read_only();
    refuses(&disk.0, "cannot be written");
    drop(disk);
    // The gateway uses the file again once it lies in a writable place.
    let restored = with(&good);
    let launch = Launch::new(binary()).file(
        "gateway.toml",
        "[[providers]]\nname = \"demo\"\napi = \"demo\"\n[server]\nlisten = \"127.0.0.1:0\"\n",
    );
    drop(launch.env("MODEL_GATEWAY_DATA_DIR", &restored.path().to_string_lossy()).start().await);
}

/// The files that read the time of day, each with its reason. All other code uses the monotonic clock.
const TIME_OF_DAY: [(&str, &str); 10] = [
    ("gw-engine/src/request/trace.rs", "the start of a request's span"),
    ("gw-limits/src/clock.rs", "the clock of limits, that tests replace"),
    ("gw-providers/src/adapters/bedrock/sigv4.rs", "the date that is signed"),
    ("gw-providers/src/adapters/failure.rs", "a Retry-After that is a date"),
    ("gw-providers/src/adapters/retry_after.rs", "a Retry-After that is a date"),
    ("gw-providers/src/adapters/vertex/token_source.rs", "the date that is signed"),
    ("gw-server/src/access_log.rs", "`time` of a line"),
    ("gw-server/src/request_record.rs", "`time` of a line"),
    ("gw-telemetry/src/spans.rs", "the start and the end of spans"),
    ("gw-wire/src/calendar.rs", "the time in rows, keys and answers, in whole milliseconds or seconds"),
];

#[test]
fn s12_latencies_and_timeouts_are_measured_with_a_clock_that_never_jumps() {
    let mut asked = Vec::new();
    for path in gw_testkit::sources::rust_files() {
        let name = path.to_string_lossy().replace('\\', "/");
        let Some((_, name)) = name.rsplit_once("crates/") else { continue };
        let name = name.rsplit_once("gw/../").map_or(name, |(_, rest)| rest);
        if !name.contains("/src/")
            || name.contains("/tests")
            || name.starts_with("gw-testkit")
            || name.starts_with("gw-bench")
        {
            continue;
        }
        let source = std::fs::read_to_string(&path).expect("a readable file");
        let source = source.split("#[cfg(test)]").next().unwrap_or_default();
        if !source.contains("SystemTime") {
            continue;
        }
        asked.push(name.to_owned());
        // A duration between two times of day could be negative, or an hour too long.
        for line in source.lines().filter(|line| line.contains("SystemTime::now()")) {
            let measures = line.contains(".elapsed(")
                || (line.contains("duration_since(") && !line.contains("duration_since(UNIX_EPOCH)"));
            assert!(!measures, "{name}: {line}");
        }
    }
    asked.sort();
    let known: Vec<_> = TIME_OF_DAY.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(asked, known, "the time of day is asked for in places that are listed with their reason");
}
