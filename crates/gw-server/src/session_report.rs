//! `GET /auth/session` as JSON: who is signed in with which rights, and how a browser can sign in at this address.

use gw_admin::time::format_seconds;
use gw_admin::{ABSOLUTE_SECONDS, IDLE_SECONDS, LiveSession};
use gw_engine::settings::Role;
use serde_json::{Value, json};

use crate::listener::Listener;
use crate::own_page::host_of;
use crate::sign_in::SignInCall;

/// Writes the report. `session` is None if nobody is signed in.
pub(crate) fn write(call: &SignInCall<'_>, session: Option<&LiveSession>) -> Vec<u8> {
    let (state, parts) = (call.state, call.parts);
    // The address is relative to the root of the gateway, so that it stays below a path prefix.
    let oidc = state.sign_in.login_issuer().map(|issuer| json!({ "issuer": issuer, "url": "auth/login" }));
    let mut report = json!({
        "object": "session",
        "signed_in": session.is_some(),
        "ways": { "key": true, "link": true, "oidc": oidc },
        "host": host_of(parts),
        "host_is_known": state.own_pages.knows_host(parts),
        "can_keep_cookie": state.own_pages.can_keep_cookie(parts),
        "advice": state.own_pages.advice(parts),
    });
    if let (Some(session), Some(members)) = (session, report.as_object_mut())
        && let Value::Object(more) = signed_in(call, session)
    {
        members.extend(more);
    }
    report.to_string().into_bytes()
}

/// The members that only a signed-in browser sees.
fn signed_in(call: &SignInCall<'_>, session: &LiveSession) -> Value {
    let (settings, caller) = (&call.state.settings, &session.caller);
    let role = caller.role();
    json!({
        "kind": if caller.is_of_issuer() { "oidc" } else { "key" },
        "id": &**caller.key_id(),
        "name": &**caller.key_name(),
        "team": caller.team().map(|team| &**team),
        "role": role.as_str(),
        "rights": {
            "read": role.includes(Role::Viewer),
            "operate": role.includes(Role::Operator),
            "configure": role == Role::Admin,
            "read_payloads": role.includes(Role::Operator),
            "generate": role != Role::Viewer,
        },
        "signed_in_at": format_seconds(session.signed_in_at),
        "expires_at": format_seconds(session.signed_in_at.saturating_add(ABSOLUTE_SECONDS)),
        "idle_seconds": IDLE_SECONDS,
        "api": {
            "same_origin": call.listener == Listener::Single,
            "listen": settings.listen,
            "public_url": settings.public_url,
        },
        "version": env!("CARGO_PKG_VERSION"),
    })
}
