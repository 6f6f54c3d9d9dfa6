//! `/auth`: the sign-in of browsers, the page that shows who is signed in, and the sessions that stand in for a key.

use gw_admin::Requester;
use gw_engine::Caller;
use gw_engine::catalog::query::Query;
use gw_engine::error::{Error, Kind, Result};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, COOKIE, HeaderName, LOCATION, ORIGIN, SET_COOKIE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::ops::{HTML, escape};
use crate::response::{GatewayReply, HttpReply};
use crate::state::{ServerState, SignInService};

/// The cookie of a session. Its prefix binds it to this host, to `/` and to an encrypted connection.
const SESSION_COOKIE: &str = "__Host-gateway-session";
/// The cookie of a sign-in that has begun. The issuer's page leads back from another site, so it is `Lax`.
const LOGIN_COOKIE: &str = "__Host-gateway-sign-in";
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The URLs of the sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignInAction {
    /// `GET /auth/login`.
    Login,
    /// `GET /auth/callback`.
    Callback,
    /// `GET /auth/session`.
    Page,
    /// `POST /auth/logout`.
    Logout,
}

/// Answers a request of the sign-in. `address` is the IP address of the client.
pub(crate) async fn answer(
    state: &ServerState,
    parts: &Parts,
    action: SignInAction,
    address: String,
) -> Result<GatewayReply> {
    let service = state.sign_in.as_ref().ok_or_else(|| {
        Error::new(Kind::NotFound, "This gateway has no issuer for the sign-in of browsers.")
    })?;
    let reply = match action {
        SignInAction::Login => login(service),
        SignInAction::Callback => callback(service, parts, address).await,
        SignInAction::Page => page(service, parts).await,
        SignInAction::Logout => logout(service, parts, address).await,
    };
    reply.map(|mut reply| {
        reply.headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        reply
    })
}

fn login(service: &SignInService) -> Result<GatewayReply> {
    let begun = service.begin()?;
    let mut reply = HttpReply::no_content();
    reply.status = StatusCode::SEE_OTHER;
    reply.headers.insert(LOCATION, header(&begun.location)?);
    reply.headers.append(SET_COOKIE, cookie(LOGIN_COOKIE, &begun.sealed, "Lax", 600)?);
    Ok(reply)
}

async fn callback(service: &SignInService, parts: &Parts, address: String) -> Result<GatewayReply> {
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let failed = |message: &'static str| Error::new(Kind::SignInFailed, message);
    if query.last("error").is_some() {
        return Err(failed("The sign-in failed: the issuer refused it."));
    }
    let missing =
        || failed("The sign-in failed: the code or the state is missing. Begin again at /auth/login.");
    let (code, state) = query.last("code").zip(query.last("state")).ok_or_else(missing)?;
    let sealed = cookie_of(&parts.headers, LOGIN_COOKIE).ok_or_else(|| {
        failed("The sign-in failed: this browser did not begin it. Begin again at /auth/login.")
    })?;
    let old = cookie_of(&parts.headers, SESSION_COOKIE);
    let session = service.finish(sealed, state, code, old, address).await?;
    // The browser comes from another site, and does not send a strict cookie to where it is redirected. A page of our own leads on.
    let mut reply = html("<p><a href=\"/auth/session\">Continue</a></p>", Some("/auth/session"));
    reply.headers.append(SET_COOKIE, cookie(SESSION_COOKIE, &session.id, "Strict", 12 * 3600)?);
    reply.headers.append(SET_COOKIE, cookie(LOGIN_COOKIE, "", "Lax", 0)?);
    Ok(reply)
}

async fn page(service: &SignInService, parts: &Parts) -> Result<GatewayReply> {
    let caller = match cookie_of(&parts.headers, SESSION_COOKIE) {
        Some(id) => service.caller(id).await?,
        None => None,
    };
    Ok(match caller {
        Some(caller) => {
            let (name, role) = (escape(caller.key_name()), caller.role().as_str());
            html(&format!("<p>Signed in as <strong>{name}</strong> ({role}).</p>"), None)
        }
        None => html("<p>You are not signed in. <a href=\"/auth/login\">Sign in</a></p>", None),
    })
}

async fn logout(service: &SignInService, parts: &Parts, address: String) -> Result<GatewayReply> {
    check_own_page(service.public_origin(), parts)?;
    if let Some(id) = cookie_of(&parts.headers, SESSION_COOKIE)
        && let Some(caller) = service.caller(id).await?
    {
        service.end(id, &Requester::of_caller(&caller, address)).await?;
    }
    let mut reply = HttpReply::no_content();
    reply.headers.append(SET_COOKIE, cookie(SESSION_COOKIE, "", "Strict", 0)?);
    Ok(reply)
}

/// The caller of a request with a session instead of a key. None: the request has no session.
///
/// # Errors
/// `cross_site_request` for a request that no page of the gateway has sent; `invalid_api_key` for a session that has ended.
pub(crate) async fn caller_of_session(state: &ServerState, parts: &Parts) -> Result<Option<Caller>> {
    let Some(service) = &state.sign_in else { return Ok(None) };
    let Some(id) = cookie_of(&parts.headers, SESSION_COOKIE) else { return Ok(None) };
    check_own_page(service.public_origin(), parts)?;
    let caller = service.caller(id).await?;
    let message = "The session has ended. Sign in again at /auth/login.";
    caller.map(Some).ok_or_else(|| Error::new(Kind::InvalidApiKey, message))
}

/// Checks that a page of the gateway itself sent the request. A request that changes something must be JSON, because other sites can
/// send forms.
fn check_own_page(public_origin: &str, parts: &Parts) -> Result<()> {
    let is_read = [Method::GET, Method::HEAD].contains(&parts.method);
    let header = |name: &HeaderName| parts.headers.get(name).map(HeaderValue::as_bytes);
    let is_own_site = match header(&FETCH_SITE) {
        Some(b"same-origin") => true,
        // The person typed the address.
        Some(b"none") => is_read,
        Some(_) => false,
        None => is_read || header(&ORIGIN).is_some(),
    };
    let is_own_origin = header(&ORIGIN).is_none_or(|origin| origin == public_origin.as_bytes());
    if !is_own_site || !is_own_origin {
        let message = "A session can be used only by the gateway's own pages. Send an API key instead.";
        return Err(Error::new(Kind::CrossSiteRequest, message));
    }
    let media_type = header(&CONTENT_TYPE).unwrap_or_default();
    let media_type = media_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if !is_read && !media_type.eq_ignore_ascii_case(b"application/json") {
        let message =
            "A session's request that changes something needs the header 'content-type: application/json'.";
        return Err(Error::new(Kind::UnsupportedMediaType, message));
    }
    Ok(())
}

/// The value of a cookie that was sent once. Two values could be another site's attempt to plant one.
fn cookie_of<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut values = pairs.filter(|(found, _)| *found == name).map(|(_, value)| value);
    let value = values.next().filter(|value| !value.is_empty())?;
    values.next().is_none().then_some(value)
}

fn cookie(name: &str, value: &str, same_site: &str, max_age_seconds: u32) -> Result<HeaderValue> {
    header(&format!(
        "{name}={value}; Path=/; Max-Age={max_age_seconds}; Secure; HttpOnly; SameSite={same_site}"
    ))
}

fn header(text: &str) -> Result<HeaderValue> {
    HeaderValue::from_str(text)
        .map_err(|_| Error::new(Kind::InternalError, "The answer's headers cannot be written."))
}

/// A page without scripts. `next` is the page that the browser opens at once.
fn html(content: &str, next: Option<&str>) -> GatewayReply {
    let refresh = next
        .map(|next| format!("<meta http-equiv=\"refresh\" content=\"0;url={next}\">"))
        .unwrap_or_default();
    let page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">{refresh}\
         <meta name=\"viewport\" content=\"width=device-width\"><meta name=\"color-scheme\" content=\"light dark\">\
         <title>Model Gateway</title></head><body><main><h1>Model Gateway</h1>{content}</main></body></html>"
    );
    HttpReply::full(StatusCode::OK, HTML, page)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "https://gw.example";

    fn parts(method: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::builder().method(method).uri("/admin/v1/keys");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn k08_only_own_pages_may_use_a_session_and_changes_are_json() {
        let json = ("content-type", "application/json; charset=utf-8");
        let site = |site: &'static str| ("sec-fetch-site", site);
        let origin = |origin: &'static str| ("origin", origin);
        for (method, headers, code) in [
            ("GET", vec![], None),
            ("GET", vec![site("same-origin")], None),
            ("GET", vec![site("none")], None),
            ("GET", vec![site("cross-site")], Some("cross_site_request")),
            ("GET", vec![site("same-site")], Some("cross_site_request")),
            ("GET", vec![origin("https://evil.example")], Some("cross_site_request")),
            ("POST", vec![site("same-origin"), origin(OWN), json], None),
            ("POST", vec![origin(OWN), json], None),
            ("POST", vec![json], Some("cross_site_request")),
            ("POST", vec![site("none"), json], Some("cross_site_request")),
            ("POST", vec![site("cross-site"), origin(OWN), json], Some("cross_site_request")),
            ("POST", vec![site("same-origin"), origin("null"), json], Some("cross_site_request")),
            ("POST", vec![origin("https://gw.example.evil"), json], Some("cross_site_request")),
            ("POST", vec![origin(OWN)], Some("unsupported_media_type")),
            ("DELETE", vec![origin(OWN)], Some("unsupported_media_type")),
            ("POST", vec![origin(OWN), ("content-type", "text/plain")], Some("unsupported_media_type")),
            (
                "POST",
                vec![origin(OWN), ("content-type", "application/x-www-form-urlencoded")],
                Some("unsupported_media_type"),
            ),
        ] {
            let found = check_own_page(OWN, &parts(method, &headers)).err();
            assert_eq!(found.as_ref().map(Error::code), code, "{method} {headers:?}");
        }
    }

    #[test]
    fn a_cookie_counts_if_it_was_sent_once() {
        let found = |lines: &[&str]| {
            let lines: Vec<_> = lines.iter().map(|line| ("cookie", *line)).collect();
            cookie_of(&parts("GET", &lines).headers, "a").map(str::to_owned)
        };
        assert_eq!(found(&["b=1; a=2"]).as_deref(), Some("2"));
        assert_eq!(found(&["b=1", "a=x=y"]).as_deref(), Some("x=y"));
        for none in [&[][..], &["aa=1"], &["a="], &["a=1; a=2"], &["a=1", "a=1"]] {
            assert_eq!(found(none), None, "{none:?}");
        }
    }
}
