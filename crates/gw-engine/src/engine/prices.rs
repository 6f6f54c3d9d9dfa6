//! The prices of a model in force.

use serde::Deserialize;

use super::Engine;
use crate::auth::Caller;
use crate::catalog::prices::Prices;

/// The prices of a model, and where they are from.
#[derive(Clone, Debug, Default)]
pub struct PricesInForce {
    /// None: no price is known.
    pub prices: Option<Prices>,
    /// The date of the prices, if the catalogue has it.
    pub as_of: Option<String>,
    /// The page of the prices, if the catalogue has it.
    pub source: Option<String>,
}

impl Engine {
    /// The prices of a model of the catalogue. None: there is no such model now.
    #[must_use]
    pub fn prices(&self, model: &str) -> Option<PricesInForce> {
        #[derive(Default, Deserialize)]
        struct Described {
            #[serde(default)]
            sources: Sources,
        }
        #[derive(Default, Deserialize)]
        struct Sources {
            #[serde(default)]
            pricing: Source,
        }
        #[derive(Default, Deserialize)]
        struct Source {
            source: Option<String>,
            as_of: Option<String>,
        }
        let snapshot = self.snapshot();
        let found = snapshot.catalog.get(model)?;
        let document = self.model(&Caller::operator(), model).unwrap_or_default();
        let described: Described = serde_json::from_slice(&document).unwrap_or_default();
        let Source { source, as_of } = described.sources.pricing;
        Some(PricesInForce { prices: found.prices.clone(), as_of, source })
    }
}
