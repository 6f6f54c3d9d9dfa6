//! The response cache of the program: where the configuration wants it, and its figures as metrics.

use std::sync::Arc;

use gw_cache::{Cache, RedisSettings, SimilarityFigures};
use gw_engine::response_cache::ResponseCache;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::config::Config;

/// Makes the cache; None when it is switched off.
pub async fn open(config: &Config, registry: &mut Registry) -> Option<Arc<ResponseCache>> {
    let settings = &config.cache;
    if !settings.enabled {
        return None;
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
    let caching = Arc::new(ResponseCache::new(cache, settings.caching.clone(), settings.semantic.clone()));
    registry.register_collector(Box::new(Figures(Arc::clone(&caching))));
    Some(caching)
}

#[derive(Debug)]
struct Figures(Arc<ResponseCache>);

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let figures = self.0.cache().figures();
        for (name, help, value) in [
            ("gateway_cache_hits", "Requests answered with what was kept", figures.hits),
            (
                "gateway_cache_similar",
                "Chats answered with what a similar question was answered",
                figures.similar,
            ),
            (
                "gateway_cache_coalesced",
                "Requests that shared another one's upstream call",
                figures.coalesced,
            ),
            (
                "gateway_cache_stale",
                "Requests answered with what was too old, for want of an upstream",
                figures.stale,
            ),
            (
                "gateway_cache_misses",
                "Requests that asked for the cache and called an upstream",
                figures.misses,
            ),
            (
                "gateway_cache_partial",
                "Those of the misses that found a part of what they asked for",
                figures.partial,
            ),
            (
                "gateway_cache_bypassed",
                "Requests that asked for the cache and for no use of it",
                figures.bypassed,
            ),
            ("gateway_cache_stored", "Answers that were kept", figures.stored),
            (
                "gateway_cache_unanswered",
                "Questions that the shared store did not answer in time",
                figures.unanswered,
            ),
            ("gateway_cache_unwritten", "Answers that the shared store did not take", figures.unwritten),
        ] {
            let metric = ConstCounter::new(value);
            let encoder = encoder.encode_descriptor(name, help, None, metric.metric_type())?;
            metric.encode(encoder)?;
        }
        let saved = ConstCounter::new(figures.saved.approx_usd());
        let help = "What answers out of the cache would have cost";
        let metric = encoder.encode_descriptor("gateway_cache_saved_usd", help, None, saved.metric_type())?;
        saved.encode(metric)?;
        for (name, help, value) in [
            ("gateway_cache_entries", "Answers that are kept in this process", figures.entries),
            ("gateway_cache_bytes", "Bytes that they take", figures.bytes),
        ] {
            let metric = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            let encoder = encoder.encode_descriptor(name, help, None, metric.metric_type())?;
            metric.encode(encoder)?;
        }
        similar(&self.0, &mut encoder)
    }
}

/// A counter's name, what it counts, and where it stands.
type Column = (&'static str, &'static str, fn(&SimilarityFigures) -> u64);

/// What came of similar questions, by alias: a shadow's matches beside those that were answered.
fn similar(caching: &ResponseCache, encoder: &mut DescriptorEncoder<'_>) -> std::fmt::Result {
    let all: Vec<_> = caching.similar().collect();
    let columns: [Column; 3] = [
        ("gateway_cache_similar_looks", "Looks for similar questions", |figures| figures.looks),
        ("gateway_cache_similar_matches", "Looks that found an answer", |figures| figures.matches),
        ("gateway_cache_similar_shadow_matches", "Looks that would have, but for the shadow", |figures| {
            figures.shadows
        }),
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
