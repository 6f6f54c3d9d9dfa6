//! `[[passthrough]]`.

use gw_engine::settings::{CredentialMode, PassthroughSettings};
use gw_providers::usage_scan::UsageShape;

use super::super::binding::{Form, field, words};
use super::super::formats::{BASE_URL, HEADER, HEADER_VALUE, PASSTHROUGH_PATH, PROVIDER};
use super::super::schema::{Kind, Section, required_setting, setting, setting_or, words_of};
use super::prices::PRICING;
use super::timeouts::{OWN_TIMEOUTS, TIMEOUTS};

const METHODS: Kind = Kind::List {
    of: &Kind::Choice(&[
        ("GET", &[]),
        ("HEAD", &[]),
        ("POST", &[]),
        ("PUT", &[]),
        ("PATCH", &[]),
        ("DELETE", &[]),
    ]),
    min: 1,
};
const HEADERS: Kind = Kind::List { of: &Kind::Text(&HEADER), min: 0 };

pub(super) static PASSTHROUGH: Section = Section {
    doc: "A pass-through route: requests to URLs below `path` go to an upstream as the client wrote them. It needs `target` or \
          `provider`. `docs/passthrough.md` describes these routes.",
    keys: &[
        required_setting(
            "path",
            Kind::Text(&PASSTHROUGH_PATH),
            field!(PassthroughSettings, path, Form::TEXT),
            "The beginning of the URLs, such as `/cohere`. Of several routes the longest path counts. The gateway's own URLs come first.",
        ),
        setting(
            "target",
            Kind::Text(&BASE_URL),
            field!(PassthroughSettings, target, Form::OPTIONAL_TEXT),
            "The address that stands in the place of `path`. The rest of the URL and the query follow it.",
        ),
        setting(
            "provider",
            Kind::Text(&PROVIDER),
            field!(PassthroughSettings, provider, Form::OPTIONAL_TEXT),
            "The name of a provider whose `base_url` stands in the place of `path`, and whose key is sent.",
        ),
        setting_or(
            "methods",
            METHODS,
            field!(PassthroughSettings, methods, Form::TEXTS),
            "all",
            "The methods of the route. Others get 405.",
        ),
        words_of(
            "credential",
            words!(
                PassthroughSettings,
                credential,
                "inject" => CredentialMode::Inject,
                "forward" => CredentialMode::Forward
            ),
            "`inject`: the client sends its gateway key in any header or in `?key=`, and the upstream gets the provider's key in its \
             place. `forward`: the client sends its gateway key in `x-gateway-key` alone, and its own credential goes upstream.",
        ),
        setting_or(
            "forward_headers",
            HEADERS,
            field!(PassthroughSettings, forward_headers, Form::TEXTS),
            "",
            "Headers of the client that go upstream beside those that say what the body is and what the client accepts.",
        ),
        setting_or(
            "headers",
            Kind::Map { key: &HEADER, of: &Kind::Secret(&HEADER_VALUE) },
            field!(PassthroughSettings, headers, Form::HEADERS),
            "",
            "Headers of every call to `target`, such as its key. A provider has its own `headers`.",
        ),
        setting_or(
            "usage",
            Kind::Choice(&[
                ("openai", &[]),
                ("anthropic", &[]),
                ("gemini", &[]),
                ("bedrock", &[]),
                ("none", &[]),
            ]),
            field!(PassthroughSettings, usage, USAGE),
            "\"none\"",
            "The shape in which the upstream's answers and streams report their tokens. They are charged at the prices of the model \
             that the request names.",
        ),
        setting_or(
            "pricing",
            Kind::Table(&PRICING),
            field!(PassthroughSettings, pricing, Form::OPTIONAL_TABLE),
            "the prices of the model that the request names",
            "The prices of the reported tokens on this route, whatever the model.",
        ),
        setting_or(
            "cost_per_request",
            Kind::UnitPrice,
            field!(PassthroughSettings, cost_per_request, Form::OPTIONAL_UNIT_PRICE),
            "unknown; the row is marked `unpriced`",
            "The cost in USD of a request whose tokens are not reported. Requests that the upstream refuses are free.",
        ),
        setting_or(
            "timeouts",
            Kind::Table(&TIMEOUTS),
            field!(PassthroughSettings, timeouts, OWN_TIMEOUTS),
            "those of the provider, or `[timeouts]`",
            "The route's own timeouts.",
        ),
        setting(
            "allow_private_network",
            Kind::Bool,
            field!(PassthroughSettings, allow_private_network, Form::BOOL),
            "Whether `target` may lead to private and loopback addresses. Link-local addresses are always refused.",
        ),
        setting(
            "allow_plain_http",
            Kind::Bool,
            field!(PassthroughSettings, allow_plain_http, Form::BOOL),
            "Whether an `http://` target may lead to public addresses. Keys and bodies then cross the network unencrypted.",
        ),
    ],
};

/// The shape of reported tokens, or `none`.
const USAGE: Form<Option<UsageShape>> =
    Form { read: |value| Some(UsageShape::named(value.text()?)), write: |_| String::new() };
