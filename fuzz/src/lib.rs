//! The targets' functions: they check the properties of the Rust tests on libFuzzer's bytes.

use gw_providers::adapter::Adapter;
use gw_providers::settings::Api;

#[expect(dead_code, reason = "the tests call more of it")]
#[path = "../../crates/gw-providers/tests/it/dialects/property.rs"]
mod property;

#[path = "../../crates/gw-providers/tests/it/dialects/surfaces.rs"]
mod surfaces;

#[path = "../../crates/gw-cache/tests/key/property.rs"]
mod key;

mod http1;

/// Checks the cache key of any bytes as a chat.
pub fn cache_key(input: &[u8]) {
    key::holds(input);
}

/// Reads any bytes as a response of an upstream over HTTP/1.1.
pub fn http1_response(input: &[u8]) {
    http1::property::holds(input);
}

/// An adapter that all runs share.
pub struct Dialect {
    api: Api,
    adapter: Box<dyn Adapter>,
}

impl Dialect {
    /// The adapter with a usual configuration.
    #[must_use]
    pub fn new(api: Api) -> Self {
        Self { api, adapter: property::adapter(api) }
    }

    /// Reads any bytes as a stream and as a plain answer of the dialect.
    pub fn run(&self, input: &[u8]) {
        let bytes = if self.api == Api::BEDROCK { property::frames(input) } else { input.to_vec() };
        property::stream(&*self.adapter, &bytes, property::sizes(&bytes));
        property::answer(&*self.adapter, &bytes);
    }
}

/// One adapter of each dialect, for requests.
pub struct Requests(Vec<(Api, Box<dyn Adapter>)>);

impl Requests {
    /// The adapter with a usual configuration.
    #[must_use]
    pub fn new() -> Self {
        Self(Api::ALL.into_iter().map(|api| (api, property::adapter(api))).collect())
    }

    /// Reads any bytes as a client's request and writes it in every dialect.
    pub fn run(&self, input: &[u8]) {
        property::request(&self.0, input);
    }

    /// Reads any bytes as a Messages request.
    pub fn messages(&self, input: &[u8]) {
        surfaces::messages(&self.0, input);
    }

    /// Reads any bytes as a Responses request.
    pub fn responses(&self, input: &[u8]) {
        surfaces::responses(&self.0, input);
    }

    /// Reads any bytes as a Responses request and the stored items before it.
    pub fn items(&self, input: &[u8]) {
        surfaces::items(&self.0, input);
    }

    /// Reads any bytes as a request that is forwarded in the client's own dialect.
    pub fn native(&self, input: &[u8]) {
        surfaces::native(&self.0, input);
    }
}

impl Default for Requests {
    fn default() -> Self {
        Self::new()
    }
}
