//! `[[passthrough]]`: its defaults, and what `check` says about wrong entries.

use gw_engine::settings::CredentialMode;
use gw_providers::usage_scan::UsageShape;

use super::{check, good};

const ACME: &str = "[[providers]]\nname = \"acme\"\napi = \"openai\"\nbase_url = \"http://a/v1\"\n";

/// A route with these lines, which begin at line 6.
fn route(lines: &str) -> String {
    format!("{ACME}[[passthrough]]\n{lines}")
}

#[test]
fn a_route_has_defaults_and_all_timeouts_of_its_target() {
    let text = "[timeouts]\nidle_ms = 7\n[[passthrough]]\npath = \"/a\"\ntarget = \"https://x.example\"\n\
                timeouts = { total_ms = 9 }\n";
    let config = good(text);
    let [one] = &*config.engine.passthrough else { panic!("one route") };
    assert_eq!((one.credential, one.usage, one.cost_per_request), (CredentialMode::Inject, None, None));
    assert!(one.allow_private_network && !one.allow_plain_http && one.methods.is_empty());
    let millis = |time: Option<std::time::Duration>| time.map(|time| time.as_millis());
    let timeouts = [one.timeouts.connect, one.timeouts.idle, one.timeouts.total].map(millis);
    assert_eq!(timeouts, [Some(5_000), Some(7), Some(9)]);
    let own =
        good(&route("path = \"/a\"\nprovider = \"acme\"\nusage = \"bedrock\"\ncost_per_request = 0.5\n"));
    let own = &own.engine.passthrough[0];
    assert_eq!((own.usage, own.timeouts.total), (Some(UsageShape::Bedrock), None));
    let none = good(&route("path = \"/a\"\nprovider = \"acme\"\nusage = \"none\"\n"));
    assert_eq!(none.engine.passthrough[0].usage, None);
}

#[test]
fn wrong_entries_are_found() {
    let path =
        "is not a path of letters a-z, digits and '-._~' between single slashes, without a slash at its end";
    for (lines, problem) in [
        ("path = \"a\"\nprovider = \"acme\"", "6:8: passthrough[0].path: does not begin with '/'".to_owned()),
        ("path = \"/a/\"\nprovider = \"acme\"", format!("6:8: passthrough[0].path: {path}")),
        ("path = \"/a/../b\"\nprovider = \"acme\"", format!("6:8: passthrough[0].path: {path}")),
        ("path = \"/%61\"\nprovider = \"acme\"", format!("6:8: passthrough[0].path: {path}")),
        ("path = \"/\"\nprovider = \"acme\"", format!("6:8: passthrough[0].path: {path}")),
        ("path = \"/v1/models\"\nprovider = \"acme\"", "6:8: passthrough[0].path: is a URL of the gateway".to_owned()),
        ("path = \"/admin/v1/x\"\nprovider = \"acme\"", "6:8: passthrough[0].path: is a URL of the gateway".to_owned()),
        ("path = \"/a\"", "5:1: passthrough[0]: has no upstream; set 'target' or 'provider'".to_owned()),
        (
            "path = \"/a\"\nprovider = \"acne\"",
            "7:12: passthrough[0].provider: is not the name of a provider; did you mean 'acme'?".to_owned(),
        ),
        (
            "path = \"/a\"\nprovider = \"acme\"\ntarget = \"http://a\"",
            "7:12: passthrough[0].provider: cannot be combined with 'target'; write one of them".to_owned(),
        ),
        (
            "path = \"/a\"\nprovider = \"acme\"\nheaders = { x = \"y\" }",
            "8:1: passthrough[0].headers: belongs to 'target'; the provider has its own".to_owned(),
        ),
        (
            "path = \"/a\"\nprovider = \"acme\"\npricing = { official_input_per_m = 1 }",
            "8:1: passthrough[0].pricing: needs 'usage', the shape of reported tokens".to_owned(),
        ),
        (
            "path = \"/a\"\nprovider = \"acme\"\nforward_headers = [\"Cookie\"]",
            "8:20: passthrough[0].forward_headers[0]: is a header that no upstream gets".to_owned(),
        ),
        (
            "path = \"/a\"\nprovider = \"acme\"\nforward_headers = [\"x-api-key\"]",
            "8:20: passthrough[0].forward_headers[0]: holds the gateway key, which no upstream gets".to_owned(),
        ),
        (
            "path = \"/a\"\ntarget = \"http://169.254.169.254\"",
            "7:10: passthrough[0].target: is a link-local address, which clouds use for credentials".to_owned(),
        ),
        (
            "path = \"/a\"\ntarget = \"http://10.0.0.1\"\nallow_private_network = false",
            "7:10: passthrough[0].target: is a private address, and allow_private_network is false; set \
             allow_private_network = true if the gateway may call it"
                .to_owned(),
        ),
        (
            "path = \"/a\"\ntarget = \"http://8.8.8.8\"",
            "7:10: passthrough[0].target: is a public address without TLS: keys and prompts would cross the network \
             unencrypted; write https://, or set allow_plain_http = true"
                .to_owned(),
        ),
    ] {
        check(&route(lines), &[&problem]);
    }
}

#[test]
fn a_route_to_the_demo_leads_nowhere() {
    for demo in ["name = \"demo\"\n", "name = \"acme\"\napi = \"demo\"\n"] {
        let name = if demo.contains("acme") { "acme" } else { "demo" };
        let text = format!("[[passthrough]]\npath = \"/a\"\nprovider = \"{name}\"\n[[providers]]\n{demo}");
        let problem = "3:12: passthrough[0].provider: is the demo, which has no address; name another provider, or set 'target'";
        check(&text, &[problem]);
    }
}

#[test]
fn one_path_may_have_routes_with_different_methods() {
    let two = |one: &str, other: &str| {
        let entry =
            |methods: &str| format!("[[passthrough]]\npath = \"/a\"\nprovider = \"acme\"\n{methods}\n");
        format!("{ACME}{}{}", entry(one), entry(other))
    };
    assert_eq!(good(&two("methods = [\"GET\"]", "methods = [\"POST\"]")).engine.passthrough.len(), 2);
    let problem = "10:8: passthrough[1].path: is already the path of passthrough[0], for the same methods";
    check(&two("methods = [\"GET\"]", "methods = [\"POST\", \"GET\"]"), &[problem]);
    check(&two("methods = [\"GET\"]", ""), &[problem]);
}
