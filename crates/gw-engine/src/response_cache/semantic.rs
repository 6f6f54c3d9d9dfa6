//! The similar questions of the aliases that have a `[[cache.semantic]]`.

use std::collections::HashMap;
use std::sync::Arc;

use gw_cache::{SimilarityFigures, SimilarityIndex};
use tokio::sync::Semaphore;

use crate::response_cache::settings::SemanticSettings;

/// Lookups of one alias that may run at the same time. A request beyond them asks its upstream without a lookup.
const MAX_LOOKUPS_PER_ALIAS: usize = 128;

/// The similar questions of all aliases that have them.
#[derive(Debug, Default)]
pub(crate) struct Semantic {
    pub(crate) aliases: HashMap<String, Arc<Alias>>,
}

#[derive(Debug)]
pub(crate) struct Alias {
    pub(crate) settings: SemanticSettings,
    pub(crate) similar: SimilarityIndex,
    pub(crate) looks: Arc<Semaphore>,
}

impl Semantic {
    /// The aliases of these settings. One that `earlier` has with equal settings keeps its questions and figures.
    pub(crate) fn new(settings: Vec<SemanticSettings>, earlier: &Self) -> Self {
        let alias = |settings: SemanticSettings| {
            let known = earlier.aliases.get(&settings.alias).filter(|known| known.settings == settings);
            if let Some(known) = known {
                return (settings.alias, Arc::clone(known));
            }
            let similar = SimilarityIndex::new(settings.similar);
            let looks = Arc::new(Semaphore::new(MAX_LOOKUPS_PER_ALIAS));
            (settings.alias.clone(), Arc::new(Alias { settings, similar, looks }))
        };
        Self { aliases: settings.into_iter().map(alias).collect() }
    }

    /// The figures of each alias.
    pub(crate) fn figures(&self) -> Vec<(&SemanticSettings, SimilarityFigures)> {
        let mut all: Vec<_> =
            self.aliases.values().map(|alias| (&alias.settings, alias.similar.figures())).collect();
        all.sort_by(|(one, _), (other, _)| one.alias.cmp(&other.alias));
        all
    }
}
