//! Builds the response cache of the configuration, and exposes its figures as metrics.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use gw_config::Config;

use gw_cache::{Cache, RedisSettings, SimilarityFigures};
use gw_engine::response_cache::ResponseCache;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// The response cache in force; None: it is switched off.
pub type CurrentCache = Arc<ArcSwapOption<ResponseCache>>;

/// Builds the cache and registers its metrics.
pub async fn open(config: &Config, registry: &mut Registry) -> CurrentCache {
    let current = Arc::new(ArcSwapOption::new(build(config, None).await));
    registry.register_collector(Box::new(CacheMetrics(Arc::clone(&current))));
    current
}

/// Builds the cache of a configuration. It keeps the answers of the cache before it. None: it is switched off.
pub async fn build(config: &Config, earlier: Option<Arc<ResponseCache>>) -> Option<Arc<ResponseCache>> {
    let settings = &config.cache;
    if !settings.enabled {
        return None;
    }
    let (caching, semantic) = (settings.caching.clone(), settings.semantic.clone());
    if let Some(earlier) = earlier {
        return Some(Arc::new(earlier.with_settings(caching, semantic)));
    }
    let cache = match config.redis.as_ref().filter(|_| settings.shared) {
        Some(redis) => {
            let shared = RedisSettings {
                ca_file: redis.ca_file.clone(),
                prefix: format!("{}cache:", redis.prefix),
                timeout: redis.timeout,
                ..RedisSettings::new(redis.url.clone())
            };
            Cache::over_redis(shared).await
        }
        None => Cache::in_process(settings.max_bytes),
    };
    Some(Arc::new(ResponseCache::new(cache, caching, semantic)))
}

#[derive(Debug)]
struct CacheMetrics(CurrentCache);

impl Collector for CacheMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some(caching) = self.0.load_full() else { return Ok(()) };
        let figures = caching.cache().figures();
        for (name, help, value) in [
            ("gateway_cache_hits", "Requests answered from the cache", figures.hits),
            (
                "gateway_cache_similar",
                "Chats answered with the answer to a similar question",
                figures.similar,
            ),
            (
                "gateway_cache_coalesced",
                "Requests that shared the upstream call of an equal request",
                figures.coalesced,
            ),
            (
                "gateway_cache_stale",
                "Requests answered with an expired answer, because no upstream answered",
                figures.stale,
            ),
            (
                "gateway_cache_misses",
                "Requests that asked for the cache and called an upstream",
                figures.misses,
            ),
            (
                "gateway_cache_partial",
                "Misses that found a part of their embeddings in the cache",
                figures.partial,
            ),
            ("gateway_cache_bypassed", "Requests whose directives excluded the cache", figures.bypassed),
            ("gateway_cache_stored", "Answers that were stored", figures.stored),
            ("gateway_cache_unanswered", "Look-ups that Redis did not answer in time", figures.unanswered),
            ("gateway_cache_unwritten", "Answers that Redis did not store", figures.unwritten),
        ] {
            let metric = ConstCounter::new(value);
            let encoder = encoder.encode_descriptor(name, help, None, metric.metric_type())?;
            metric.encode(encoder)?;
        }
        let saved = ConstCounter::new(figures.saved.approx_usd());
        let help = "Cost that answers from the cache have saved, in USD";
        let metric = encoder.encode_descriptor("gateway_cache_saved_usd", help, None, saved.metric_type())?;
        saved.encode(metric)?;
        for (name, help, value) in [
            ("gateway_cache_entries", "Answers in the memory of this process", figures.entries),
            ("gateway_cache_bytes", "Bytes that these answers take", figures.bytes),
        ] {
            let metric = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            let encoder = encoder.encode_descriptor(name, help, None, metric.metric_type())?;
            metric.encode(encoder)?;
        }
        similar(&caching, &mut encoder)
    }
}

/// The name of a counter, its help text, and its value.
type Column = (&'static str, &'static str, fn(&SimilarityFigures) -> u64);

/// The metrics of similar questions, by alias. In shadow mode matches are counted but not answered.
fn similar(caching: &ResponseCache, encoder: &mut DescriptorEncoder<'_>) -> std::fmt::Result {
    let all: Vec<_> = caching.similar().collect();
    let columns: [Column; 3] = [
        ("gateway_cache_similar_looks", "Searches for a similar question", |figures| figures.looks),
        ("gateway_cache_similar_matches", "Searches that found an answer", |figures| figures.matches),
        (
            "gateway_cache_similar_shadow_matches",
            "Searches that found an answer in shadow mode, which does not use it",
            |figures| figures.shadows,
        ),
    ];
    for (name, help, value) in columns.into_iter().filter(|_| !all.is_empty()) {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (settings, figures) in &all {
            let labels = [("alias", settings.alias.as_str())];
            ConstCounter::new(value(figures)).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}
