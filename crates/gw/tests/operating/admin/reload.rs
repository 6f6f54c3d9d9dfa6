//! A configuration that is read again while the gateway serves: the file, SIGHUP, `POST /admin/v1/reload` and
//! `model-gateway reload`.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use gw_store::keys::is_well_formed;
use gw_testkit::measured::at_most;
use gw_testkit::postgres::Postgres;
use gw_testkit::upstream::sse_data;
use gw_testkit::wait::{eventually_true, within};
use gw_testkit::{Answer, Client, FakeUpstream, Gateway, Launch, Signal, eventually};
use serde_json::{Value, json};

use crate::harness::{ADMIN, KEY, METERED, Setup, World, binary, chat, chat_with};

const CHAT: &str = "/v1/chat/completions";
const UNWATCHED: &str = "reload_on_change = false";

/// A world that loads its file only when a test asks for it.
async fn unwatched() -> World {
    Setup { server: UNWATCHED, ..Setup::default() }.start().await
}

/// The file of an unwatched world with these lines in `[aliases]`.
fn config_with(world: &World, aliases: &'static str) -> String {
    Setup { server: UNWATCHED, aliases, ..Setup::default() }
        .config(&world.upstream.base_url(), &world.second.base_url())
}

/// Replaces the file as an editor does: a new file under the old name.
fn replace(gateway: &Gateway, text: &str) {
    let (new, file) = (gateway.dir().join("gateway.toml.new"), gateway.dir().join("gateway.toml"));
    std::fs::write(&new, text).expect("the test's directory is writable");
    std::fs::rename(new, file).expect("the test's directory is writable");
}

/// Replaces the file and asks for a reload.
async fn reload(admin: &Client, gateway: &Gateway, text: &str) -> gw_testkit::Response {
    replace(gateway, text);
    admin.post_json("/admin/v1/reload", &json!({})).await
}

async fn state(admin: &Client) -> Value {
    admin.get("/admin/v1/config").await.ok().json()["state"].clone()
}

async fn metric(admin: &Client, name: &str) -> String {
    let text = admin.get("/metrics").await.ok().text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} is not in {text}")).to_owned()
}

/// Waits until a chat with this model gets this status.
async fn until_status(client: &Client, model: &str, status: u16) {
    eventually_true("the model gets the status", async || {
        client.post_json(CHAT, &chat(model)).await.status == status
    })
    .await;
}

#[tokio::test]
async fn p07_an_invalid_configuration_leaves_the_one_before_in_force() {
    let world = unwatched().await;
    let admin = world.client.with_key(ADMIN);
    assert_eq!(metric(&admin, "gateway_config_last_reload_successful").await, "1");
    let broken = config_with(&world, "broken = \"acme/missing\"\n");
    let refused = reload(&admin, &world.gateway, &broken).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (400, "invalid_configuration"),
        "{}",
        refused.text()
    );
    assert!(refused.message().contains("acme/missing"), "{}", refused.message());
    world.chat_ok(&chat("smart")).await;
    let known = state(&admin).await;
    assert!(
        known["refused_reload"]["problems"][0]
            .as_str()
            .is_some_and(|problem| problem.contains("acme/missing"))
    );
    assert_eq!(metric(&admin, "gateway_config_last_reload_successful").await, "0");
    eventually("the log says why", || {
        world.gateway.stderr().iter().any(|line| line.contains("the one before stays in force")).then_some(())
    })
    .await;
    let good = config_with(&world, "mended = \"acme/plain\"\n");
    let done = reload(&admin, &world.gateway, &good).await.ok().json();
    assert_eq!((&done["object"], &done["changes"]), (&json!("config.reload"), &json!(["aliases.mended"])));
    world.chat_ok(&chat("mended")).await;
    assert_eq!(state(&admin).await["refused_reload"], Value::Null);
    assert_eq!(metric(&admin, "gateway_config_last_reload_successful").await, "1");
}

#[tokio::test]
async fn a_changed_file_is_noticed() {
    let world = Setup::default().start().await;
    until_status(&world.client, "written", 404).await;
    let changed = Setup { aliases: "written = \"acme/fast\"\n", ..Setup::default() };
    replace(&world.gateway, &changed.config(&world.upstream.base_url(), &world.second.base_url()));
    until_status(&world.client, "written", 200).await;
}

#[tokio::test]
async fn a_file_that_is_emptied_while_it_is_saved_removes_no_key() {
    let world = Setup::default().start().await;
    let admin = world.client.with_key(ADMIN);
    let text = Setup { aliases: "written = \"acme/fast\"\n", ..Setup::default() }
        .config(&world.upstream.base_url(), &world.second.base_url());
    let file = world.gateway.dir().join("gateway.toml");
    for blank in ["", "\n# keys = []\n"] {
        std::fs::write(&file, blank).expect("the test's directory is writable");
        eventually_true("the empty file is refused", async || {
            let known = state(&admin).await;
            known["refused_reload"]["problems"][0]
                .as_str()
                .is_some_and(|problem| problem.contains("gateway.toml: the file is empty"))
        })
        .await;
        let asked = admin.post_json("/admin/v1/reload", &json!({})).await;
        assert_eq!((asked.status, &*asked.code()), (400, "invalid_configuration"), "{}", asked.text());
        world.chat_ok(&chat("smart")).await;
    }
    std::fs::write(&file, text).expect("the test's directory is writable");
    until_status(&world.client, "written", 200).await;
    eventually_true("the refusal is over", async || state(&admin).await["refused_reload"] == Value::Null)
        .await;
}

#[tokio::test]
async fn a_gateway_that_started_with_an_empty_file_takes_it_again() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("gateway.toml");
    std::fs::write(&file, "# nothing yet\n").expect("a file");
    let start = async || {
        let launch = Launch::new(binary()).arg("--config").arg(file.display().to_string());
        let launch = launch.arg("--listen").arg("127.0.0.1:0");
        launch.env("MODEL_GATEWAY_DATA_DIR", &folder.path().join("data").display().to_string()).start().await
    };
    let first = start().await;
    let made = eventually("the first start prints an admin key", || {
        let printed = [first.stderr(), first.stdout()].concat().join(" ");
        printed.split_whitespace().find(|word| is_well_formed(word)).map(str::to_owned)
    })
    .await;
    let admin = first.client().with_key(&made);
    let path = "/admin/v1/config/aliases/short";
    let entry = json!({"targets": ["demo/chat"]}).to_string();
    let made_alias = admin.send("PUT", path, Some("application/json"), Some(entry.as_bytes())).await;
    assert_eq!(made_alias.status, 201, "{}", made_alias.text());
    drop(first);
    // The entry of the API is no setting of the file.
    let again = start().await;
    let admin = again.client().with_key(&made);
    for text in ["", "# still nothing\n"] {
        std::fs::write(&file, text).expect("a file");
        admin.post_json("/admin/v1/reload", &json!({})).await.ok();
    }
    assert_eq!(state(&admin).await["refused_reload"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_away_is_no_wrong_configuration() {
    let (upstream, mut postgres) = (FakeUpstream::start().await, Postgres::start());
    let setup = Setup { extra: format!("[store]\nurl = \"{}\"\n", postgres.database()), ..Setup::default() };
    let text = setup.config(&upstream.base_url(), &upstream.base_url());
    let launch = Launch::new(binary()).file("gateway.toml", &text).arg("--log-level").arg("gw=debug,info");
    let gateway = launch.start().await;
    let admin = gateway.client().with_key(ADMIN);
    assert_eq!(metric(&admin, "gateway_config_last_reload_successful").await, "1");
    postgres.stop();
    // The folder changes, and the configuration does not.
    std::fs::write(gateway.dir().join("beside"), "x").expect("the test's directory is writable");
    eventually("the configuration was to be read again", || {
        let log = gateway.stderr().join("\n");
        log.contains("the configuration of the store cannot be read again").then_some(())
    })
    .await;
    assert_eq!(metric(&admin, "gateway_config_last_reload_successful").await, "1");
    assert!(!gateway.stderr().join("\n").contains("the configuration cannot be used"));
    // An operator who asks is told.
    let asked = admin.post_json("/admin/v1/reload", &json!({})).await;
    assert_eq!((asked.status, &*asked.code()), (503, "store_unavailable"), "{}", asked.text());
}

#[tokio::test]
async fn a_sighup_loads_the_file_that_nobody_watches() {
    let world = unwatched().await;
    replace(&world.gateway, &config_with(&world, "signalled = \"acme/fast\"\n"));
    let pid = world.gateway.pid().to_string();
    assert!(Command::new("kill").args(["-HUP", &pid]).status().expect("kill runs").success());
    until_status(&world.client, "signalled", 200).await;
    eventually("the log names the signal and the change", || {
        let log = world.gateway.stderr().join("\n");
        (log.contains("\"trigger\":\"SIGHUP\"") && log.contains("aliases.signalled")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_replaced_symbolic_link_beside_the_file_is_noticed() {
    let world = Setup::default().start().await;
    let launch = Launch::new(binary());
    let folder = launch.dir().join("mounted");
    let link = |version: &str| {
        // A ConfigMap: gateway.toml -> ..data/gateway.toml, ..data -> ..version; an update replaces ..data.
        let new = folder.join("..new");
        std::os::unix::fs::symlink(version, &new).expect("the directory is writable");
        std::fs::rename(new, folder.join("..data")).expect("the directory is writable");
    };
    let write = |version: &str, aliases: &'static str| {
        std::fs::create_dir_all(folder.join(version)).expect("the directory is writable");
        let setup = Setup { aliases, ..Setup::default() };
        let text = setup.config(&world.upstream.base_url(), &world.second.base_url());
        std::fs::write(folder.join(version).join("gateway.toml"), text).expect("the directory is writable");
    };
    write("..one", "first = \"acme/fast\"\n");
    link("..one");
    std::os::unix::fs::symlink(Path::new("..data/gateway.toml"), folder.join("gateway.toml"))
        .expect("the directory is writable");
    let gateway = launch.arg("--config").arg("mounted/gateway.toml").start().await;
    let client = gateway.client().with_key(KEY);
    until_status(&client, "first", 200).await;
    let folder = gateway.dir().join("mounted");
    assert!(folder.join("..data").exists());
    write("..two", "second = \"acme/fast\"\n");
    link("..two");
    until_status(&client, "second", 200).await;
    until_status(&client, "first", 404).await;
}

#[tokio::test]
async fn p07_a_call_under_way_keeps_the_configuration_it_began_with() {
    let world = unwatched().await;
    let admin = world.client.with_key(ADMIN);
    let release = Signal::new();
    let answer = Answer::sse()
        .data(&sse_data(&json!({ "content": "before" }), None))
        .wait(&release)
        .data(&sse_data(&json!({ "content": " after" }), None))
        .data(&sse_data(&json!({}), Some("stop")))
        .done();
    world.upstream.enqueue(answer);
    let mut stream = world.client.stream(CHAT, &chat_with("acme/fast", json!({ "stream": true }))).await;
    stream.json().await;
    stream.json().await;
    // The new configuration has neither the provider nor the key of the stream.
    let text = format!(
        "[[providers]]\nname = \"beta\"\napi = \"openai\"\nbase_url = \"{}\"\n[[models]]\nid = \"beta/fast\"\n\
         [[keys]]\nname = \"boss\"\nkey = \"{ADMIN}\"\nrole = \"admin\"\n",
        world.second.base_url()
    );
    reload(&admin, &world.gateway, &text).await.ok();
    assert_eq!(world.client.post_json(CHAT, &chat("acme/fast")).await.status, 401);
    assert_eq!(admin.post_json(CHAT, &chat("acme/fast")).await.status, 404);
    release.fire();
    let frames = stream.rest().await;
    assert_eq!(gw_testkit::sse::text_of(&frames, 0), " after");
    assert_eq!(frames.last().map(String::as_str), Some("data: [DONE]\n\n"));
}

#[tokio::test]
async fn pools_circuits_limits_and_the_cache_survive_for_unchanged_parts() {
    let (upstream, second) = (FakeUpstream::start().await, FakeUpstream::start().await);
    let config =
        Setup { server: UNWATCHED, ..Setup::default() }.config(&upstream.base_url(), &second.base_url());
    // Each worker has connections of its own to the upstream.
    let launch = Launch::new(binary()).file("gateway.toml", config).env("TOKIO_WORKER_THREADS", "1");
    let gateway = launch.start().await;
    let client = gateway.client().with_key(KEY);
    let world = World { upstream, second, gateway, client };
    let admin = world.client.with_key(ADMIN);
    let metered = world.client.with_key(METERED);
    metered.post_json(CHAT, &chat("acme/plain")).await.ok();
    let cached = chat_with("acme/fast", json!({ "cache": { "enabled": true } }));
    world.chat_ok(&cached).await;
    let connections = world.upstream.connections();
    for round in 0..3 {
        let aliases = if round % 2 == 0 { "one = \"acme/fast\"\n" } else { "two = \"acme/fast\"\n" };
        reload(&admin, &world.gateway, &config_with(&world, aliases)).await.ok();
    }
    metered.post_json(CHAT, &chat("acme/plain")).await.ok();
    assert_eq!(world.upstream.connections(), connections, "the pool of an unchanged provider is kept");
    assert_eq!(metered.post_json(CHAT, &chat("acme/plain")).await.status, 429, "two requests a minute");
    let hits = world.upstream.hits();
    assert_eq!(world.chat_ok(&cached).await["gateway"]["cache_hit"], json!(true));
    assert_eq!(world.upstream.hits(), hits);
    // A failing model: its circuit stays open over a reload, and closes with a changed provider.
    world.second.always(Answer::error(500, "x", "boom"));
    within("the circuit opens", async {
        while standing(&admin, "beta/fast").await != json!("open") {
            world.chat(&chat("beta/fast")).await;
        }
    })
    .await;
    reload(&admin, &world.gateway, &config_with(&world, "three = \"acme/fast\"\n")).await.ok();
    assert_eq!(standing(&admin, "beta/fast").await, json!("open"));
    let changed = config_with(&world, "").replace(
        &format!("base_url = \"{}\"\n", world.second.base_url()),
        &format!("base_url = \"{}\"\nheaders = {{ x-new = \"1\" }}\n", world.second.base_url()),
    );
    let done = reload(&admin, &world.gateway, &changed).await.ok().json();
    assert_eq!(done["changes"], json!(["aliases.three", "providers.beta"]));
    assert_eq!(standing(&admin, "beta/fast").await, Value::Null);
}

/// The state of a model's circuit in `GET /admin/v1/providers`; null when the gateway has not called the model.
async fn standing(admin: &Client, model: &str) -> Value {
    let providers = admin.get("/admin/v1/providers").await.ok().json();
    let targets = providers["data"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|provider| provider["targets"].as_array().cloned().unwrap_or_default());
    let mut found = targets.filter(|target| target["model"] == json!(model));
    found.next().map_or(Value::Null, |target| target["standing"].clone())
}

#[tokio::test]
async fn a_setting_that_needs_a_restart_is_named_until_the_file_has_the_old_value() {
    let world = unwatched().await;
    let admin = world.client.with_key(ADMIN);
    let changed = Setup {
        server: "reload_on_change = false\nmax_connections = 77",
        aliases: "new = \"acme/fast\"\n",
        ..Setup::default()
    };
    let changed = changed.config(&world.upstream.base_url(), &world.second.base_url());
    for _ in 0..2 {
        let done = reload(&admin, &world.gateway, &changed).await.ok().json();
        assert_eq!(done["restart_required"], json!(["server.max_connections"]));
    }
    world.chat_ok(&chat("new")).await;
    assert_eq!(state(&admin).await["restart_required"], json!(["server.max_connections"]));
    let done = reload(&admin, &world.gateway, &config_with(&world, "")).await.ok().json();
    assert_eq!(done["restart_required"], json!([]));
    assert_eq!(done["changes"], json!(["aliases.new", "server.max_connections"]));
}

#[tokio::test]
async fn the_command_says_what_changed_or_why_not() {
    let world = unwatched().await;
    let url = format!("http://{}", world.gateway.addr);
    let command = || {
        Launch::new(binary()).arg("reload").arg("--url").arg(&url).env("MODEL_GATEWAY_ADMIN_KEY", ADMIN).run()
    };
    replace(&world.gateway, &config_with(&world, "new = \"acme/fast\"\n"));
    let done = command();
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert_eq!(done.status.code(), Some(0), "{said}");
    assert_eq!(said, "The configuration is loaded. Changed: aliases.new\n");
    world.chat_ok(&chat("new")).await;
    replace(&world.gateway, &config_with(&world, "broken = \"acme/missing\"\n"));
    let refused = command();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("acme/missing"), "{said}");
    let keyless = Launch::new(binary()).arg("reload").run();
    assert_eq!(
        (keyless.status.code(), &*String::from_utf8_lossy(&keyless.stderr)),
        (
            Some(2),
            "model-gateway: this command asks the running gateway and needs an admin key in the environment variable \
             MODEL_GATEWAY_ADMIN_KEY\n"
        )
    );
}

/// Sends chats one after the other until `stop`, and counts them. Every one must be a 200.
async fn keep_asking(client: Client, stop: Arc<AtomicBool>, asked: Arc<AtomicUsize>) {
    while !stop.load(Ordering::Relaxed) {
        let answer = client.post_json(CHAT, &chat("smart")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        asked.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn p12_two_hundred_reloads_under_load_fail_and_cut_nothing() {
    const STREAMS: usize = 200;
    let world = unwatched().await;
    let admin = world.client.with_key(ADMIN);
    let releases: Arc<Mutex<Vec<Signal>>> = Arc::default();
    let held = Arc::clone(&releases);
    world.second.respond_with(move |_| {
        let release = Signal::new();
        held.lock().unwrap().push(release.clone());
        Answer::sse()
            .data(&sse_data(&json!({ "content": "before" }), None))
            .wait(&release)
            .data(&sse_data(&json!({ "content": " after" }), None))
            .data(&sse_data(&json!({}), Some("stop")))
            .done()
    });
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        let mut stream = world.client.stream(CHAT, &chat_with("beta/fast", json!({ "stream": true }))).await;
        stream.json().await;
        stream.json().await;
        streams.push(stream);
    }
    let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let askers: Vec<_> = (0..8)
        .map(|_| tokio::spawn(keep_asking(world.client.clone(), Arc::clone(&stop), Arc::clone(&asked))))
        .collect();
    let mut resident = Vec::new();
    for round in 0..200 {
        let (text, status) = match round % 3 {
            0 => (config_with(&world, "even = \"acme/fast\"\n"), 200),
            1 => (config_with(&world, "odd = \"acme/plain\"\n"), 200),
            _ => (config_with(&world, "broken = \"acme/missing\"\n"), 400),
        };
        let answer = reload(&admin, &world.gateway, &text).await;
        assert_eq!(answer.status, status, "round {round}: {}", answer.text());
        resident.push(world.gateway.rss_kib());
    }
    stop.store(true, Ordering::Relaxed);
    for asker in askers {
        asker.await.expect("every chat is answered");
    }
    assert!(asked.load(Ordering::Relaxed) > 200, "the load was real: {asked:?}");
    releases.lock().unwrap().iter().for_each(Signal::fire);
    for stream in &mut streams {
        let frames = stream.rest().await;
        assert_eq!(gw_testkit::sse::text_of(&frames, 0), " after");
        assert_eq!(frames.last().map(String::as_str), Some("data: [DONE]\n\n"));
    }
    // The first reloads fill pools of the allocator. After them, no reload keeps memory.
    let (early, late) = (resident[50..80].iter().max(), resident[170..].iter().min());
    let (early, late) = (early.expect("measured"), late.expect("measured"));
    at_most("KiB after 200 reloads", *late, early + 8 * 1024);
}
