//! The errors of operators' requests.

use gw_engine::catalog::query::shown;
use gw_engine::error::{Error, Kind};
use gw_wire::request::Invalid;

/// The reason why an operator's request fails.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The request is wrong, or names something that does not exist.
    #[error("{}", .0.message)]
    Rejected(Error),
    /// The store failed. Its message is for operators and never for clients.
    #[error(transparent)]
    Store(#[from] gw_store::Error),
}

impl From<Error> for AdminError {
    fn from(error: Error) -> Self {
        Self::Rejected(error)
    }
}

impl From<Invalid> for AdminError {
    fn from(invalid: Invalid) -> Self {
        Self::Rejected(invalid.into())
    }
}

/// The 404 for an unknown id; `noun` names the kind of object, such as `team`.
pub(crate) fn not_found(noun: &str, id: &str) -> Error {
    Error::new(Kind::NotFound, format!("There is no {noun} '{}'.", shown(id)))
}
