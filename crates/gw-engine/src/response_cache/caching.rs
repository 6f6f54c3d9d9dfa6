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
    pub(crate) cache: Arc<Cache>,
    pub(crate) flights: Arc<SingleFlight<FlightResult, FlightError>>,
    pub(crate) settings: CachingSettings,
    pub(crate) semantic: Semantic,
    /// The memory of answers that are made of cached vectors.
    pub(in crate::response_cache) vectors: Arc<AnswerMemory>,
}

impl ResponseCache {
    /// A response cache over this store. `semantic` lists the aliases whose similar questions are answered.
    #[must_use]
    pub fn new(cache: Cache, settings: CachingSettings, semantic: Vec<SemanticSettings>) -> Self {
        let (flights, vectors) = (Arc::default(), Arc::default());
        let semantic = Semantic::new(semantic, &Semantic::default());
        Self { cache: Arc::new(cache), flights, settings, semantic, vectors }
    }

    /// A cache with the answers and shared calls of this one, under other settings. An alias with unchanged settings keeps its similar questions.
    #[must_use]
    pub fn with_settings(&self, settings: CachingSettings, semantic: Vec<SemanticSettings>) -> Self {
        Self {
            cache: Arc::clone(&self.cache),
            flights: Arc::clone(&self.flights),
            settings,
            semantic: Semantic::new(semantic, &self.semantic),
            vectors: Arc::clone(&self.vectors),
        }
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
