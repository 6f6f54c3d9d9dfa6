//! `models update`: only a newer catalogue that a trusted key has signed is used, after a consent, and it can be taken back.

use std::process::Output;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gw_admin::time::format_millis;
use gw_testkit::{Answer, FakeUpstream, Launch};
use serde_json::{Value, json};

use crate::harness::binary;

const DAY: i64 = 86_400_000;

/// A publisher of catalogues, whose signatures have the form of minisign.
struct Publisher(Ed25519KeyPair);

impl Publisher {
    fn new(seed: u8) -> Self {
        Self(Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).expect("a key"))
    }

    fn public_key(&self) -> String {
        STANDARD.encode([b"Ed".as_slice(), &[7; 8], self.0.public_key().as_ref()].concat())
    }

    fn sign(&self, document: &[u8]) -> String {
        let (comment, signature) = ("timestamp:1", self.0.sign(document));
        let both = self.0.sign(&[signature.as_ref(), comment.as_bytes()].concat());
        let line = STANDARD.encode([b"Ed".as_slice(), &[7; 8], signature.as_ref()].concat());
        let last = STANDARD.encode(both.as_ref());
        format!("untrusted comment: test\n{line}\ntrusted comment: {comment}\n{last}\n")
    }
}

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_millis()).expect("a time")
}

/// A catalogue of one model.
fn document(made_at: i64, input_price: f64) -> Value {
    json!({ "format": "model-gateway-catalogue", "version": 1, "created_at": format_millis(made_at), "models": [{
        "id": "openai/gpt-6.1-sol", "category": ["chat"], "context_length": 1000,
        "pricing": { "official_input_per_m": input_price, "official_output_per_m": 10 }
    }] })
}

/// A folder with a configuration that trusts a publisher.
struct Site {
    data: tempfile::TempDir,
    publisher: Publisher,
    config: String,
}

impl Site {
    fn new() -> Self {
        let publisher = Publisher::new(1);
        let config = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n[[providers]]\nname = \"openai\"\napi_key = \"sk-x\"\n\
             base_url = \"http://127.0.0.1:1/v1\"\n[[keys]]\nname = \"k\"\nkey = \"sk-k\"\n\
             [[keys]]\nname = \"a\"\nkey = \"sk-a\"\nrole = \"admin\"\n\
             [catalogue]\ntrusted_keys = [\"{}\"]\n",
            publisher.public_key()
        );
        Self { data: tempfile::tempdir().expect("a directory"), publisher, config }
    }

    fn launch(&self, args: &[&str]) -> Launch {
        let launch = Launch::new(binary()).file("gateway.toml", &self.config);
        let launch = launch.env("MODEL_GATEWAY_DATA_DIR", &self.data.path().to_string_lossy());
        args.iter().fold(launch, |launch, arg| launch.arg(*arg))
    }

    /// Runs `models update` with a document and its signature in files.
    fn update(&self, document: &[u8], signature: &str, args: &[&str]) -> Output {
        let launch = self.launch(&["models", "update", "new.json"]).file("new.json", document);
        args.iter().fold(launch.file("new.json.minisig", signature), |launch, arg| launch.arg(*arg)).run()
    }

    fn signed_update(&self, document: &Value, args: &[&str]) -> Output {
        let bytes = document.to_string().into_bytes();
        self.update(&bytes, &self.publisher.sign(&bytes), args)
    }

    /// The price of the model as the program sees it.
    fn price(&self) -> Value {
        let output = self.launch(&["models", "show", "openai/gpt-6.1-sol", "--json"]).run();
        let model: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
        model["pricing"]["official_input_per_m"].clone()
    }

    fn installed(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.data.path()).expect("the data directory").filter_map(Result::ok);
        let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
        let mut names: Vec<_> = names.filter(|name| name.starts_with("catalogue")).collect();
        names.sort();
        names
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_catalogue_that_must_not_be_used_is_refused() {
    let site = Site::new();
    let shipped = site.price();
    let good = document(now(), 1.0);
    let with = |change: &dyn Fn(&mut Value)| {
        let mut document = good.clone();
        change(&mut document);
        document
    };
    for (document, words) in [
        (document(1_700_000_000_000, 1.0), "an older catalogue would bring old prices back"),
        (document(now() + 3 * DAY, 1.0), "in the future"),
        (with(&|document| document["format"] = json!("other")), "\"format\" is not"),
        (with(&|document| document["version"] = json!(2)), "version 2 of the form"),
        (with(&|document| document["created_at"] = json!("soon")), "\"created_at\" is not a time"),
        (with(&|document| document["models"] = json!([])), "it has no model"),
        (with(&|document| document["models"][0]["id"] = json!("no-slash")), "its models cannot be used"),
        (
            with(&|document| document["models"][0]["pricing"]["official_input_per_m"] = json!(-1)),
            "its models cannot be used",
        ),
    ] {
        let output = site.signed_update(&document, &["--yes"]);
        assert_eq!(output.status.code(), Some(2), "{words}: {}", text(&output));
        assert!(text(&output).contains(words), "{words}: {}", text(&output));
    }
    let bytes = good.to_string().into_bytes();
    let changed = good.to_string().replace("1.0", "0.1").into_bytes();
    let foreign = Publisher::new(2).sign(&bytes);
    for (bytes, signature) in [(&changed, site.publisher.sign(&bytes)), (&bytes, foreign)] {
        let output = site.update(bytes, &signature, &["--yes"]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(
            text(&output).contains("no key of catalogue.trusted_keys has signed it"),
            "{}",
            text(&output)
        );
    }
    let output = site.update(&bytes, "nothing", &["--yes"]);
    assert!(text(&output).contains("not one of minisign"), "{}", text(&output));
    assert_eq!((site.installed(), site.price()), (Vec::new(), shipped));
}

#[test]
fn without_a_trusted_key_or_a_consent_nothing_changes() {
    let mut site = Site::new();
    let output = site.signed_update(&document(now(), 1.0), &[]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(
        text(&output).contains("~ openai/gpt-6.1-sol") && text(&output).contains("add --yes"),
        "{}",
        text(&output)
    );
    site.config = site.config.split("[catalogue]").next().expect("the start").to_owned();
    let output = site.signed_update(&document(now(), 1.0), &["--yes"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("no key is trusted"), "{}", text(&output));
    assert!(site.installed().is_empty());
}

#[tokio::test]
async fn a_signed_catalogue_is_used_by_the_next_start_and_can_be_taken_back() {
    let site = Site::new();
    let shipped = site.price();
    let output = site.signed_update(&document(now() - 2 * 60_000, 1.25), &["--yes"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    for words in [
        "signed with key RWQHBwcHBwcH",
        "    pricing.official_input_per_m: ",
        " -> 1.25\n",
        " removed, 1 changed",
    ] {
        assert!(text(&output).contains(words), "{words}: {}", text(&output));
    }
    assert_eq!(site.price(), json!(1.25));
    let gateway = site.launch(&[]).start().await;
    let client = gateway.client().with_key("sk-k");
    let served = async || {
        let model = client.get("/v1/models/openai/gpt-6.1-sol").await.ok().json();
        model["pricing"]["official_input_per_m"].clone()
    };
    assert_eq!(served().await, json!(1.25));
    let output = site.signed_update(&document(now() - 60_000, 1.5), &["--yes", "--json"]);
    let diff: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(diff["changes"]["changed"][0]["changes"][0]["after"], json!(1.5), "{diff}");
    assert_eq!(served().await, json!(1.25), "a running gateway keeps its catalogue");
    let admin = gateway.client().with_key("sk-a");
    let report = admin.post_json("/admin/v1/reload", &json!({})).await.ok().json();
    assert_eq!(report["changes"], json!(["the model catalogue"]), "{report}");
    assert_eq!(served().await, json!(1.5));
    drop(gateway);
    assert_eq!((site.price(), site.installed().len()), (json!(1.5), 4));
    let revert = || site.launch(&["models", "update", "--revert", "--yes"]).run();
    assert_eq!(revert().status.code(), Some(0));
    assert_eq!(site.price(), json!(1.25));
    assert_eq!(revert().status.code(), Some(0));
    assert_eq!((site.price(), site.installed()), (shipped, Vec::new()));
    let output = revert();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("there is no update"), "{}", text(&output));
}

#[test]
fn an_installed_catalogue_that_somebody_changed_is_not_used() {
    let site = Site::new();
    let shipped = site.price();
    assert!(site.signed_update(&document(now(), 1.25), &["--yes"]).status.success());
    let file = site.data.path().join("catalogue.json");
    let changed = std::fs::read_to_string(&file).expect("the file").replace("1.25", "0.01");
    std::fs::write(&file, changed).expect("the file");
    assert_eq!(site.price(), shipped);
    let check = site.launch(&["check"]).run();
    assert!(text(&check).contains("note: catalogue: the update"), "{}", text(&check));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_catalogue_comes_from_an_address() {
    let site = Site::new();
    let bytes = document(now(), 1.75).to_string();
    let signature = site.publisher.sign(bytes.as_bytes());
    let server = FakeUpstream::start().await;
    let answers = (bytes, signature);
    server.respond_with(move |request| match request.path.as_str() {
        "/v1/new.json" => Answer::full(200, &[], &answers.0),
        "/v1/new.json.minisig" => Answer::full(200, &[], &answers.1),
        _ => Answer::error(404, "unknown_url", "no"),
    });
    let run = |name: &str| {
        site.launch(&["models", "update", "--yes", &format!("{}/{name}", server.base_url())]).run()
    };
    let missing = run("other.json");
    assert_eq!(missing.status.code(), Some(1), "{}", text(&missing));
    assert!(text(&missing).contains("answers with status 404"), "{}", text(&missing));
    let output = run("new.json");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert_eq!(site.price(), json!(1.75));
    let plain = site.launch(&["models", "update", "--yes", "http://catalogue.example/new.json"]).run();
    assert!(text(&plain).contains("only https:// addresses are read"), "{}", text(&plain));
}

#[test]
fn a_key_that_is_none_is_a_problem_of_the_configuration() {
    let launch = Launch::new(binary()).file("gateway.toml", "[catalogue]\ntrusted_keys = [\"RWshort\"]\n");
    let output = launch.arg("check").run();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("is not a minisign public key"), "{}", text(&output));
}
