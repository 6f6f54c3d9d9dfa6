//! The requests about alerts. This crate sends nothing, so the program answers them.

use std::fmt::Debug;
use std::pin::Pin;

use gw_engine::error::Error;
use serde_json::Value;

/// A request about alerts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlertRequest {
    /// `GET /admin/v1/alerts`.
    List,
    /// `POST /admin/v1/alerts/{name}/test`.
    Test(String),
}

impl AlertRequest {
    /// The action and the object of the audit log. None: the request sends nothing.
    #[must_use]
    pub fn audited(&self) -> Option<(&'static str, String)> {
        match self {
            Self::List => None,
            Self::Test(name) => Some(("alert.test", name.clone())),
        }
    }
}

/// The answer, later.
pub type AlertFuture = Pin<Box<dyn Future<Output = Result<Value, Error>> + Send>>;

/// Lists and tests the alerts in force.
pub trait AlertService: Debug + Send + Sync {
    /// Answers a request in bounded time.
    fn answer(&self, request: AlertRequest) -> AlertFuture;
}
