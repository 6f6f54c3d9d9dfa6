//! The members of a config and of its targets that do not choose a provider.

use serde_json::json;

use super::super::report::NO_SUCH_SETTING;
use super::super::yaml::SourceNode;
use super::{PortkeyImport, at, snake, text};

impl PortkeyImport {
    /// Imports a member of a target. `has_targets`: the target is a group of others.
    pub(super) fn setting(&mut self, name: &str, node: &SourceNode, key: &str, has_targets: bool) {
        match name {
            "targets" => {}
            "strategy" => self.strategy(key, node),
            "override_params" => self.override_params(key, node),
            "retry" => self.retry(key, node),
            "cache" => self.cache(key, node),
            "request_timeout" => self.request_timeout(key, node, has_targets),
            "name" | "id" => {
                self.report.ignored(key, node, "targets have no names here; a model's id is provider/model");
            }
            "input_guardrails"
            | "output_guardrails"
            | "before_request_hooks"
            | "after_request_hooks"
            | "default_input_guardrails"
            | "default_output_guardrails" => {
                self.report.ignored(key, node, "the gateway has no guardrails; put them in front of it");
            }
            "forward_headers" => {
                self.report.ignored(
                    key,
                    node,
                    "headers of clients never reach a provider; write providers.headers",
                );
            }
            "metadata" => self.report.ignored(key, node, "a request has its own metadata"),
            "prompt_id" => self.report.ignored(key, node, "the gateway has no stored prompts"),
            _ if has_targets => self.report.ignored(key, node, "the targets have providers of their own"),
            // `leaf` reports the provider of a target.
            _ => {}
        }
    }

    fn override_params(&mut self, path: &str, node: &SourceNode) {
        for (name, value) in node.pairs() {
            let key = at(path, name);
            if snake(name) == "model" {
                self.report.exact(key, value, "models.id, and a target of the alias");
            } else {
                let note = "the import writes none; an alias sets parameters of its requests by `defaults` and `overrides` (docs/presets.md)";
                self.report.ignored(key, value, note);
            }
        }
    }

    fn retry(&mut self, path: &str, node: &SourceNode) {
        for (name, value) in node.pairs() {
            let key = at(path, name);
            match (snake(name).as_str(), value.whole(0, 1_000)) {
                ("attempts", Some(attempts)) => {
                    self.retries = self.retries.max(attempts.min(10));
                    self.draft.set("routing", "retries", json!(self.retries));
                    let note =
                        "routing.retries: one number for all models, the largest of the file, at most 10";
                    self.report.approximate(key, value, note);
                }
                ("attempts", None) => self.report.ignored(key, value, "it is no number"),
                ("on_status_codes", _) => {
                    self.report.approximate(
                        key,
                        value,
                        "408, 429, 5xx and broken connections are tried again",
                    );
                }
                ("use_retry_after_header", _) => {
                    self.report.approximate(
                        key,
                        value,
                        "the gateway always respects the pause that a provider asks for",
                    );
                }
                _ => self.report.ignored(key, value, NO_SUCH_SETTING),
            }
        }
    }

    /// `cache`: an object, or only its mode.
    fn cache(&mut self, path: &str, node: &SourceNode) {
        if std::mem::replace(&mut self.has_cache, true) {
            self.report.ignored(
                path,
                node,
                "the cache has one setting for all models; the first of the file is imported",
            );
            return;
        }
        let mode = node.text().or_else(|| text(node, "mode"));
        let mode_node = node.get("mode").unwrap_or(node);
        let key = if node.get("mode").is_some() { at(path, "mode") } else { path.to_owned() };
        self.draft.set("cache", "completions", json!(true));
        self.draft.set("cache", "embeddings", json!(true));
        if mode.as_deref() == Some("semantic") {
            let note = "cache.completions and cache.embeddings find equal requests only; [[cache.semantic]] finds similar ones, and \
                        needs an embedding model";
            self.report.approximate(key, mode_node, note);
        } else {
            let note = "cache.completions and cache.embeddings; a chat uses the cache when its request has cache.enabled";
            self.report.approximate(key, mode_node, note);
        }
        for (name, value) in node.pairs() {
            let key = at(path, name);
            match (snake(name).as_str(), value.whole(1, 31_536_000)) {
                ("mode", _) => {}
                ("max_age", Some(seconds)) => {
                    self.draft.set("cache", "default_ttl_seconds", json!(seconds));
                    let note = "cache.default_ttl_seconds: Portkey's reference counts it in seconds, and some of its examples in milliseconds";
                    self.report.approximate(key, value, note);
                }
                ("max_age", None) => {
                    self.report.ignored(key, value, "it is no number of seconds within a year");
                }
                _ => self.report.ignored(key, value, NO_SUCH_SETTING),
            }
        }
    }

    fn request_timeout(&mut self, key: &str, node: &SourceNode, has_targets: bool) {
        match node.whole(1, 86_400_000) {
            Some(ms) if has_targets => {
                self.draft.set("timeouts", "total_ms", json!(ms));
                let note = "timeouts.total_ms: the whole request with all its attempts";
                self.report.approximate(key, node, note);
            }
            Some(_) => {
                let note = "first_token_ms of the model or the provider: the time to the first token, or to the head of an answer";
                self.report.approximate(key, node, note);
            }
            None => self.report.ignored(key, node, "it is no number of milliseconds within a day"),
        }
    }
}
