//! What the catalogue is told about providers.

use gw_providers::adapter::ListedModel;
use gw_providers::settings::Api;
use gw_wire::money::Price;

/// What the catalogue needs to know of a configured provider.
#[derive(Clone, Copy, Debug)]
pub struct ProviderFacts<'a> {
    /// The first segment of its model ids.
    pub name: &'a str,
    /// The API that it speaks: which rules its models have depends on it.
    pub api: Api,
    /// Gateway price = official price × this.
    pub price_multiplier: Price,
    /// Its model list is asked for, so that a model we do not know yet may still turn up.
    pub discovers: bool,
}

/// A provider's name and the models on its own list.
pub type Discovered = (String, Vec<ListedModel>);
