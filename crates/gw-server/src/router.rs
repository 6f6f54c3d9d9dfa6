//! Every URL of the gateway, on one page.

use std::borrow::Cow;

use http::Method;

use crate::path;

/// A decoded part of a path. None: it cannot be decoded, so nothing has this id.
pub(crate) type Id<'a> = Option<Cow<'a, str>>;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    Completions,
    ChatCompletions,
    Embeddings,
    Models,
    Compare,
    Model(Id<'a>),
    /// Inside /v1, but nothing we have.
    UnknownApi,
    Healthz,
    Readyz,
    Metrics,
    Providers,
    Keys,
    Key(Id<'a>),
    RotateKey(Id<'a>),
    Teams,
    Team(Id<'a>),
    Usage,
    RequestLog,
    LoggedRequest(Id<'a>),
    LoggedPayload(Id<'a>),
    Explain,
    Cache,
    Config,
    /// Inside /admin/v1, but nothing we have.
    Admin,
    OpenApi,
    Docs,
    /// The list of URLs at `/`.
    Root,
    Unknown,
}

/// What holds for a URL whatever is asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The label of metrics and log lines: the URL, its variable parts in braces.
    pub label: &'static str,
    /// Who may ask.
    pub guard: Guard,
    /// The `Allow` of a 405; None: the URL is unknown, which is a 404 whatever the method.
    pub allow: Option<&'static str>,
}

/// Who may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Everyone.
    Open,
    /// The holder of a key.
    Key,
    /// The holder of a key of role admin.
    AdminKey,
}

const GET: Option<&str> = Some("GET, HEAD, OPTIONS");
const POST: Option<&str> = Some("POST, OPTIONS");

const fn route(label: &'static str, guard: Guard, allow: Option<&'static str>) -> Route {
    Route { label, guard, allow }
}

/// Every URL; a target's `name` says which it is.
pub const ROUTES: [Route; 28] = [
    route("/v1/completions", Guard::Key, POST),
    route("/v1/chat/completions", Guard::Key, POST),
    route("/v1/embeddings", Guard::Key, POST),
    route("/v1/models", Guard::Key, GET),
    route("/v1/models/compare", Guard::Key, GET),
    route("/v1/models/{id}", Guard::Key, GET),
    route("/v1/*", Guard::Key, None),
    route("/healthz", Guard::Open, GET),
    route("/readyz", Guard::Open, GET),
    route("/metrics", Guard::AdminKey, GET),
    route("/admin/v1/*", Guard::AdminKey, None),
    route("/openapi.json", Guard::Open, GET),
    route("/docs", Guard::Open, GET),
    route("unknown", Guard::Open, None),
    route("/admin/v1/providers", Guard::AdminKey, GET),
    route("/admin/v1/keys", Guard::AdminKey, Some("GET, HEAD, POST, OPTIONS")),
    route("/admin/v1/keys/{id}", Guard::AdminKey, Some("GET, HEAD, PATCH, DELETE, OPTIONS")),
    route("/admin/v1/keys/{id}/rotate", Guard::AdminKey, POST),
    route("/admin/v1/teams", Guard::AdminKey, GET),
    route("/admin/v1/teams/{id}", Guard::AdminKey, Some("GET, HEAD, PUT, DELETE, OPTIONS")),
    route("/admin/v1/usage", Guard::AdminKey, GET),
    route("/admin/v1/requests", Guard::AdminKey, GET),
    route("/admin/v1/requests/{id}", Guard::AdminKey, GET),
    route("/admin/v1/requests/{id}/payload", Guard::AdminKey, Some("DELETE, OPTIONS")),
    route("/admin/v1/routing/explain", Guard::AdminKey, POST),
    route("/admin/v1/cache", Guard::AdminKey, Some("GET, HEAD, DELETE, OPTIONS")),
    route("/admin/v1/config", Guard::AdminKey, GET),
    route("/", Guard::Open, GET),
];

/// Labels of metrics and log lines: place and label of one of [`ROUTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name(pub(crate) usize, pub(crate) &'static str);

/// As many as there are routes.
pub(crate) const NAMES: usize = ROUTES.len();

/// Whose web pages a URL is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Pages of the gateway's users: `/v1`, the probes, the description of the interface.
    Users,
    /// Pages of its operators: everything else.
    Operators,
}

/// Where a connection came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// The only listener: everything.
    Whole,
    /// /v1 and the probes; the rest has a listener of its own.
    Public,
    /// Everything but /v1.
    Admin,
}

/// Finds the target of a path. A trailing slash is not significant.
pub(crate) fn find(raw: &str, door: Door) -> Target<'_> {
    let trimmed = raw.strip_suffix('/').unwrap_or(raw);
    if trimmed == "/v1" || trimmed.starts_with("/v1/") {
        return if door == Door::Admin { Target::Unknown } else { api(trimmed) };
    }
    match (trimmed, door) {
        // The names of other gateways for the same probes.
        ("/healthz" | "/health" | "/health/liveliness" | "/health/liveness", _) => Target::Healthz,
        ("/readyz" | "/health/readiness", _) => Target::Readyz,
        ("", _) if raw == "/" => Target::Root,
        (_, Door::Public) => Target::Unknown,
        ("/metrics", _) => Target::Metrics,
        ("/openapi.json", _) => Target::OpenApi,
        ("/docs", _) => Target::Docs,
        ("/admin/v1", _) => Target::Admin,
        (path, _) => path.strip_prefix("/admin/v1/").map_or(Target::Unknown, management),
    }
}

/// The tail of a path under /admin/v1. A slash inside an id is written `%2F`.
fn management(tail: &str) -> Target<'_> {
    let mut parts = tail.split('/');
    let (first, second) = (parts.next().unwrap_or(""), parts.next().map(path::decode));
    match (first, second, parts.next(), parts.next()) {
        ("providers", None, None, None) => Target::Providers,
        ("cache", None, None, None) => Target::Cache,
        ("config", None, None, None) => Target::Config,
        ("keys", None, None, None) => Target::Keys,
        ("keys", Some(id), None, None) => Target::Key(id),
        ("keys", Some(id), Some("rotate"), None) => Target::RotateKey(id),
        ("teams", None, None, None) => Target::Teams,
        ("teams", Some(id), None, None) => Target::Team(id),
        ("usage", None, None, None) => Target::Usage,
        ("requests", None, None, None) => Target::RequestLog,
        ("requests", Some(id), None, None) => Target::LoggedRequest(id),
        ("requests", Some(id), Some("payload"), None) => Target::LoggedPayload(id),
        ("routing", Some(Some(tail)), None, None) if tail == "explain" => Target::Explain,
        _ => Target::Admin,
    }
}

fn api(path: &str) -> Target<'_> {
    match path {
        "/v1/completions" => Target::Completions,
        "/v1/chat/completions" => Target::ChatCompletions,
        "/v1/embeddings" => Target::Embeddings,
        "/v1/models" => Target::Models,
        _ => match path.strip_prefix("/v1/models/").map(path::decode) {
            Some(Some(tail)) if tail == "compare" => Target::Compare,
            Some(id) => Target::Model(id),
            None => Target::UnknownApi,
        },
    }
}

impl Target<'_> {
    /// Its place in [`ROUTES`].
    fn place(&self) -> usize {
        match self {
            Self::Completions => 0,
            Self::ChatCompletions => 1,
            Self::Embeddings => 2,
            Self::Models => 3,
            Self::Compare => 4,
            Self::Model(_) => 5,
            Self::UnknownApi => 6,
            Self::Healthz => 7,
            Self::Readyz => 8,
            Self::Metrics => 9,
            Self::Admin => 10,
            Self::OpenApi => 11,
            Self::Docs => 12,
            Self::Unknown => 13,
            Self::Providers => 14,
            Self::Keys => 15,
            Self::Key(_) => 16,
            Self::RotateKey(_) => 17,
            Self::Teams => 18,
            Self::Team(_) => 19,
            Self::Usage => 20,
            Self::RequestLog => 21,
            Self::LoggedRequest(_) => 22,
            Self::LoggedPayload(_) => 23,
            Self::Explain => 24,
            Self::Cache => 25,
            Self::Config => 26,
            Self::Root => 27,
        }
    }

    fn route(&self) -> Route {
        // A place that is not there is guarded best.
        ROUTES.get(self.place()).copied().unwrap_or(route("unknown", Guard::AdminKey, None))
    }

    /// Its label.
    pub(crate) fn name(&self) -> Name {
        Name(self.place(), self.route().label)
    }

    /// Whether a key is needed before anything else is said.
    pub(crate) fn guard(&self) -> Guard {
        self.route().guard
    }

    /// Whose web pages may read its answers.
    pub(crate) fn audience(&self) -> Audience {
        match (self.route().guard, self) {
            (Guard::AdminKey, _) | (_, Target::Unknown) => Audience::Operators,
            _ => Audience::Users,
        }
    }

    /// What a preflight is told. `/v1` gives the methods of the whole API, also where nothing is found.
    pub(crate) fn preflight_methods(&self) -> &'static str {
        match self.audience() {
            Audience::Users => "GET, POST, OPTIONS",
            Audience::Operators => self.route().allow.unwrap_or("GET, POST, OPTIONS"),
        }
    }

    /// The `Allow` of a 405, when this method is not for this target.
    pub(crate) fn refuses(&self, method: &Method) -> Option<&'static str> {
        let allow = self.route().allow?;
        allow.split(", ").all(|allowed| allowed != method.as_str()).then_some(allow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(id: &str) -> Id<'_> {
        Some(Cow::Borrowed(id))
    }

    fn model(name: &str) -> Target<'_> {
        Target::Model(id(name))
    }

    #[test]
    fn paths_lead_to_their_targets() {
        for (path, target) in [
            ("/v1/chat/completions", Target::ChatCompletions),
            ("/v1/chat/completions/", Target::ChatCompletions),
            ("/v1/completions", Target::Completions),
            ("/v1/embeddings", Target::Embeddings),
            ("/v1/models", Target::Models),
            ("/v1/models/", Target::Models),
            ("/v1/models/compare", Target::Compare),
            ("/v1/models/compare/", Target::Compare),
            ("/v1/models/%63ompare", Target::Compare),
            ("/v1/models/acme/fast", model("acme/fast")),
            ("/v1/models/acme%2Ffast", model("acme/fast")),
            ("/v1/models/acme/fast/", model("acme/fast")),
            ("/v1/models/together/meta-llama/x:free", model("together/meta-llama/x:free")),
            ("/v1/models/acme%252Ffast", model("acme%2Ffast")),
            ("/v1/models/compare/x", model("compare/x")),
            ("/v1/models//", model("")),
            ("/v1/models/%ff", Target::Model(None)),
            ("/v1", Target::UnknownApi),
            ("/v1/", Target::UnknownApi),
            ("/v1/files", Target::UnknownApi),
            ("/v1/../healthz", Target::UnknownApi),
            ("/v10/models", Target::Unknown),
            ("//v1/models", Target::Unknown),
            ("", Target::Unknown),
            ("*", Target::Unknown),
            ("/", Target::Root),
            ("/health", Target::Healthz),
            ("/health/", Target::Healthz),
            ("/health/liveliness", Target::Healthz),
            ("/health/readiness", Target::Readyz),
            ("/health/services", Target::Unknown),
            ("/healthz", Target::Healthz),
            ("/readyz/", Target::Readyz),
            ("/metrics", Target::Metrics),
            ("/admin/v1", Target::Admin),
            ("/admin/v1/providers/", Target::Providers),
            ("/admin/v1/keys", Target::Keys),
            ("/admin/v1/keys/", Target::Keys),
            ("/admin/v1/keys/3", Target::Key(id("3"))),
            ("/admin/v1/keys/a%2Fb/", Target::Key(id("a/b"))),
            ("/admin/v1/keys/%ff", Target::Key(None)),
            ("/admin/v1/keys//", Target::Key(id(""))),
            ("/admin/v1/keys/3/rotate", Target::RotateKey(id("3"))),
            ("/admin/v1/keys/3/rotate/4", Target::Admin),
            ("/admin/v1/keys/3/other", Target::Admin),
            ("/admin/v1/keys/a/b", Target::Admin),
            ("/admin/v1/teams", Target::Teams),
            ("/admin/v1/teams/x.y", Target::Team(id("x.y"))),
            ("/admin/v1/teams/x/rotate", Target::Admin),
            ("/admin/v1/usage", Target::Usage),
            ("/admin/v1/usage/x", Target::Admin),
            ("/admin/v1/requests", Target::RequestLog),
            ("/admin/v1/requests/req_1", Target::LoggedRequest(id("req_1"))),
            ("/admin/v1/requests/req_1/payload", Target::LoggedPayload(id("req_1"))),
            ("/admin/v1/requests/req_1/other", Target::Admin),
            ("/admin/v1/routing/explain", Target::Explain),
            ("/admin/v1/routing", Target::Admin),
            ("/admin/v1/cache/", Target::Cache),
            ("/admin/v1/config", Target::Config),
            ("/admin/v1/config/x", Target::Admin),
            ("/admin/v1//keys", Target::Admin),
            ("/admin/v1keys", Target::Unknown),
            ("/admin/v2", Target::Unknown),
            ("/openapi.json", Target::OpenApi),
            ("/docs", Target::Docs),
        ] {
            assert_eq!(find(path, Door::Whole), target, "{path}");
            assert!(target.name().0 < NAMES);
        }
    }

    #[test]
    fn two_listeners_share_only_the_probes() {
        for (path, public, admin) in [
            ("/v1/models", Target::Models, Target::Unknown),
            ("/v1/nothing", Target::UnknownApi, Target::Unknown),
            ("/", Target::Root, Target::Root),
            ("/healthz", Target::Healthz, Target::Healthz),
            ("/health", Target::Healthz, Target::Healthz),
            ("/readyz", Target::Readyz, Target::Readyz),
            ("/metrics", Target::Unknown, Target::Metrics),
            ("/admin/v1/keys", Target::Unknown, Target::Keys),
            ("/admin/v1/other", Target::Unknown, Target::Admin),
            ("/docs", Target::Unknown, Target::Docs),
        ] {
            assert_eq!(find(path, Door::Public), public, "{path}");
            assert_eq!(find(path, Door::Admin), admin, "{path}");
        }
    }

    #[test]
    fn wrong_methods_are_told_the_right_ones() {
        assert_eq!(Target::Models.refuses(&Method::HEAD), None);
        assert_eq!(model("a/b").refuses(&Method::DELETE), Some("GET, HEAD, OPTIONS"));
        assert_eq!(Target::ChatCompletions.refuses(&Method::GET), Some("POST, OPTIONS"));
        assert_eq!(Target::ChatCompletions.refuses(&Method::HEAD), Some("POST, OPTIONS"));
        assert_eq!(Target::UnknownApi.refuses(&Method::DELETE), None);
        assert_eq!(Target::Key(None).refuses(&Method::PATCH), None);
        assert_eq!(Target::Key(None).refuses(&Method::POST), Some("GET, HEAD, PATCH, DELETE, OPTIONS"));
        assert_eq!(
            Target::Key(None).refuses(&Method::from_bytes(b"GE").unwrap()),
            Target::Key(None).route().allow
        );
    }

    #[test]
    fn every_route_has_a_label_of_its_own() {
        let labels: std::collections::BTreeSet<_> = ROUTES.iter().map(|route| route.label).collect();
        assert_eq!(labels.len(), NAMES);
        for route in ROUTES.iter().filter(|route| route.allow.is_some()) {
            let found = find(route.label, Door::Whole);
            assert_eq!(found.route(), *route, "the URL of a label leads to it");
            assert_eq!(
                found.guard() == Guard::AdminKey,
                route.label.starts_with("/admin/") || route.label == "/metrics"
            );
            assert_eq!(found.guard() == Guard::Key, route.label.starts_with("/v1/"));
            assert_eq!(found.audience() == Audience::Operators, found.guard() == Guard::AdminKey);
        }
    }
}
