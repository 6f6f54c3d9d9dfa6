//! The shape of error bodies: OpenAI's, or that of the other API that a client speaks.

use gw_engine::error::{Error, Kind};
use gw_wire::json::ObjectWriter;
use http::{HeaderMap, StatusCode};

/// The shape of the error bodies of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorForm {
    /// `{"error":{"message","type","code"}}`.
    OpenAi,
    /// OpenAI's shape with the member `param`, as clients of the Responses API read it.
    Responses,
    /// `{"type":"error","error":{"type","message"},"request_id"}`.
    Anthropic,
}

/// Overload, in Anthropic's API.
const OVERLOADED: u16 = 529;

impl ErrorForm {
    /// The shape for a request. The path decides, also where it leads to no URL of the gateway. `GET /v1/models` serves two
    /// APIs, and the header `anthropic-version` tells them apart.
    pub(crate) fn of(path: &str, headers: &HeaderMap) -> Self {
        let is_below = |parent: &str| {
            path.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if is_below("/v1/messages") || (is_below("/v1/models") && speaks_anthropic(headers)) {
            Self::Anthropic
        } else if is_below("/v1/responses") {
            Self::Responses
        } else {
            Self::OpenAi
        }
    }

    /// The HTTP status of an error.
    pub(crate) fn status(self, error: &Error) -> StatusCode {
        let is_overload = matches!(error.kind, Kind::UpstreamOverloaded | Kind::NoAvailableProvider);
        let status = if self == Self::Anthropic && is_overload { OVERLOADED } else { error.status() };
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The body of an error.
    pub(crate) fn body(self, error: &Error, request_id: &str) -> Vec<u8> {
        match self {
            Self::OpenAi => error.body(),
            Self::Responses => responses_body(error),
            Self::Anthropic => anthropic_body(error, request_id),
        }
    }
}

/// Whether the request comes from a client of Anthropic's API.
pub(crate) fn speaks_anthropic(headers: &HeaderMap) -> bool {
    headers.contains_key("anthropic-version")
}

fn responses_body(error: &Error) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    let mut body = ObjectWriter::begin(&mut out);
    body.object("error", |object| {
        object.string("message", &error.message);
        object.string("type", error.kind.row().1);
        // Clients of this API read four strings, so the member is there although the gateway names no parameter in it.
        object.string("param", "");
        object.string("code", error.code());
    });
    body.finish();
    out
}

fn anthropic_body(error: &Error, request_id: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    let mut body = ObjectWriter::begin(&mut out);
    body.string("type", "error");
    body.object("error", |object| {
        object.string("type", anthropic_type(error.kind));
        object.string("message", &error.message);
    });
    body.string("request_id", request_id);
    body.finish();
    out
}

/// The type of an error in Anthropic's API.
fn anthropic_type(kind: Kind) -> &'static str {
    match kind {
        Kind::InsufficientQuota => "billing_error",
        Kind::UpstreamOverloaded | Kind::NoAvailableProvider => "overloaded_error",
        _ => match kind.row().0 {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            408 | 504 => "timeout_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            500.. => "api_error",
            _ => "invalid_request_error",
        },
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_path_and_the_version_header_choose_the_shape() {
        let plain = HeaderMap::new();
        let mut versioned = HeaderMap::new();
        versioned.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        for (path, without, with) in [
            ("/v1/messages", ErrorForm::Anthropic, ErrorForm::Anthropic),
            ("/v1/messages/", ErrorForm::Anthropic, ErrorForm::Anthropic),
            ("/v1/messages/batches", ErrorForm::Anthropic, ErrorForm::Anthropic),
            ("/v1/messagesx", ErrorForm::OpenAi, ErrorForm::OpenAi),
            ("/v1/models", ErrorForm::OpenAi, ErrorForm::Anthropic),
            ("/v1/models/acme/fast", ErrorForm::OpenAi, ErrorForm::Anthropic),
            ("/v1/responses", ErrorForm::Responses, ErrorForm::Responses),
            ("/v1/responses/resp_1/cancel", ErrorForm::Responses, ErrorForm::Responses),
            ("/v1/chat/completions", ErrorForm::OpenAi, ErrorForm::OpenAi),
            ("/admin/v1/keys", ErrorForm::OpenAi, ErrorForm::OpenAi),
        ] {
            assert_eq!(
                (ErrorForm::of(path, &plain), ErrorForm::of(path, &versioned)),
                (without, with),
                "{path}"
            );
        }
    }

    #[test]
    fn every_kind_has_a_type_and_a_status_of_anthropics_api() {
        for kind in Kind::ALL {
            let error = Error::new(kind, "x");
            let (status, body) = (ErrorForm::Anthropic.status(&error).as_u16(), anthropic_type(kind));
            let expected = match body {
                "authentication_error" => vec![401],
                "permission_error" => vec![403],
                "not_found_error" => vec![404],
                "request_too_large" => vec![413],
                "rate_limit_error" | "billing_error" => vec![429],
                "timeout_error" => vec![408, 504],
                "overloaded_error" => vec![529],
                "api_error" => vec![500, 501, 502, 503],
                _ => vec![400, 405, 414, 415, 431, 499],
            };
            assert!(expected.contains(&status), "{kind:?}: {status} {body}");
        }
    }

    #[test]
    fn each_shape_has_exactly_its_members() {
        let error = Error::new(Kind::InsufficientQuota, "The \"budget\" is spent.");
        let text = |form: ErrorForm| String::from_utf8(form.body(&error, "req_1")).unwrap();
        assert_eq!(
            text(ErrorForm::Anthropic),
            r#"{"type":"error","error":{"type":"billing_error","message":"The \"budget\" is spent."},"request_id":"req_1"}"#
        );
        assert_eq!(
            text(ErrorForm::Responses),
            r#"{"error":{"message":"The \"budget\" is spent.","type":"insufficient_quota","param":"","code":"insufficient_quota"}}"#
        );
        assert_eq!(text(ErrorForm::OpenAi).as_bytes(), error.body());
    }
}
