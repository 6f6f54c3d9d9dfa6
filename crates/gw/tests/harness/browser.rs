//! A browser with a page of the console.

use gw_testkit::{Client, Gateway, Response};
use serde_json::{Value, json};

pub(crate) const SESSION: &str = "__Host-gateway-session";

/// A page of the gateway in a browser without a session.
pub(crate) fn page(gateway: &Gateway) -> Client {
    let origin = format!("http://{}", gateway.addr);
    gateway.client().with_header("origin", &origin).with_header("sec-fetch-site", "same-origin")
}

/// A page of the gateway in a browser with this session.
pub(crate) fn page_with(gateway: &Gateway, session: &str) -> Client {
    page(gateway).with_header("cookie", &format!("{SESSION}={session}"))
}

/// The value of the session's cookie that an answer sets, and its attributes.
pub(crate) fn session_of(answer: &Response) -> Option<(String, String)> {
    let cookies = answer.headers.iter().filter(|(found, _)| found.eq_ignore_ascii_case("set-cookie"));
    let mut cookies = cookies.filter_map(|(_, value)| value.strip_prefix(SESSION)?.strip_prefix('='));
    let (value, attributes) = cookies.next()?.split_once(';')?;
    Some((value.to_owned(), attributes.trim().to_owned()))
}

/// Signs in with a key, and gives the id of the session.
pub(crate) async fn sign_in(gateway: &Gateway, key: &str) -> String {
    let answer = page(gateway).post_json("/auth/key", &json!({ "key": key })).await.ok();
    session_of(&answer).expect("a session").0
}

/// Who is signed in.
pub(crate) async fn session(client: &Client) -> Value {
    client.with_header("accept", "application/json").get("/auth/session").await.ok().json()
}
