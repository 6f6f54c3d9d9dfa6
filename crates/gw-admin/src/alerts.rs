//! The requests about alerts. This crate sends nothing, so the program answers them.

use std::fmt::Debug;
use std::pin::Pin;

use gw_engine::error::Error;
use serde_json::Value;

/// The answer, later.
pub type AlertFuture = Pin<Box<dyn Future<Output = Result<Value, Error>> + Send>>;

/// Lists and tests the alerts in force.
pub trait AlertService: Debug + Send + Sync {
    /// `GET /admin/v1/alerts`, in bounded time.
    fn list(&self) -> AlertFuture;

    /// `POST /admin/v1/alerts/{name}/test`, in bounded time.
    fn test(&self, name: String) -> AlertFuture;
}
