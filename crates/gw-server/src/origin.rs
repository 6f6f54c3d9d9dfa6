//! The connection that a request came on, and the type of its answer.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use gw_engine::EventStream;
use http::{Request, Response};
use http_body_util::Full;

use crate::admission::Admission;
use crate::listener::Listener;
use crate::outgoing::Outgoing;
use crate::request_record::RequestRecord;
use crate::state::ServerState;
use crate::timed_io::Activity;

/// The connection that a request came on.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) state: Arc<ServerState>,
    pub(crate) listener: Listener,
    pub(crate) client: SocketAddr,
    pub(crate) activity: Arc<Activity>,
    pub(crate) admission: Arc<Admission>,
}

/// The body of an answer.
pub(crate) type GatewayBody = Outgoing<Box<EventStream>, RequestRecord>;

/// An answer.
pub(crate) type GatewayResponse = Response<GatewayBody>;

/// Answers a request that did not come over HTTP.
pub(crate) type Respond = fn(Origin, Request<Full<Bytes>>) -> BoxFuture<'static, GatewayResponse>;
