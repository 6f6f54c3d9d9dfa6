//! CORS: the web pages that may read answers, and the answers to preflights.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS, HeaderName,
    ORIGIN, VARY,
};
use http::{HeaderMap, HeaderValue};

/// The web pages that a URL is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Pages of users of the API: `/v1`, the probes and the API description.
    Users,
    /// Pages of operators: the management API, the metrics and unknown URLs.
    Operators,
}

/// Some browsers do not understand `*` here, so every name is listed.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "x-request-id, request-id, retry-after, x-should-retry, openai-processing-ms, \
     x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, \
     x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens, \
     x-gateway-model, x-gateway-provider, x-gateway-cache, x-gateway-cost-usd, \
     x-gateway-cache-similarity, x-gateway-cache-source, x-gateway-token-count, x-gateway-budget-left-usd, \
     x-gateway-rule, x-gateway-rule-resets-at, age",
);
const MAX_AGE: HeaderValue = HeaderValue::from_static("86400");
const USUAL_HEADERS: HeaderValue = HeaderValue::from_static("authorization, content-type");

/// The allowed origins of both audiences.
#[derive(Clone, Debug)]
pub(crate) struct Policies {
    users: Cors,
    operators: Cors,
}

impl Policies {
    /// Builds the policies from `cors_origins` and `admin_cors_origins`.
    pub(crate) fn new(users: &[String], operators: &[String]) -> Self {
        // A page of any origin must not be able to use an operator's key, so `*` is ignored here.
        let named: Vec<String> = operators.iter().filter(|origin| *origin != "*").cloned().collect();
        Self { users: Cors::new(users), operators: Cors::new(&named) }
    }

    /// The allowed origins of an audience.
    pub(crate) fn of(&self, audience: Audience) -> &Cors {
        match audience {
            Audience::Users => &self.users,
            Audience::Operators => &self.operators,
        }
    }
}

/// The allowed origins of one audience.
#[derive(Clone, Debug)]
pub(crate) enum Cors {
    /// `*`.
    Any,
    /// These origins. The matching one is echoed.
    Listed(Vec<HeaderValue>),
}

impl Cors {
    /// Builds the list from `cors_origins`. Entries that no browser can send are left out.
    pub(crate) fn new(origins: &[String]) -> Self {
        if origins.iter().any(|origin| origin == "*") {
            return Self::Any;
        }
        let listed = origins.iter().map(|origin| origin.trim_end_matches('/'));
        Self::Listed(listed.filter_map(|origin| HeaderValue::from_str(origin).ok()).collect())
    }

    /// Decides whether the `Origin` of a request may read the answer.
    pub(crate) fn allow(&self, request: &HeaderMap) -> Allowed {
        match self {
            Self::Any => Allowed { origin: Some(HeaderValue::from_static("*")), varies: false },
            // No page is allowed, so the answer does not depend on `Origin`.
            Self::Listed(origins) if origins.is_empty() => Allowed { origin: None, varies: false },
            Self::Listed(origins) => {
                let sent = request.get(ORIGIN);
                let origin = sent.filter(|sent| origins.contains(sent)).cloned();
                Allowed { origin, varies: true }
            }
        }
    }

    /// The CORS headers of an answer to a request whose head was not read. Its origin is unknown, so only `*` lets web pages read the
    /// answer.
    pub(crate) fn of_unread(&self) -> HeaderMap {
        self.allow(&HeaderMap::new()).headers().collect()
    }

    /// Adds the headers that only the answer to a preflight has. A page that is not allowed gets none of them.
    pub(crate) fn preflight(&self, request: &HeaderMap, methods: &'static str, response: &mut HeaderMap) {
        if self.allow(request).origin.is_none() {
            return;
        }
        let asked = request.get(ACCESS_CONTROL_REQUEST_HEADERS).cloned();
        response.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
        response.insert(ACCESS_CONTROL_ALLOW_HEADERS, asked.unwrap_or(USUAL_HEADERS));
        response.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        response.append(VARY, HeaderValue::from_static("access-control-request-headers"));
    }
}

/// The CORS decision for one request.
#[derive(Debug)]
pub(crate) struct Allowed {
    origin: Option<HeaderValue>,
    varies: bool,
}

impl Allowed {
    /// The CORS headers that every answer has.
    pub(crate) fn headers(self) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        let varies = self.varies.then(|| (VARY, HeaderValue::from_static("origin")));
        let exposed = self.origin.is_some().then_some((ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED));
        let origin = self.origin.map(|origin| (ACCESS_CONTROL_ALLOW_ORIGIN, origin));
        varies.into_iter().chain(origin).chain(exposed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(cors: &Cors, origin: Option<&'static str>) -> HeaderMap {
        let mut request = HeaderMap::new();
        if let Some(origin) = origin {
            request.insert(ORIGIN, HeaderValue::from_static(origin));
        }
        let mut response = HeaderMap::new();
        response.extend(cors.allow(&request).headers());
        response
    }

    #[test]
    fn a_star_allows_everyone_and_never_credentials() {
        let cors = Cors::new(&["*".to_owned()]);
        for origin in [None, Some("https://a.example")] {
            let headers = answer(&cors, origin);
            assert_eq!(headers[ACCESS_CONTROL_ALLOW_ORIGIN], "*");
            assert!(!headers.contains_key("access-control-allow-credentials"));
        }
    }

    #[test]
    fn a_list_echoes_its_members_only() {
        let cors = Cors::new(&["https://a.example/".to_owned()]);
        assert_eq!(
            answer(&cors, Some("https://a.example"))[ACCESS_CONTROL_ALLOW_ORIGIN],
            "https://a.example"
        );
        for stranger in [None, Some("https://a.example.evil"), Some("null")] {
            let headers = answer(&cors, stranger);
            assert!(!headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN), "{stranger:?}");
            assert_eq!(headers[VARY], "origin");
        }
    }

    #[test]
    fn a_preflight_mirrors_the_headers_it_asks_for() {
        let mut request = HeaderMap::new();
        let asked = "authorization,content-type,x-stainless-os";
        request.insert(ACCESS_CONTROL_REQUEST_HEADERS, HeaderValue::from_static(asked));
        let mut response = HeaderMap::new();
        Cors::Any.preflight(&request, "GET, POST, OPTIONS", &mut response);
        assert_eq!(response[ACCESS_CONTROL_ALLOW_HEADERS], asked);
        assert_eq!(response[ACCESS_CONTROL_ALLOW_METHODS], "GET, POST, OPTIONS");
        assert_eq!(response[ACCESS_CONTROL_MAX_AGE], "86400");
        let mut response = HeaderMap::new();
        Cors::Listed(Vec::new()).preflight(&request, "GET, POST, OPTIONS", &mut response);
        assert!(response.is_empty());
    }

    #[test]
    fn only_a_star_lets_pages_read_the_answer_to_a_head_that_was_not_read() {
        assert_eq!(Cors::Any.of_unread()[ACCESS_CONTROL_ALLOW_ORIGIN], "*");
        let listed = Cors::new(&["https://a.example".to_owned()]).of_unread();
        assert_eq!((listed.len(), &listed[VARY]), (1, &HeaderValue::from_static("origin")));
        assert!(Cors::new(&[]).of_unread().is_empty());
    }

    #[test]
    fn a_star_never_opens_the_management_api() {
        let star = ["*".to_owned()];
        let policies = Policies::new(&star, &star);
        assert!(answer(policies.of(Audience::Operators), Some("https://a.example")).is_empty());
        assert_eq!(answer(policies.of(Audience::Users), None)[ACCESS_CONTROL_ALLOW_ORIGIN], "*");
    }
}
