//! `model_list`: each entry is one deployment of a model under the name that clients use.

use serde_json::json;

use super::super::draft::Members;
use super::super::known_provider::KnownProvider;
use super::super::report::NO_SUCH_SETTING;
use super::super::yaml::SourceNode;
use super::Import;
use super::groups::Target;
use super::providers::{PROVIDER_KEYS, divide};

/// The parameters of a request that an entry can set for all requests.
const REQUEST_DEFAULTS: [&str; 16] = [
    "temperature",
    "max_tokens",
    "max_completion_tokens",
    "top_p",
    "top_k",
    "stop",
    "seed",
    "n",
    "frequency_penalty",
    "presence_penalty",
    "reasoning_effort",
    "thinking",
    "extra_body",
    "response_format",
    "tools",
    "user",
];

/// The modes of models beside chats and embeddings, their categories, and the values of `api` that have them.
const MEDIA_MODES: [(&str, &str, &[&str]); 6] = [
    ("rerank", "rerank", &["azure", "bedrock", "cohere", "openai", "vertex"]),
    ("image_generation", "image", &["azure", "bedrock", "gemini", "openai", "vertex"]),
    ("image_edit", "image", &["azure", "bedrock", "gemini", "openai", "vertex"]),
    ("audio_transcription", "transcription", &["azure", "gemini", "mistral", "openai", "vertex"]),
    ("audio_speech", "speech", &["azure", "gemini", "openai", "vertex"]),
    ("realtime", "realtime", &["azure", "openai"]),
];

/// The note of a limit of one deployment.
const NO_LIMIT: &str =
    "the import writes no limit; a rule of [[budgets]] limits a model or a provider (docs/keys.md)";

/// The mode of models that the gateway does not serve.
const OTHER_MODE: &str = "video_generation";

impl Import {
    /// Imports `model_list[index]`.
    pub(super) fn deployment(&mut self, index: usize, entry: &SourceNode) {
        let path = format!("model_list[{index}]");
        let none = SourceNode { line: entry.line, data: super::super::yaml::Data::Null };
        let params = entry.get("litellm_params").unwrap_or(&none);
        let info = entry.get("model_info").unwrap_or(&none);
        let name = entry.get("model_name").and_then(SourceNode::text);
        let model = params.get("model").and_then(SourceNode::text);
        let (Some(name), Some(model)) = (name, model) else {
            self.report.ignored(path, entry, "it has no model_name or no litellm_params.model");
            return;
        };
        let custom = params.get("custom_llm_provider").and_then(SourceNode::text);
        let Some((known, upstream)) = divide(&model, custom.as_deref()) else {
            let note = format!("the gateway has no provider for the model '{model}'");
            self.report.ignored(path, entry, note);
            return;
        };
        let mode = info.get("mode").and_then(SourceNode::text);
        if let Some(mode) = mode.as_deref().filter(|mode| *mode == OTHER_MODE) {
            self.report.ignored(
                path,
                entry,
                format!("the gateway does not serve models of the mode '{mode}'"),
            );
            return;
        }
        let is_rerank = upstream.contains("rerank");
        let mode = mode.or_else(|| is_rerank.then(|| "rerank".to_owned()));
        let media = MEDIA_MODES.iter().find(|(name, ..)| mode.as_deref() == Some(*name));
        if let Some((_, category, _)) = media.filter(|(_, _, apis)| !apis.contains(&known.api)) {
            let note = format!("the gateway has no models of the category '{category}' at '{}'", known.api);
            self.report.ignored(path, entry, note);
            return;
        }
        if upstream.chars().any(char::is_whitespace) || name.chars().any(char::is_whitespace) {
            self.report.ignored(path, entry, "a name of the gateway has no blanks");
            return;
        }
        let params_path = format!("{path}.litellm_params");
        if upstream.ends_with('*') {
            return self.wildcard(entry, &name, known, params, &path);
        }
        let upstream = self.plain_model(known, upstream, params, &params_path);
        let Some(provider) = self.provider(known, params, &params_path) else {
            self.report.ignored(path, entry, "the gateway knows no address of this provider; write api_base");
            return;
        };
        let mut members = Members::new();
        let order = self.parameters(params, &params_path, &mut members);
        self.model_info(info, &format!("{path}.model_info"), &mut members);
        if is_rerank {
            members.entry("category").or_insert_with(|| json!(["rerank"]));
        }
        for key in ["rpm", "tpm"] {
            if let Some(node) = entry.get(key) {
                self.limit(&format!("{path}.{key}"), key, node, &mut members);
            }
        }
        self.other_keys(entry, &path);
        self.add_target(entry, &path, name, Target { provider, upstream, members, order });
    }

    /// Removes the routes that LiteLLM writes into a Bedrock model.
    fn plain_model(
        &mut self,
        known: KnownProvider,
        upstream: String,
        params: &SourceNode,
        path: &str,
    ) -> String {
        let Some(node) = params.get("model") else { return upstream };
        let key = format!("{path}.model");
        let route = ["converse/", "invoke/", "converse_like/"]
            .into_iter()
            .find(|route| known.api == "bedrock" && upstream.starts_with(route));
        match route {
            Some("converse/") => {
                self.report.exact(key, node, "models.id; Bedrock is always called by Converse");
            }
            Some(_) => {
                self.report.approximate(
                    key,
                    node,
                    "models.id; Bedrock is called by Converse instead of InvokeModel",
                );
            }
            None => self.report.exact(key, node, "models.id"),
        }
        route.and_then(|route| upstream.strip_prefix(route)).map(str::to_owned).unwrap_or(upstream)
    }

    /// A name with `*`: all models of a provider.
    fn wildcard(
        &mut self,
        entry: &SourceNode,
        name: &str,
        known: KnownProvider,
        params: &SourceNode,
        path: &str,
    ) {
        let params_path = format!("{path}.litellm_params");
        let Some(provider) = self.provider(known, params, &params_path) else {
            self.report.ignored(path, entry, "the gateway knows no address of this provider; write api_base");
            return;
        };
        if known.has_list {
            self.draft.discover(&provider);
        }
        let source = if known.has_list {
            "the models of its own list (discover = true)"
        } else {
            "the models of the catalogue; add others as [[models]]"
        };
        let note = format!(
            "providers: '{provider}' with {source}; clients write {provider}/MODEL instead of '{name}'"
        );
        self.report.approximate(format!("{path}.model_name"), entry, note);
        let mut unused = Members::new();
        self.parameters(params, &params_path, &mut unused);
        self.other_keys(entry, path);
    }

    /// Imports the other keys of `litellm_params`; returns the `order`.
    fn parameters(&mut self, params: &SourceNode, path: &str, members: &mut Members) -> u32 {
        let mut order = u32::MAX;
        for (name, node) in params.pairs() {
            let key = format!("{path}.{name}");
            match name.as_str() {
                "model" => {}
                _ if PROVIDER_KEYS.contains(&name.as_str()) => {}
                _ if self.price(&key, name, node, members) => {}
                "rpm" | "tpm" | "weight" => self.limit(&key, name, node, members),
                "order" => {
                    order = node.text().and_then(|text| text.parse().ok()).unwrap_or(order);
                    let note = "the order of the targets in the alias; `round_robin` does not keep it";
                    self.report.approximate(key, node, note);
                }
                "timeout" => {
                    let note = "models.timeouts.first_token_ms: the time to the first token, or to the head of an answer";
                    self.timeout(&key, node, "first_token_ms", note, members);
                }
                "stream_timeout" => {
                    let note = "models.timeouts.idle_ms: the time between two chunks of a stream";
                    self.timeout(&key, node, "idle_ms", note, members);
                }
                "max_retries" => {
                    self.report.ignored(key, node, "routing.retries is one number for all models");
                }
                "max_budget" | "budget_duration" => self.report.ignored(key, node, NO_LIMIT),
                "tags" => self.report.ignored(key, node, "the gateway does not route by tags"),
                "drop_params" => {
                    let note = "members that a provider cannot take are always left out, with a warning in the answer";
                    self.report.approximate(key, node, note);
                }
                _ if REQUEST_DEFAULTS.contains(&name.as_str()) => {
                    let note = "the import writes none; an alias sets parameters of its requests by `defaults` and `overrides` (docs/presets.md)";
                    self.report.ignored(key, node, note);
                }
                _ => self.report.ignored(key, node, NO_SUCH_SETTING),
            }
        }
        order
    }

    fn timeout(&mut self, key: &str, node: &SourceNode, member: &str, note: &str, members: &mut Members) {
        let Some(ms) = node.milliseconds() else {
            self.report.ignored(key, node, "it is no number of seconds");
            return;
        };
        let timeouts = members.entry("timeouts").or_insert_with(|| json!({}));
        if let Some(timeouts) = timeouts.as_object_mut() {
            timeouts.insert(member.to_owned(), json!(ms));
        }
        self.report.approximate(key, node, note);
    }

    /// `rpm`, `tpm` and `weight`, of which LiteLLM takes one for its weighted choice.
    fn limit(&mut self, key: &str, name: &str, node: &SourceNode, members: &mut Members) {
        let Some(number) = node.number() else {
            self.report.ignored(key, node, "it is no number");
            return;
        };
        if name == "tpm" {
            self.report.ignored(key, node, NO_LIMIT);
            return;
        }
        // Weights may be fractions in LiteLLM and are whole numbers here.
        let weight = if number.fract() == 0.0 { number } else { (number * 100.0).round() };
        let is_explicit = name == "weight";
        if is_explicit || !members.contains_key("weight") {
            members.insert("weight".to_owned(), json!(whole(weight.min(10_000.0))));
        }
        if is_explicit {
            self.report.exact(key, node, "models.weight");
        } else {
            let note = "models.weight: the share of the requests; a rule of [[budgets]] limits a model or a provider (docs/keys.md)";
            self.report.approximate(key, node, note);
        }
    }

    fn model_info(&mut self, info: &SourceNode, path: &str, members: &mut Members) {
        for (name, node) in info.pairs() {
            let key = format!("{path}.{name}");
            let tokens = || node.number().filter(|number| *number >= 1.0 && *number <= 1e9).map(whole);
            match name.as_str() {
                _ if self.price(&key, name, node, members) => {}
                "mode" => match node.text().as_deref() {
                    Some(mode @ ("chat" | "embedding" | "moderation")) => {
                        members.insert("category".to_owned(), json!([mode]));
                        self.report.exact(key, node, "models.category");
                    }
                    Some(mode) if MEDIA_MODES.iter().any(|(name, ..)| *name == mode) => {
                        let category = MEDIA_MODES.iter().find(|(name, ..)| *name == mode);
                        members.extend(
                            category.map(|(_, category, _)| ("category".to_owned(), json!([category]))),
                        );
                        self.report.exact(key, node, "models.category");
                    }
                    Some("completion" | "responses") => {
                        members.insert("category".to_owned(), json!(["chat"]));
                        self.report.approximate(key, node, "models.category is 'chat'");
                    }
                    _ => self.report.ignored(
                        key,
                        node,
                        "the gateway serves the model by its own interfaces only",
                    ),
                },
                "max_input_tokens" if tokens().is_some() => {
                    members.insert("context_length".to_owned(), json!(tokens()));
                    let note = "models.context_length, which counts prompt and answer together";
                    self.report.approximate(key, node, note);
                }
                "max_output_tokens" if tokens().is_some() => {
                    members.insert("max_output_tokens".to_owned(), json!(tokens()));
                    self.report.exact(key, node, "models.max_output_tokens");
                }
                "id" => self.report.ignored(key, node, "a model's id is provider/model here"),
                "base_model" => {
                    self.report.ignored(key, node, "the catalogue has prices by id; write models.pricing");
                }
                _ if name.starts_with("supports_") => {
                    let note = "without models.features nothing is refused; the catalogue knows the features of shipped models";
                    self.report.ignored(key, node, note);
                }
                _ => self.report.ignored(key, node, NO_SUCH_SETTING),
            }
        }
    }

    /// Reports the keys of an entry beside the known ones.
    fn other_keys(&mut self, entry: &SourceNode, path: &str) {
        let known = ["model_name", "litellm_params", "model_info", "rpm", "tpm"];
        for (name, node) in entry.pairs().iter().filter(|(name, _)| !known.contains(&name.as_str())) {
            self.report.ignored(format!("{path}.{name}"), node, NO_SUCH_SETTING);
        }
    }
}

/// A number that is known to be small and not negative, without its fraction.
fn whole(number: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "callers check the range")]
    let number = number as u64;
    number
}
