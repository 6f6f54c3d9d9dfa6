//! Every URL of the gateway, on one page.

use std::borrow::Cow;

use http::Method;

use crate::path;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    Completions,
    ChatCompletions,
    Embeddings,
    Models,
    Compare,
    /// None: the id cannot be decoded, so no model has it.
    Model(Option<Cow<'a, str>>),
    /// Inside /v1, but nothing we have.
    UnknownApi,
    Healthz,
    Readyz,
    Metrics,
    Providers,
    /// Inside /admin/v1, but nothing we have.
    Admin,
    OpenApi,
    Docs,
    Unknown,
}

/// Labels of metrics and log lines: one per line of [`find`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name(pub(crate) usize, pub(crate) &'static str);

/// As many as [`Target::name`] knows.
pub(crate) const NAMES: usize = 15;

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
        ("/healthz", _) => Target::Healthz,
        ("/readyz", _) => Target::Readyz,
        (_, Door::Public) => Target::Unknown,
        ("/metrics", _) => Target::Metrics,
        ("/openapi.json", _) => Target::OpenApi,
        ("/docs", _) => Target::Docs,
        ("/admin/v1/providers", _) => Target::Providers,
        ("/admin/v1", _) => Target::Admin,
        (path, _) if path.starts_with("/admin/v1/") => Target::Admin,
        _ => Target::Unknown,
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
    /// Its label.
    pub(crate) fn name(&self) -> Name {
        match self {
            Self::Completions => Name(0, "/v1/completions"),
            Self::ChatCompletions => Name(1, "/v1/chat/completions"),
            Self::Embeddings => Name(2, "/v1/embeddings"),
            Self::Models => Name(3, "/v1/models"),
            Self::Compare => Name(4, "/v1/models/compare"),
            Self::Model(_) => Name(5, "/v1/models/{id}"),
            Self::UnknownApi => Name(6, "/v1/*"),
            Self::Healthz => Name(7, "/healthz"),
            Self::Readyz => Name(8, "/readyz"),
            Self::Metrics => Name(9, "/metrics"),
            Self::Admin => Name(10, "/admin/v1/*"),
            Self::OpenApi => Name(11, "/openapi.json"),
            Self::Docs => Name(12, "/docs"),
            Self::Unknown => Name(13, "unknown"),
            Self::Providers => Name(14, "/admin/v1/providers"),
        }
    }

    /// Whether a key is needed before anything else is said.
    pub(crate) fn guard(&self) -> Guard {
        match self {
            Self::Completions
            | Self::ChatCompletions
            | Self::Embeddings
            | Self::Models
            | Self::Compare
            | Self::Model(_)
            | Self::UnknownApi => Guard::Key,
            Self::Metrics | Self::Providers | Self::Admin => Guard::AdminKey,
            Self::Healthz | Self::Readyz | Self::OpenApi | Self::Docs | Self::Unknown => Guard::Open,
        }
    }

    /// The `Allow` of a 405, when this method is not for this target.
    pub(crate) fn refuses(&self, method: &Method) -> Option<&'static str> {
        match self {
            Self::Completions | Self::ChatCompletions | Self::Embeddings => {
                (method != Method::POST).then_some("POST, OPTIONS")
            }
            // An unknown URL is a 404 whatever the method.
            Self::UnknownApi | Self::Admin | Self::Unknown => None,
            Self::Models
            | Self::Compare
            | Self::Model(_)
            | Self::Healthz
            | Self::Readyz
            | Self::Metrics
            | Self::Providers
            | Self::OpenApi
            | Self::Docs => (method != Method::GET && method != Method::HEAD).then_some("GET, HEAD, OPTIONS"),
        }
    }
}

/// Who may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// Everyone.
    Open,
    /// The holder of a key.
    Key,
    /// The holder of a key of role admin.
    AdminKey,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(id: &str) -> Target<'_> {
        Target::Model(Some(Cow::Borrowed(id)))
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
            ("/", Target::Unknown),
            ("/healthz", Target::Healthz),
            ("/readyz/", Target::Readyz),
            ("/metrics", Target::Metrics),
            ("/admin/v1", Target::Admin),
            ("/admin/v1/providers/", Target::Providers),
            ("/admin/v1/keys/3", Target::Admin),
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
            ("/healthz", Target::Healthz, Target::Healthz),
            ("/readyz", Target::Readyz, Target::Readyz),
            ("/metrics", Target::Unknown, Target::Metrics),
            ("/admin/v1/keys", Target::Unknown, Target::Admin),
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
    }
}
