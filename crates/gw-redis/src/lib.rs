//! The connection to Redis or Valkey that shared limits and the shared cache are built on.
//!
//! [`Connection`] opens in bounded time and reads bounded memory. [`Supervisor`] keeps one connection up while Redis
//! comes and goes. This crate does not know what its users store: they implement [`Session`].

mod address;
mod connection;
mod error;
mod metered_stream;
mod pending;
mod supervisor;
mod tls;

pub use address::{Address, AddressError};
pub use connection::Connection;
pub use error::{CallError, OnTimeout, error_kind};
pub use metered_stream::ReceiveBudget;
pub use pending::PendingCount;
pub use supervisor::{LogMessages, MAX_MISSED_ANSWERS, Session, Supervisor};
