//! Paths lead to their rows, and each row keeps its methods, its guard and its listener.

use std::collections::BTreeSet;

use gw_admin::AdminMethod;

use super::*;

/// The pattern that a path leads to, and the id in it.
fn lookup(path: &str, listener: Listener) -> (&'static str, Option<String>) {
    let found = find(path, listener);
    (found.route.pattern, found.id.map(Cow::into_owned))
}

fn row(pattern: &str) -> &'static Route {
    ROUTES.iter().find(|route| route.pattern == pattern).unwrap()
}

#[test]
fn paths_lead_to_their_rows() {
    for (path, pattern, id) in [
        ("/v1/chat/completions", "/v1/chat/completions", None),
        ("/v1/chat/completions/", "/v1/chat/completions", None),
        ("/v1/chat/%63ompletions", "/v1/*", None),
        ("/v1/completions", "/v1/completions", None),
        ("/v1/embeddings", "/v1/embeddings", None),
        ("/v1/rerank", "/v1/rerank", None),
        ("/rerank/", "/v1/rerank", None),
        ("/score", "/v1/score", None),
        ("/v1/moderations", "/v1/moderations", None),
        ("/v1/images/generations", "/v1/images/generations", None),
        ("/v1/images/edits", "/v1/images/edits", None),
        ("/v1/images/variations/", "/v1/images/variations", None),
        ("/v1/audio/speech", "/v1/audio/speech", None),
        ("/v1/audio/transcriptions", "/v1/audio/transcriptions", None),
        ("/v1/audio/translations", "/v1/audio/translations", None),
        (
            "/v1beta/models/acme/fast:generateContent",
            "/v1beta/models/{id}:generateContent",
            Some("acme/fast"),
        ),
        ("/v1/models/fast:streamGenerateContent/", "/v1beta/models/{id}:streamGenerateContent", Some("fast")),
        ("/v1beta/tunedModels/a%2Fb%3AcountTokens", "/v1beta/models/{id}:countTokens", Some("a/b")),
        ("/v1beta/models/models/x:embedContent", "/v1beta/models/{id}:embedContent", Some("x")),
        ("/v1beta/models/x:8b:batchEmbedContents", "/v1beta/models/{id}:batchEmbedContents", Some("x:8b")),
        ("/v1beta/models/x:predict", "/v1beta/models/{id}", Some("x:predict")),
        ("/v1beta/models/", "/v1beta/models", None),
        ("/v1beta/tunedModels/x", "/v1beta/*", None),
        ("/v1beta", "/v1beta/*", None),
        ("/v2/rerank", "/v1/rerank", None),
        ("/v2/rerank/x", "unknown", None),
        ("/v1/models", "/v1/models", None),
        ("/v1/models/", "/v1/models", None),
        ("/v1/%6dodels", "/v1/*", None),
        ("/v1/models/compare", "/v1/models/compare", None),
        ("/v1/models/compare/", "/v1/models/compare", None),
        ("/v1/models/%63ompare", "/v1/models/compare", None),
        ("/v1/models/acme/fast", "/v1/models/{id}", Some("acme/fast")),
        ("/v1/models/acme%2Ffast", "/v1/models/{id}", Some("acme/fast")),
        ("/v1/models/acme/fast/", "/v1/models/{id}", Some("acme/fast")),
        ("/v1/models/together/meta-llama/x:free", "/v1/models/{id}", Some("together/meta-llama/x:free")),
        ("/v1/models/acme%252Ffast", "/v1/models/{id}", Some("acme%2Ffast")),
        ("/v1/models/compare/x", "/v1/models/{id}", Some("compare/x")),
        ("/v1/models/{id}", "/v1/models/{id}", Some("{id}")),
        ("/v1/models//", "/v1/models/{id}", Some("")),
        ("/v1/models/%ff", "/v1/models/{id}", None),
        ("/v1/messages/%63ount_tokens", "/v1/*", None),
        ("/v1/responses/%63ompact", "/v1/responses/compact", None),
        ("/v1/responses/a%2Fb/cancel", "/v1/responses/{id}/cancel", Some("a/b")),
        ("/v1/responses/compact/cancel", "/v1/responses/{id}/cancel", Some("compact")),
        ("/v1/responses/resp_1/%63ancel", "/v1/*", None),
        ("/v1", "/v1/*", None),
        ("/v1/", "/v1/*", None),
        ("/v1/files", "/v1/*", None),
        ("/v1/../healthz", "/v1/*", None),
        ("/v10/models", "unknown", None),
        ("//v1/models", "unknown", None),
        ("", "unknown", None),
        ("*", "unknown", None),
        ("unknown", "unknown", None),
        ("/", "/", None),
        ("//", "unknown", None),
        ("/health", "/healthz", None),
        ("/health/", "/healthz", None),
        ("/health/liveliness", "/healthz", None),
        ("/health/liveness", "/healthz", None),
        ("/health/readiness", "/readyz", None),
        ("/health/services", "unknown", None),
        ("/healthz", "/healthz", None),
        ("/readyz/", "/readyz", None),
        ("/metrics", "/metrics", None),
        ("/admin/v1", "/admin/v1/*", None),
        ("/admin/v1/providers/", "/admin/v1/providers", None),
        ("/admin/v1/keys", "/admin/v1/keys", None),
        ("/admin/v1/keys/", "/admin/v1/keys", None),
        ("/admin/v1/%6beys", "/admin/v1/*", None),
        ("/admin/v1/keys/3", "/admin/v1/keys/{id}", Some("3")),
        ("/admin/v1/keys/a%2Fb/", "/admin/v1/keys/{id}", Some("a/b")),
        ("/admin/v1/keys/%ff", "/admin/v1/keys/{id}", None),
        ("/admin/v1/keys//", "/admin/v1/keys/{id}", Some("")),
        ("/admin/v1/keys/3/rotate", "/admin/v1/keys/{id}/rotate", Some("3")),
        ("/admin/v1/keys/3/%72otate", "/admin/v1/*", None),
        ("/admin/v1/keys/3/rotate/4", "/admin/v1/*", None),
        ("/admin/v1/keys/3/other", "/admin/v1/*", None),
        ("/admin/v1/keys/a/b", "/admin/v1/*", None),
        ("/admin/v1/teams", "/admin/v1/teams", None),
        ("/admin/v1/teams/x.y", "/admin/v1/teams/{id}", Some("x.y")),
        ("/admin/v1/teams/x/rotate", "/admin/v1/*", None),
        ("/admin/v1/responses/resp_1", "/admin/v1/*", None),
        ("/admin/v1/responses/compact", "/admin/v1/*", None),
        ("/admin/v1/usage", "/admin/v1/usage", None),
        ("/admin/v1/usage/x", "/admin/v1/*", None),
        ("/admin/v1/requests", "/admin/v1/requests", None),
        ("/admin/v1/requests/req_1", "/admin/v1/requests/{id}", Some("req_1")),
        ("/admin/v1/requests/%6cive", "/admin/v1/requests/live", None),
        ("/admin/v1/requests/req_1/payload", "/admin/v1/requests/{id}/payload", Some("req_1")),
        ("/admin/v1/requests/req_1/other", "/admin/v1/*", None),
        ("/admin/v1/routing/explain", "/admin/v1/routing/explain", None),
        ("/admin/v1/routing/%65xplain", "/admin/v1/routing/explain", None),
        ("/admin/v1/routing/drill", "/admin/v1/routing/drill", None),
        ("/admin/v1/routing", "/admin/v1/*", None),
        ("/admin/v1/providers/a%2Fb/probe", "/admin/v1/providers/{id}/probe", Some("a/b")),
        ("/admin/v1/providers/acme", "/admin/v1/*", None),
        ("/admin/v1/cache/", "/admin/v1/cache", None),
        ("/admin/v1/config", "/admin/v1/config", None),
        ("/admin/v1/config/x", "/admin/v1/config/{id}", Some("x")),
        ("/admin/v1/config/a%2Fb", "/admin/v1/config/{id}", Some("a/b")),
        ("/admin/v1/config/%68istory", "/admin/v1/config/history", None),
        ("/admin/v1/config/models/acme/fast/", "/admin/v1/config/{id}/{id}", Some("models/acme/fast")),
        ("/admin/v1/config/models/%ff", "/admin/v1/config/{id}/{id}", None),
        ("/admin/v1//keys", "/admin/v1/*", None),
        ("/admin/v1keys", "unknown", None),
        ("/admin/v2", "unknown", None),
        ("/openapi.json", "/openapi.json", None),
        ("/docs", "/docs", None),
        ("/ui", "/ui/*", None),
        ("/ui/", "/ui/*", None),
        ("/ui/requests/req_1", "/ui/*", None),
        ("/uis", "unknown", None),
    ] {
        assert_eq!(lookup(path, Listener::Single), (pattern, id.map(str::to_owned)), "{path}");
    }
}

#[test]
fn two_listeners_share_only_the_probes() {
    for (path, public, admin) in [
        ("/v1/models", "/v1/models", "unknown"),
        ("/v1/nothing", "/v1/*", "unknown"),
        ("/rerank", "/v1/rerank", "unknown"),
        ("/v1beta/models", "/v1beta/models", "unknown"),
        ("/", "/", "/"),
        ("/healthz", "/healthz", "/healthz"),
        ("/health", "/healthz", "/healthz"),
        ("/readyz", "/readyz", "/readyz"),
        ("/metrics", "unknown", "/metrics"),
        ("/admin/v1/keys", "unknown", "/admin/v1/keys"),
        ("/admin/v1/other", "unknown", "/admin/v1/*"),
        ("/openapi.json", "unknown", "/openapi.json"),
        ("/docs", "unknown", "/docs"),
        ("/ui/", "unknown", "/ui/*"),
    ] {
        assert_eq!(lookup(path, Listener::Public).0, public, "{path}");
        assert_eq!(lookup(path, Listener::Admin).0, admin, "{path}");
    }
}

#[test]
fn a_wrong_method_is_answered_with_the_right_ones() {
    for (pattern, method, allow) in [
        ("/v1/models", "HEAD", None),
        ("/v1/models", "OPTIONS", None),
        ("/v1/models/{id}", "DELETE", GET),
        ("/v1/chat/completions", "GET", POST),
        ("/v1/chat/completions", "HEAD", POST),
        ("/v1/*", "DELETE", None),
        ("/admin/v1/keys/{id}", "PATCH", None),
        ("/admin/v1/keys/{id}", "POST", GET_PATCH_DELETE),
        ("/admin/v1/keys/{id}", "GE", GET_PATCH_DELETE),
        ("/admin/v1/requests/{id}/payload", "GET", DELETE),
    ] {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        assert_eq!(row(pattern).method_error(&method), allow, "{method} {pattern}");
    }
}

#[test]
fn a_preflight_does_not_tell_which_urls_of_v1_exist() {
    for (path, methods) in [
        ("/v1/chat/completions", "GET, POST, DELETE, OPTIONS"),
        ("/v1/nothing", "GET, POST, DELETE, OPTIONS"),
        ("/healthz", "GET, POST, DELETE, OPTIONS"),
        ("/admin/v1/keys/3", "GET, HEAD, PATCH, DELETE, OPTIONS"),
        ("/admin/v1/nothing", "GET, POST, OPTIONS"),
        ("/nothing", "GET, POST, OPTIONS"),
    ] {
        assert_eq!(find(path, Listener::Single).route.preflight_methods(), methods, "{path}");
    }
}

#[test]
fn every_row_is_found_by_its_pattern_and_guarded_as_its_url_says() {
    let patterns: BTreeSet<_> = ROUTES.iter().map(|route| route.pattern).collect();
    assert_eq!(patterns.len(), ROUTES.len(), "a pattern stands twice");
    assert!(ROUTES.len() <= crate::metrics::MAX_ROUTES, "raise MAX_ROUTES");
    for (index, route) in ROUTES.iter().enumerate() {
        let pattern = route.pattern;
        let found = find(pattern, Listener::Single);
        assert_eq!(
            (found.route.pattern, found.label().index),
            (pattern, index),
            "a row above hides {pattern}"
        );
        let guard = match pattern {
            "/metrics" | "/admin/v1/routing/explain" => Guard::ViewerKey,
            "/admin/v1/requests/{id}/payload" => Guard::AdminKey,
            _ if pattern.starts_with("/admin/v1/config/") => Guard::AdminKey,
            _ if pattern.starts_with("/admin/") && [None, GET].contains(&route.methods) => Guard::ViewerKey,
            _ if pattern.starts_with("/admin/") => Guard::OperatorKey,
            "passthrough" => Guard::Key,
            _ if pattern.starts_with("/v1/") || pattern.starts_with("/v1beta/") => Guard::Key,
            _ => Guard::Open,
        };
        assert_eq!(route.guard, guard, "{pattern}");
        let needs_key = guard != Guard::Open;
        match route.endpoint {
            Endpoint::NotFound => assert_eq!(route.methods, None, "{pattern}"),
            Endpoint::Probe(_) | Endpoint::Page(_) | Endpoint::Root | Endpoint::Console => {
                assert!(!needs_key && route.methods == GET, "{pattern}")
            }
            Endpoint::SignIn(_) => assert!(!needs_key && [GET, POST].contains(&route.methods), "{pattern}"),
            // A WebSocket begins with GET.
            Endpoint::Generate(Generation::Answer(Operation::Responses)) => {
                assert!(
                    needs_key
                        && route.methods.is_some()
                        && (pattern != "/v1/responses" || route.methods != POST),
                    "{pattern}"
                );
            }
            Endpoint::Generate(_) | Endpoint::GenerateForm(_) => {
                assert!(needs_key && route.methods == POST, "{pattern}")
            }
            Endpoint::Realtime => assert!(needs_key && route.methods == GET, "{pattern}"),
            Endpoint::Passthrough => assert!(needs_key && route.methods == ALL, "{pattern}"),
            Endpoint::Catalogue(_)
            | Endpoint::StoredResponse(_)
            | Endpoint::Me
            | Endpoint::Live
            | Endpoint::Records(_)
            | Endpoint::Manage(_) => {
                assert!(needs_key && route.methods.is_some(), "{pattern}")
            }
        }
        let is_for_operators = ![Guard::Open, Guard::Key].contains(&guard)
            || pattern == "unknown"
            || pattern.starts_with("/auth/")
            || pattern.starts_with("/ui/");
        assert_eq!(route.audience() == Audience::Operators, is_for_operators, "{pattern}");
    }
}

#[test]
fn a_row_of_records_has_the_url_and_the_methods_of_its_endpoints() {
    for route in ROUTES {
        let Endpoint::Records(endpoints) = route.endpoint else { continue };
        for endpoint in endpoints {
            assert_eq!(format!("/admin/v1/{}", endpoint.path), route.pattern);
        }
        let methods = endpoints.iter().map(|endpoint| match endpoint.method {
            AdminMethod::Get => "GET, HEAD",
            AdminMethod::Put => "PUT",
            AdminMethod::Patch => "PATCH",
            AdminMethod::Delete => "DELETE",
            AdminMethod::Post => "POST",
        });
        let methods: Vec<_> = methods.chain(["OPTIONS"]).collect();
        assert_eq!(Some(&*methods.join(", ")), route.methods, "{}", route.pattern);
    }
}

#[test]
fn a_name_in_the_place_of_an_id_is_found_percent_encoded_too() {
    for route in ROUTES.iter().filter(|route| !route.pattern.contains(['{', '*'])) {
        let pattern = route.pattern;
        let has_rival =
            ROUTES.iter().any(|other| other.pattern.contains('{') && other.matches(pattern).is_some());
        let Some((parent, name)) = pattern.rsplit_once('/').filter(|_| has_rival) else { continue };
        let encoded: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        assert_eq!(lookup(&format!("{parent}/{encoded}"), Listener::Single).0, pattern);
    }
}

#[test]
fn an_id_with_slashes_ends_its_pattern() {
    for route in ROUTES {
        let ids = route.pattern.matches("{id}").count();
        let end = route.pattern.find('{').map_or("", |start| &route.pattern[start..]);
        match route.matching {
            Matching::Rest => assert_eq!(end, vec!["{id}"; ids].join("/"), "{}", route.pattern),
            Matching::Segment => assert_eq!(ids, 1, "{}", route.pattern),
            Matching::ModelMethod(method) => assert_eq!(end, format!("{{id}}:{}", method.as_str())),
            Matching::Whole | Matching::EncodedName | Matching::Below => {
                assert_eq!(ids, 0, "{}", route.pattern);
            }
        }
    }
}
