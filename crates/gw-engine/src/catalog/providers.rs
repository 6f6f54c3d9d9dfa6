//! The providers as the catalogue knows them.

use gw_providers::adapter::ListedModel;
use gw_providers::settings::Api;
use gw_wire::money::Price;

/// The facts of a configured provider that the catalogue needs.
#[derive(Clone, Copy, Debug)]
pub struct ProviderFacts<'a> {
    /// The first segment of its model ids.
    pub name: &'a str,
    /// Its API, which decides the rules of its models.
    pub api: Api,
    /// The factor from official to gateway prices.
    pub price_multiplier: Price,
    /// The gateway reads its model list, so an unknown model may still appear.
    pub discovers: bool,
}

/// A provider's name and the models on its own list.
pub type Discovered = (String, Vec<ListedModel>);
