//! Common mistakes of new operators: each message says how to mend the configuration.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use gw_store::keys::is_well_formed;
use gw_testkit::{Gateway, Launch, eventually};

use crate::harness::{ADMIN, binary};

const DEMO: &str = "[[providers]]\nname = \"demo\"\n";
const KEYS: &str = "[[keys]]\nname = \"boss\"\nkey = \"sk-test-admin\"\nrole = \"admin\"\n";

fn launch(args: &[&str]) -> Launch {
    args.iter().fold(Launch::new(binary()), |launch, arg| launch.arg(*arg))
}

fn with_config(config: &str, args: &[&str]) -> Launch {
    launch(args).file("gateway.toml", config)
}

fn output_text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs the program to its end: the exit code and each of these words must match.
#[track_caller]
fn ends(launch: &Launch, code: i32, words: &[&str]) -> String {
    let output = launch.run();
    let said = output_text(&output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} in {said}");
    }
    said
}

/// The output of the gateway so far.
fn gateway_output(gateway: &Gateway) -> String {
    [gateway.stderr(), gateway.stdout()].concat().join("\n")
}

#[test]
fn a_dangling_link_is_no_missing_configuration() {
    for args in [&["serve", "--listen", "127.0.0.1:0"][..], &["check"], &["models"]] {
        let launch = launch(args);
        symlink("../etc/not-there.toml", launch.dir().join("gateway.toml")).expect("a link");
        ends(&launch, 2, &["gateway.toml: cannot be read", "symbolic link to '../etc/not-there.toml'"]);
    }
}

#[test]
fn a_configuration_that_is_no_regular_file_is_refused_without_reading_it() {
    let pipe = launch(&["check"]);
    let made = Command::new("mkfifo").arg(pipe.dir().join("gateway.toml")).status().expect("mkfifo");
    assert!(made.success());
    ends(&pipe, 2, &["gateway.toml: is a named pipe (FIFO), not a regular file"]);
    let directory = launch(&["check"]);
    std::fs::create_dir(directory.dir().join("gateway.toml")).expect("a directory");
    ends(&directory, 2, &["gateway.toml: is a directory, not a regular file"]);
    ends(&launch(&["check", "--config", "/dev/zero"]), 2, &["/dev/zero: is a device, not a regular file"]);
    let huge = launch(&["check"]);
    let file = std::fs::File::create(huge.dir().join("gateway.toml")).expect("a file");
    file.set_len(40 << 30).expect("a sparse file");
    ends(&huge, 2, &["gateway.toml: is larger than 16 MiB"]);
}

#[test]
fn a_file_that_the_configuration_names_must_be_a_regular_one_too() {
    let config = format!(
        "{DEMO}[server]\ntls = {{ cert = \"pipe\", key = \"pipe\" }}\n[redis]\nurl = \"redis://127.0.0.1\"\nca_file = \"pipe\"\n"
    );
    let launch = with_config(&config, &["check"]);
    let made = Command::new("mkfifo").arg(launch.dir().join("pipe")).status().expect("mkfifo");
    assert!(made.success());
    ends(&launch, 2, &["server.tls.cert: the file cannot be read", "redis.ca_file: is a named pipe (FIFO)"]);
}

#[test]
fn a_level_that_does_not_exist_is_refused_with_those_that_do() {
    const LEVELS: &str = "off, error, warn, info, debug or trace";
    ends(&with_config(DEMO, &["check", "--log-level", "loud"]), 2, &["--log-level", "'loud'", LEVELS]);
    ends(&with_config(DEMO, &["--log-level", "gw_engine=loud"]), 2, &["gw_engine=", LEVELS]);
    ends(&with_config(DEMO, &["check"]).env("RUST_LOG", "gw_engine"), 2, &["'gw_engine'", LEVELS]);
    ends(&with_config(DEMO, &["check"]).env("RUST_LOG", ""), 0, &[]);
    ends(&with_config(DEMO, &["check", "--log-level", "gw_engine=debug,warn"]), 0, &[]);
}

#[test]
fn a_key_that_names_a_variable_in_another_spelling_is_noted() {
    for key in ["$OPENAI_API_KEY", "os.environ/OPENAI_API_KEY"] {
        let config = format!("[[providers]]\nname = \"openai\"\napi_key = \"{key}\"\n");
        let note = format!(
            "the key of 'openai' is the text '{key}'; to read the variable, write '${{OPENAI_API_KEY}}'"
        );
        ends(&with_config(&config, &["check"]), 0, &[&note]);
    }
}

#[tokio::test]
async fn a_key_made_before_the_first_start_does_not_swallow_the_admin_key() {
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("data").to_string_lossy().into_owned();
    let made = launch(&["keys", "create", "--name", "early"]).env("MODEL_GATEWAY_DATA_DIR", &data).run();
    let early = String::from_utf8_lossy(&made.stdout).trim().to_owned();
    assert!(is_well_formed(&early), "{}", output_text(&made));
    let start = || launch(&["--listen", "127.0.0.1:0"]).env("MODEL_GATEWAY_DATA_DIR", &data);
    let gateway = start().start().await;
    let welcome = || Some(gateway_output(&gateway)).filter(|text| text.contains(" -d '"));
    let said = eventually("the admin key and a line to paste", welcome).await;
    let admin = said.split_whitespace().find(|word| is_well_formed(word)).expect("an admin key").to_owned();
    gateway.client().with_key(&admin).get("/admin/v1/keys").await.ok();
    gateway.client().with_key(&early).get("/v1/models").await.ok();
    drop(gateway);
    let again = start().start().await;
    assert!(!gateway_output(&again).contains("sk-gw-"), "made once");
}

#[test]
fn check_reports_aliases_and_key_models_beside_other_problems() {
    let config = format!(
        "{DEMO}[server]\nbody_limit = 5\n[aliases]\n\"fast\" = \"demo/nothing\"\n\"good\" = \"demo/chat\"\n\
         [[keys]]\nname = \"ci\"\nkey = \"sk-x\"\nmodels = [\"demo/*\", \"demo/chat\", \"good\", \"demo/chta\"]\n"
    );
    let launch = with_config(&config, &["check"]);
    let said = ends(
        &launch,
        2,
        &[
            "server.body_limit: unknown key",
            &format!(
                ":{}:10: aliases.fast: alias 'fast' stands for 'demo/nothing'",
                line_of(&config, "\"fast\"")
            ),
            "2 problems",
            "'demo/chta'",
        ],
    );
    assert!(
        !said.contains("'good'") && !said.contains("'demo/*'") && !said.contains("'demo/chat'"),
        "{said}"
    );
    ends(&with_config(&config, &["serve"]), 2, &["server.body_limit", "alias 'fast'"]);
    // A misconfigured provider may have any model, so its models are no second problem.
    let config = "[[providers]]\nname = \"acme\"\napi = \"opnai\"\n[aliases]\n\"fast\" = \"acme/fast\"\n";
    let said = ends(&with_config(config, &["check"]), 2, &["1 problem"]);
    assert!(!said.contains("alias"), "{said}");
}

/// The line of a text in a configuration, from 1.
fn line_of(config: &str, text: &str) -> usize {
    config.lines().position(|line| line.contains(text)).expect("the text is there") + 1
}

#[test]
fn check_names_the_place_of_problems_that_show_when_the_parts_are_built() {
    for (config, places) in [
        (
            "[[providers]]\nname = \"az\"\napi = \"azure\"\n[[providers]]\nname = \"p\"\napi = \"vertex\"\n",
            &[":1:1: providers[0]: ", ":4:1: providers[1]: ", "2 problems"][..],
        ),
        (
            "[[providers]]\nname = \"demo\"\n[[aliases]]\nname = \"a\"\ntargets = [\"nope/x\"]\n",
            &[":3:1: aliases[0]: alias 'a' stands for 'nope/x'", "1 problem"],
        ),
        ("[server]\nlisten = \"0.0.0.0:21050\"\n", &[":2:10: server.listen: other machines", "1 problem"]),
        // A provider with a problem has no second one.
        (
            "[server]\nbody_limit = 5\n[[providers]]\nname = \"acme\"\napi = \"openai\"\n",
            &[":2:1: server.body_limit: unknown key", ": providers[0].base_url: ", "2 problems"],
        ),
        // Its aliases are checked all the same.
        (
            "[[providers]]\nname = \"acme\"\napi = \"openai\"\n[aliases]\na = \"acme/none\"\n",
            &[": providers[0].base_url: ", ":5:5: aliases.a: alias 'a' stands for 'acme/none'", "2 problems"],
        ),
        (
            "[server]\nlisten = \"127.0.0.1:1\"\nadmin_listen = \"0.0.0.0:2\"\n",
            &[":3:16: server.admin_listen: other machines", "1 problem"],
        ),
    ] {
        ends(&with_config(config, &["check"]), 2, places);
    }
}

#[test]
fn a_comparison_names_no_winner_where_no_model_has_the_figure() {
    let config = "[[providers]]\nname = \"a\"\napi = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\n\
        [[models]]\nid = \"a/x\"\ncontext_length = 100\n[[models]]\nid = \"a/y\"\ncontext_length = 200\n";
    let said = ends(&with_config(config, &["models", "compare", "a/x", "a/y"]), 0, &[]);
    let winner = |label: &str| {
        let line =
            said.lines().rfind(|line| line.starts_with(label)).unwrap_or_else(|| panic!("{label}: {said}"));
        line.trim_start_matches(label).trim().to_owned()
    };
    for label in ["cheapest", "fastest", "best quality", "best code"] {
        assert_eq!(winner(label), "-", "{label}");
    }
    assert_eq!(winner("longest context"), "a/y");
    let json = ends(&with_config(config, &["models", "compare", "a/x", "a/y", "--json"]), 0, &[]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["highlights"]["fastest"], "a/x", "the API always names a model");
}

#[test]
fn a_provider_entry_is_understood_or_told_what_it_lacks() {
    let with = |entry: &str| with_config(&format!("[[providers]]\n{entry}\n{KEYS}"), &["check"]);
    for name in ["openai", "anthropic", "demo"] {
        ends(&with(&format!("name = \"{name}\"")), 0, &["no problems"]);
    }
    ends(
        &with("name = \"acme\""),
        2,
        &["providers[0].api: is required", "\"openai\" for a server that is compatible"],
    );
    ends(
        &with("name = \"local\"\napi = \"openai\""),
        2,
        &["base_url: is required: 'local' is not a known provider"],
    );
    ends(
        &with("name = \"a\"\napi = \"openai\"\nbase_url = \"https://a.example/v1/chat/completions\""),
        2,
        &["base_url: ends in '/chat/completions'", "write the address without '/chat/completions'"],
    );
    ends(&with("name = demo"), 2, &["gateway.toml:2:8:"]);
}

#[test]
fn a_taken_address_names_the_option_that_chooses_another() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    let config = format!("{DEMO}{KEYS}");
    let words = [&*address, "another program, perhaps another gateway, listens there", "--listen HOST:PORT"];
    ends(&with_config(&config, &["--listen", &address]), 1, &words);
    let config = format!("{config}[server]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"{address}\"\n");
    ends(&with_config(&config, &["serve"]), 1, &[&address, "server.admin_listen"]);
}

#[test]
fn check_takes_the_file_as_an_argument() {
    let launch = launch(&["check", "other.toml"]).file("other.toml", "[servr]\n");
    ends(&launch, 2, &["other.toml:1:2: servr: unknown key"]);
    ends(&launch_file("other.toml", DEMO, &["check", "other.toml"]), 0, &["other.toml: no problems"]);
    ends(&launch_file("other.toml", DEMO, &["check", "other.toml", "--config", "x.toml"]), 2, &["--config"]);
}

#[test]
fn check_prints_the_first_notes_and_counts_the_others() {
    let patterns: Vec<String> = (0..1234).map(|at| format!("\"none/m{at}\"")).collect();
    let config = format!("{DEMO}{KEYS}models = [{}]\n", patterns.join(","));
    let output = with_config(&config, &["check"]).run();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = printed.lines().collect();
    let note = |at: usize| {
        format!(
            "note: keys: the key 'boss' allows 'none/m{at}', but no model of the configured providers has this name"
        )
    };
    assert_eq!(lines.len(), 52, "{printed}");
    // The last one is about the key itself, which can be guessed.
    assert_eq!((lines[0], lines[49], lines[50]), (&*note(0), &*note(49), "and 1185 more"));
    assert!(lines[51].ends_with("gateway.toml: no problems"), "{}", lines[51]);
}

fn launch_file(name: &str, content: &str, args: &[&str]) -> Launch {
    launch(args).file(name, content)
}

#[test]
fn check_reports_that_serve_would_not_listen_without_a_key() {
    let open = format!("{DEMO}[server]\nlisten = \"0.0.0.0:0\"\n");
    let words = ["other machines can reach 0.0.0.0:0, so the gateway needs a key"];
    ends(&with_config(&open, &["check"]), 2, &words);
    ends(&with_config(&open, &["serve"]), 2, &words);
    ends(&with_config(&format!("{open}{KEYS}"), &["check"]), 0, &["no problems"]);
    ends(&with_config(&open.replace("0.0.0.0", "127.0.0.1"), &["check"]), 0, &["no problems"]);
    // With a store the answer depends on its keys, which `check` does not read.
    let launch = with_config(&open, &["check"]);
    std::fs::create_dir(launch.dir().join("data")).expect("a directory");
    std::fs::write(launch.dir().join("data/gateway.db"), "").expect("a file");
    ends(
        &launch,
        0,
        &["note: server: 'serve' refuses to listen on 0.0.0.0:0 unless the store holds a key", "no problems"],
    );
}

#[tokio::test]
async fn a_key_can_be_named_where_its_id_is_asked() {
    let config = format!("{DEMO}{KEYS}[server]\nlisten = \"127.0.0.1:0\"\n");
    let gateway = with_config(&config, &[]).start().await;
    let url = format!("http://{}", gateway.addr);
    let run = |args: &[&str]| launch(args).arg("--url").arg(&url).env("MODEL_GATEWAY_ADMIN_KEY", ADMIN);
    let create = |name: &str| {
        let output = run(&["keys", "create", "--name", name]).run();
        assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let first = create("search");
    let rotated = run(&["keys", "rotate", "search", "--grace-seconds", "0"]).run();
    assert_eq!(rotated.status.code(), Some(0), "{}", output_text(&rotated));
    ends(&run(&["usage", "--by", "key", "--key", "search"]), 0, &["total"]);
    let second = create("search");
    let both = [&first[..12], &second[..12], "2 keys have the name 'search'; write the id"];
    ends(&run(&["keys", "revoke", "search"]), 2, &both);
    ends(&run(&["keys", "revoke", &first[..12]]), 0, &["is revoked"]);
    ends(&run(&["keys", "revoke", "search"]), 0, &[&second[..12], "is revoked"]);
    ends(&run(&["keys", "revoke", "nobody"]), 2, &["no key has the id or the name 'nobody'", "keys list"]);
    let whole =
        ends(&run(&["keys", "revoke", &second]), 2, &["write its id, which is its first 12 characters"]);
    assert!(!whole.contains(&second[12..]), "a key is not repeated: {whole}");
}

#[test]
fn a_number_that_cannot_be_is_told_what_it_may_be() {
    let create = |more: &[&str]| {
        let args = [&["keys", "create", "--name", "x"], more].concat();
        with_config(DEMO, &args)
    };
    for amount in ["-1", "ten", "1.0000000001"] {
        ends(&create(&["--budget-usd", amount]), 2, &["--budget-usd", "not negative", "such as 25 or 0.50"]);
    }
    for option in ["--rpm", "--tpm", "--max-in-flight"] {
        for count in ["-1", "0", "many"] {
            ends(&create(&[option, count]), 2, &[option, "write a whole number from 1 on"]);
        }
    }
    ends(&with_config(DEMO, &["keys", "rotate", "x", "--grace-seconds", "-1"]), 2, &["from 0 to 604800"]);
}

#[tokio::test]
async fn a_start_without_a_configuration_says_what_is_on_and_what_is_off() {
    let start = |args: &[&str]| launch(args).arg("--listen").arg("127.0.0.1:0");
    let gateway = start(&["--no-discover"]).start().await;
    let said = gateway_output(&gateway);
    for line in ["configuration: none", "because of --no-discover", "provider 'demo' is on"] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let gateway = start(&[]).env("OPENAI_API_KEY", "sk-real-canary").start().await;
    let said = gateway_output(&gateway);
    for line in [
        "'openai' is on: OPENAI_API_KEY is set",
        "not a terminal",
        "'demo' is off, because another provider is on",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert!(!said.contains("canary"));
    let gateway = with_config(&format!("{DEMO}{KEYS}"), &["--listen", "127.0.0.1:0"]).start().await;
    let said = gateway_output(&gateway);
    assert!(said.contains("configuration: gateway.toml") && !said.contains("provider 'demo'"), "{said}");
}

#[tokio::test]
async fn the_data_directory_is_told_and_a_second_gateway_in_it_is_warned() {
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("shared").to_string_lossy().into_owned();
    let start = || {
        with_config(&format!("{DEMO}{KEYS}"), &["--listen", "127.0.0.1:0"])
            .env("MODEL_GATEWAY_DATA_DIR", &data)
    };
    let warning = format!("another running gateway uses the same data directory {data}");
    let first = start().start().await;
    assert!(
        gateway_output(&first).contains(&format!("data directory: {data} (set server.data_dir")),
        "{}",
        gateway_output(&first)
    );
    assert!(!gateway_output(&first).contains(&warning), "{}", gateway_output(&first));
    let second = start().start().await;
    assert!(gateway_output(&second).contains(&warning), "{}", gateway_output(&second));
    drop((first, second));
    let third = start().start().await;
    assert!(!gateway_output(&third).contains(&warning), "the others have ended: {}", gateway_output(&third));
    assert!(Path::new(&data).join("gateway.db").exists());
}

#[test]
fn a_model_that_is_not_there_names_the_command_that_lists_them() {
    let request = "{\"model\":\"demo/none\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}";
    for args in
        [&["models", "show", "demo/none"][..], &["explain", request], &["drill", "--only", "demo/none"]]
    {
        let said = ends(&with_config(DEMO, args), 2, &["no configured provider has a model 'demo/none'"]);
        assert!(said.contains("'model-gateway models' lists the configured models"), "{said}");
    }
    ends(&with_config(DEMO, &["drill"]), 2, &["nothing to drill: the configuration has no alias"]);
}
