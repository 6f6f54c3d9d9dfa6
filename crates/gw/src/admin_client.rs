//! Management requests of the commands `keys`, `usage` and `explain`. The store of the configuration answers them, or a
//! running gateway does (`--url`).

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use gw_admin::{AdminError, AdminMethod, AdminRequest, AdminService, Requester};
use gw_command::{CommandError, Common, runtime};
use gw_config::{paths, setup};
use gw_providers::adapter::HttpCall;
use gw_providers::client::Client;
use gw_providers::settings::Timeouts;
use gw_wire::failure::Failure;
use gw_wire::percent::encode;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::store;
use crate::url_query::query;

/// The environment variable with the admin key. An argument would be visible to every program on the machine.
pub const ADMIN_KEY: &str = "MODEL_GATEWAY_ADMIN_KEY";

/// The largest answer of a gateway.
const MAX_ANSWER_BYTES: usize = 256 << 20;
/// The timeouts of a request to a gateway.
const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    first_token: Duration::from_secs(30),
    idle: Duration::from_secs(30),
    total: Duration::from_secs(60),
};

/// The timeouts of a question that a program's start waits for.
const MODEL_TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(2),
    first_token: Duration::from_secs(3),
    idle: Duration::from_secs(3),
    total: Duration::from_secs(5),
};

/// The gateway or the store that answers a command.
#[derive(Clone, Debug, Args)]
pub struct AdminTarget {
    /// Ask the running gateway at this address, with the admin key in MODEL_GATEWAY_ADMIN_KEY, instead of opening the store
    #[arg(long, value_name = "URL", global = true, value_parser = gateway_address)]
    pub url: Option<String>,
}

/// The running gateway that a command asks. The store cannot answer it.
#[derive(Clone, Debug, Args)]
pub struct GatewayAddress {
    /// Ask the running gateway at this address, with the admin key in MODEL_GATEWAY_ADMIN_KEY [default: the address in the
    /// configuration]
    #[arg(long, value_name = "URL", global = true, value_parser = gateway_address)]
    pub url: Option<String>,
}

/// Sends a management request, and returns the body of its answer.
///
/// # Errors
/// Exit code 2 for a request that is refused, 1 when there is no answer.
pub fn ask(common: &Common, target: &AdminTarget, ask: AdminRequest) -> Result<Bytes, CommandError> {
    runtime()?.block_on(async {
        match &target.url {
            Some(url) => Box::pin(over_http(url, request(&ask))).await,
            None => Box::pin(on_the_store(common, ask)).await,
        }
    })
}

/// Asks a running gateway to explain the route of a request. `key` is the id of the key that would send it.
///
/// # Errors
/// As [`ask`].
pub fn explain_route(url: &str, key: Option<&str>, body: Bytes) -> Result<Bytes, CommandError> {
    let path = format!("routing/explain?{}", query(&[("key", key)]));
    runtime()?.block_on(Box::pin(over_http(url, (Method::POST, path, body))))
}

/// Reads a document of a running gateway. `path` is the path below `/admin/v1/`.
///
/// # Errors
/// As [`ask`].
pub fn get(url: &str, path: &str) -> Result<Bytes, CommandError> {
    runtime()?.block_on(Box::pin(over_http(url, (Method::GET, path.to_owned(), Bytes::new()))))
}

/// The catalogue entry of a model at a running gateway, read with a key of any role.
///
/// # Errors
/// There is no gateway, no such model, or the key may not use it.
pub fn model(origin: &str, name: &str, key: &str) -> Result<Value, CommandError> {
    let path = format!("/v1/models/{}", encode(name));
    let call = authorised((Method::GET, path, Bytes::new()), key)
        .ok_or_else(|| CommandError::Usage("the gateway key holds characters that no key has".to_owned()))?;
    let answer = runtime()?.block_on(Box::pin(send(origin, call, &MODEL_TIMEOUTS)))?;
    serde_json::from_slice(&answer).map_err(CommandError::runtime)
}

/// Asks a running gateway to load its configuration again.
///
/// # Errors
/// As [`ask`].
pub fn reload(url: &str) -> Result<Bytes, CommandError> {
    runtime()?
        .block_on(Box::pin(over_http(url, (Method::POST, "reload".to_owned(), Bytes::from_static(b"{}")))))
}

/// Asks a running gateway to send a test of an alert.
///
/// # Errors
/// As [`ask`].
pub fn test_alert(url: &str, name: &str) -> Result<Bytes, CommandError> {
    let path = format!("alerts/{}/test", encode(name));
    runtime()?.block_on(Box::pin(over_http(url, (Method::POST, path, Bytes::from_static(b"{}")))))
}

/// Asks a running gateway for a link that signs in as the holder of the admin key.
///
/// # Errors
/// As [`ask`].
pub fn make_link(url: &str) -> Result<Bytes, CommandError> {
    let key = admin_key()?;
    let body = serde_json::json!({ "key": key }).to_string();
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let call = HttpCall {
        method: Method::POST,
        path: "/auth/links".to_owned(),
        headers,
        body: body.into(),
        upload: None,
    };
    runtime()?.block_on(Box::pin(send(url, call, &TIMEOUTS)))
}

/// The admin key of the environment.
fn admin_key() -> Result<String, CommandError> {
    paths::variable(ADMIN_KEY).ok_or_else(|| {
        CommandError::Usage(format!(
            "this command asks the running gateway and needs an admin key in the environment variable {ADMIN_KEY}"
        ))
    })
}

async fn on_the_store(common: &Common, ask: AdminRequest) -> Result<Bytes, CommandError> {
    let setup = setup::load(common)?;
    let store = store::open_shared(&setup).await?;
    let service = AdminService::new(store.clone(), &setup.config.engine.keys);
    let answer = service.answer(&ask, &this_user()).await;
    store.close().await;
    match answer {
        Ok(document) => Ok(document.body),
        Err(AdminError::Rejected(error)) if error.status() < 500 => {
            Err(CommandError::Usage(error.message.into_owned()))
        }
        Err(AdminError::Rejected(error)) => Err(CommandError::Runtime(error.message.into_owned())),
        Err(AdminError::Store(error)) => Err(CommandError::Runtime(error.to_string())),
    }
}

/// The user of the operating system who runs the command.
#[must_use]
pub fn this_user() -> Requester {
    let uid = rustix::process::getuid().as_raw();
    let name = paths::variable("USER").or_else(|| paths::variable("LOGNAME"));
    Requester::of_command_line(format!("uid:{uid}"), name.unwrap_or_default())
}

/// The method, the path (of a management request: below `/admin/v1/`) and the body.
type AdminHttpRequest = (Method, String, Bytes);

async fn over_http(url: &str, request: AdminHttpRequest) -> Result<Bytes, CommandError> {
    let key = admin_key()?;
    let (method, path, body) = request;
    let call = authorised((method, format!("/admin/v1/{path}"), body), &key)
        .ok_or_else(|| CommandError::Usage(format!("{ADMIN_KEY} holds characters that no key has")))?;
    send(url, call, &TIMEOUTS).await
}

/// Sends a call to the gateway at this address, and returns the body of its answer.
async fn send(url: &str, call: HttpCall, timeouts: &Timeouts) -> Result<Bytes, CommandError> {
    let client = Client::new(url, true, None).map_err(|problem| {
        CommandError::Usage(format!("--url: {}", problem.to_string().replace("base_url", "the address")))
    })?;
    let unreachable = |failure: Failure| {
        let detail = failure.detail.unwrap_or(failure.message);
        CommandError::Runtime(no_answer(url, &detail))
    };
    let response = client.send(call, timeouts).await.map_err(unreachable)?;
    let status = response.status;
    let body = response
        .body
        .collect(MAX_ANSWER_BYTES, timeouts.idle, Instant::now() + timeouts.total)
        .await
        .map_err(unreachable)?;
    match status {
        200 | 201 => Ok(body),
        400..500 => Err(CommandError::Usage(format!("{url}: {}", message(status, &body)))),
        _ => Err(CommandError::Runtime(format!("{url}: {}", message(status, &body)))),
    }
}

/// The reason why a request got no answer. A gateway whose certificate is refused answers, but not to this client.
fn no_answer(url: &str, detail: &str) -> String {
    if !detail.contains("invalid peer certificate") {
        return format!("the gateway at {url} does not answer ({detail})");
    }
    let remedy = if detail.contains("CaUsedAsEndEntity") {
        "; it is marked as the certificate of an authority: make one with basicConstraints=critical,CA:FALSE"
    } else if detail.contains("UnknownIssuer") {
        "; name the file with it, or with the certificate of its authority, in SSL_CERT_FILE"
    } else {
        ""
    };
    format!("the certificate of the gateway at {url} is not trusted ({detail}){remedy}")
}

/// The address without the `/v1` that clients of the API have at its end.
///
/// # Errors
/// None. The command line asks for a result.
pub fn gateway_address(url: &str) -> Result<String, Infallible> {
    let url = url.trim_end_matches('/');
    Ok(url.strip_suffix("/v1").unwrap_or(url).to_owned())
}

fn message(status: u16, body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Body {
        error: Inner,
    }
    #[derive(Deserialize)]
    struct Inner {
        message: String,
    }
    match serde_json::from_slice::<Body>(body) {
        Ok(body) => body.error.message,
        Err(_) => format!("the answer has status {status} and is not a gateway's"),
    }
}

/// A call with a key. None: the key holds characters that no header has.
fn authorised((method, path, body): AdminHttpRequest, key: &str) -> Option<HttpCall> {
    let mut authorization = HeaderValue::from_str(&format!("Bearer {key}")).ok()?;
    authorization.set_sensitive(true);
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, authorization);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    Some(HttpCall { method, path, headers, body, upload: None })
}

/// The HTTP request for a management request.
fn request(ask: &AdminRequest) -> AdminHttpRequest {
    let method = match ask.endpoint.method {
        AdminMethod::Get => Method::GET,
        AdminMethod::Put => Method::PUT,
        AdminMethod::Patch => Method::PATCH,
        AdminMethod::Delete => Method::DELETE,
        AdminMethod::Post => Method::POST,
    };
    let path = ask.endpoint.path.replace("{id}", &encode(&ask.id));
    let path = if ask.query.is_empty() { path } else { format!("{path}?{}", ask.query) };
    (method, path, ask.body.clone())
}

#[cfg(test)]
mod tests {
    use gw_admin::endpoints::SHOW_KEY;

    use super::*;

    #[test]
    fn the_address_for_clients_names_the_gateway_too() {
        for url in ["http://gw:4000", "http://gw:4000/", "http://gw:4000/v1", "http://gw:4000/v1/"] {
            assert_eq!(gateway_address(url), Ok("http://gw:4000".to_owned()));
        }
        assert_eq!(gateway_address("https://proxy/llm/v1"), Ok("https://proxy/llm".to_owned()));
    }

    #[test]
    fn an_id_stays_one_part_of_the_url() {
        let (method, path, _) = request(&AdminRequest::new(SHOW_KEY).with_id("a/../b?c#d é"));
        assert_eq!((method, path.as_str()), (Method::GET, "keys/a%2F..%2Fb%3Fc%23d%20%C3%A9"));
    }

    #[test]
    fn a_refused_certificate_is_no_silence() {
        for (detail, expected) in [
            (
                "connect 127.0.0.1:1: refused",
                "the gateway at U does not answer (connect 127.0.0.1:1: refused)",
            ),
            (
                "tls: invalid peer certificate: Expired",
                "the certificate of the gateway at U is not trusted (tls: invalid peer certificate: Expired)",
            ),
            (
                "tls: invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))",
                "the certificate of the gateway at U is not trusted (tls: invalid peer certificate: \
                 Other(OtherError(CaUsedAsEndEntity))); it is marked as the certificate of an authority: make one with \
                 basicConstraints=critical,CA:FALSE",
            ),
        ] {
            assert_eq!(no_answer("U", detail), expected);
        }
    }

    #[test]
    fn an_error_keeps_the_message_of_the_gateway() {
        let body = br#"{"error":{"message":"No.","type":"t","code":"c"}}"#;
        assert_eq!(message(400, body), "No.");
        assert!(message(502, b"<html>").contains("status 502"));
    }
}
