//! `backup` of a gateway under load and `restore`: no finished request is lost, none is doubled, and keys work.

use std::collections::HashMap;
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use gw_store::Store;
use gw_store::ledger::{Entry, Filter};
use gw_testkit::upstream::default_answer;
use gw_testkit::{Client, FakeUpstream, Gateway, Launch, eventually};

use crate::harness::{Setup, binary, chat};

/// Clients that send requests one after the other.
const CLIENTS: usize = 8;
/// Requests that have ended before the backup begins.
const REQUESTS_BEFORE: usize = 100;

fn launch(config: &str, data: &Path, args: &[&str]) -> Launch {
    let launch = Launch::new(binary()).file("gateway.toml", config);
    let launch = launch.env("MODEL_GATEWAY_DATA_DIR", &data.to_string_lossy());
    args.iter().fold(launch, |launch, arg| launch.arg(*arg))
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[track_caller]
fn ok(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", text(output));
    text(output)
}

/// Creates a key in the store, and returns it.
fn create_key(config: &str, data: &Path) -> String {
    let said = ok(&launch(config, data, &["keys", "create", "--name", "app"]).run());
    let key = said.split_whitespace().find(|word| word.starts_with("sk-gw-"));
    key.unwrap_or_else(|| panic!("a key in {said}")).to_owned()
}

/// Sends requests until `over`, and notes the ids of the answered ones.
async fn load(client: Client, ids: Arc<Mutex<Vec<String>>>, over: Arc<AtomicBool>) {
    while !over.load(Ordering::Acquire) {
        let answer = client.post_json("/v1/chat/completions", &chat("acme/fast")).await.ok();
        let id = answer.header("x-request-id").expect("an id").to_owned();
        ids.lock().expect("no panic").push(id);
    }
}

async fn rows(data: &Path) -> (HashMap<String, Entry>, u64, i128) {
    let store = Store::open(&data.join("gateway.db")).await.expect("the store");
    let rows = store.requests(&Filter::default(), None, u32::MAX >> 1).await.expect("the ledger");
    let sums = store.total(&Filter::default()).await.expect("sums");
    store.close().await;
    (rows.into_iter().map(|row| (row.request_id.to_string(), row)).collect(), sums.requests, sums.cost)
}

async fn stop(mut gateway: Gateway) {
    gateway.sigterm();
    assert!(gateway.ended().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_backup_under_load_loses_and_doubles_nothing() {
    let (old, new, shelf) = (tempfile::tempdir(), tempfile::tempdir(), tempfile::tempdir());
    let [old, new, shelf] = [old, new, shelf].map(|directory| directory.expect("a directory"));
    let upstream = FakeUpstream::start().await;
    upstream.respond_with(default_answer);
    let config = Setup::default().config(&upstream.base_url(), &upstream.base_url());
    let key = create_key(&config, old.path());
    let gateway = launch(&config, old.path(), &[]).start().await;
    let (ids, over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(load(gateway.client().with_key(&key), Arc::clone(&ids), Arc::clone(&over)));
    }
    let answered = || ids.lock().expect("no panic").clone();
    eventually("requests are answered", || (answered().len() >= REQUESTS_BEFORE).then_some(())).await;
    let before = answered();
    let archive = shelf.path().join("gateway.tar").display().to_string();
    let backup = launch(&config, old.path(), &["backup", &archive]);
    let said = tokio::task::spawn_blocking(move || ok(&backup.run())).await.expect("the backup ends");
    assert!(said.contains("wrote ") && said.contains("encryption key"), "{said}");
    let during = answered().len();
    eventually("the load goes on", || (answered().len() > during).then_some(())).await;
    over.store(true, Ordering::Release);
    clients.join_all().await;
    stop(gateway).await;

    let said = ok(&launch(&config, new.path(), &["restore", &archive]).run());
    assert!(said.contains("restored "), "{said}");
    gw_store::backup::verify(&new.path().join("gateway.db")).await.expect("a sound file");
    // The start reads the journal of the backup.
    let gateway = launch(&config, new.path(), &[]).start().await;
    let client = gateway.client().with_key(&key);
    let last = client.post_json("/v1/chat/completions", &chat("acme/fast")).await.ok();
    let last = last.header("x-request-id").expect("an id").to_owned();
    stop(gateway).await;
    let (all, ..) = rows(old.path()).await;
    let (mut restored, count, cost) = rows(new.path()).await;
    assert_eq!((count as usize, cost), (restored.len(), restored.values().map(|row| row.cost).sum()));
    assert_eq!(restored.remove(&last).map(|row| row.status.into_owned()), Some("ok".to_owned()));
    for id in &before {
        assert!(restored.contains_key(id), "{id} was answered before the backup and is not in it");
    }
    // A request in flight at the moment of the backup is there as after a power failure.
    restored.retain(|_, row| row.status != "interrupted");
    let told = |row: &Entry| (row.at, row.status.clone(), row.tokens.prompt, row.tokens.completion, row.cost);
    for (id, row) in &restored {
        assert_eq!(Some(told(row)), all.get(id).map(told), "{id}");
    }
}

/// A data directory with a key, and a backup of it.
fn backed_up(shelf: &Path, data: &Path) -> String {
    create_key(DEMO, data);
    let archive = shelf.join("gateway.tar").display().to_string();
    ok(&launch(DEMO, data, &["backup", &archive]).run());
    archive
}

const DEMO: &str = "[server]\nlisten = \"127.0.0.1:0\"\n[[providers]]\nname = \"demo\"\n";

fn refused(output: &Output, words: &str) {
    assert_eq!(output.status.code(), Some(2), "{}", text(output));
    assert!(text(output).contains(words), "{}", text(output));
}

#[tokio::test]
async fn a_running_gateway_and_an_existing_state_are_not_replaced() {
    let (data, shelf) =
        (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let archive = backed_up(shelf.path(), data.path());
    let gateway = launch(DEMO, data.path(), &[]).start().await;
    refused(&launch(DEMO, data.path(), &["restore", &archive, "--replace"]).run(), "a running gateway uses");
    stop(gateway).await;
    refused(&launch(DEMO, data.path(), &["restore", &archive]).run(), "--replace");
    let said = ok(&launch(DEMO, data.path(), &["restore", &archive, "--replace"]).run());
    assert!(said.contains("moved the replaced state to"), "{said}");
    let aside = std::fs::read_dir(data.path()).expect("the data directory").filter_map(Result::ok);
    let aside = aside.map(|entry| entry.path()).find(|path| path.display().to_string().contains("replaced-"));
    assert!(aside.expect("the replaced state").join("gateway.db").exists());
}

#[tokio::test]
async fn a_store_that_another_process_has_open_is_not_replaced() {
    let (data, shelf) =
        (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let archive = backed_up(shelf.path(), data.path());
    let store = Store::open(&data.path().join("gateway.db")).await.expect("the store");
    refused(
        &launch(DEMO, data.path(), &["restore", &archive, "--replace"]).run(),
        "locked by another program",
    );
    store.close().await;
    ok(&launch(DEMO, data.path(), &["restore", &archive, "--replace"]).run());
}

#[tokio::test]
async fn a_backup_of_a_newer_program_is_refused() {
    let (data, shelf) =
        (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let archive = backed_up(shelf.path(), data.path());
    let newer = "import hashlib,io,json,sqlite3,sys,tarfile,tempfile,os\n\
        source=tarfile.open(sys.argv[1]);files={m.name:source.extractfile(m).read() for m in source}\n\
        path=os.path.join(tempfile.mkdtemp(),'g.db');open(path,'wb').write(files['gateway.db'])\n\
        db=sqlite3.connect(path);db.execute(\"INSERT INTO _sqlx_migrations VALUES (9999,'later',0,1,x'00',0)\")\n\
        db.commit();db.close();files['gateway.db']=open(path,'rb').read()\n\
        m=json.loads(files.pop('manifest.json'))\n\
        for f in m['files']: f['bytes']=len(files[f['name']]);f['sha256']=hashlib.sha256(files[f['name']]).hexdigest()\n\
        target=tarfile.open(sys.argv[1],'w')\n\
        for n,b in [('manifest.json',json.dumps(m).encode()),*files.items()]:\n\
        \x20t=tarfile.TarInfo(n);t.size=len(b);target.addfile(t,io.BytesIO(b))\n\
        target.close()";
    let run = std::process::Command::new("python3").args(["-c", newer, &archive]).status();
    assert!(run.expect("python3").success());
    let empty = tempfile::tempdir().expect("a directory");
    refused(&launch(DEMO, empty.path(), &["restore", &archive]).run(), "newer version of this program");
    assert!(!empty.path().join("gateway.db").exists());
}

#[test]
fn a_damaged_archive_and_an_existing_target_are_refused() {
    let (data, shelf) =
        (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let archive = backed_up(shelf.path(), data.path());
    refused(&launch(DEMO, data.path(), &["backup", &archive]).run(), "exists already");
    let mut bytes = std::fs::read(&archive).expect("the archive");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&archive, bytes).expect("the archive");
    let empty = tempfile::tempdir().expect("a directory");
    let output = launch(DEMO, empty.path(), &["restore", &archive]).run();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("is not a usable backup"), "{}", text(&output));
    assert!(!empty.path().join("gateway.db").exists());
}

#[test]
fn a_restore_overwrites_no_other_file_of_the_data_directory() {
    let (data, shelf) =
        (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let archive = backed_up(shelf.path(), data.path());
    let with_configuration = "import hashlib,io,json,sys,tarfile\n\
        source=tarfile.open(sys.argv[1]);files={m.name:source.extractfile(m).read() for m in source}\n\
        m=json.loads(files.pop('manifest.json'));b=b'[server]';files['gateway.toml']=b\n\
        m['files'].append({'name':'gateway.toml','bytes':len(b),'sha256':hashlib.sha256(b).hexdigest()})\n\
        target=tarfile.open(sys.argv[1],'w')\n\
        for n,b in [('manifest.json',json.dumps(m).encode()),*files.items()]:\n\
        \x20t=tarfile.TarInfo(n);t.size=len(b);target.addfile(t,io.BytesIO(b))\n\
        target.close()";
    let run = std::process::Command::new("python3").args(["-c", with_configuration, &archive]).status();
    assert!(run.expect("python3").success());
    let place = tempfile::tempdir().expect("a directory");
    std::fs::write(place.path().join("gateway.toml"), "# mine").expect("a file");
    for args in [&["restore", &archive][..], &["restore", &archive, "--replace"]] {
        let output = launch(DEMO, place.path(), args).run();
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        assert!(text(&output).contains("'gateway.toml' does not belong there"), "{}", text(&output));
    }
    let left: Vec<_> = std::fs::read_dir(place.path()).expect("the folder").filter_map(Result::ok).collect();
    assert_eq!(left.iter().map(std::fs::DirEntry::file_name).collect::<Vec<_>>(), ["gateway.toml"]);
    assert_eq!(std::fs::read_to_string(place.path().join("gateway.toml")).expect("the file"), "# mine");
    // A key that is a link to nowhere is a state, too.
    std::fs::remove_file(&archive).expect("the archive");
    let archive = backed_up(shelf.path(), tempfile::tempdir().expect("a directory").path());
    std::os::unix::fs::symlink("/nowhere", place.path().join("secret.key")).expect("a link");
    refused(&launch(DEMO, place.path(), &["restore", &archive]).run(), "--replace");
}

#[test]
fn the_encryption_key_can_be_left_out() {
    let (data, shelf) =
        (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    create_key(DEMO, data.path());
    std::fs::write(data.path().join("secret.key"), "canary").expect("a key");
    for (name, arg, has_key) in
        [("with.tar", None, true), ("without.tar", Some("--without-secret-key"), false)]
    {
        let archive = shelf.path().join(name).display().to_string();
        let args: Vec<&str> = ["backup", &archive].into_iter().chain(arg).collect();
        ok(&launch(DEMO, data.path(), &args).run());
        let bytes = std::fs::read(&archive).expect("the archive");
        assert_eq!(bytes.windows(6).any(|window| window == b"canary"), has_key, "{name}");
    }
}

#[tokio::test]
async fn a_backup_with_postgres_names_pg_dump() {
    let (data, shelf) =
        (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let config = format!("{DEMO}[store]\nurl = \"{}\"\n", gw_testkit::postgres::database());
    let gateway = launch(&config, data.path(), &[]).start().await;
    let archive = shelf.path().join("gateway.tar").display().to_string();
    let backup = launch(&config, data.path(), &["backup", &archive]);
    let said = tokio::task::spawn_blocking(move || ok(&backup.run())).await.expect("the backup ends");
    assert!(said.contains("pg_dump"), "{said}");
    stop(gateway).await;
    refused(&launch(DEMO, data.path(), &["restore", &archive]).run(), "PostgreSQL");
}
