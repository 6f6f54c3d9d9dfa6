//! `governance`: virtual keys with their budgets and rate limits.

use serde_json::json;

use super::super::draft::Members;
use super::super::known_provider::variable_name;
use super::super::report::NO_SUCH_SETTING;
use super::super::yaml::SourceNode;
use super::{BifrostImport, ImportedAccount};

/// The note for owners of limits that a key of the file cannot have.
const NO_TEAM: &str =
    "keys of the file have no team; make teams and their keys by the management API (docs/keys.md)";

impl BifrostImport {
    pub(super) fn governance(&mut self, node: &SourceNode) {
        let entries = |name: &str| node.get(name).map(SourceNode::list).unwrap_or_default();
        let mut used = Vec::new();
        for (index, key) in entries("virtual_keys").iter().enumerate() {
            self.virtual_key(key, &format!("governance.virtual_keys[{index}]"), node, &mut used);
        }
        for section in ["budgets", "rate_limits"] {
            for (index, limit) in entries(section).iter().enumerate() {
                let path = format!("governance.{section}[{index}]");
                if !used.contains(&path) {
                    let note = "no imported key has it; a rule of [[budgets]] limits a model or a provider (docs/keys.md)";
                    self.report.ignored(path, limit, note);
                }
            }
        }
        for (name, value) in node.pairs() {
            let note = match name.as_str() {
                "virtual_keys" | "budgets" | "rate_limits" => continue,
                "teams" | "customers" | "business_units" => NO_TEAM,
                "auth_config" | "roles" => {
                    "people sign in by [identity], and programs by keys of the role admin"
                }
                "routing_rules" => "the gateway does not route by expressions; write [[aliases]]",
                "pricing_overrides" => "write models.pricing",
                "providers" | "model_configs" => {
                    "a rule of [[budgets]] limits a model or a provider (docs/keys.md)"
                }
                _ => NO_SUCH_SETTING,
            };
            self.report.ignored(format!("governance.{name}"), value, note);
        }
    }

    fn virtual_key(&mut self, node: &SourceNode, path: &str, all: &SourceNode, used: &mut Vec<String>) {
        let field = |name: &str| node.get(name).and_then(SourceNode::text);
        let Some(name) = field("name").or_else(|| field("id")) else {
            self.report.ignored(path, node, "it has no name");
            return;
        };
        if node.get("is_active").and_then(SourceNode::bool) == Some(false) {
            self.report.ignored(path, node, "the key is not active");
            return;
        }
        let Some(models) = self.allowed_models(node, path) else {
            self.report.ignored(path, node, "it allows no imported provider, so it could call nothing");
            return;
        };
        let mut members = Members::from_iter([("name".to_owned(), name.as_str().into())]);
        members.extend(models.map(|models| ("models".to_owned(), models.into())));
        let wanted = variable_name(&name, "KEY");
        let value = match node.get("value") {
            Some(value) => self.secret(format!("{path}.value"), value, "keys.key", &wanted),
            None => {
                let reference = self.draft.new_variable(&wanted);
                let note =
                    format!("keys.key is {reference}; Bifrost has made the value and keeps it in its store");
                self.report.approximate(format!("{path}.value"), node, note);
                Some(reference)
            }
        };
        let Some(value) = value else { return };
        members.insert("key".to_owned(), value.into());
        self.limits(node, all, &mut members, used);
        for (name, value) in node.pairs() {
            let key = format!("{path}.{name}");
            match name.as_str() {
                "value" | "provider_configs" | "rate_limit_id" | "budget_id" => {}
                "name" => self.report.exact(key, value, "keys.name"),
                "is_active" => self.report.exact(key, value, "the key is accepted"),
                "expires_at" => match value.text() {
                    Some(text) => {
                        members.insert("expires_at".to_owned(), text.into());
                        self.report.exact(key, value, "keys.expires_at");
                    }
                    None => self.report.ignored(key, value, "it has no value"),
                },
                "id" | "description" => self.report.ignored(key, value, "keys of the file have a name only"),
                "team_id" | "customer_id" | "access_profile_id" => self.report.ignored(key, value, NO_TEAM),
                "calendar_aligned" => {
                    self.report.exact(key, value, "periods of budgets begin at midnight UTC")
                }
                "mcp_configs" => self.report.ignored(key, value, "the gateway is no MCP gateway"),
                _ => self.report.ignored(key, value, NO_SUCH_SETTING),
            }
        }
        self.draft.key(members);
    }

    /// The models that `provider_configs` allows. None: nothing that is imported. Some(None): all.
    fn allowed_models(&mut self, node: &SourceNode, path: &str) -> Option<Option<Vec<String>>> {
        let Some(configs) = node.get("provider_configs") else { return Some(None) };
        let mut models = Vec::new();
        for (index, config) in configs.list().iter().enumerate() {
            let path = format!("{path}.provider_configs[{index}]");
            let source = config.get("provider").and_then(SourceNode::text).unwrap_or_default();
            let found = self.providers.iter().find(|(known, _)| *known == source);
            let Some((_, ours)) = found.cloned() else {
                self.report.ignored(path, config, format!("the provider '{source}' is not imported"));
                continue;
            };
            let allowed = config.get("allowed_models").map(SourceNode::list).unwrap_or_default();
            let allowed: Vec<String> = allowed.iter().filter_map(SourceNode::text).collect();
            let wanted = key_ids(config);
            let may_use = |account: &&ImportedAccount| {
                wanted.is_empty() || account.key_ids.iter().any(|id| wanted.contains(id))
            };
            for ImportedAccount { name, .. } in ours.iter().filter(may_use) {
                if allowed.is_empty() || allowed.iter().any(|model| model == "*") {
                    models.push(format!("{name}/*"));
                } else {
                    models.extend(allowed.iter().map(|model| format!("{name}/{model}")));
                }
            }
            let is_exact = ours.iter().filter(may_use).all(|account| {
                wanted.is_empty()
                    || account.key_ids.len() <= 2
                    || account.key_ids.iter().all(|id| wanted.contains(id))
            });
            for (name, value) in config.pairs() {
                let key = format!("{path}.{name}");
                match name.as_str() {
                    "provider" | "allowed_models" => self.report.exact(key, value, "keys.models"),
                    "key_ids" | "allowed_keys" => {
                        if is_exact {
                            self.report.exact(key, value, "the providers in keys.models");
                        } else {
                            let note = "keys.models: a key of the gateway may use all keys of a provider";
                            self.report.approximate(key, value, note);
                        }
                    }
                    "weight" => {
                        let note = "the strategy of the routing chooses among the providers of a bare name, for all keys alike";
                        self.report.ignored(key, value, note);
                    }
                    "budgets" | "budget_id" | "rate_limit_id" => {
                        self.report.ignored(key, value, "a key has limits for all its providers together");
                    }
                    _ => self.report.ignored(key, value, NO_SUCH_SETTING),
                }
            }
        }
        models.sort();
        models.dedup();
        (!models.is_empty()).then_some(Some(models))
    }

    /// The budget and the rate limit that belong to a key.
    fn limits(&mut self, key: &SourceNode, all: &SourceNode, members: &mut Members, used: &mut Vec<String>) {
        let text = |node: &SourceNode, name: &str| node.get(name).and_then(SourceNode::text);
        let id = text(key, "id");
        let entries = |name: &str| all.get(name).map(SourceNode::list).unwrap_or_default();
        for (index, budget) in entries("budgets").iter().enumerate() {
            let is_named = text(key, "budget_id").is_some_and(|id| text(budget, "id") == Some(id));
            let is_owned = id.is_some() && text(budget, "virtual_key_id") == id;
            if is_named || is_owned {
                let path = format!("governance.budgets[{index}]");
                self.budget(budget, &path, members);
                used.push(path);
            }
        }
        for (index, limit) in entries("rate_limits").iter().enumerate() {
            if text(key, "rate_limit_id").is_some_and(|id| text(limit, "id") == Some(id)) {
                let path = format!("governance.rate_limits[{index}]");
                // Several keys may share a limit, and the report names each key of the source once.
                let is_told = used.contains(&path);
                for (kind, member) in [("request", "rpm"), ("token", "tpm")] {
                    self.rate(limit, &path, (kind, member), members, is_told);
                }
                used.push(path);
            }
        }
    }

    fn budget(&mut self, node: &SourceNode, path: &str, members: &mut Members) {
        let limit = node.get("max_limit").and_then(SourceNode::number);
        let period = match node.get("reset_duration").and_then(SourceNode::text).as_deref() {
            Some("1d" | "24h") => "day",
            Some("1w" | "7d") => "week",
            Some("1M" | "30d") => "month",
            _ => {
                self.report.ignored(path, node, "a budget here is for a day, a week, a month or for ever");
                return;
            }
        };
        let (Some(limit), false) = (limit, members.contains_key("budget_usd")) else {
            self.report.ignored(path, node, "a key has one budget");
            return;
        };
        members.insert("budget_usd".to_owned(), json!(limit));
        members.insert("budget_period".to_owned(), period.into());
        let note = format!(
            "keys.budget_usd of a calendar {period} in UTC; what was spent at Bifrost does not count"
        );
        self.report.approximate(path, node, note);
    }

    /// One half of a rate limit: requests or tokens in a time.
    fn rate(
        &mut self,
        node: &SourceNode,
        path: &str,
        (kind, member): (&str, &str),
        members: &mut Members,
        is_told: bool,
    ) {
        let Some(limit) = node.get(&format!("{kind}_max_limit")) else { return };
        let reset = node.get(&format!("{kind}_reset_duration")).and_then(SourceNode::text);
        let minutes = match reset.as_deref() {
            Some("1m" | "60s") => Some(1),
            Some("1h" | "60m") => Some(60),
            Some("5m") => Some(5),
            _ => None,
        };
        let each = limit.whole(1, 10_000_000).zip(minutes).map(|(limit, minutes)| (limit / minutes, minutes));
        if let Some((each @ 1.., _)) = each {
            members.insert(member.to_owned(), json!(each));
        }
        if is_told {
            return;
        }
        let key = format!("{path}.{kind}_max_limit");
        match each {
            Some((1.., 1)) => self.report.exact(key, limit, format!("keys.{member}")),
            Some((1.., minutes)) => {
                let note = format!("keys.{member}: the average of {minutes} minutes, in each minute");
                self.report.approximate(key, limit, note);
            }
            _ => self.report.ignored(
                key,
                limit,
                "a rate here is for a minute; write a budget for longer times",
            ),
        }
    }
}

/// The keys of a provider that a virtual key may use. Empty = all.
fn key_ids(config: &SourceNode) -> Vec<String> {
    let list = config.get("key_ids").or_else(|| config.get("allowed_keys"));
    let ids: Vec<String> =
        list.map(SourceNode::list).unwrap_or_default().iter().filter_map(SourceNode::text).collect();
    if ids.iter().any(|id| id == "*") { Vec::new() } else { ids }
}
