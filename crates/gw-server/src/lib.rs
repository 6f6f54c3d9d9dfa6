//! The HTTP server: connections, URLs, headers, bodies, event streams, the access log.
//!
//! Start with `router.rs` for the URLs, `handler.rs` for the checks of a request in their order, `connection.rs` for the life
//! of a connection and `serve.rs` for start and shutdown. This crate knows nothing about providers.

pub mod access_log;
mod address_limits;
mod admin;
mod admission;
mod attribution;
mod catalogue;
mod certificate;
pub mod client_address;
mod client_dialect;
mod configuration;
mod connection;
mod connection_refusal;
mod connection_slots;
mod console;
mod cors;
mod cut;
mod deadline_timer;
mod discard;
mod event_source;
mod exposition;
mod form;
mod forward;
mod frame_clock;
mod gemini_url;
mod generate;
mod gunzip;
mod handler;
mod head_errors;
mod in_flight;
mod lingering;
mod listener;
mod live_tail;
mod management_call;
mod masked_keys;
mod metrics;
mod ops;
mod origin;
mod outgoing;
mod own_page;
mod passthrough;
mod preset;
mod proxy_protocol;
mod quiet_body;
mod refusal;
mod request_record;
mod response;
mod rewind;
mod router;
mod security_headers;
pub mod serve;
mod session;
mod session_report;
pub mod settings;
mod shutdown;
mod sign_in;
mod socket_pools;
mod sockets;
mod stall;
pub mod state;
mod stored_responses;
mod takeover;
mod timed_io;
pub mod tls;
mod upload;
mod url_hint;
mod usual_headers;
mod wishes;

pub use access_log::{AccessLog, LogLine};
pub use gw_console::Asset;

pub use certificate::{Validity, certificate_validity};
pub use router::{Guard, ROUTES, Route, is_own_url};
pub use serve::{Listeners, serve};
pub use shutdown::Shutdown;
pub use state::{NotReady, OperatorServices, Readiness, ServerState};
pub use tls::{LiveTls, LoadedTls, TlsError, TlsSettings};

/// The OpenAPI document, as `GET /openapi.json` and `model-gateway openapi` show it.
pub const OPENAPI_JSON: &str = include_str!("openapi.json");
