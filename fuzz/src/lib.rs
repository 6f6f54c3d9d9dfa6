//! What the targets call: the property that the Rust tests hold too, on bytes that libFuzzer makes up.

use gw_providers::adapter::Adapter;
use gw_providers::settings::Api;

#[expect(dead_code, reason = "the tests call more of it")]
#[path = "../../crates/gw-providers/tests/it/dialects/property.rs"]
mod property;

#[path = "../../crates/gw-cache/tests/key/property.rs"]
mod key;

/// Any bytes as a chat, and what must hold of its key in the response cache.
pub fn cache_key(input: &[u8]) {
    key::holds(input);
}

/// A dialect, made once for all runs.
pub struct Dialect {
    api: Api,
    adapter: Box<dyn Adapter>,
}

impl Dialect {
    /// Set up as an operator would.
    #[must_use]
    pub fn new(api: Api) -> Self {
        Self { api, adapter: property::adapter(api) }
    }

    /// Any bytes as a stream and as a whole answer of it.
    pub fn run(&self, input: &[u8]) {
        let bytes = if self.api == Api::Bedrock { property::frames(input) } else { input.to_vec() };
        property::stream(&*self.adapter, &bytes, property::sizes(&bytes));
        property::answer(&*self.adapter, &bytes);
    }
}

/// All dialects as the goal of a request.
pub struct Requests(Vec<(Api, Box<dyn Adapter>)>);

impl Requests {
    /// Set up as an operator would.
    #[must_use]
    pub fn new() -> Self {
        Self(Api::ALL.into_iter().map(|api| (api, property::adapter(api))).collect())
    }

    /// Any bytes as a client's request.
    pub fn run(&self, input: &[u8]) {
        property::request(&self.0, input);
    }
}

impl Default for Requests {
    fn default() -> Self {
        Self::new()
    }
}
