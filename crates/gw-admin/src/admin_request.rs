//! The requests that an operator can make about keys, teams, usage and logged requests.

use bytes::Bytes;

/// A request of an operator. It holds ids, bodies and query strings as they were given; the service checks them and answers
/// with an error if they are wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminRequest {
    /// `POST /admin/v1/keys` with its body.
    CreateKey(Bytes),
    /// `GET /admin/v1/keys` with its query.
    ListKeys(String),
    /// `GET /admin/v1/keys/{id}`.
    ShowKey(String),
    /// `PATCH /admin/v1/keys/{id}` with its body.
    UpdateKey(String, Bytes),
    /// `DELETE /admin/v1/keys/{id}`.
    RevokeKey(String),
    /// `POST /admin/v1/keys/{id}/rotate` with its body.
    RotateKey(String, Bytes),
    /// `GET /admin/v1/teams`.
    ListTeams,
    /// `GET /admin/v1/teams/{id}`.
    ShowTeam(String),
    /// `PUT /admin/v1/teams/{id}` with its body.
    PutTeam(String, Bytes),
    /// `DELETE /admin/v1/teams/{id}`.
    DeleteTeam(String),
    /// `GET /admin/v1/usage`.
    ReportUsage {
        /// The query.
        query: String,
        /// Whether the report is CSV if the query names no format.
        is_csv_preferred: bool,
    },
    /// `GET /admin/v1/overview` with its query.
    ShowOverview(String),
    /// `GET /admin/v1/requests` with its query.
    ListRequests(String),
    /// `GET /admin/v1/requests/{request_id}`.
    ShowRequest(String),
    /// `DELETE /admin/v1/requests/{request_id}/payload`.
    DeletePayload(String),
    /// `GET /admin/v1/audit`.
    ListAudit {
        /// The query.
        query: String,
        /// Whether the log is CSV if the query names no format.
        is_csv_preferred: bool,
    },
}

impl AdminRequest {
    /// Whether the request changes a key or a team, so that the engine must load them again.
    #[must_use]
    pub fn is_key_change(&self) -> bool {
        match self {
            Self::CreateKey(_)
            | Self::UpdateKey(..)
            | Self::RevokeKey(_)
            | Self::RotateKey(..)
            | Self::PutTeam(..)
            | Self::DeleteTeam(_) => true,
            Self::ListKeys(_)
            | Self::ShowKey(_)
            | Self::ListTeams
            | Self::ShowTeam(_)
            | Self::ReportUsage { .. }
            | Self::ShowOverview(_)
            | Self::ListRequests(_)
            | Self::ShowRequest(_)
            | Self::DeletePayload(_)
            | Self::ListAudit { .. } => false,
        }
    }
}
