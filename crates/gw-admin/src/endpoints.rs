//! Every request about keys, teams, usage and logged requests: its URL, and the function that answers it. The router of the
//! gateway and the commands take it from here, so nothing else has to tell one request from another.

use std::fmt;
use std::pin::Pin;

use crate::records::Records;
use crate::requester::Requester;
use crate::response::AdminResult;
use crate::{audit, keys, overview, request_log, teams, usage};

/// The method of a request of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminMethod {
    /// Shows something.
    Get,
    /// Replaces something, or makes it.
    Put,
    /// Changes members of something.
    Patch,
    /// Removes something.
    Delete,
    /// Makes something, or starts an action.
    Post,
}

/// A kind of request, and the function that answers it.
#[derive(Clone, Copy)]
pub struct AdminEndpoint {
    /// The method. A GET answers HEAD, too.
    pub method: AdminMethod,
    /// The path below `/admin/v1/`, with `{id}` for its variable part.
    pub path: &'static str,
    /// Whether it changes a key or a team, so that the engine must load them again.
    pub(crate) is_key_change: bool,
    pub(crate) answer: fn(AdminCall<'_>) -> AdminFuture<'_>,
}

impl fmt::Debug for AdminEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminEndpoint").field("method", &self.method).field("path", &self.path).finish()
    }
}

/// The answer, later.
pub(crate) type AdminFuture<'c> = Pin<Box<dyn Future<Output = AdminResult> + Send + 'c>>;

/// The parts of a request as its sender wrote them, and the records that answer it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdminCall<'c> {
    pub(crate) records: &'c Records,
    pub(crate) requester: &'c Requester,
    /// The decoded `{id}` of the URL, or an empty text.
    pub(crate) id: &'c str,
    pub(crate) query: &'c str,
    pub(crate) body: &'c [u8],
    /// Whether a report is CSV if the query names no format.
    pub(crate) is_csv_preferred: bool,
    /// The time, in unix seconds.
    pub(crate) now: i64,
}

const fn endpoint(
    method: AdminMethod,
    path: &'static str,
    answer: fn(AdminCall<'_>) -> AdminFuture<'_>,
) -> AdminEndpoint {
    AdminEndpoint { method, path, is_key_change: false, answer }
}

/// An endpoint that changes a key or a team.
const fn key_change(
    method: AdminMethod,
    path: &'static str,
    answer: fn(AdminCall<'_>) -> AdminFuture<'_>,
) -> AdminEndpoint {
    AdminEndpoint { method, path, is_key_change: true, answer }
}

/// `GET /admin/v1/keys`.
pub const LIST_KEYS: AdminEndpoint =
    endpoint(AdminMethod::Get, "keys", |call| Box::pin(keys::list_keys(call.records, call.query, call.now)));

/// `POST /admin/v1/keys`.
pub const CREATE_KEY: AdminEndpoint = key_change(AdminMethod::Post, "keys", |call| {
    Box::pin(keys::create_key(call.records, call.requester, call.body, call.now))
});

/// `GET /admin/v1/keys/{id}`.
pub const SHOW_KEY: AdminEndpoint =
    endpoint(AdminMethod::Get, "keys/{id}", |call| Box::pin(keys::show_key(call.records, call.id, call.now)));

/// `PATCH /admin/v1/keys/{id}`.
pub const UPDATE_KEY: AdminEndpoint = key_change(AdminMethod::Patch, "keys/{id}", |call| {
    Box::pin(keys::update_key(call.records, call.requester, call.id, call.body, call.now))
});

/// `DELETE /admin/v1/keys/{id}`.
pub const REVOKE_KEY: AdminEndpoint = key_change(AdminMethod::Delete, "keys/{id}", |call| {
    Box::pin(keys::revoke_key(call.records, call.requester, call.id, call.now))
});

/// `POST /admin/v1/keys/{id}/rotate`.
pub const ROTATE_KEY: AdminEndpoint = key_change(AdminMethod::Post, "keys/{id}/rotate", |call| {
    Box::pin(keys::rotate_key(call.records, call.requester, call.id, call.body, call.now))
});

/// `GET /admin/v1/teams`.
pub const LIST_TEAMS: AdminEndpoint =
    endpoint(AdminMethod::Get, "teams", |call| Box::pin(teams::list_teams(call.records, call.now)));

/// `GET /admin/v1/teams/{id}`.
pub const SHOW_TEAM: AdminEndpoint = endpoint(AdminMethod::Get, "teams/{id}", |call| {
    Box::pin(teams::show_team(call.records, call.id, call.now))
});

/// `PUT /admin/v1/teams/{id}`.
pub const PUT_TEAM: AdminEndpoint = key_change(AdminMethod::Put, "teams/{id}", |call| {
    Box::pin(teams::put_team(call.records, call.requester, call.id, call.body, call.now))
});

/// `DELETE /admin/v1/teams/{id}`.
pub const DELETE_TEAM: AdminEndpoint = key_change(AdminMethod::Delete, "teams/{id}", |call| {
    Box::pin(teams::delete_team(call.records, call.requester, call.id, call.now))
});

/// `GET /admin/v1/usage`.
pub const REPORT_USAGE: AdminEndpoint = endpoint(AdminMethod::Get, "usage", |call| {
    Box::pin(usage::report_usage(call.records, call.query, call.is_csv_preferred, call.now))
});

/// `GET /admin/v1/overview`.
pub const SHOW_OVERVIEW: AdminEndpoint = endpoint(AdminMethod::Get, "overview", |call| {
    Box::pin(overview::show_overview(call.records, call.query, call.now))
});

/// `GET /admin/v1/requests`.
pub const LIST_REQUESTS: AdminEndpoint = endpoint(AdminMethod::Get, "requests", |call| {
    Box::pin(request_log::list_requests(call.records, call.query, call.now))
});

/// `GET /admin/v1/requests/{id}`.
pub const SHOW_REQUEST: AdminEndpoint = endpoint(AdminMethod::Get, "requests/{id}", |call| {
    Box::pin(request_log::show_request(call.records, call.requester, call.id))
});

/// `DELETE /admin/v1/requests/{id}/payload`.
pub const DELETE_PAYLOAD: AdminEndpoint = endpoint(AdminMethod::Delete, "requests/{id}/payload", |call| {
    Box::pin(request_log::delete_payload(call.records, call.requester, call.id))
});

/// `GET /admin/v1/audit`.
pub const LIST_AUDIT: AdminEndpoint = endpoint(AdminMethod::Get, "audit", |call| {
    Box::pin(audit::list_audit(call.records, call.query, call.is_csv_preferred, call.now))
});
