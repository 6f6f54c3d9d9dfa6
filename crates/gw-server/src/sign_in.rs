//! `/auth`: the sign-in of browsers, the page that shows who is signed in, and the sessions that stand in for a key.

use std::net::IpAddr;

use bytes::Bytes;
use gw_admin::{LiveSession, NewSession, Requester, is_session_id};
use gw_engine::Caller;
use gw_engine::catalog::query::Query;
use gw_engine::error::{Error, Kind, Result};
use gw_engine::settings::Role;
use gw_wire::request::fields::{Path, missing, string};
use gw_wire::request::parse_members;
use http::header::{ACCEPT, AUTHORIZATION, CACHE_CONTROL, COOKIE, HeaderName, LOCATION, SET_COOKIE, VARY};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body::Body;

use crate::listener::Listener;
use crate::management_call;
use crate::ops::{beside, escape};
use crate::response::{GatewayReply, HTML, HttpReply};
use crate::session_report;
use crate::state::ServerState;
use crate::upload::BoxError;

/// The header of a key beside `Authorization`.
pub(crate) const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// The cookie of a session. Its prefix binds it to this host, to `/` and to an encrypted connection.
const SESSION_COOKIE: &str = "__Host-gateway-session";
/// The cookie of a sign-in that has begun. The issuer's page leads back from another site, so it is `Lax`.
const LOGIN_COOKIE: &str = "__Host-gateway-sign-in";
/// The largest body of a sign-in.
const MAX_BODY_BYTES: usize = 4 << 10;

/// The URLs of the sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignInAction {
    /// `GET /auth/login`.
    Login,
    /// `GET /auth/callback`.
    Callback,
    /// `GET /auth/session`.
    Session,
    /// `POST /auth/logout`.
    Logout,
    /// `POST /auth/key`.
    Key,
    /// `POST /auth/link`.
    Link,
    /// `POST /auth/links`.
    NewLink,
}

/// A request of the sign-in.
pub(crate) struct SignInCall<'a> {
    pub(crate) state: &'a ServerState,
    pub(crate) parts: &'a Parts,
    pub(crate) listener: Listener,
    /// The address of the client.
    pub(crate) address: IpAddr,
}

/// Answers a request of the sign-in.
pub(crate) async fn answer<B>(
    call: SignInCall<'_>,
    action: SignInAction,
    body: &mut B,
) -> Result<GatewayReply>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let reply = match action {
        SignInAction::Login => login(call.state),
        SignInAction::Callback => callback(&call).await,
        SignInAction::Session => session(&call).await,
        SignInAction::Logout => logout(&call).await,
        SignInAction::Key => with_key(&call, body).await,
        SignInAction::Link => with_link(&call, body).await,
        SignInAction::NewLink => new_link(&call, body).await,
    };
    reply.map(|mut reply| {
        reply.headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        reply
    })
}

fn login(state: &ServerState) -> Result<GatewayReply> {
    let begun = state.sign_in.begin()?;
    let mut reply = HttpReply::no_content();
    reply.status = StatusCode::SEE_OTHER;
    reply.headers.insert(LOCATION, header(&begun.location)?);
    reply.headers.append(SET_COOKIE, cookie(LOGIN_COOKIE, &begun.sealed, "Lax", 600)?);
    Ok(reply)
}

async fn callback(call: &SignInCall<'_>) -> Result<GatewayReply> {
    let query = Query::parse(call.parts.uri.query().unwrap_or_default());
    let failed = |message: &'static str| Error::new(Kind::SignInFailed, message);
    let service = &call.state.sign_in;
    if service.login_issuer().is_none() {
        return service.begin().map(|_| HttpReply::no_content());
    }
    if query.last("error").is_some() {
        return Err(failed("The sign-in failed: the issuer refused it."));
    }
    let missing =
        || failed("The sign-in failed: the code or the state is missing. Begin again at /auth/login.");
    let (code, state) = query.last("code").zip(query.last("state")).ok_or_else(missing)?;
    let sealed = cookie_of(&call.parts.headers, LOGIN_COOKIE).ok_or_else(|| {
        failed("The sign-in failed: this browser did not begin it. Begin again at /auth/login.")
    })?;
    let old = cookie_of(&call.parts.headers, SESSION_COOKIE);
    let begun = service.finish(sealed, state, code, old, call.client()).await?;
    // The browser comes from another site, and does not send a strict cookie to where it is redirected. A page of our own leads on.
    let next = if call.state.console.is_built() { "../ui/" } else { "session" };
    let mut reply = html(&format!("<p><a href=\"{next}\">Continue</a></p>"), Some(next));
    reply.headers.append(SET_COOKIE, session_cookie(&begun.id)?);
    reply.headers.append(SET_COOKIE, cookie(LOGIN_COOKIE, "", "Lax", 0)?);
    Ok(reply)
}

/// `GET /auth/session`: a page for people, JSON for the console.
async fn session(call: &SignInCall<'_>) -> Result<GatewayReply> {
    let is_own = call.state.own_pages.check(call.parts).is_ok();
    let session = match cookie_of(&call.parts.headers, SESSION_COOKIE) {
        Some(id) if is_own => call.state.sign_in.session(id).await?,
        _ => None,
    };
    let mut accepted = call.parts.headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut reply = if accepted.any(|value| value.contains("application/json")) {
        HttpReply::json(session_report::write(call, session.as_ref()))
    } else {
        page(session.as_ref(), beside(call.parts.uri.path()))
    };
    reply.headers.append(VARY, HeaderValue::from_static("accept"));
    Ok(reply)
}

/// `to_siblings` leads from the page's address to its siblings.
fn page(session: Option<&LiveSession>, to_siblings: &str) -> GatewayReply {
    match session {
        Some(LiveSession { caller, .. }) => {
            let (name, role) = (escape(caller.key_name()), caller.role().as_str());
            html(&format!("<p>Signed in as <strong>{name}</strong> ({role}).</p>"), None)
        }
        None => {
            html(&format!("<p>You are not signed in. <a href=\"{to_siblings}login\">Sign in</a></p>"), None)
        }
    }
}

async fn logout(call: &SignInCall<'_>) -> Result<GatewayReply> {
    call.state.own_pages.check(call.parts)?;
    let service = &call.state.sign_in;
    if let Some(id) = cookie_of(&call.parts.headers, SESSION_COOKIE)
        && let Some(LiveSession { caller, .. }) = service.session(id).await?
    {
        service.end(id, &Requester::of_caller(&caller, call.client())).await?;
    }
    let mut reply = HttpReply::no_content();
    reply.headers.append(SET_COOKIE, cookie(SESSION_COOKIE, "", "Strict", 0)?);
    Ok(reply)
}

/// `POST /auth/key`.
async fn with_key<B>(call: &SignInCall<'_>, body: &mut B) -> Result<GatewayReply>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    call.state.own_pages.check(call.parts)?;
    let key = call.text(body, "key").await?;
    let old = cookie_of(&call.parts.headers, SESSION_COOKIE);
    let begun = call.state.sign_in.with_key(&key, old, call.client()).await;
    call.begun(begun)
}

/// `POST /auth/link`.
async fn with_link<B>(call: &SignInCall<'_>, body: &mut B) -> Result<GatewayReply>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    call.state.own_pages.check(call.parts)?;
    let token = call.text(body, "token").await?;
    let old = cookie_of(&call.parts.headers, SESSION_COOKIE);
    let begun = call.state.sign_in.with_link(&token, old, call.client()).await;
    call.begun(begun)
}

/// `POST /auth/links`: programs make a link with a key. A page of another site has no key, so its origin does not matter.
async fn new_link<B>(call: &SignInCall<'_>, body: &mut B) -> Result<GatewayReply>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let key = call.text(body, "key").await?;
    let made = call.state.sign_in.make_link(&key, call.client()).await;
    let made = made.map_err(|error| call.state.count_bad_key(error, call.address))?;
    let mut reply = HttpReply::json(made.to_json());
    reply.status = StatusCode::CREATED;
    Ok(reply)
}

impl SignInCall<'_> {
    /// The address of the client, for the audit log.
    fn client(&self) -> String {
        self.address.to_canonical().to_string()
    }

    /// The only member of the body, a text.
    async fn text<B>(&self, body: &mut B, name: &'static str) -> Result<String>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<BoxError>,
    {
        let body = management_call::read(self.state, &self.parts.headers, body, MAX_BODY_BYTES).await?;
        let mut found = None;
        for (member, value) in parse_members(&body)? {
            if &*member != name {
                let message = format!("The body has one field, '{name}'.");
                return Err(Error::new(Kind::UnsupportedParameter, message));
            }
            found = Some(string(&Path::Top(name), value)?.into_owned());
        }
        Ok(found.ok_or_else(|| missing(&Path::Top(name)))?)
    }

    /// The answer to a sign-in. A refused one counts as a request with a wrong key.
    fn begun(&self, begun: Result<NewSession>) -> Result<GatewayReply> {
        let begun = begun.map_err(|error| self.state.count_bad_key(error, self.address))?;
        let mut reply = HttpReply::json(session_report::write(self, Some(&begun.session)));
        reply.headers.append(SET_COOKIE, session_cookie(&begun.id)?);
        Ok(reply)
    }
}

/// The caller of a request with a session instead of a key. None: the request has no session.
///
/// # Errors
/// `cross_site_request` for a request that no page of the gateway has sent; `invalid_api_key` for a session that has ended. A cookie
/// without the form of a session's id counts as a wrong key of its address. An ended session does not count, because its open pages keep
/// sending requests.
pub(crate) async fn caller_of_session(
    state: &ServerState,
    parts: &Parts,
    address: IpAddr,
) -> Result<Option<Caller>> {
    let Some(id) = cookie_of(&parts.headers, SESSION_COOKIE) else { return Ok(None) };
    state.own_pages.check(parts)?;
    let session = state.sign_in.session(id).await?;
    session.map(|session| Some(session.caller)).ok_or_else(|| {
        let ended = "The session has ended. Sign in again at /auth/login or /ui/.";
        let ended = Error::new(Kind::InvalidApiKey, ended);
        if is_session_id(id) { ended } else { state.count_bad_key(ended, address) }
    })
}

/// Whether the key or the session of a request still reads the management API. The question does not keep a session alive.
pub(crate) async fn still_reads(state: &ServerState, parts: &Parts) -> bool {
    let values = |name| parts.headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let caller = match cookie_of(&parts.headers, SESSION_COOKIE) {
        Some(id) if !parts.headers.contains_key(AUTHORIZATION) && !parts.headers.contains_key(API_KEY) => {
            state.sign_in.peek(id).await.ok().flatten().map(|session| session.caller)
        }
        _ => state.engine.identify(values(AUTHORIZATION), values(API_KEY)).ok(),
    };
    caller.is_some_and(|caller| caller.role().includes(Role::Viewer))
}

/// The value of a cookie that was sent once. Two values could be another site's attempt to plant one.
fn cookie_of<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut values = pairs.filter(|(found, _)| *found == name).map(|(_, value)| value);
    let value = values.next().filter(|value| !value.is_empty())?;
    values.next().is_none().then_some(value)
}

fn session_cookie(id: &str) -> Result<HeaderValue> {
    cookie(SESSION_COOKIE, id, "Strict", gw_admin::ABSOLUTE_SECONDS)
}

fn cookie(name: &str, value: &str, same_site: &str, max_age_seconds: i64) -> Result<HeaderValue> {
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

    #[test]
    fn a_cookie_counts_if_it_was_sent_once() {
        let found = |lines: &[&str]| {
            let lines = lines.iter().map(|line| (COOKIE, HeaderValue::from_str(line).unwrap()));
            let mut headers = HeaderMap::new();
            lines.for_each(|(name, value)| _ = headers.append(name, value));
            cookie_of(&headers, "a").map(str::to_owned)
        };
        assert_eq!(found(&["b=1; a=2"]).as_deref(), Some("2"));
        assert_eq!(found(&["b=1", "a=x=y"]).as_deref(), Some("x=y"));
        for none in [&[][..], &["aa=1"], &["a="], &["a=1; a=2"], &["a=1", "a=1"]] {
            assert_eq!(found(none), None, "{none:?}");
        }
    }
}
