//! The response cache, and the calls that requests share (single-flight).

use std::sync::Arc;

use gw_cache::{Cache, Purge, PurgeError, Scope, SimilarityFigures, SingleFlight};

use crate::auth::Caller;
use crate::document_memory::{DocumentMemory, MAX_ANSWER_BYTES};
use crate::response_cache::known_questions::KnownQuestions;
use crate::response_cache::semantic::Semantic;
use crate::response_cache::settings::{CachingSettings, SemanticSettings};
use crate::response_cache::shared_answer::{FlightError, FlightResult};

/// The longest answers of cached vectors for which there is memory at one time.
const MAX_VECTOR_ANSWERS: u64 = 8;

/// The response cache and the shared calls.
#[derive(Debug)]
pub struct ResponseCache {
    pub(crate) cache: Arc<Cache>,
    pub(crate) flights: Arc<SingleFlight<FlightResult, FlightError>>,
    pub(crate) settings: CachingSettings,
    pub(crate) semantic: Semantic,
    pub(crate) known: KnownQuestions,
    /// The memory of answers that are made of cached vectors. A short request can have a long answer that no upstream sends and
    /// no budget pays. It is apart from the memory of documents: a request that completes its cached vectors holds a part of
    /// this one while it waits for its document, and in one memory such requests could wait for each other.
    pub(in crate::response_cache) vectors: Arc<DocumentMemory>,
}

impl ResponseCache {
    /// A response cache over this store. `semantic` lists the aliases whose similar questions are answered.
    #[must_use]
    pub fn new(cache: Cache, settings: CachingSettings, semantic: Vec<SemanticSettings>) -> Self {
        let vectors = Arc::new(DocumentMemory::new(MAX_VECTOR_ANSWERS * MAX_ANSWER_BYTES as u64));
        let semantic = Semantic::new(semantic, &Semantic::default());
        let known = KnownQuestions::default();
        Self { cache: Arc::new(cache), flights: Arc::default(), settings, semantic, known, vectors }
    }

    /// A cache with the answers and shared calls of this one, under other settings. An alias with unchanged settings keeps its similar questions.
    #[must_use]
    pub fn with_settings(&self, settings: CachingSettings, semantic: Vec<SemanticSettings>) -> Self {
        Self {
            cache: Arc::clone(&self.cache),
            flights: Arc::clone(&self.flights),
            settings,
            semantic: Semantic::new(semantic, &self.semantic),
            known: KnownQuestions::default(),
            vectors: Arc::clone(&self.vectors),
        }
    }

    /// The settings and the figures of each alias whose questions are compared, ordered by alias.
    pub fn similar(&self) -> impl Iterator<Item = (&SemanticSettings, SimilarityFigures)> {
        self.semantic.figures().into_iter()
    }

    /// As [`Cache::purge`]. The questions are forgotten, too.
    ///
    /// # Errors
    /// As [`Cache::purge`].
    pub async fn purge(&self, purge: &Purge) -> Result<(), PurgeError> {
        self.known.clear();
        self.cache.purge(purge).await
    }

    /// The store, for figures.
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
