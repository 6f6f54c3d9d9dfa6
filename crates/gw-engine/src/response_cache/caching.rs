//! The response cache, and the calls that requests share (single-flight).

use std::sync::Arc;

use gw_cache::{Cache, Scope, SimilarityFigures, SingleFlight};

use crate::auth::Caller;
use crate::response_cache::embeddings::memory::AnswerMemory;
use crate::response_cache::semantic::Semantic;
use crate::response_cache::settings::{CachingSettings, SemanticSettings};
use crate::response_cache::shared_answer::{FlightError, FlightResult};

/// The response cache and the shared calls.
#[derive(Debug)]
pub struct ResponseCache {
    pub(crate) cache: Cache,
    pub(crate) flights: SingleFlight<FlightResult, FlightError>,
    pub(crate) settings: CachingSettings,
    pub(crate) semantic: Semantic,
    /// The memory of answers that are made of cached vectors.
    pub(in crate::response_cache) vectors: AnswerMemory,
}

impl ResponseCache {
    /// A response cache over this store. `semantic` lists the aliases whose similar questions are answered.
    #[must_use]
    pub fn new(cache: Cache, settings: CachingSettings, semantic: Vec<SemanticSettings>) -> Self {
        let (flights, vectors) = (SingleFlight::default(), AnswerMemory::default());
        Self { cache, flights, settings, semantic: Semantic::new(semantic), vectors }
    }

    /// The settings and the figures of each alias whose questions are compared, ordered by alias.
    pub fn similar(&self) -> impl Iterator<Item = (&SemanticSettings, SimilarityFigures)> {
        self.semantic.figures().into_iter()
    }

    /// The store, for purges and figures.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The scope whose kept answers a caller reads and writes.
    #[must_use]
    pub fn scope(&self, caller: &Caller) -> Scope {
        let shares = |team: &str| self.settings.shared_by_teams.iter().any(|shared| shared == team);
        match caller.team_scope().filter(|_| caller.team().is_some_and(|team| shares(team))) {
            Some(team) => Scope::Team(Arc::clone(team)),
            None => Scope::Key(Arc::clone(caller.key_id())),
        }
    }
}
