//! The rules of the file, its listeners, providers, models and keys: a text, and its exact problems.

use gw_engine::settings::{ImageFetchSettings, Role};
use gw_providers::settings::Api;

use super::{check, good, wrong};

/// A valid provider for the texts below.
const ACME: &str = "[[providers]]\nname = \"acme\"\napi = \"openai\"\nbase_url = \"http://a/v1\"\n";

#[test]
fn an_empty_file_is_all_defaults() {
    let config = good("");
    assert_eq!(config.server.listen, "127.0.0.1:4000");
    assert_eq!(config.engine.routing.strategy.as_str(), "default");
    assert!(config.providers.is_empty() && config.engine.keys.is_empty());
    assert!(config.store.url.is_none() && config.data_dir.is_none());
}

#[test]
fn an_unknown_key_names_the_nearest() {
    check(
        "[[providers]]\nname = \"acme\"\napi = \"openai\"\nbas_url = \"http://a\"\nbase_url = \"http://a\"",
        &["4:1: providers[0].bas_url: unknown key; did you mean 'base_url'?"],
    );
    check("[servr]\nlisten = \"a:1\"", &["1:2: servr: unknown key; did you mean 'server'?"]);
    check("[server]\nLISTEN = \"a:1\"", &["2:1: server.LISTEN: unknown key; did you mean 'listen'?"]);
    check("rpm = 5", &["1:1: rpm: unknown key; 'rpm' belongs in [[keys]] or [[budgets]]"]);
    check(
        "[store]\nwhatever = 5",
        &[
            "2:1: store.whatever: unknown key; known here: url, start_timeout_seconds, retention_days, max_log_mib, progress_tokens, payloads, keys, teams",
        ],
    );
    check(
        "[store]\n\"a\\n\" = 5",
        &[
            "2:1: store.\"a\\n\": unknown key; known here: url, start_timeout_seconds, retention_days, max_log_mib, progress_tokens, payloads, keys, teams",
        ],
    );
    check(
        "[server]\ntls = { cret = 'a' }",
        &[
            "2:1: server.tls.cert: is missing",
            "2:1: server.tls.key: is missing",
            "2:9: server.tls.cret: unknown key; did you mean 'cert'?",
        ],
    );
}

#[test]
fn the_memory_of_bodies_has_room_for_one_body() {
    let memory = |text: &str| good(text).server.body_memory;
    assert_eq!(memory("[server]\nbody_memory_mib = 32"), Some(32 << 20));
    assert_eq!(memory(""), None);
    check(
        "[server]\nbody_memory_mib = 31",
        &["2:19: server.body_memory_mib: is less than 'body_limit_mib'; write at least 32"],
    );
}

#[test]
fn certificates_of_clients_need_an_authority() {
    let tls = "[server.tls]\ncert = 'Cargo.toml'\nkey = 'Cargo.toml'\n";
    let with_ca = good(&format!("{tls}client_ca = 'Cargo.toml'\nclient_certificate = 'optional'")).server.tls;
    assert!(with_ca.is_some_and(|tls| tls.client_ca.is_some() && tls.is_client_certificate_optional));
    check(
        &format!("{tls}client_certificate = 'optional'"),
        &["4:22: server.tls.client_certificate: needs 'client_ca', the authorities of the certificates"],
    );
}

#[test]
fn everything_is_said_at_once_and_in_order() {
    check(
        "[timeouts]\nidle_ms = 0\n[server]\nlisten = 4000\nlistn = 1\n[[providers]]\napi = \"opnai\"\n",
        &[
            "2:11: timeouts.idle_ms: out of range; expected a whole number from 1 to 86400000",
            "4:10: server.listen: expected a string: host:port, found an integer",
            "5:1: server.listn: unknown key; did you mean 'listen'?",
            "6:1: providers[0].name: is missing",
            "7:7: providers[0].api: unknown word; expected one of \"openai\", \"azure\", \"anthropic\", \"gemini\", \"vertex\", \
         \"bedrock\", \"cohere\", \"mistral\", \"ollama\", \"demo\"; did you mean 'openai'?",
        ],
    );
}

#[test]
fn syntax_errors_have_a_place() {
    check("[server]\nlisten = \n", &["2:10: string values must be quoted, expected literal string"]);
    check("[server]\nlisten = acme\n", &["2:10: string values must be quoted, expected literal string"]);
    check("[server]\nlisten = \"a:1\"\nlisten = \"a:2\"\n", &["3:1: duplicate key 'listen'"]);
    check("[server]\n[store]\n[server]\n", &["3:2: duplicate key 'server'"]);
    // Only problems before the syntax error are reported.
    let said = wrong("[server]\nlistn = 1\ncors_origins = [\nretries = 1\n[nowhere]\n");
    assert_eq!(said.len(), 2, "{said:?}");
    assert_eq!(said[0], "2:1: server.listn: unknown key; did you mean 'listen'?");
    assert!(said[1].starts_with("4:9: "), "{said:?}");
}

#[test]
fn columns_count_characters() {
    check(
        "\u{feff}[server]\r\ntls = { \"é\" = 1, cert = 'Cargo.toml', key = 'Cargo.toml' }\r\n",
        &["2:9: server.tls.é: unknown key; known here: cert, key, client_ca, client_certificate"]
            .map(|line| Box::leak(line.replace(".é:", ".\"é\":").into_boxed_str()) as &str),
    );
}

#[test]
fn types_and_their_slips() {
    check("server = 5", &["1:10: server: expected a table, found an integer"]);
    check(
        "[[server]]",
        &["1:1: server: expected a table, found a list; write […] with one bracket on each side"],
    );
    check(
        "[providers]\nname = \"a\"",
        &[
            "1:2: providers: expected a list of tables, found a table; write [[…]] with two brackets on each side",
        ],
    );
    check("providers = [5]", &["1:14: providers[0]: expected a table"]);
    check(
        "[routing]\nretries = \"1\"",
        &[
            "2:11: routing.retries: expected a whole number from 0 to 10, found a string; write it without quotes",
        ],
    );
    check(
        "[routing]\nretries = 1.0\nfallback_on_4xx = 1",
        &[
            "2:11: routing.retries: expected a whole number from 0 to 10, found a number with a point",
            "3:19: routing.fallback_on_4xx: expected true or false, found an integer",
        ],
    );
    check(
        "[server]\nmax_in_flight = 99999999999999999999999",
        &["2:17: server.max_in_flight: out of range; expected a whole number from 1 to 1000000"],
    );
    check(
        "[server]\ncors_origins = \"*\"",
        &[
            "2:16: server.cors_origins: expected a list, each a string: \"*\" or scheme://host[:port], found a string; \
         put it in brackets",
        ],
    );
    check(
        "[routing]\nstrategy = \"cheapst\"",
        &[
            "2:12: routing.strategy: unknown word; expected one of \"default\", \"cheapest\", \"fastest\", \"throughput\", \
         \"best_quality\", \"balanced\", \"availability\", \"least_busy\", \"round_robin\"; did you mean 'cheapest'?",
        ],
    );
    check(
        "[routing.hedge]\nafter = 1.5",
        &[
            "2:9: routing.hedge.after: expected a whole number from 1 to 86400000, or one of \"p95\", found a number with a point",
        ],
    );
    assert_eq!(good("[server]\nmax_in_flight = 0x1_0").server.max_in_flight, 16);
}

#[test]
fn listeners_are_checked() {
    check("[server]\nlisten = \"4000\"", &["2:10: server.listen: is not HOST:PORT, such as 127.0.0.1:4000"]);
    check(
        "[server]\nlisten = \"a:1\"\nadmin_listen = \"a:1\"",
        &["3:16: server.admin_listen: is the same address as 'listen'; write another one"],
    );
    good("[server]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"");
    for (listen, admin) in [
        ("0.0.0.0:1", "127.0.0.1:1"),
        ("127.0.0.1:1", "0.0.0.0:01"),
        ("[::]:1", "127.0.0.1:1"),
        ("[::1]:1", "[::]:1"),
        ("[::1]:1", "[0:0::1]:1"),
    ] {
        let shared = "3:16: server.admin_listen: has the port of 'listen', and one of the addresses includes the other; \
                      write another port";
        check(&format!("[server]\nlisten = \"{listen}\"\nadmin_listen = \"{admin}\""), &[shared]);
    }
    for (listen, admin) in [
        ("0.0.0.0:1", "127.0.0.1:2"),
        ("0.0.0.0:0", "127.0.0.1:0"),
        ("0.0.0.0:1", "[::1]:1"),
        ("127.0.0.1:1", "127.0.0.2:1"),
        ("0.0.0.0:1", "localhost:1"),
    ] {
        good(&format!("[server]\nlisten = \"{listen}\"\nadmin_listen = \"{admin}\""));
    }
    check(
        "[server]\ntls = { cert = \"no-such-file\", key = \"neither\" }",
        &["2:16: server.tls.cert: the file cannot be read", "2:38: server.tls.key: the file cannot be read"],
    );
    assert!(good("[server]\nkeepalive_seconds = 0").server.keepalive.is_none());
}

#[test]
fn the_api_of_a_known_provider_need_not_be_written() {
    for (name, api) in [
        ("openai", Api::OPENAI),
        ("anthropic", Api::ANTHROPIC),
        ("google", Api::GEMINI),
        ("gemini", Api::GEMINI),
        ("groq", Api::OPENAI),
        ("ollama", Api::OLLAMA),
        ("demo", Api::DEMO),
    ] {
        assert_eq!(good(&format!("[[providers]]\nname = \"{name}\"")).providers[0].api, api, "{name}");
    }
    let written = good("[[providers]]\nname = \"anthropic\"\napi = \"openai\"\nbase_url = \"http://a/v1\"");
    assert_eq!(written.providers[0].api, Api::OPENAI);
    check(
        "[[providers]]\nname = \"acme\"",
        &[
            "2:8: providers[0].api: is required: 'acme' is not a known provider; write \"openai\" for a server that is \
             compatible with OpenAI (vLLM, llama.cpp, LM Studio), or another one of \"openai\", \"azure\", \"anthropic\", \
             \"gemini\", \"vertex\", \"bedrock\", \"cohere\", \"mistral\", \"ollama\", \"demo\"",
        ],
    );
}

#[test]
fn a_base_url_ends_before_the_endpoint() {
    for endpoint in ["/chat/completions", "/completions", "/embeddings", "/v1/messages", "/api/chat"] {
        for slash in ["", "/"] {
            let said = format!(
                "4:12: providers[0].base_url: ends in '{endpoint}', which the gateway appends itself; write the address \
                 without '{endpoint}'"
            );
            check(&ACME.replace("/v1\"", &format!("/v1{endpoint}{slash}\"")), &[&said]);
        }
    }
}

#[test]
fn a_value_without_quotes_is_told_from_a_number() {
    let said = "2:15: is neither a number, a date, true nor false; put the value in quotes";
    check("[server]\nlisten = 127.0.0.1:4000\n", &[said]);
}

#[test]
fn providers_are_checked() {
    check("[[providers]]", &["1:1: providers[0].name: is missing"]);
    check(&format!("{ACME}{ACME}"), &["6:8: providers[1].name: is already the name of providers[0]"]);
    check(
        "[[providers]]\nname = \"Acme/x\"\napi = \"demo\"",
        &["2:8: providers[0].name: is not 1 to 64 of a-z, 0-9, '_' and '-'"],
    );
    check(
        "[[providers]]\nname = \"acme\"\napi = \"openai\"",
        &[
            "2:8: providers[0].base_url: is required: 'acme' is not a known provider; write its address with the version, \
             such as \"http://127.0.0.1:8000/v1\"",
        ],
    );
    check(
        "[[providers]]\nname = \"opnai\"\napi = \"openai\"",
        &["2:8: providers[0].base_url: is required: 'opnai' is not a known provider; did you mean 'openai'?"],
    );
    good("[[providers]]\nname = \"openai\"\napi = \"openai\"");
    check(
        "[[providers]]\nname = \"a\"\napi = \"openai\"\nbase_url = \"https://u:p@a/v1\"",
        &["4:12: providers[0].base_url: contains a user or password; write the key to api_key"],
    );
    check(
        "[[providers]]\nname = \"a\"\napi = \"openai\"\nbase_url = \"http://169.254.169.254\"",
        &["4:12: providers[0].base_url: is a link-local address, which clouds use for credentials"],
    );
    check(
        &format!("{}allow_private_network = false", ACME.replace("//a/", "//10.0.0.1/")),
        &[
            "4:12: providers[0].base_url: is a private address, and allow_private_network is false; set allow_private_network = true if the gateway may call it",
        ],
    );
    check(
        &format!("{ACME}api_key = \"a\"\napi_keys = [\"b\"]\n"),
        &[
            "6:12: providers[0].api_keys: cannot be combined with 'api_key'; write all keys here, or one key there",
        ],
    );
    check(
        &format!("{ACME}api_keys = []\n"),
        &["5:12: providers[0].api_keys: is empty; leave the key out instead"],
    );
    check(
        &format!("{ACME}api_keys = [{{ weight = 0 }}]\n"),
        &[
            "5:13: providers[0].api_keys[0].key: is missing",
            "5:24: providers[0].api_keys[0].weight: out of range; expected a whole number from 1 to 1000",
        ],
    );
    check(
        &format!("{ACME}headers = {{ Host = \"x\", x-a = \"1\", X-A = \"2\" }}\n"),
        &[
            "5:13: providers[0].headers.Host: is a header that the gateway sets itself",
            "5:31: providers[0].headers.x-a: is already set by another key; upper and lower case do not matter",
        ],
    );
    check(
        &format!("{ACME}region = \"eu\"\nprice_multiplier = -1"),
        &[
            "5:10: providers[0].region: is an option of bedrock and vertex, not of this provider's api",
            "6:20: providers[0].price_multiplier: cannot be negative",
        ],
    );
}

#[test]
fn models_are_checked() {
    let model = |rest: &str| format!("{ACME}[[models]]\nid = \"acme/a\"\n{rest}");
    check("[[models]]", &["1:1: models[0].id: is missing"]);
    check("[[models]]\nid = \"fast\"", &["2:6: models[0].id: has no '/'; an id is provider/model"]);
    check(
        &format!("{ACME}[[models]]\nid = \"acmee/a\""),
        &["6:6: models[0].id: begins with an unknown provider; did you mean 'acme'?"],
    );
    check(&model("[[models]]\nid = \"acme/a\""), &["8:6: models[1].id: is already the id of models[0]"]);
    check(
        &model("features = [\"visoin\"]\nmodalities = { input = [\"txt\"] }"),
        &[
            "7:13: models[0].features[0]: unknown word; expected one of \"streaming\", \"function_calling\", \
         \"parallel_function_calling\", \"json_mode\", \"json_schema\", \"vision\", \"reasoning\", \"prompt_caching\", \
         \"audio\", \"pdf\", \"web_search\"; did you mean 'vision'?",
            "8:25: models[0].modalities.input[0]: unknown word; expected one of \"text\", \"image\", \"audio\", \"video\", \
         \"pdf\", \"embedding\"; did you mean 'text'?",
        ],
    );
    check(
        &model("pricing = { official_input_per_m = -0.1, gateway_input_per_m = 1e-10, currency = \"usd\" }"),
        &[
            "7:36: models[0].pricing.official_input_per_m: cannot be negative",
            "7:64: models[0].pricing.gateway_input_per_m: has more than 9 digits before or 9 after the point",
            "7:82: models[0].pricing.currency: is not a currency code of three capital letters, such as USD",
        ],
    );
    check(
        &model("pricing = { tiers = [{ above_input_tokens = 9 }, { above_input_tokens = 9 }, {}] }"),
        &[
            "7:73: models[0].pricing.tiers[1].above_input_tokens: must be greater than in the tier before",
            "7:78: models[0].pricing.tiers[2].above_input_tokens: is missing",
        ],
    );
    check(
        &model("quality_scores = { math = 101, code = nan }\ncontext_length = 0"),
        &[
            "7:27: models[0].quality_scores.math: out of range; expected a number from 0 to 100",
            "7:39: models[0].quality_scores.code: out of range; expected a number from 0 to 100",
            "8:18: models[0].context_length: out of range; expected a whole number from 1 to 1000000000",
        ],
    );
    check(
        "[aliases]\n\"a/b\" = \"c\"\nx = \"x\"\ny = \"\"\nz = []\nlist = [\"m\", \"list\"]\n\"a b\" = \"c\"",
        &[
            "3:5: aliases.x: is an alias of itself",
            "4:5: aliases.y: is not 1 to 256 characters without blanks",
            "5:5: aliases.z: is empty; leave the key out instead",
            "6:14: aliases.list[1]: is an alias of itself",
            "7:1: aliases.\"a b\": is not 1 to 256 characters without blanks",
        ],
    );
    check(
        "[[aliases]]\nname = \"a/b\"\ntargets = [\"m\"]\n[[aliases]]\nname = \"a/b\"\ntargets = \"a/b\"\n[[aliases]]\ntarget = \"m\"",
        &[
            "5:8: aliases[1].name: is already the name of another alias",
            "6:11: aliases[1].targets: is an alias of itself",
            "7:1: aliases[2].name: is missing",
            "7:1: aliases[2].targets: is missing",
            "8:1: aliases[2].target: unknown key; did you mean 'targets'?",
        ],
    );
}

#[test]
fn prices_are_exact() {
    let text =
        "[[models]]\nid = \"openai/a\"\npricing = { official_input_per_m = 0.1, official_output_per_m = 3 }";
    let pricing = &good(text).engine.models[0].pricing;
    assert_eq!(pricing.official_input_per_m.unwrap().to_string(), "0.1");
    assert_eq!(pricing.official_output_per_m.unwrap().to_string(), "3");
}

#[test]
fn keys_are_checked() {
    check("[[keys]]", &["1:1: keys[0].key: is missing"]);
    check(
        "[[keys]]\nname = \"a\"\nkey = \"x\"\n[[keys]]\nname = \"a\"\nkey = \"x\"",
        &[
            "5:8: keys[1].name: is already the name of keys[0]",
            "6:7: keys[1].key: is also the key of keys[0]",
        ],
    );
    check("[[keys]]\nkey = \"  \"", &["2:7: keys[0].key: is blank; a secret must not be blank"]);
    check(
        "[[keys]]\nkey = \"x\"\nbudget_period = \"day\"\non_budget = \"cut\"\nburst = 5",
        &[
            "3:17: keys[0].budget_period: needs 'budget_usd'",
            "4:13: keys[0].on_budget: needs 'budget_usd'",
            "5:9: keys[0].burst: needs 'rpm'",
        ],
    );
    check("[[keys]]\nkey = \" x\"", &["2:7: keys[0].key: begins or ends with a blank, which HTTP removes"]);
    check(
        "[[keys]]\nkey = \"x\"\nmodels = []\nrole = \"amdin\"\nexpires_at = 2027-01-01",
        &[
            "3:10: keys[0].models: is empty; leave the key out instead",
            "4:8: keys[0].role: unknown word; expected one of \"inference\", \"viewer\", \"operator\", \"admin\"; did you mean 'admin'?",
            "5:14: keys[0].expires_at: expected a date and time with an offset, such as 2027-01-01T00:00:00Z, found a date or \
         time without one",
        ],
    );
    check(
        "[[keys]]\nkey = \"x\"\nexpires_at = \"tomorrow\"\nmodels = [\"a*b\"]",
        &[
            "3:14: keys[0].expires_at: expected a date and time with an offset, such as 2027-01-01T00:00:00Z, found another string",
            "4:11: keys[0].models[0]: has a '*' that is not its last character",
        ],
    );
    let text =
        "[[keys]]\nkey = \"My API Key\"\nrole = \"admin\"\nexpires_at = \"2027-01-01T00:00:00Z\"\nrpm = 5";
    let key = &good(text).engine.keys[0];
    assert_eq!((key.name.as_str(), key.role, key.limits.rpm), ("key-1", Role::Admin, Some(5)));
    assert_eq!(key.expires_at, Some(1_798_761_600));
}

#[test]
fn every_section_and_every_api_is_accepted() {
    for text in [
        "[redis]\nurl = \"redis://h\"",
        "[cache]\nmax_mib = 5",
        "[cache]\nenabled = true",
        "[cache]\nenabled = false\nmax_mib = 5",
        "[cache]",
        "[routing]\nstrategy = \"lowest_cost\"\nmid_stream = \"continue\"",
        "[routing]\nstrategy = \"default\"\nmid_stream = \"fail\"",
        "[routing.breaker]\nfailures = 5\n[routing.hedge]",
        "[store]\nurl = \"postgres://u:p@h/d\"\nstart_timeout_seconds = 5",
        "[store]\nurl = \"sqlite:///a.db\"",
        "[[keys]]\nkey = \"x\"\ntpm = 1\nbudget_usd = 0.5",
        "[[keys]]\nkey = \"x\"\nmax_in_flight = 1\nbudget_usd = 1\nbudget_period = \"day\"",
        "[[keys]]\nkey = \"x\"\nrpm = 5\nburst = 5\nbudget_usd = 1\non_budget = \"finish\"",
        "[[keys]]\nkey = \"x\"\nbudget_usd = 1\non_budget = \"refuse\"",
    ] {
        good(text);
    }
    for api in Api::ALL {
        good(&format!("[[providers]]\nname = \"x\"\napi = \"{}\"\nbase_url = \"http://a\"", api.as_str()));
    }
    assert_eq!(good("[routing]\nstrategy = \"cost\"").engine.routing.strategy.as_str(), "cheapest");
}

#[test]
fn images_are_fetched_from_public_addresses_and_named_networks() {
    let images = good("[server]").engine.images;
    assert_eq!(images, ImageFetchSettings::default());
    assert!(!images.is_on && images.networks.is_empty());
    let text = "[server]\nfetch_images = true\nfetch_images_networks = [\"10.1.0.0/16\", \"::1\"]\nfetch_images_max_mib = 5\nfetch_images_timeout_ms = 2500";
    let ImageFetchSettings { is_on, networks, max_bytes, timeout } = good(text).engine.images;
    let networks: Vec<_> = networks.iter().map(ToString::to_string).collect();
    assert_eq!((is_on, max_bytes, timeout.as_millis()), (true, 5 << 20, 2500));
    assert_eq!(networks, ["10.1.0.0/16", "::1/128"]);
    check(
        "[server]\nfetch_images_networks = [\"10.1\"]",
        &[
            "2:26: server.fetch_images_networks[0]: is not an address or a range such as 10.0.0.0/8 or fd00::/8",
        ],
    );
}

#[test]
fn k12_a_provider_without_tls_at_a_public_address_needs_permission() {
    let plain_http = "4:12: providers[0].base_url: is a public address without TLS: keys and prompts would cross the network \
                      unencrypted; write https://, or set allow_plain_http = true";
    for public in ["http://8.8.8.8/v1", "HTTP://[2606:4700::1111]:8080/v1"] {
        let provider = format!("[[providers]]\nname = \"a\"\napi = \"openai\"\nbase_url = \"{public}\"\n");
        check(&provider, &[plain_http]);
        good(&format!("{provider}allow_plain_http = true"));
    }
    good(&ACME.replace("//a/", "//127.0.0.1/"));
}
