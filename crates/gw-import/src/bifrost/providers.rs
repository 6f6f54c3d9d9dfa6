//! `providers`: each provider with its keys. Keys with one account and one list of models share a provider here.

use serde_json::json;

use super::super::draft::Members;
use super::super::known_provider::{KnownProvider, SourceGateway, is_secret_header, variable_name};
use super::super::report::NO_SUCH_SETTING;
use super::super::yaml::SourceNode;
use super::{BifrostImport, ImportedAccount, text};

/// The account of some keys: the members of their provider, their models, and the keys with their weights.
#[derive(Debug, Default)]
struct Account {
    members: Members,
    /// Bifrost's name of each model, and the upstream's. Empty = all models.
    models: Vec<(String, String)>,
    keys: Vec<(String, u64)>,
    /// Bifrost's ids and names of the keys.
    key_ids: Vec<String>,
}

impl BifrostImport {
    /// Imports `providers.<name>`.
    pub(super) fn provider(&mut self, source: &str, node: &SourceNode) {
        let path = format!("providers.{source}");
        let custom = node.get("custom_provider_config");
        let base = custom.and_then(|custom| custom.get("base_provider_type")).and_then(SourceNode::text);
        let wanted = base.as_deref().unwrap_or(source);
        let Some(known) = SourceGateway::Bifrost.provider(wanted) else {
            let note = format!("the gateway has no provider '{wanted}'");
            self.report.ignored(path, node, note);
            return;
        };
        let mut members = Members::from_iter([("api".to_owned(), known.api.into())]);
        self.network(node.get("network_config"), &path, known, &mut members);
        let mut accounts: Vec<Account> = Vec::new();
        for (index, key) in node.get("keys").map(SourceNode::list).unwrap_or_default().iter().enumerate() {
            if let Some(account) = self.key(source, known, key, &format!("{path}.keys[{index}]"), &members) {
                let same = accounts
                    .iter_mut()
                    .find(|other| other.members == account.members && other.models == account.models);
                match same {
                    Some(same) => {
                        same.keys.extend(account.keys);
                        same.key_ids.extend(account.key_ids);
                    }
                    None => accounts.push(account),
                }
            }
        }
        if accounts.is_empty() {
            accounts.push(Account { members, ..Account::default() });
        }
        // Older files have the account of a cloud beside the keys.
        if let Some(meta) = node.get("meta_config") {
            for account in &mut accounts {
                self.account(known, meta, &format!("{path}.meta_config"), account);
            }
        }
        let is_elsewhere =
            |account: &Account| account.members.contains_key("base_url") || known.has_address();
        if !accounts.iter().all(is_elsewhere) {
            self.report.ignored(path, node, "the gateway knows no address of this provider; write base_url");
            return;
        }
        self.other_members(node, &path);
        let add = |account| self.add_account(source, known, custom.is_some(), account);
        let names: Vec<ImportedAccount> = accounts.into_iter().map(add).collect();
        self.providers.push((source.to_owned(), names));
    }

    /// Adds the provider of some keys with its models, and returns its name.
    fn add_account(
        &mut self,
        source: &str,
        known: KnownProvider,
        is_custom: bool,
        account: Account,
    ) -> ImportedAccount {
        let Account { mut members, models, keys, key_ids } = account;
        match keys.as_slice() {
            [] if known.api == "bedrock" => self.draft.needs_aws_keys(),
            [] => {}
            [(key, _)] => _ = members.insert("api_key".to_owned(), key.as_str().into()),
            keys => {
                let keys = keys.iter().map(|(key, weight)| json!({ "key": key, "weight": weight }));
                members.insert("api_keys".to_owned(), keys.collect());
            }
        }
        let name = if is_custom {
            source.to_ascii_lowercase().replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "-")
        } else {
            known.name_at(members.contains_key("base_url") && known.api != "azure")
        };
        let name = self.draft.provider(&name, members);
        if models.is_empty() && known.has_list {
            self.draft.discover(&name);
        }
        for (model, upstream) in models {
            let mut facts = Members::new();
            if model != upstream {
                facts.insert("upstream_model".to_owned(), upstream.into());
            }
            self.draft.model(&name, &model, &facts);
        }
        ImportedAccount { name, key_ids }
    }

    fn network(
        &mut self,
        node: Option<&SourceNode>,
        path: &str,
        known: KnownProvider,
        members: &mut Members,
    ) {
        for (name, value) in node.map(SourceNode::pairs).unwrap_or_default() {
            let key = format!("{path}.network_config.{name}");
            match name.as_str() {
                "base_url" => self.base_url(key, value, known, members),
                "extra_headers" => self.headers(&key, value, members),
                "default_request_timeout_in_seconds" => match value.milliseconds() {
                    Some(ms) => {
                        members.insert("timeouts".to_owned(), json!({ "first_token_ms": ms }));
                        let note = "providers.timeouts.first_token_ms: the time to the first token, or to the head of an answer";
                        self.report.approximate(key, value, note);
                    }
                    None => self.report.ignored(key, value, "it is no number of seconds within a day"),
                },
                "max_retries" => match value.whole(0, 1_000) {
                    Some(retries) => {
                        self.retries = self.retries.max(retries.min(10));
                        self.draft.set("routing", "retries", json!(self.retries));
                        let note = "routing.retries: one number for all providers, the largest of the file, at most 10";
                        self.report.approximate(key, value, note);
                    }
                    None => self.report.ignored(key, value, "it is no number"),
                },
                "retry_backoff_initial_ms"
                | "retry_backoff_max_ms"
                | "retry_backoff_initial"
                | "retry_backoff_max" => {
                    self.report.ignored(key, value, "the gateway chooses the pause before a retry itself");
                }
                _ => self.report.ignored(key, value, NO_SUCH_SETTING),
            }
        }
    }

    fn base_url(&mut self, key: String, node: &SourceNode, known: KnownProvider, members: &mut Members) {
        let Some(text) = text(node) else {
            self.report.ignored(key, node, "it is empty");
            return;
        };
        let text = text.trim_end_matches('/');
        let url = self.reference(text);
        // Bifrost adds the version of the API to the address itself.
        let needs_version = ["openai", "mistral"].contains(&known.api) && !text.ends_with("/v1");
        if needs_version {
            members.insert("base_url".to_owned(), format!("{url}/v1").into());
            self.report.approximate(key, node, "providers.base_url with the version of the API, /v1");
        } else {
            members.insert("base_url".to_owned(), url.into());
            self.report.exact(key, node, "providers.base_url");
        }
    }

    fn headers(&mut self, path: &str, node: &SourceNode, members: &mut Members) {
        let mut headers = Members::new();
        for (name, value) in node.pairs() {
            let key = format!("{path}.{name}");
            let reference = if is_secret_header(name) {
                self.secret(key, value, "providers.headers", &variable_name(name, "HEADER"))
            } else if let Some(text) = text(value) {
                self.report.exact(key, value, "providers.headers");
                Some(self.reference(&text))
            } else {
                self.report.ignored(key, value, "it is empty");
                None
            };
            headers.extend(reference.map(|value| (name.clone(), value.into())));
        }
        if !headers.is_empty() {
            members.insert("headers".to_owned(), headers.into());
        }
    }

    /// Imports one key. None: Bifrost does not use it.
    fn key(
        &mut self,
        source: &str,
        known: KnownProvider,
        node: &SourceNode,
        path: &str,
        members: &Members,
    ) -> Option<Account> {
        if node.get("enabled").and_then(SourceNode::bool) == Some(false) {
            self.report.ignored(path, node, "the key is not enabled");
            return None;
        }
        let weight = node.get("weight").and_then(SourceNode::number).unwrap_or(1.0);
        if weight == 0.0 {
            self.report.ignored(path, node, "its weight is 0, so it gets no request");
            return None;
        }
        let mut account = Account { members: members.clone(), ..Account::default() };
        for (name, value) in node.pairs() {
            let key = format!("{path}.{name}");
            match name.as_str() {
                "value" => {
                    let wanted = if known.source == source {
                        known.key_variable()
                    } else {
                        variable_name(source, "API_KEY")
                    };
                    let reference = self.secret(key, value, "providers.api_key", &wanted);
                    account.keys.extend(reference.map(|reference| (reference, percent(weight))));
                }
                "weight" => {
                    self.report.exact(key, value, "the share of the key among the keys of its provider");
                }
                "models" => self.models(&key, value, known, &mut account),
                "aliases" => self.deployments(&key, value, known, &mut account),
                "azure_key_config" | "vertex_key_config" | "bedrock_key_config" | "ollama_key_config"
                | "vllm_key_config" | "sgl_key_config" => self.account(known, value, &key, &mut account),
                "name" | "id" => {
                    account.key_ids.extend(value.text());
                    self.report.ignored(
                        key,
                        value,
                        "keys of a provider have no names; metrics name their places",
                    );
                }
                "use_for_batch_api" => self.report.ignored(key, value, "the gateway has no batch API"),
                "enabled" => self.report.exact(key, value, "the key is used"),
                _ => self.report.ignored(key, value, NO_SUCH_SETTING),
            }
        }
        Some(account)
    }

    fn models(&mut self, key: &str, node: &SourceNode, known: KnownProvider, account: &mut Account) {
        let names: Vec<String> = node.list().iter().filter_map(SourceNode::text).collect();
        if names.is_empty() || names.iter().any(|name| name == "*") {
            let note = if known.has_list {
                "the models of the provider's own list (discover = true)"
            } else {
                "the models of the catalogue; add others as [[models]]"
            };
            self.report.approximate(key, node, note);
            return;
        }
        for name in names.into_iter().filter(|name| !name.contains(char::is_whitespace)) {
            // Bifrost writes the publisher before a model of Vertex AI.
            let plain = if known.api == "vertex" { name.strip_prefix("google/") } else { None };
            let name = plain.unwrap_or(&name).to_owned();
            if account.models.iter().all(|(known, _)| *known != name) {
                account.models.push((name.clone(), name));
            }
        }
        self.report.exact(key, node, "[[models]]; several providers with a model share its bare name");
    }

    /// `deployments` or `aliases`: a map from a name to the upstream's.
    fn deployments(&mut self, key: &str, node: &SourceNode, known: KnownProvider, account: &mut Account) {
        let mut table = Members::new();
        for (name, value) in node.pairs() {
            let Some(upstream) = text(value) else { continue };
            account.models.retain(|(known, _)| known != name);
            if known.api == "azure" {
                table.insert(name.clone(), self.reference(&upstream).into());
                account.models.push((name.clone(), name.clone()));
            } else {
                account.models.push((name.clone(), upstream));
            }
        }
        if known.api == "azure" {
            account.members.insert("deployments".to_owned(), table.into());
            self.report.exact(key, node, "providers.deployments");
        } else {
            self.report.exact(key, node, "models.upstream_model");
        }
    }

    /// The account of a cloud, or the address of a server.
    fn account(&mut self, known: KnownProvider, node: &SourceNode, path: &str, account: &mut Account) {
        for (name, value) in node.pairs() {
            let key = format!("{path}.{name}");
            let member = match (known.api, name.as_str()) {
                ("azure", "endpoint") => "base_url",
                ("azure", "api_version") => "api_version",
                ("bedrock" | "vertex", "region") => "region",
                ("vertex", "project_id") => "project",
                (_, "deployments") => {
                    self.deployments(&key, value, known, account);
                    continue;
                }
                ("openai" | "ollama", "url") => {
                    self.base_url(key, value, known, &mut account.members);
                    continue;
                }
                ("bedrock", "access_key" | "secret_key" | "session_token" | "secret_access_key") => {
                    let note = "the gateway reads AWS keys from the environment or from a profile of the shared credentials file";
                    self.report.ignored(key, value, note);
                    continue;
                }
                ("vertex", "auth_credentials") => {
                    let note = "write the file of the credentials to providers.credentials_file, or use the metadata server";
                    self.report.ignored(key, value, note);
                    continue;
                }
                _ => {
                    self.report.ignored(key, value, NO_SUCH_SETTING);
                    continue;
                }
            };
            match text(value) {
                Some(text) => {
                    let value_text = self.reference(text.trim_end_matches('/'));
                    account.members.insert(member.to_owned(), value_text.into());
                    self.report.exact(key, value, format!("providers.{member}"));
                }
                None => self.report.ignored(key, value, "it is empty"),
            }
        }
    }

    fn other_members(&mut self, node: &SourceNode, path: &str) {
        let known = ["keys", "network_config", "meta_config"];
        for (name, value) in node.pairs().iter().filter(|(name, _)| !known.contains(&name.as_str())) {
            let key = format!("{path}.{name}");
            match name.as_str() {
                "custom_provider_config" => {
                    let note = "a provider with its own name; the gateway serves all kinds of requests that the dialect has";
                    self.report.approximate(key, value, note);
                }
                "concurrency_and_buffer_size" => {
                    let note = "the gateway bounds all requests together (server.max_in_flight) and those of a key (keys.max_in_flight)";
                    self.report.ignored(key, value, note);
                }
                _ => self.report.ignored(key, value, NO_SUCH_SETTING),
            }
        }
    }
}

/// A weight as hundredths, as whole weights of keys may be at most 1,000.
fn percent(weight: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is bounded")]
    let percent = (weight * 100.0).round().clamp(1.0, 1000.0) as u64;
    percent
}
