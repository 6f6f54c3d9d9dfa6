//! What operators do with the cache: look at its figures, throw answers away.

use bytes::Bytes;
use gw_cache::{Purge, Scope, SimilarityFigures, SimilarityMode};
use gw_engine::Engine;
use gw_engine::auth::configured_id;
use gw_engine::catalog::query::{Query, shown};
use gw_engine::error::{Error, Kind, Result};
use gw_engine::response_cache::SemanticSettings;
use gw_wire::request::fields::{Path, empty_string, invalid_value};
use serde_json::{Value, json};

use crate::write::{approximate_usd, number};

/// `GET /admin/v1/cache`.
#[must_use]
pub fn figures(engine: &Engine) -> Bytes {
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
        "saved_seconds": number(std::time::Duration::from_millis(figures.saved_ms).as_secs_f64()),
        "unanswered": figures.unanswered,
        "unwritten": figures.unwritten,
        "semantic": caching.similar().map(semantic).collect::<Vec<_>>(),
    });
    Bytes::from(document.to_string())
}

/// One alias whose similar questions are compared.
fn semantic((settings, figures): (&SemanticSettings, SimilarityFigures)) -> Value {
    json!({
        "alias": settings.alias,
        "embedding_model": settings.embedding_model,
        "mode": if settings.similar.mode == SimilarityMode::Answer { "answer" } else { "shadow" },
        "threshold": number((f64::from(settings.similar.threshold) * 1e6).round() / 1e6),
        "looks": figures.looks,
        "matches": figures.matches,
        "shadow_matches": figures.shadows,
        "vectors": figures.vectors,
        "bytes": figures.bytes,
    })
}

/// `DELETE /admin/v1/cache`: all of it, or `?model=` (as it was asked for, or the id that answered), or `?key=` (an id or, for
/// keys of the configuration, a name; of a team that shares its answers, all of the team's).
///
/// # Errors
/// There is no such parameter or key; the shared store did not hear of it.
pub async fn purge(engine: &Engine, query: &str) -> Result<Bytes> {
    let caching = engine.response_cache();
    let query = Query::parse(query);
    if let Some(name) = query.unknown(&["model", "key"]) {
        let message =
            format!("Invalid '{}': there is no such parameter. The parameters are model, key.", shown(name));
        return Err(Error::new(Kind::UnsupportedParameter, message));
    }
    let (model, key) = (query.last("model"), query.last("key"));
    if model.is_some() && key.is_some() {
        let what = "give a model or a key, not both: each is thrown away whole.";
        return Err(invalid_value(&Path::Top("key"), what).into());
    }
    // An empty variable of a script is not everything, and not nothing.
    if let Some((name, _)) =
        [("model", model), ("key", key)].into_iter().find(|(_, value)| *value == Some(""))
    {
        return Err(empty_string(&Path::Top(name)).into());
    }
    let purges = match (model, key) {
        (Some(model), _) => vec![Purge::Model(model.into())],
        (None, Some(id)) => {
            let missing = || Error::new(Kind::NotFound, format!("There is no key '{}'.", shown(id)));
            let caller =
                engine.find_key(id).or_else(|| engine.find_key(&configured_id(id))).ok_or_else(missing)?;
            // Also what it was answered when it was in no team.
            let own = Scope::Key(std::sync::Arc::clone(caller.key_id()));
            let now = caching.map(|caching| caching.scope(&caller)).filter(|scope| *scope != own);
            now.into_iter().chain([own]).map(Purge::Scope).collect()
        }
        (None, None) => vec![Purge::All],
    };
    for purge in &purges {
        if let Some(caching) = caching {
            caching.cache().purge(purge).await.map_err(|_| {
                let message = "The shared cache did not hear of the purge: its Redis is away. Try again.";
                Error::new(Kind::StoreUnavailable, message).retry_after(std::time::Duration::from_secs(1))
            })?;
        }
    }
    Ok(Bytes::from(json!({"object": "cache", "purged": true}).to_string()))
}
