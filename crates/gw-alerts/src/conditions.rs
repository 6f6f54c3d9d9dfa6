//! The state of the gateway that only the program knows.

use std::fmt::Debug;
use std::time::Duration;

/// Facts about the running process that alerts watch.
pub trait Conditions: Debug + Send + Sync {
    /// The age of the oldest row that is not in the ledger yet.
    fn ledger_lag(&self) -> Duration;

    /// The name of the listener's certificate, and the unix second at which it ends. None: there is no certificate.
    fn certificate(&self) -> Option<(String, i64)>;
}
