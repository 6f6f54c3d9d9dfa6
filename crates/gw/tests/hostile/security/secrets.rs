//! Secrets never leak: canaries in every setting, every fault, the most verbose log, and a search of all output.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use gw_testkit::postgres::{self, PASSWORD, Postgres};
use gw_testkit::{Answer, FakeUpstream, Gateway, Launch, Redis};
use serde_json::{Value, json};

use crate::harness::canary::Heap;
use crate::harness::management::{ask, create};
use crate::harness::{Differences, binary, chat, chat_with};
use gw_testkit::sources::shipped_sources;

const CHAT: &str = "/v1/chat/completions";

/// A secret of the configuration or of a request, with characters that a URL escapes.
const ACME_KEY: &str = "sk-acme/canary+one=7QyT";
const BETA_ONE: &str = "sk-beta/canary+two=8RzU";
const BETA_TWO: &str = "sk-beta/canary+three=9SaV";
const HEADER: &str = "header/canary+four=2TbW";
const USER_KEY: &str = "sk-user/canary+five=3UcX";
const ADMIN_KEY: &str = "sk-admin/canary+six=4VdY";
const REDIS: &str = "canary-redis-5WeZ";
const WRONG: &str = "canary-wrong-password-6XfA";
const STRANGER: &str = "sk-stranger/canary+seven=7YgB";
const PROMPT: &str = "canary prompt/eight+8ZhC";

/// A gateway.toml with a secret in every setting.
fn config(acme: &FakeUpstream, beta: &FakeUpstream, stores: &str) -> String {
    format!(
        r#"
[server]
listen = "127.0.0.1:0"

[[providers]]
name = "acme"
api = "openai"
base_url = "{}"
api_key = "{ACME_KEY}"
headers = {{ "x-secret" = "{HEADER}" }}

[[providers]]
name = "beta"
api = "openai"
base_url = "{}"
api_keys = ["{BETA_ONE}", {{ key = "{BETA_TWO}", weight = 2 }}]

[[providers]]
name = "demo"
api = "demo"

[[models]]
id = "acme/fast"
pricing = {{ official_input_per_m = 0.15, official_output_per_m = 0.60, currency = "USD" }}

[[models]]
id = "beta/spare"

[[models]]
id = "acme/embed"
category = ["embedding"]

[[keys]]
name = "user"
key = "{USER_KEY}"

[[keys]]
name = "boss"
key = "{ADMIN_KEY}"
role = "admin"

{stores}
"#,
        acme.base_url(),
        beta.base_url()
    )
}

/// An upstream that echoes the request.
fn echoes(upstream: &FakeUpstream) {
    let told = |status: u16, how: &str| {
        let text = format!("{how} {ACME_KEY} {BETA_ONE} {BETA_TWO} {HEADER} Bearer {ACME_KEY}");
        Answer::error(status, "invalid_api_key", &text)
    };
    for status in [400, 401, 403, 404, 422, 429, 500, 503, 529] {
        upstream.enqueue(told(status, "you sent"));
    }
    upstream.enqueue(Answer::full(200, &[("x-echo", ACME_KEY)], format!("<html>{ACME_KEY} {PROMPT}")));
    upstream.enqueue(Answer::raw(format!("HTTP/1.1 200 {ACME_KEY}\r\nx: {HEADER}\r\n{PROMPT} {ACME_KEY}")));
    let event =
        json!({ "error": { "message": format!("you sent {ACME_KEY}"), "code": BETA_ONE, "type": HEADER } });
    upstream.enqueue(Answer::sse().data(&event).done());
    upstream.enqueue(Answer::raw("junk"));
}

/// Sends every kind of request and fault; gives all answers except those that show a new key, and the new key's secret.
async fn provoke(gateway: &Gateway, acme: &FakeUpstream, heap: &mut Heap) -> String {
    let (user, admin) = (gateway.client().with_key(USER_KEY), gateway.client().with_key(ADMIN_KEY));
    let (secret, key) =
        create(&admin, json!({ "name": "made", "budget_usd": 5, "rpm": 1000, "tpm": 1_000_000 })).await;
    let made = gateway.client().with_key(&secret);
    let prompt = json!({ "messages": [{ "role": "user", "content": PROMPT }], "stop": [PROMPT] });
    for streamed in [false, true] {
        echoes(acme);
        for n in 0..14 {
            let mut body = chat_with("acme/fast", prompt.clone());
            body["stream"] = json!(streamed);
            let client = if n % 2 == 0 { &user } else { &made };
            let answer = client.post_json(CHAT, &body).await;
            heap.answer(format!("chat {n} {streamed}"), &answer);
        }
    }
    for model in ["demo/panic", "beta/spare", "nobody/knows", "acme/embed"] {
        heap.answer(model, &made.post_json(CHAT, &chat_with(model, prompt.clone())).await);
    }
    let answer = user.post_json("/v1/embeddings", &json!({ "model": "acme/embed", "input": [PROMPT] })).await;
    heap.answer("embeddings", &answer);
    let answer = user.post_json("/v1/completions", &json!({ "model": "acme/fast", "prompt": PROMPT })).await;
    heap.answer("completions", &answer);
    for bad in [
        &b"{"[..],
        b"[]",
        b"{\"model\":5}",
        b"{\"model\":\"acme/fast\",\"messages\":[{\"role\":\"x\",\"content\":\"y\"}]}",
    ] {
        heap.answer("a bad request", &user.post_bytes(CHAT, bad).await);
    }
    let strangers = [STRANGER.to_owned(), format!("{secret}x"), secret[..secret.len() - 1].to_owned()];
    for stranger in &strangers {
        for path in ["/v1/models", "/admin/v1/keys", "/metrics"] {
            heap.answer("a stranger", &gateway.client().with_key(stranger).get(path).await);
        }
    }
    heap.answer("not an admin", &made.get("/admin/v1/keys").await);
    let path = format!("/admin/v1/keys/{}", key["id"].as_str().expect("an id"));
    let rotated = ask(&admin, "POST", &format!("{path}/rotate"), &json!({})).await.ok().json();
    assert!(rotated["key"].is_string());
    heap.answer("a patch", &ask(&admin, "PATCH", &path, &json!({ "models": ["acme/*"] })).await);
    heap.answer("a bad patch", &ask(&admin, "PATCH", &path, &json!({ "key": "x", "rpm": -1 })).await);
    for path in [
        "/admin/v1/keys?include_revoked=true",
        &path,
        "/admin/v1/teams",
        "/admin/v1/usage?by=key",
        "/admin/v1/requests",
        "/admin/v1/usage?by=model&format=csv",
        "/admin/v1/providers",
        "/admin/v1/config",
        "/admin/v1/nothing",
        "/metrics",
        "/healthz",
        "/readyz",
        "/v1/models",
        "/openapi.json",
    ] {
        heap.answer(path, &admin.get(path).await);
    }
    heap.answer("revoked", &admin.send("DELETE", &path, None, None).await);
    heap.answer("a revoked key", &made.get("/v1/models").await);
    secret
}

fn launch(config: &str) -> Launch {
    Launch::new(binary()).file("gateway.toml", config).env("RUST_LOG", "trace").env("RUST_BACKTRACE", "full")
}

/// Runs a command and adds its output to the search; gives its exit code.
fn add_run(heap: &mut Heap, launch: &Launch, place: &str) -> Option<i32> {
    let output = launch.run();
    heap.add(format!("stdout of {place}"), output.stdout);
    heap.add(format!("stderr of {place}"), output.stderr);
    output.status.code()
}

/// Ends a gateway and adds its output and files to the search.
async fn end(mut gateway: Gateway, heap: &mut Heap) {
    gateway.sigterm();
    assert!(gateway.ended().await.success());
    let said = [gateway.stdout(), gateway.stderr()].map(|lines| lines.join("\n"));
    assert!(said[1].contains("\"DEBUG\""), "the log is at its most verbose level");
    for (place, text) in ["stdout", "stderr"].into_iter().zip(said) {
        heap.add(place, text);
    }
    let data = gateway.dir().join("data");
    heap.files(&data);
    assert!(data.join("journal").is_dir(), "the data was looked at");
}

/// The secrets of the configuration.
const CONFIGURED: [&str; 9] =
    [ACME_KEY, BETA_ONE, BETA_TWO, HEADER, USER_KEY, ADMIN_KEY, STRANGER, REDIS, PASSWORD];

fn holds_no_canary(heap: &mut Heap, said: Heap, secret: &str) {
    // Only an answer may repeat the client's own text.
    heap.holds_none_of(&CONFIGURED);
    heap.0.extend(said.0);
    said_nothing(heap, secret);
}

fn said_nothing(heap: &Heap, secret: &str) {
    heap.holds_none_of(&[&CONFIGURED[..], &[WRONG, secret, &secret[12..]]].concat());
}

#[tokio::test]
async fn i12_canaries_on_sqlite() {
    let (acme, beta) = (FakeUpstream::start().await, FakeUpstream::start().await);
    let config = config(&acme, &beta, "");
    let (mut answers, mut kept) = (Heap::default(), Heap::default());
    assert_eq!(add_run(&mut kept, &launch(&config).arg("check"), "check"), Some(0));
    let gateway = launch(&config).start().await;
    let secret = provoke(&gateway, &acme, &mut answers).await;
    let metrics = gateway.client().with_key(ADMIN_KEY).get("/metrics").await.ok();
    kept.answer("metrics", &metrics);
    // The write-ahead log exists while the gateway runs.
    kept.files(&gateway.dir().join("data"));
    assert!(
        kept.0.iter().any(|(place, bytes)| place.ends_with("-wal") && !bytes.is_empty()),
        "the log was looked at"
    );
    end(gateway, &mut kept).await;
    kept.holds_none_of(&[PROMPT]);
    holds_no_canary(&mut kept, answers, &secret);
}

#[tokio::test]
async fn i12_canaries_on_postgresql_and_redis() {
    let server = Postgres::start();
    let url = server.database();
    let mut redis = Redis::start_with(&["--requirepass", REDIS]).await;
    let (acme, beta) = (FakeUpstream::start().await, FakeUpstream::start().await);
    let redis_url = redis.url().replace("redis://", &format!("redis://:{REDIS}@"));
    let stores =
        format!("[store]\nurl = \"{url}\"\nstart_timeout_seconds = 1\n[redis]\nurl = \"{redis_url}\"\n");
    let whole = config(&acme, &beta, &stores);
    let (mut answers, mut kept) = (Heap::default(), Heap::default());
    assert_eq!(add_run(&mut kept, &launch(&whole).arg("check"), "check"), Some(0));
    // Wrong passwords, and addresses without a server.
    let wrong = whole.replace(PASSWORD, WRONG);
    assert_eq!(add_run(&mut kept, &launch(&wrong).arg("serve"), "a wrong password"), Some(1));
    let nobody = whole.replace(&format!(":{}/", server.addr().port()), ":1/");
    assert_eq!(add_run(&mut kept, &launch(&nobody).arg("serve"), "no server"), Some(1));
    let gateway = launch(&whole).start().await;
    let secret = provoke(&gateway, &acme, &mut answers).await;
    // Redis refuses the password, then it stops.
    redis.command(&["AUTH", REDIS]).await;
    redis.kill();
    let key = create(&gateway.client().with_key(ADMIN_KEY), json!({ "name": "b", "budget_usd": 1 })).await.0;
    for _ in 0..5 {
        answers.answer(
            "without Redis",
            &gateway.client().with_key(&key).post_json(CHAT, &chat("acme/fast")).await,
        );
    }
    server.freeze();
    answers.answer(
        "a frozen store",
        &gateway.client().with_key(USER_KEY).post_json(CHAT, &chat("acme/fast")).await,
    );
    server.thaw();
    kept.answer("metrics", &gateway.client().with_key(ADMIN_KEY).get("/metrics").await.ok());
    end(gateway, &mut kept).await;
    kept.add("a dump of PostgreSQL", dump(&url));
    kept.holds_none_of(&[PROMPT, &key]);
    holds_no_canary(&mut kept, answers, &secret);
}

#[test]
fn i12_faults_of_a_configuration_do_not_show_its_secrets() {
    let mut heap = Heap::default();
    let faults = [
        format!("[store]\nurl = \"mysql://u:{WRONG}@127.0.0.1/d\""),
        format!("[store]\nurl = \"postgres://u:{WRONG}@[127.0.0.1/d\""),
        format!("[store]\nurl = \"postgres://u:{WRONG}@127.0.0.1:99999/d\""),
        format!("[store]\nurl = 5\n[redis]\nurl = \"http://:{WRONG}@127.0.0.1\""),
        format!("[redis]\nurl = \"redis://:{WRONG}@127.0.0.1:99999\""),
        format!(
            "[[providers]]\nname = \"a\"\napi = \"openai\"\nbase_url = \"https://u:{WRONG}@example.com/v1\""
        ),
        format!(
            "[[providers]]\nname = \"a\"\napi = \"openai\"\nbase_url = \"https://example.com/v1?key={WRONG}\""
        ),
        format!("[[providers]]\nname = \"a\"\napi = \"openai\"\napi_key = \"{WRONG}\\u0001\""),
        format!("[[providers]]\nname = \"a\"\napi = \"openai\"\napi_keys = [[\"{WRONG}\"]]"),
        format!("[[providers]]\nname = \"a\"\napi = \"openai\"\nheaders = {{ \"a b\" = \"{WRONG}\" }}"),
        format!("[[keys]]\nname = \"a\"\nkey = \"{WRONG}\"\n[[keys]]\nname = \"b\"\nkey = \"{WRONG}\""),
        format!("[[keys]]\nname = \"a\"\nkey = \"{WRONG} \"\nrole = \"root\""),
        format!("[[keys]]\nname = \"a\"\nkey = {{ file = \"/none\", text = \"{WRONG}\" }}"),
        format!("[[keys]]\nname = \"a\"\nkey = \"{WRONG}"),
    ];
    let mut rows = Differences::default();
    for (n, fault) in faults.iter().enumerate() {
        for command in ["check", "serve"] {
            let launch = launch(&format!("{fault}\n[server]\nlisten = \"127.0.0.1:99999\"\n")).arg(command);
            let code = add_run(&mut heap, &launch, &format!("{command} of fault {n}"));
            rows.check(format!("{command} of {fault}"), code, Some(2));
        }
    }
    rows.finish();
    heap.holds_none_of(&[WRONG]);
}

/// Every row of every table of a PostgreSQL database, as text.
fn dump(url: &str) -> String {
    let tables = postgres::sql_at(
        url,
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'",
    );
    let rows = tables.lines().map(|table| {
        let rows = postgres::sql_at(url, &format!("SELECT row_to_json(t)::text FROM \"{table}\" t"));
        format!("{table}\n{rows}\n")
    });
    rows.collect()
}

#[tokio::test]
async fn k01_a_dump_of_postgresql_holds_no_part_of_a_key() {
    let (acme, beta) = (FakeUpstream::start().await, FakeUpstream::start().await);
    let url = postgres::database();
    let gateway = launch(&config(&acme, &beta, &format!("[store]\nurl = \"{url}\"\n"))).start().await;
    let admin = gateway.client().with_key(ADMIN_KEY);
    let mut secrets = vec![USER_KEY.to_owned(), ADMIN_KEY.to_owned()];
    for n in 0..5 {
        let (secret, key) = create(&admin, json!({ "name": format!("k{n}") })).await;
        let path = format!("/admin/v1/keys/{}/rotate", key["id"].as_str().expect("an id"));
        let rotated: Value = ask(&admin, "POST", &path, &json!({})).await.ok().json();
        let next = rotated["key"].as_str().expect("a secret").to_owned();
        for secret in [&secret, &next] {
            gateway.client().with_key(secret).post_json(CHAT, &chat("acme/fast")).await.ok();
        }
        secrets.extend([secret, next]);
    }
    let count = "SELECT count(*) FROM ledger";
    gw_testkit::eventually("every row is written", || (postgres::sql_at(&url, count) == "10").then_some(()))
        .await;
    let mut kept = Heap::default();
    kept.add("a dump", dump(&url));
    assert!(String::from_utf8_lossy(&kept.0[0].1).contains("sk-gw-"), "the ids are there");
    // No eight consecutive characters of the secret part, in any spelling.
    for secret in &secrets {
        let hidden = if secret.starts_with("sk-gw-") { &secret[12..] } else { &secret[3..] };
        for at in 0..=hidden.len() - 8 {
            kept.holds_none_of(&[&hidden[at..at + 8]]);
        }
    }
}

/// Names of fields that must not be printed.
fn is_secret_name(name: &str) -> bool {
    let exact = [
        "key",
        "secret",
        "password",
        "token",
        "api_key",
        "client_secret",
        "private_key",
        "bearer",
        "authorization",
    ];
    exact.contains(&name)
        || name.ends_with("_secret")
        || name.ends_with("_password")
        || name.ends_with("_api_key")
}

/// Fields with such names that are no secrets, each with its meaning.
const NO_SECRETS: [(&str, &str, &str); 7] = [
    // The name of a setting.
    ("gw-import/src/report.rs", "KeyOutcome", "key"),
    // A public key.
    ("gw-config/src/catalogue_update/document.rs", "UpdateDocument", "key"),
    // The answer that shows a key once. It is serialised, and cannot be printed.
    ("gw-admin/src/keys/object.rs", "KeyObject", "key"),
    // An id of a key.
    ("gw-admin/src/request_log.rs", "RequestObject", "key"),
    // A key's name.
    ("access_log.rs", "LogLine", "key"),
    // Pieces of an answer.
    ("gemini/logprobs.rs", "TokenLogprob", "token"),
    ("gemini/logprobs.rs", "TopLogprob", "token"),
];

#[test]
fn k04_types_of_secrets_have_no_debug_that_prints() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for (name, source) in shipped_sources() {
        let mut prints = false;
        let mut inside = None;
        for line in source.lines() {
            let text = line.trim_start();
            if text.starts_with("#[derive(") {
                prints = text.contains("Debug") || text.contains("Serialize");
            } else if line.contains("struct ") && line.ends_with('{') {
                inside = prints.then(|| line.to_owned());
                prints = false;
            } else if line.starts_with('}') {
                inside = None;
            } else if let Some(owner) = &inside
                && let Some((field, kind)) = text
                    .trim_start_matches("pub(crate) ")
                    .trim_start_matches("pub(super) ")
                    .trim_start_matches("pub ")
                    .split_once(": ")
                && is_secret_name(field)
            {
                seen += 1;
                let plain = ["String", "str", "Vec<u8>", "Bytes", "HeaderValue"].iter().any(|plain| {
                    kind.split(|c: char| !c.is_alphanumeric() && c != '<').any(|word| word == *plain)
                });
                let excused = NO_SECRETS
                    .iter()
                    .any(|(file, of, known)| name.ends_with(file) && owner.contains(of) && *known == field);
                if plain && !excused {
                    wrong.push(format!("{name}: {owner} {text}"));
                }
            }
        }
    }
    assert!(seen >= 3, "the search finds a known field: {seen}");
    assert!(
        wrong.is_empty(),
        "a secret is a SecretString, or its type prints itself without it:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn a_canary_is_found_in_every_form() {
    for form in [
        "k/1+canary",
        "k%2F1%2Bcanary",
        "6b2f312b63616e617279",
        "ay8xK2NhbmFyeQ==",
        "Bearer ay8xK2NhbmFyeQ",
        "k\\/1+canary",
    ] {
        let mut heap = Heap::default();
        heap.add("here", format!("before {form} after"));
        let found = std::panic::catch_unwind(|| heap.holds_none_of(&["k/1+canary"]));
        assert!(found.is_err(), "{form}");
    }
    for before in ["", "a", "ab", "abc"] {
        let mut heap = Heap::default();
        heap.add("here", STANDARD_NO_PAD.encode(format!("{before}k/1+canary-long, and more")));
        assert!(std::panic::catch_unwind(|| heap.holds_none_of(&["k/1+canary-long"])).is_err(), "{before}");
    }
    let mut heap = Heap::default();
    heap.add("here", "nothing");
    heap.holds_none_of(&["k/1+canary"]);
}
