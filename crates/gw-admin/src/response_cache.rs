//! The figures of the response cache, and its purges.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gw_cache::{Purge, Scope, SimilarityFigures, SimilarityMode};
use gw_engine::Engine;
use gw_engine::auth::configured_id;
use gw_engine::error::{Error, Kind, Result};
use gw_engine::response_cache::SemanticSettings;
use gw_wire::request::fields::{Path, empty_string, invalid_value};
use serde_json::{Value, json};

use crate::error::not_found;
use crate::json::{approximate_usd, number_or_null};
use crate::query::QueryParams;

/// `GET /admin/v1/cache`: the figures of the response cache.
#[must_use]
pub fn show_cache(engine: &Engine) -> Bytes {
    let Some(caching) = engine.response_cache() else {
        return Bytes::from(json!({"object": "cache", "enabled": false}).to_string());
    };
    let figures = caching.cache().figures();
    let document = json!({
        "object": "cache",
        "enabled": true,
        "available": !caching.cache().is_away(),
        "hits": figures.hits,
        "similar": figures.similar,
        "coalesced": figures.coalesced,
        "stale": figures.stale,
        "misses": figures.misses,
        "partial": figures.partial,
        "bypassed": figures.bypassed,
        "hit_ratio": figures.hit_ratio(),
        "stored": figures.stored,
        "entries": figures.entries,
        "bytes": figures.bytes,
        "saved_usd": approximate_usd(figures.saved),
        "saved_seconds": number_or_null(Duration::from_millis(figures.saved_ms).as_secs_f64()),
        "unanswered": figures.unanswered,
        "unwritten": figures.unwritten,
        "semantic": caching.similar().map(semantic_object).collect::<Vec<_>>(),
    });
    Bytes::from(document.to_string())
}

/// The figures of an alias whose similar questions are compared.
fn semantic_object((settings, figures): (&SemanticSettings, SimilarityFigures)) -> Value {
    json!({
        "alias": settings.alias,
        "embedding_model": settings.embedding_model,
        "mode": if settings.similar.mode == SimilarityMode::Answer { "answer" } else { "shadow" },
        "threshold": number_or_null((f64::from(settings.similar.threshold) * 1e6).round() / 1e6),
        "looks": figures.looks,
        "matches": figures.matches,
        "shadow_matches": figures.shadows,
        "vectors": figures.vectors,
        "bytes": figures.bytes,
    })
}

/// `DELETE /admin/v1/cache`: a purge of the response cache.
#[derive(Debug)]
pub struct CachePurge {
    purges: Vec<Purge>,
    /// The purged part, for the audit log: `all`, `model:NAME` or `key:ID`.
    pub object: String,
}

impl CachePurge {
    /// Reads the query of a purge.
    ///
    /// Without a query it purges all answers. With `?model=` it purges the answers to requests for this model and those that
    /// this model gave. With `?key=` (an id, or the name of a key of the configuration) it purges the answers of this key; if the
    /// key's team shares its answers, it purges all of the team's answers.
    ///
    /// # Errors
    /// `unsupported_parameter`, `invalid_value` and `empty_string` for a wrong query; `not_found` for an unknown key.
    pub fn parse(engine: &Engine, query: &str) -> Result<Self> {
        let params = QueryParams::parse(query, &["model", "key"])?;
        let (model, key) = (params.value("model"), params.value("key"));
        if model.is_some() && key.is_some() {
            let message = "give either 'model' or 'key', not both.";
            return Err(invalid_value(&Path::Top("key"), message).into());
        }
        // An empty value is probably an unset variable of a script, so it must not purge everything.
        if let Some((name, _)) =
            [("model", model), ("key", key)].into_iter().find(|(_, value)| *value == Some(""))
        {
            return Err(empty_string(&Path::Top(name)).into());
        }
        Ok(match (model, key) {
            (Some(model), _) => {
                Self { purges: vec![Purge::Model(model.into())], object: format!("model:{model}") }
            }
            (None, Some(key)) => Self { purges: purges_of_key(engine, key)?, object: format!("key:{key}") },
            (None, None) => Self { purges: vec![Purge::All], object: "all".to_owned() },
        })
    }

    /// Purges the cache.
    ///
    /// # Errors
    /// `store_unavailable` if the shared cache does not answer.
    pub async fn run(&self, engine: &Engine) -> Result<Bytes> {
        if let Some(caching) = engine.response_cache() {
            for purge in &self.purges {
                caching.purge(purge).await.map_err(|_| {
                    let message =
                        "The shared cache was not purged, because its Redis does not answer. Try again.";
                    Error::new(Kind::StoreUnavailable, message).retry_after(Duration::from_secs(1))
                })?;
            }
        }
        Ok(Bytes::from(json!({"object": "cache", "purged": true}).to_string()))
    }
}

/// The purges that remove a key's answers: those of its current scope, and those from a time when it was in no team.
fn purges_of_key(engine: &Engine, key: &str) -> Result<Vec<Purge>> {
    let caller = engine.find_key(key).or_else(|| engine.find_key(&configured_id(key)));
    let caller = caller.ok_or_else(|| not_found("key", key))?;
    let own = Scope::Key(Arc::clone(caller.key_id()));
    let present = engine.response_cache().map(|caching| caching.scope(&caller)).filter(|scope| *scope != own);
    Ok(present.into_iter().chain([own]).map(Purge::Scope).collect())
}
