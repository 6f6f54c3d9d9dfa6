//! The OpenAPI document says what the gateway does.

use std::collections::BTreeSet;

use gw_wire::operation::Operation;
use serde_json::Value;

fn document() -> Value {
    serde_json::from_str(gw_server::OPENAPI_JSON).expect("the document is JSON")
}

/// Every method, in small letters, and URL of the document.
fn operations(document: &Value) -> BTreeSet<(&str, &str)> {
    let paths = document["paths"].as_object().unwrap().iter();
    paths
        .flat_map(|(path, item)| {
            item.as_object().unwrap().keys().map(|method| (method.as_str(), path.as_str()))
        })
        .collect()
}

#[test]
fn every_route_is_documented_and_no_other() {
    let plain = |path: &str| {
        let parts =
            path.split('/').map(|part| match part.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
                Some((_, method)) => format!("{{id}}{method}"),
                None => part.to_owned(),
            });
        parts.collect::<Vec<_>>().join("/")
    };
    let document = document();
    let documented: BTreeSet<(String, String)> =
        operations(&document).iter().map(|(method, path)| (method.to_uppercase(), plain(path))).collect();
    // The configuration has the URLs of pass-through routes.
    let own = gw_server::ROUTES.iter().filter(|route| route.pattern != "passthrough");
    let routed = own.flat_map(|route| {
        let methods = route.methods.into_iter().flat_map(|allow| allow.split(", "));
        let own = methods.filter(|method| !["HEAD", "OPTIONS"].contains(method));
        own.map(|method| (method.to_owned(), route.pattern.replace("/*", "/{id}")))
    });
    assert_eq!(documented, routed.collect());
}

#[test]
fn the_version_is_the_programs() {
    assert_eq!(document()["openapi"], "3.1.0");
    assert_eq!(document()["info"]["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn every_reference_leads_somewhere_and_every_component_is_used() {
    fn references<'d>(value: &'d Value, found: &mut BTreeSet<&'d str>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str));
                members.values().for_each(|member| references(member, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }
    let document = document();
    let mut used = BTreeSet::new();
    references(&document, &mut used);
    let kinds = ["schemas", "responses", "headers"];
    let defined: BTreeSet<String> = kinds
        .into_iter()
        .flat_map(|kind| {
            let names = document["components"][kind].as_object().unwrap().keys();
            names.map(move |name| format!("#/components/{kind}/{name}")).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(used, defined.iter().map(String::as_str).collect());
}

#[test]
fn every_operation_is_named_once_and_says_what_it_needs() {
    let document = document();
    let mut names = BTreeSet::new();
    for (method, path) in operations(&document) {
        let operation = &document["paths"][path][method];
        assert!(names.insert(operation["operationId"].as_str().unwrap().to_owned()), "{path}");
        let open = operation["security"].as_array().is_some_and(Vec::is_empty);
        let needs_key =
            ["/v1/", "/v1beta/", "/admin/", "/metrics"].iter().any(|start| path.starts_with(start));
        // A GET that is not the handshake of a WebSocket is refused before the key is read.
        let has_socket = method == "get" && ["/v1/responses", "/v1/realtime"].contains(&path);
        let needs_key = needs_key && !has_socket;
        assert_eq!(open, !needs_key, "{path}");
        // A sign-in has the key in its body.
        let checks_key = needs_key || has_socket || ["/auth/key", "/auth/links"].contains(&path);
        assert_eq!(operation["responses"]["401"].is_object(), checks_key, "{path}");
    }
}

#[test]
fn the_periods_of_budgets_are_those_of_the_table() {
    let periods = &document()["components"]["schemas"]["BudgetPeriod"]["anyOf"][0]["enum"];
    assert_eq!(periods, &serde_json::json!(gw_store::Period::NAMES));
}

#[test]
fn filters_by_surface_take_every_operation() {
    let document = document();
    let surfaces: BTreeSet<&str> = Operation::ALL.map(|operation| operation.row().surface).into();
    for path in ["/admin/v1/requests", "/admin/v1/usage", "/admin/v1/overview"] {
        let parameters = document["paths"][path]["get"]["parameters"].as_array().expect("parameters");
        let filter = parameters.iter().find(|parameter| parameter["name"] == "surface").expect("a filter");
        let listed =
            filter["schema"]["enum"].as_array().expect("names").iter().filter_map(|name| name.as_str());
        assert_eq!(listed.collect::<BTreeSet<_>>(), surfaces, "{path}");
    }
}

#[test]
fn the_ranges_are_those_of_the_contract() {
    let document = document();
    let field =
        |schema: &str, name: &str| document["components"]["schemas"][schema]["properties"][name].clone();
    for schema in ["ChatCompletionRequest", "CompletionRequest"] {
        for (name, low, high) in [
            ("temperature", 0, 2),
            ("top_p", 0, 1),
            ("n", 1, 128),
            ("frequency_penalty", -2, 2),
            ("presence_penalty", -2, 2),
        ] {
            let field = field(schema, name);
            assert_eq!(
                (field["minimum"].as_i64(), field["maximum"].as_i64()),
                (Some(low), Some(high)),
                "{name}"
            );
        }
    }
    assert_eq!(field("ChatCompletionRequest", "top_logprobs")["maximum"], 20);
    assert_eq!(field("CompletionRequest", "logprobs")["maximum"], 5);
    assert_eq!(field("CompletionRequest", "best_of")["maximum"], 20);
    // The limit of tools is a setting, and the provider's.
    assert!(field("ChatCompletionRequest", "tools").get("maxItems").is_none());
    assert_eq!(field("Routing", "fallback")["maxItems"], 10);
    assert_eq!(field("Cache", "ttl")["maximum"], 2_592_000);
    assert_eq!(field("EmbeddingsRequest", "dimensions")["minimum"], 1);
}
