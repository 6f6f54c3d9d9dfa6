//! The settings of the response cache.

use std::time::Duration;

use gw_cache::SimilarSettings;

use crate::catalog::Catalog;

/// `[cache]`.
#[derive(Clone, Debug)]
pub struct CachingSettings {
    /// How long an answer stays when the request does not say.
    pub default_ttl: Duration,
    /// How long beyond that it may be used when no upstream answers.
    pub stale_if_error: Duration,
    /// Text completions use it, too.
    pub completions: bool,
    /// Embeddings use it, too.
    pub embeddings: bool,
    /// Teams whose keys share their answers.
    pub shared_by_teams: Vec<String>,
}

/// One `[[cache.semantic]]`.
#[derive(Clone, Debug)]
pub struct SemanticSettings {
    /// The alias whose questions are compared, as clients write it.
    pub alias: String,
    /// The catalogue id of the model that makes vectors.
    pub embedding_model: String,
    /// How near a question must be, and what is done then.
    pub similar: SimilarSettings,
    /// How long a request waits for its look.
    pub timeout: Duration,
}

/// What is wrong with the models that are to make vectors. One that its provider may yet list is taken on trust.
#[must_use]
pub fn semantic_problems(
    all: &[SemanticSettings],
    catalog: &Catalog,
    discovers: impl Fn(&str) -> bool,
) -> Vec<String> {
    let problem = |settings: &SemanticSettings| {
        let SemanticSettings { alias, embedding_model: id, .. } = settings;
        let provider = id.split_once('/').map_or("", |(provider, _)| provider);
        let what = match catalog.get(id) {
            Some(model) if model.is_embedding() => return None,
            Some(_) => "is not an embedding model",
            None if discovers(provider) => return None,
            None => "is in no catalogue",
        };
        Some(format!("cache.semantic for '{alias}': the model '{id}' {what}"))
    };
    all.iter().filter_map(problem).collect()
}
