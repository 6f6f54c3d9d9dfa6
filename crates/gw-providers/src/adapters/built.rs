//! The result of building an adapter, which every dialect's `build` returns.

use std::sync::Arc;

use crate::adapter::{Adapter, Signer};

/// An adapter that is configured for one provider.
#[derive(Debug)]
pub struct Built {
    /// The adapter.
    pub adapter: Box<dyn Adapter>,
    /// Credentials that are more than a key in a header; None = the keys of the settings, see [`Adapter::scheme`].
    pub signer: Option<Arc<dyn Signer>>,
    /// The provider's address when the settings name no `base_url` and a region or a project decides it.
    pub base_url: Option<String>,
}

impl Built {
    /// An adapter that uses the plain keys and the address of the settings.
    #[must_use]
    pub fn new(adapter: Box<dyn Adapter>) -> Self {
        Self { adapter, signer: None, base_url: None }
    }
}
