//! The response to an operator's request: a JSON document or a CSV report.

use std::fmt;

use bytes::Bytes;
use gw_engine::error::{Error, Kind};
use serde::Serialize;

use crate::error::AdminError;

/// The answer to an operator's request.
pub(crate) type AdminResult = Result<AdminResponse, AdminError>;

/// The response to an [`AdminRequest`](crate::AdminRequest). Its `Debug` output leaves the body out, because the body may
/// hold the secret of a new key.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminResponse {
    /// Whether the request created something: the HTTP status is 201 instead of 200.
    pub is_new: bool,
    /// Whether the body is CSV instead of JSON.
    pub is_csv: bool,
    /// The document.
    pub body: Bytes,
}

impl fmt::Debug for AdminResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminResponse")
            .field("is_new", &self.is_new)
            .field("is_csv", &self.is_csv)
            .field("bytes", &self.body.len())
            .finish()
    }
}

impl AdminResponse {
    /// A JSON document made from `value`.
    ///
    /// # Errors
    /// `internal_error` if the value cannot be written as JSON.
    pub(crate) fn json(value: &impl Serialize) -> Result<Self, AdminError> {
        match serde_json::to_vec(value) {
            Ok(body) => Ok(Self::json_text(body)),
            Err(_) => Err(Error::new(Kind::InternalError, "The answer cannot be written as JSON.").into()),
        }
    }

    /// A JSON document that is written already.
    pub(crate) fn json_text(body: Vec<u8>) -> Self {
        Self { is_new: false, is_csv: false, body: body.into() }
    }

    /// A CSV document.
    pub(crate) fn csv(text: String) -> Self {
        Self { is_new: false, is_csv: true, body: text.into() }
    }
}
