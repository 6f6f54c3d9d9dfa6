//! `router_settings`, `litellm_settings` and `general_settings`.

use serde_json::{Value, json};

use super::super::draft::Members;
use super::super::report::NO_SUCH_SETTING;
use super::super::yaml::{Data, SourceNode};
use super::Import;
use super::budgets::{OTHER_BUDGETS, PROXY_BUDGET};

/// The most of `routing.retries`.
const MAX_RETRIES: u64 = 10;

/// The keys about logs, traces and alerts of the three sections.
const OBSERVATION: [&str; 16] = [
    "callbacks",
    "success_callback",
    "failure_callback",
    "service_callbacks",
    "service_callback",
    "audit_log_callbacks",
    "callback_settings",
    "turn_off_message_logging",
    "set_verbose",
    "json_logs",
    "log_raw_request_response",
    "langfuse_default_tags",
    "alerting",
    "alerting_threshold",
    "alerting_args",
    "otel",
];

impl Import {
    /// Imports one of the three sections. LiteLLM reads several keys from any of them.
    pub(super) fn settings(&mut self, section: &str, node: &SourceNode) {
        for (name, value) in node.pairs() {
            let key = format!("{section}.{name}");
            let is_known = self.routing_setting(&key, name, value)
                || self.library_setting(&key, name, value)
                || (section == "general_settings" && self.general_setting(&key, name, value))
                || (section == "litellm_settings" && PROXY_BUDGET.contains(&name.as_str()));
            if !is_known {
                let note = if OBSERVATION.contains(&name.as_str()) {
                    "the gateway has its own logs (--log-level), metrics (/metrics) and request log"
                } else if OTHER_BUDGETS.contains(&name.as_str()) {
                    "the import writes no such budget; write a rule of [[budgets]] (docs/keys.md)"
                } else {
                    NO_SUCH_SETTING
                };
                self.report.ignored(key, value, note);
            }
        }
        if section == "litellm_settings" {
            self.proxy_budget(section, node);
        }
        self.redis_parts(section, node);
    }

    /// The keys of routing; whether this is one.
    fn routing_setting(&mut self, key: &str, name: &str, node: &SourceNode) -> bool {
        match name {
            "routing_strategy" => {
                if let Some(text) = node.text() {
                    self.groups.strategy = Some((text, key.to_owned(), node.clone()));
                }
            }
            "fallbacks" | "context_window_fallbacks" => self.fallbacks(key, node),
            "default_fallbacks" => self.default_fallbacks(key, node),
            "content_policy_fallbacks" => {
                let note = "a refusal of a provider goes to the client; routing.fallback_on_4xx = true would try the next model";
                self.report.ignored(key, node, note);
            }
            "model_group_alias" | "model_alias_map" => self.same_names(key, node),
            "num_retries" => match node.whole(0, u64::MAX) {
                Some(retries) if self.chooses("num_retries", key, node) => {
                    self.draft.set("routing", "retries", json!(retries.min(MAX_RETRIES)));
                    let note = if retries > MAX_RETRIES {
                        "routing.retries = 10, the most; a name with several models tries the next model instead"
                    } else {
                        "routing.retries: a name with several models tries the next model instead"
                    };
                    self.report.approximate(key, node, note);
                }
                Some(_) => {}
                None => self.report.ignored(key, node, "it is no number"),
            },
            "timeout" | "request_timeout" => match node.milliseconds() {
                Some(ms) if self.chooses("timeout", key, node) => {
                    self.draft.set("timeouts", "total_ms", json!(ms));
                    let note = "timeouts.total_ms: the whole request with all its attempts";
                    self.report.approximate(key, node, note);
                }
                Some(_) => {}
                None => self.report.ignored(key, node, "it is no number of seconds within a day"),
            },
            "allowed_fails" => match node.whole(0, 9_999) {
                Some(fails) if self.chooses("allowed_fails", key, node) => {
                    self.draft.set_below("routing", "breaker", "failures", json!(fails + 1));
                    let note = "routing.breaker.failures counts failures in a row, not in a minute";
                    self.report.approximate(key, node, note);
                }
                Some(_) => {}
                None => self.report.ignored(key, node, "it is no number"),
            },
            "cooldown_time" => match node.milliseconds() {
                Some(ms) if self.chooses("cooldown_time", key, node) => {
                    self.draft.set_below("routing", "breaker", "cooldown_ms", json!(ms));
                    let note = "routing.breaker.cooldown_ms, which doubles after each failed probe";
                    self.report.approximate(key, node, note);
                }
                Some(_) => {}
                None => self.report.ignored(key, node, "a circuit always stays open for a while"),
            },
            "enable_pre_call_checks" => {
                let note = "the context window of a model is always checked before a call";
                match node.bool() {
                    Some(false) => self.report.ignored(key, node, note),
                    _ => self.report.exact(key, node, note),
                }
            }
            "redis_host" | "redis_port" | "redis_password" | "redis_url" => {}
            _ => return false,
        }
        true
    }

    /// Whether the setting gets its value from this key. LiteLLM's router takes the value of its own section before that of the
    /// other ones. The key that gives no value is reported as ignored.
    fn chooses(&mut self, setting: &'static str, key: &str, node: &SourceNode) -> bool {
        let note = |winner: &str| format!("{winner} is used in its place");
        match self.chosen.get(setting) {
            Some(winner) if !key.starts_with("router_settings.") => {
                self.report.ignored(key, node, note(winner));
                return false;
            }
            Some(loser) => self.report.overrule(loser, note(key)),
            None => {}
        }
        self.chosen.insert(setting, key.to_owned());
        true
    }

    /// The keys of `litellm_settings`; whether this is one.
    fn library_setting(&mut self, key: &str, name: &str, node: &SourceNode) -> bool {
        match name {
            "drop_params" => {
                let note =
                    "members that a provider cannot take are always left out, with a warning in the answer";
                self.report.approximate(key, node, note);
            }
            "cache" => match node.bool() {
                Some(true) => {
                    self.draft.set("cache", "completions", json!(true));
                    self.draft.set("cache", "embeddings", json!(true));
                    let note = "cache.completions and cache.embeddings; a chat uses the cache when its request has cache.enabled";
                    self.report.approximate(key, node, note);
                }
                _ => {
                    self.draft.set("cache", "enabled", json!(false));
                    self.report.exact(key, node, "cache.enabled = false");
                }
            },
            "cache_params" => self.cache_params(key, node),
            _ => return false,
        }
        true
    }

    fn cache_params(&mut self, path: &str, node: &SourceNode) {
        for (name, value) in node.pairs() {
            let key = format!("{path}.{name}");
            match (name.as_str(), value.text().as_deref()) {
                ("type", Some("local")) => self.report.exact(key, value, "cache.backend = \"memory\""),
                ("type", Some("redis")) => {
                    self.draft.set("cache", "backend", "redis".into());
                    self.report.exact(key, value, "cache.backend = \"redis\"");
                }
                ("type", _) => self.report.ignored(key, value, "the cache is in memory or in Redis"),
                ("ttl", _) => match value.whole(1, 31_536_000) {
                    Some(seconds) => {
                        self.draft.set("cache", "default_ttl_seconds", json!(seconds));
                        self.report.exact(key, value, "cache.default_ttl_seconds");
                    }
                    None => self.report.ignored(key, value, "it is no number of seconds within a year"),
                },
                ("supported_call_types", _) => {
                    let types: Vec<String> = value.list().iter().filter_map(SourceNode::text).collect();
                    let has = |word: &str| types.iter().any(|known| known.trim_start_matches('a') == word);
                    self.draft.set("cache", "completions", json!(has("text_completion")));
                    self.draft.set("cache", "embeddings", json!(has("embedding")));
                    let note = "cache.completions and cache.embeddings; a chat asks for the cache by itself";
                    self.report.approximate(key, value, note);
                }
                ("host" | "port" | "password" | "url", _) => {}
                _ => self.report.ignored(key, value, NO_SUCH_SETTING),
            }
        }
        self.redis_parts(path, node);
    }

    /// The keys of `general_settings`; whether this is one.
    fn general_setting(&mut self, key: &str, name: &str, node: &SourceNode) -> bool {
        match name {
            "master_key" => match node.text().filter(|text| !text.trim().is_empty()) {
                Some(text) => {
                    let secret = self.reference(text.trim());
                    self.draft.key(Members::from_iter([
                        ("name".to_owned(), Value::from("master")),
                        ("key".to_owned(), secret.into()),
                        ("role".to_owned(), "admin".into()),
                    ]));
                    self.report.exact(key, node, "a key of the role admin in [[keys]]");
                }
                None => self.report.ignored(key, node, "it is empty"),
            },
            "global_max_parallel_requests" => match node.whole(1, 1_000_000) {
                Some(requests) => {
                    self.draft.set("server", "max_in_flight", json!(requests));
                    self.report.exact(key, node, "server.max_in_flight");
                }
                None => self.report.ignored(key, node, "it is no number"),
            },
            "max_request_size_mb" => match node.whole(1, 1024) {
                Some(mib) => {
                    self.draft.set("server", "body_limit_mib", json!(mib));
                    self.report.exact(key, node, "server.body_limit_mib");
                }
                None => self.report.ignored(key, node, "it is no number up to 1024"),
            },
            "maximum_spend_logs_retention_period" => match node.text().as_deref().and_then(days) {
                Some(days) => {
                    self.draft.set("store", "retention_days", json!(days));
                    self.report.exact(key, node, "store.retention_days");
                }
                None => self.report.ignored(key, node, "it is no whole number of days"),
            },
            "database_url" => {
                let note = "the gateway has tables of its own; write store.url for PostgreSQL. Keys and teams are not taken over";
                self.report.ignored(key, node, note);
            }
            "coordination_redis" => self.redis_parts(key, node),
            "store_prompts_in_spend_logs" => {
                self.report.ignored(key, node, "keys.log_payloads is a setting of each key");
            }
            _ => return false,
        }
        true
    }

    /// `redis_host` or `host`, and the keys beside it.
    fn redis_parts(&mut self, path: &str, node: &SourceNode) {
        let part = |name: &str| {
            node.get(&format!("redis_{name}")).or_else(|| node.get(name).filter(|_| path.contains('.')))
        };
        let url = part("url").and_then(SourceNode::text).map(|url| self.reference(&url));
        let host = part("host").and_then(SourceNode::text).map(|host| self.reference(&host));
        let port = part("port").and_then(SourceNode::text).map(|port| self.reference(&port));
        let password = part("password").and_then(SourceNode::text).filter(|text| !text.is_empty());
        let password = password.map(|password| self.reference(&password));
        let address = url.or_else(|| {
            let password = password.map(|password| format!(":{password}@")).unwrap_or_default();
            Some(format!("redis://{password}{}:{}/0", host?, port.unwrap_or_else(|| "6379".to_owned())))
        });
        let names = ["url", "host", "port", "password"];
        for name in names {
            let Some(value) = part(name) else { continue };
            let full = if node.get(name).is_some() { name.to_owned() } else { format!("redis_{name}") };
            let key = format!("{path}.{full}");
            match &address {
                Some(_) if !matches!(value.data, Data::Null) => {
                    let note = "redis.url; write a password with special characters percent-encoded";
                    self.report.approximate(key, value, note);
                }
                _ => self.report.ignored(key, value, "the address of Redis is not complete"),
            }
        }
        if let Some(address) = address {
            self.draft.set("redis", "url", address.into());
        }
        if path.contains('.') && path.starts_with("general_settings") {
            for (name, value) in node.pairs().iter().filter(|(name, _)| !names.contains(&name.as_str())) {
                self.report.ignored(format!("{path}.{name}"), value, NO_SUCH_SETTING);
            }
        }
    }
}

/// The days of a period such as `30d`.
fn days(text: &str) -> Option<u32> {
    text.strip_suffix('d')?.parse().ok().filter(|days| (1..=36_500).contains(days))
}
