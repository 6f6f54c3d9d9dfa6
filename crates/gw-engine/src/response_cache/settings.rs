//! The settings of the response cache.

use std::time::Duration;

use gw_cache::SimilaritySettings;

use crate::catalog::Catalog;

/// `[cache]`.
#[derive(Clone, Debug)]
pub struct CachingSettings {
    /// The lifetime of an answer, if the request names none.
    pub default_ttl: Duration,
    /// How long a stale answer may still be used if no upstream answers.
    pub stale_if_error: Duration,
    /// Text completions use the cache.
    pub completions: bool,
    /// Embeddings use the cache.
    pub embeddings: bool,
    /// Teams whose keys share their answers.
    pub shared_by_teams: Vec<String>,
}

/// One `[[cache.semantic]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct SemanticSettings {
    /// The alias whose questions are compared, as clients write it.
    pub alias: String,
    /// The catalogue id of the embedding model.
    pub embedding_model: String,
    /// The threshold of similarity, and what a match does.
    pub similar: SimilaritySettings,
    /// How long a request waits for its lookup.
    pub timeout: Duration,
}

/// The problems of the embedding models, each after its alias. A model that its provider may yet list is accepted.
#[must_use]
pub fn semantic_problems(
    all: &[SemanticSettings],
    catalog: &Catalog,
    discovers: impl Fn(&str) -> bool,
) -> Vec<(String, String)> {
    let problem = |settings: &SemanticSettings| {
        let SemanticSettings { alias, embedding_model: id, .. } = settings;
        let provider = id.split_once('/').map_or("", |(provider, _)| provider);
        let what = match catalog.get(id) {
            Some(model) if model.is_embedding() => return None,
            Some(_) => "is not an embedding model",
            None if discovers(provider) => return None,
            None => "is in no catalogue",
        };
        Some((alias.clone(), format!("the model '{id}' {what}")))
    };
    all.iter().filter_map(problem).collect()
}
