//! How `keys`, `usage` and `explain` get their answers: straight from the store of the configuration, or from a running
//! gateway.

use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use gw_admin::{AdminError, AdminRequest, AdminService};
use gw_providers::adapter::HttpCall;
use gw_providers::client::Client;
use gw_providers::settings::Timeouts;
use gw_wire::failure::Failure;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use secrecy::ExposeSecret;
use serde::Deserialize;
use tokio::time::Instant;

use crate::cli::{Common, Stop};
use crate::{places, serve, setup};

/// The variable that holds the key of role admin: never an argument, which every program on the machine could read.
pub const ADMIN_KEY: &str = "MODEL_GATEWAY_ADMIN_KEY";

/// An answer may be this long.
const LARGEST: usize = 256 << 20;
/// A gateway that takes longer does not answer.
const CLOCKS: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    first_token: Duration::from_secs(30),
    idle: Duration::from_secs(30),
    total: Duration::from_secs(60),
};

/// Whom to ask.
#[derive(Clone, Debug, Args)]
pub struct Whom {
    /// Ask the gateway running at this address, with the key in MODEL_GATEWAY_ADMIN_KEY, instead of opening the store
    #[arg(long, value_name = "URL", global = true)]
    pub url: Option<String>,
}

/// The body of the answer.
///
/// # Errors
/// Exit code 2 for what cannot be asked, 1 when there is no answer.
pub fn ask(common: &Common, whom: &Whom, ask: AdminRequest) -> Result<Bytes, Stop> {
    runtime()?.block_on(async {
        match &whom.url {
            Some(url) => Box::pin(over_http(url, request(&ask))).await,
            None => Box::pin(on_the_store(common, ask)).await,
        }
    })
}

/// What a running gateway says about the route of a request; `key` is the id of the key that would ask.
///
/// # Errors
/// As [`ask`].
pub fn ask_for_route(url: &str, key: Option<&str>, body: Bytes) -> Result<Bytes, Stop> {
    let path = format!("routing/explain?{}", query(&[("key", key)]));
    runtime()?.block_on(Box::pin(over_http(url, (Method::POST, path, body))))
}

/// What a command does its waiting on.
///
/// # Errors
/// Exit code 1 when the system does not give it.
pub fn runtime() -> Result<tokio::runtime::Runtime, Stop> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Stop::Runtime(format!("the runtime cannot be started: {error}")))
}

/// The store of the configuration, which must be one that another program can open.
///
/// # Errors
/// Exit code 2 for a store in memory, 1 for one that cannot be opened.
pub async fn open_store(setup: &setup::Setup) -> Result<gw_store::Store, Stop> {
    if setup.config.store.url.as_ref().is_some_and(|url| url.expose_secret().contains(":memory:")) {
        return Err(Stop::Usage(
            "the configuration's store is in the memory of the running gateway, where only that can read it: keys, usage \
             and explain can ask it with --url"
                .to_owned(),
        ));
    }
    serve::open_store(setup).await
}

async fn on_the_store(common: &Common, ask: AdminRequest) -> Result<Bytes, Stop> {
    let setup = setup::load(common)?;
    let store = open_store(&setup).await?;
    let answer = AdminService::new(store.clone(), &setup.config.engine.keys).answer(ask).await;
    store.close().await;
    match answer {
        Ok(document) => Ok(document.body),
        Err(AdminError::Rejected(error)) if error.status() < 500 => {
            Err(Stop::Usage(error.message.into_owned()))
        }
        Err(AdminError::Rejected(error)) => Err(Stop::Runtime(error.message.into_owned())),
        Err(AdminError::Store(error)) => Err(Stop::Runtime(error.to_string())),
    }
}

/// Method, path under `/admin/v1/` and body.
type Request = (Method, String, Bytes);

async fn over_http(url: &str, request: Request) -> Result<Bytes, Stop> {
    let key = places::variable(ADMIN_KEY)
        .ok_or_else(|| Stop::Usage(format!("--url needs a key of role admin in {ADMIN_KEY}")))?;
    let client = Client::new(url, true, None).map_err(|problem| {
        Stop::Usage(format!("--url: {}", problem.to_string().replace("base_url", "the address")))
    })?;
    let away = |failure: Failure| {
        let detail = failure.detail.unwrap_or(failure.message);
        Stop::Runtime(format!("the gateway at {url} does not answer ({detail})"))
    };
    let response = client.send(call(request, &key)?, &CLOCKS).await.map_err(away)?;
    let status = response.status;
    let body =
        response.body.collect(LARGEST, CLOCKS.idle, Instant::now() + CLOCKS.total).await.map_err(away)?;
    match status {
        200 | 201 => Ok(body),
        400..500 => Err(Stop::Usage(format!("{url}: {}", message(status, &body)))),
        _ => Err(Stop::Runtime(format!("{url}: {}", message(status, &body)))),
    }
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
        Err(_) => format!("status {status}, and no answer of a gateway"),
    }
}

fn call((method, path, body): Request, key: &str) -> Result<HttpCall, Stop> {
    let mut authorization = HeaderValue::from_str(&format!("Bearer {key}"))
        .map_err(|_| Stop::Usage(format!("{ADMIN_KEY} does not hold a key")))?;
    authorization.set_sensitive(true);
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, authorization);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    Ok(HttpCall { method, path: format!("/admin/v1/{path}"), headers, body })
}

/// The request that the ask is over HTTP.
fn request(ask: &AdminRequest) -> Request {
    let none = Bytes::new();
    match ask {
        AdminRequest::CreateKey(body) => (Method::POST, "keys".to_owned(), body.clone()),
        AdminRequest::ListKeys(query) => (Method::GET, format!("keys?{query}"), none),
        AdminRequest::ShowKey(id) => (Method::GET, format!("keys/{}", encode(id)), none),
        AdminRequest::UpdateKey(id, body) => (Method::PATCH, format!("keys/{}", encode(id)), body.clone()),
        AdminRequest::RevokeKey(id) => (Method::DELETE, format!("keys/{}", encode(id)), none),
        AdminRequest::RotateKey(id, body) => {
            (Method::POST, format!("keys/{}/rotate", encode(id)), body.clone())
        }
        AdminRequest::ListTeams => (Method::GET, "teams".to_owned(), none),
        AdminRequest::ShowTeam(id) => (Method::GET, format!("teams/{}", encode(id)), none),
        AdminRequest::PutTeam(id, body) => (Method::PUT, format!("teams/{}", encode(id)), body.clone()),
        AdminRequest::DeleteTeam(id) => (Method::DELETE, format!("teams/{}", encode(id)), none),
        AdminRequest::ReportUsage { query, .. } => (Method::GET, format!("usage?{query}"), none),
        AdminRequest::ListRequests(query) => (Method::GET, format!("requests?{query}"), none),
        AdminRequest::ShowRequest(id) => (Method::GET, format!("requests/{}", encode(id)), none),
        AdminRequest::DeletePayload(id) => (Method::DELETE, format!("requests/{}/payload", encode(id)), none),
    }
}

/// A query string of the parameters that are given.
#[must_use]
pub fn query(parameters: &[(&str, Option<&str>)]) -> String {
    let given = parameters.iter().filter_map(|(name, value)| Some(format!("{name}={}", encode((*value)?))));
    given.collect::<Vec<_>>().join("&")
}

/// Percent-encoding of everything that means something in a URL.
fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_stays_one_part_of_the_url() {
        let (method, path, _) = request(&AdminRequest::ShowKey("a/../b?c#d é".to_owned()));
        assert_eq!((method, path.as_str()), (Method::GET, "keys/a%2F..%2Fb%3Fc%23d%20%C3%A9"));
        assert_eq!(query(&[("a", Some("x&y=z")), ("b", None), ("c", Some("7d"))]), "a=x%26y%3Dz&c=7d");
    }

    #[test]
    fn an_error_is_told_in_the_gateways_words() {
        let body = br#"{"error":{"message":"No.","type":"t","code":"c"}}"#;
        assert_eq!(message(400, body), "No.");
        assert!(message(502, b"<html>").contains("status 502"));
    }
}
