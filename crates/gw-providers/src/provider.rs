//! One configured account at a vendor: where it is, how it is spoken to, and the keys that open it.

mod credentials;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use gw_wire::failure::Failure;
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};
use secrecy::ExposeSecret;

use self::credentials::Credentials;
use crate::adapter::{Adapter, HttpCall};
use crate::client::{Client, UpstreamResponse};
use crate::settings::{ProviderSettings, Timeouts};

/// Headers that belong to the transport: a configured one would break the framing or the origin.
const RESERVED: [&str; 10] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "proxy-connection",
    "accept-encoding",
];

const USER_AGENT_VALUE: HeaderValue =
    HeaderValue::from_static(concat!("model-gateway/", env!("CARGO_PKG_VERSION")));
