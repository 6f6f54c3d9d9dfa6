//! The client's error: a closed kind (one table of status, type and code), a safe message, and a retry hint.

use std::borrow::Cow;
use std::time::Duration;

use gw_limits::SubjectKind;

/// The kinds of errors. An error of kind `Invalid` carries a code of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the codes of the contract's table")]
pub enum Kind {
    Invalid,
    UnsupportedParameter,
    UnsupportedValue,
    UnsupportedModel,
    NoMatchingTarget,
    MaxCostExceeded,
    ContextLengthExceeded,
    ContentFilter,
    InvalidApiKey,
    ModelNotAllowed,
    AdminRequired,
    RoleNotAllowed,
    SignInFailed,
    CrossSiteRequest,
    ModelNotFound,
    NotFound,
    UnknownUrl,
    MethodNotAllowed,
    ConfiguredInFile,
    VersionMismatch,
    RequestTimeout,
    RequestTooLarge,
    UriTooLong,
    UnsupportedMediaType,
    UpgradeRequired,
    HeadersTooLarge,
    RateLimitExceeded,
    InsufficientQuota,
    SessionLimitReached,
    UpstreamRateLimited,
    ClientClosedRequest,
    InternalError,
    UnsupportedTransferEncoding,
    UpstreamError,
    UpstreamUnreachable,
    UpstreamInvalidResponse,
    UpstreamStreamError,
    UpstreamAuthError,
    UpstreamBillingError,
    UpstreamModelMissing,
    UpstreamOverloaded,
    NoAvailableProvider,
    BudgetStoreUnavailable,
    UpstreamTimeout,
    StoreUnavailable,
}

/// Whether a client that repeats its request unchanged can succeed, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// No repetition can succeed: `x-should-retry: false`.
    Useless,
    /// A repetition may succeed at once: `x-should-retry: true`.
    AtOnce,
    /// A repetition may succeed after a wait: `x-should-retry: true` and `retry-after`.
    AfterWait,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 45] = [
        Self::Invalid,
        Self::UnsupportedParameter,
        Self::UnsupportedValue,
        Self::UnsupportedModel,
        Self::NoMatchingTarget,
        Self::MaxCostExceeded,
        Self::ContextLengthExceeded,
        Self::ContentFilter,
        Self::InvalidApiKey,
        Self::ModelNotAllowed,
        Self::AdminRequired,
        Self::RoleNotAllowed,
        Self::SignInFailed,
        Self::CrossSiteRequest,
        Self::ModelNotFound,
        Self::NotFound,
        Self::UnknownUrl,
        Self::MethodNotAllowed,
        Self::ConfiguredInFile,
        Self::VersionMismatch,
        Self::RequestTimeout,
        Self::RequestTooLarge,
        Self::UriTooLong,
        Self::UnsupportedMediaType,
        Self::UpgradeRequired,
        Self::HeadersTooLarge,
        Self::RateLimitExceeded,
        Self::InsufficientQuota,
        Self::SessionLimitReached,
        Self::UpstreamRateLimited,
        Self::ClientClosedRequest,
        Self::InternalError,
        Self::UnsupportedTransferEncoding,
        Self::UpstreamError,
        Self::UpstreamUnreachable,
        Self::UpstreamInvalidResponse,
        Self::UpstreamStreamError,
        Self::UpstreamAuthError,
        Self::UpstreamBillingError,
        Self::UpstreamModelMissing,
        Self::UpstreamOverloaded,
        Self::NoAvailableProvider,
        Self::BudgetStoreUnavailable,
        Self::UpstreamTimeout,
        Self::StoreUnavailable,
    ];

    /// The table: status, type, code.
    #[must_use]
    pub fn row(self) -> (u16, &'static str, &'static str) {
        const REQUEST: &str = "invalid_request_error";
        const UPSTREAM: &str = "upstream_error";
        match self {
            Self::Invalid => (400, REQUEST, "invalid_request"),
            Self::UnsupportedParameter => (400, REQUEST, "unsupported_parameter"),
            Self::UnsupportedValue => (400, REQUEST, "unsupported_value"),
            Self::UnsupportedModel => (400, REQUEST, "unsupported_model"),
            Self::NoMatchingTarget => (400, REQUEST, "no_matching_target"),
            Self::MaxCostExceeded => (400, REQUEST, "max_cost_exceeded"),
            Self::ContextLengthExceeded => (400, REQUEST, "context_length_exceeded"),
            Self::ContentFilter => (400, REQUEST, "content_filter"),
            Self::InvalidApiKey => (401, "authentication_error", "invalid_api_key"),
            Self::ModelNotAllowed => (403, "permission_error", "model_not_allowed"),
            Self::AdminRequired => (403, "permission_error", "admin_required"),
            Self::RoleNotAllowed => (403, "permission_error", "role_not_allowed"),
            Self::SignInFailed => (403, "permission_error", "sign_in_failed"),
            Self::CrossSiteRequest => (403, "permission_error", "cross_site_request"),
            Self::ModelNotFound => (404, REQUEST, "model_not_found"),
            Self::NotFound => (404, REQUEST, "not_found"),
            Self::UnknownUrl => (404, REQUEST, "unknown_url"),
            Self::MethodNotAllowed => (405, REQUEST, "method_not_allowed"),
            Self::ConfiguredInFile => (409, REQUEST, "configured_in_file"),
            Self::VersionMismatch => (412, REQUEST, "version_mismatch"),
            Self::RequestTimeout => (408, REQUEST, "request_timeout"),
            Self::RequestTooLarge => (413, REQUEST, "request_too_large"),
            Self::UriTooLong => (414, REQUEST, "uri_too_long"),
            Self::UnsupportedMediaType => (415, REQUEST, "unsupported_media_type"),
            Self::UpgradeRequired => (426, REQUEST, "upgrade_required"),
            Self::HeadersTooLarge => (431, REQUEST, "request_headers_too_large"),
            Self::RateLimitExceeded => (429, "rate_limit_error", "rate_limit_exceeded"),
            Self::InsufficientQuota => (429, "insufficient_quota", "insufficient_quota"),
            Self::SessionLimitReached => (429, "rate_limit_error", "session_limit_reached"),
            Self::UpstreamRateLimited => (429, "rate_limit_error", "upstream_rate_limited"),
            Self::ClientClosedRequest => (499, UPSTREAM, "client_closed_request"),
            Self::InternalError => (500, "server_error", "internal_error"),
            Self::UnsupportedTransferEncoding => (501, REQUEST, "unsupported_transfer_encoding"),
            Self::UpstreamError => (502, UPSTREAM, "upstream_error"),
            Self::UpstreamUnreachable => (502, UPSTREAM, "upstream_unreachable"),
            Self::UpstreamInvalidResponse => (502, UPSTREAM, "upstream_invalid_response"),
            Self::UpstreamStreamError => (502, UPSTREAM, "upstream_stream_error"),
            Self::UpstreamAuthError => (502, UPSTREAM, "upstream_auth_error"),
            Self::UpstreamBillingError => (502, UPSTREAM, "upstream_billing_error"),
            Self::UpstreamModelMissing => (502, UPSTREAM, "upstream_model_missing"),
            Self::UpstreamOverloaded => (503, UPSTREAM, "upstream_overloaded"),
            Self::NoAvailableProvider => (503, UPSTREAM, "no_available_provider"),
            Self::StoreUnavailable => (503, "server_error", "store_unavailable"),
            Self::BudgetStoreUnavailable => (503, "server_error", "budget_store_unavailable"),
            Self::UpstreamTimeout => (504, UPSTREAM, "upstream_timeout"),
        }
    }

    /// The code, also the metric label and `attempts[].status`.
    #[must_use]
    pub fn code(self) -> &'static str {
        self.row().2
    }

    /// Whether the upstream failed or was too busy, so that an older answer may stand in for the missing one.
    pub(crate) fn is_upstream_fault(self) -> bool {
        self.row().0 >= 500 || self == Self::UpstreamRateLimited
    }

    /// Whether a repeated request can succeed: the source of `x-should-retry` and `retry-after`.
    #[must_use]
    pub fn retry(self) -> Retry {
        match self {
            Self::Invalid
            | Self::UnsupportedParameter
            | Self::UnsupportedValue
            | Self::UnsupportedModel
            | Self::NoMatchingTarget
            | Self::MaxCostExceeded
            | Self::ContextLengthExceeded
            | Self::ContentFilter
            | Self::InvalidApiKey
            | Self::ModelNotAllowed
            | Self::AdminRequired
            | Self::RoleNotAllowed
            | Self::SignInFailed
            | Self::CrossSiteRequest
            | Self::ModelNotFound
            | Self::NotFound
            | Self::UnknownUrl
            | Self::MethodNotAllowed
            | Self::ConfiguredInFile
            | Self::VersionMismatch
            | Self::RequestTooLarge
            | Self::UriTooLong
            | Self::UnsupportedMediaType
            | Self::UpgradeRequired
            | Self::HeadersTooLarge
            | Self::InsufficientQuota
            | Self::SessionLimitReached
            | Self::UnsupportedTransferEncoding
            | Self::UpstreamAuthError
            | Self::UpstreamBillingError
            | Self::UpstreamModelMissing => Retry::Useless,
            Self::RequestTimeout
            | Self::ClientClosedRequest
            | Self::InternalError
            | Self::UpstreamError
            | Self::UpstreamUnreachable
            | Self::UpstreamInvalidResponse
            | Self::UpstreamStreamError
            | Self::UpstreamTimeout => Retry::AtOnce,
            Self::RateLimitExceeded
            | Self::UpstreamRateLimited
            | Self::UpstreamOverloaded
            | Self::NoAvailableProvider
            | Self::StoreUnavailable
            | Self::BudgetStoreUnavailable => Retry::AfterWait,
        }
    }
}

/// The status in the ledger and the access log of a call that the gateway's own shutdown ended. Its client gets
/// [`Kind::UpstreamStreamError`].
pub const GATEWAY_SHUTDOWN: &str = "gateway_shutdown";

/// An error for a client. gw-server writes its body.
#[derive(Clone, Debug)]
pub struct Error {
    /// Its row of the table.
    pub kind: Kind,
    /// The code, if it differs from the row's.
    pub code: Option<Cow<'static, str>>,
    /// The message, which is safe for the client.
    pub message: Cow<'static, str>,
    /// Becomes `retry-after`: whole seconds, 1 to 120.
    pub retry_after: Option<Duration>,
    /// No repetition of this request can succeed, though it can for other errors of the kind.
    pub is_final: bool,
    /// The upstream's fault behind an error inside a stream. Clients of OpenAI's dialect see one kind for most faults.
    pub cause: Option<Kind>,
    /// The rule that refuses the request.
    pub rule: Option<Box<RefusingRule>>,
    /// The key or the team whose budget has too little left for the request. Operators are told of it.
    pub spent_budget: Option<SubjectKind>,
}

/// A rule that refuses a request, for the headers of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusingRule {
    /// The place of the rule in the configuration.
    pub place: usize,
    /// Its name.
    pub name: String,
    /// It has no room. Otherwise it refuses models without a price, or nobody can tell now what it has left.
    pub is_full: bool,
    /// When it begins anew, in the form of RFC 3339.
    pub resets_at: Option<String>,
    /// The id of the counter whose budget has too little left. None: the rule refuses for another reason.
    pub spent_counter: Option<String>,
}

/// A result with this error.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of this kind.
    #[must_use]
    pub fn new(kind: Kind, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind,
            code: None,
            message: message.into(),
            retry_after: None,
            is_final: false,
            cause: None,
            rule: None,
            spent_budget: None,
        }
    }

    /// A fault of the gateway itself, such as a task that panicked.
    #[must_use]
    pub fn internal() -> Self {
        Self::new(Kind::InternalError, "The gateway failed while answering this request.")
    }

    /// Adds the retry hint.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// Marks a request that can never succeed.
    #[must_use]
    pub fn finally(mut self) -> Self {
        self.is_final = true;
        self
    }

    /// The rule that refuses the request because it has no room.
    #[must_use]
    pub fn full_rule(&self) -> Option<&RefusingRule> {
        self.rule.as_deref().filter(|rule| rule.is_full)
    }

    /// Whether a repeated request can succeed.
    #[must_use]
    pub fn retry(&self) -> Retry {
        if self.is_final { Retry::Useless } else { self.kind.retry() }
    }

    /// The code on the wire.
    #[must_use]
    pub fn code(&self) -> &str {
        self.code.as_deref().unwrap_or_else(|| self.kind.code())
    }

    /// The code of the fault behind the error, or of the error itself.
    #[must_use]
    pub fn cause_code(&self) -> &'static str {
        self.cause.unwrap_or(self.kind).code()
    }

    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.kind.row().0
    }

    /// The body: exactly `{"error":{"message","type","code"}}`.
    #[must_use]
    pub fn body(&self) -> Vec<u8> {
        gw_wire::error_body::error_body(&self.message, self.kind.row().1, self.code())
    }
}

impl From<gw_wire::request::Invalid> for Error {
    fn from(invalid: gw_wire::request::Invalid) -> Self {
        Self { code: Some(invalid.code.into()), ..Self::new(Kind::Invalid, invalid.message) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of docs/errors.md.
    fn document() -> String {
        let mut rows: Vec<(u16, &str, &str, Retry)> = Kind::ALL
            .iter()
            .map(|kind| {
                let (status, type_, code) = kind.row();
                (status, type_, code, kind.retry())
            })
            .collect();
        rows.sort_unstable_by_key(|(status, type_, code, _)| (*status, *type_, *code));
        let mut text = String::from(INTRODUCTION);
        for (status, type_, code, retry) in rows {
            let (should_retry, retry_after) = match retry {
                Retry::Useless => ("`false`", ""),
                Retry::AtOnce => ("`true`", ""),
                Retry::AfterWait => ("`true`", "seconds"),
            };
            text.push_str(&format!("| {status} | `{type_}` | `{code}` | {should_retry} | {retry_after} |\n"));
        }
        text
    }

    const INTRODUCTION: &str = "# Errors

<!-- Made from crates/gw-engine/src/error.rs by its test; UPDATE=1 cargo test -p gw-engine rewrites it. -->

Every error body is exactly `{\"error\":{\"message\":string,\"type\":string,\"code\":string}}`, on every path, and every
response carries `x-request-id`. A request that breaks a rule of its shape is a 400 `invalid_request_error` whose code names
the rule (`invalid_json`, `missing_required_parameter`, `invalid_type`, `invalid_value`, `integer_below_min_value`,
`integer_above_max_value`, `decimal_below_min_value`, `decimal_above_max_value`, `empty_array`, `array_above_max_length`,
`empty_string`, `string_above_max_length`, `unknown_parameter`) and whose message begins with the field. A request that an
upstream calls bad keeps the upstream's own code where it gave one. Once a stream is under way an error is an event: `data: {\"error\":…}`, then `data: [DONE]`, never a finish reason.

An upstream's own words reach the client for a fault of the request (`invalid_request_error`) and for its status 501. Operators see
them for every failure, as one line of at most 2 KiB without keys and addresses: as the `reason` of an attempt in
`GET /admin/v1/requests/{id}` and, except where the upstream refuses the gateway's credentials or account, as `upstream_error` in the
access log. They may quote the prompt.

Every error carries `x-should-retry`, which the SDKs of OpenAI and Anthropic obey: `false` where a repetition of the request cannot
succeed, `true` where it can. An error that goes away by itself carries `retry-after`, too: whole seconds, 1 to 120. A used-up budget and
a stopped session are 429 without it. A request that is larger than its key's tokens per minute is `rate_limit_exceeded` with `false`. On
`/v1/messages` a 503 is a 529.

| Status | Type | Code | `x-should-retry` | `retry-after` |
|---|---|---|---|---|
";

    #[test]
    fn the_documented_errors_are_the_rows() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, document()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), document(), "UPDATE=1 rewrites docs/errors.md");
    }

    #[test]
    fn every_kind_has_a_code_of_its_own() {
        let codes: std::collections::HashSet<_> = Kind::ALL.iter().map(|kind| kind.code()).collect();
        assert_eq!(codes.len(), Kind::ALL.len());
    }
}
