//! The HTTP edge: connections, URLs, headers, bodies, event streams out.
//!
//! Read `router.rs` for the URLs, `handler.rs` for the order of the checks of a request, `connection.rs` for the life of
//! a connection, `serve.rs` for start and shutdown. Nothing here knows a provider.

pub mod access_log;
mod admission;
mod connection;
mod cors;
mod discard;
pub mod edge;
mod forward;
mod frames;
mod guarded;
mod gunzip;
mod handler;
mod head_errors;
mod lingering;
mod manage;
mod metrics;
mod nearby;
mod ops;
mod outgoing;
mod path;
mod refusal;
mod response;
mod rewind;
mod router;
pub mod serve;
pub mod settings;
mod stall;
mod ticket;
mod tls;
mod upload;

pub use access_log::{AccessLog, LogLine};
pub use admission::LoadSignal;
pub use edge::{Edge, Readiness};
pub use router::{Guard, ROUTES, Route};
pub use serve::{Listeners, Shutdown, serve};

/// The OpenAPI document, as `GET /openapi.json` and `model-gateway openapi` show it.
pub const OPENAPI_JSON: &str = include_str!("openapi.json");
