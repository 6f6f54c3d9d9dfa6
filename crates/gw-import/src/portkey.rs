//! Imports a config of Portkey, the JSON of its configs and of the header `x-portkey-config`. The facts are those of its "Config
//! Object" (portkey.ai/docs/api-reference/config-object), of `src/types/requestBody.ts` and `src/globals.ts` of
//! github.com/Portkey-AI/gateway and of the pages about caches and load balancing, read in November 2026.

mod providers;
mod settings;

use serde_json::json;

use super::draft::{Draft, Members};
use super::report::{ImportReport, NO_SUCH_SETTING};
use super::yaml::{Data, SourceNode};

/// The alias that stands for the config.
const ALIAS: &str = "portkey";

/// One import.
#[derive(Debug, Default)]
struct PortkeyImport {
    draft: Draft,
    report: ImportReport,
    /// Some targets share the requests by weight.
    is_balanced: bool,
    /// The models of the alias, in order.
    models: Vec<String>,
    /// The providers of targets that take the client's model.
    unnamed: Vec<String>,
    /// The most retries of any target.
    retries: u64,
    has_cache: bool,
}

/// A target's place among the others.
#[derive(Clone, Copy, Debug)]
struct TargetPlace {
    /// Its part of the requests, 0 to 1.
    share: f64,
    /// The target is used when others have failed.
    is_spare: bool,
}

/// The settings that a target takes from the one around it.
#[derive(Clone, Debug, Default)]
struct Inherited {
    model: Option<String>,
}

/// Converts a whole file.
pub(super) fn convert(root: &SourceNode) -> (Draft, ImportReport) {
    let mut import = PortkeyImport::default();
    // The answers of Portkey's API have the config in a member.
    let wrapped = root.get("config").filter(|config| matches!(config.data, Data::Map(_)));
    let (config, path) = wrapped.map_or((root, ""), |config| (config, "config"));
    import.is_balanced = has_balance(config);
    import.target(config, path, TargetPlace { share: 1.0, is_spare: false }, &Inherited::default());
    import.compose(config);
    (import.draft, import.report)
}

/// Finds a member by its name in snake case, with the name as it is written. Portkey takes names in camel case, too.
fn written<'a>(node: &'a SourceNode, name: &str) -> Option<(&'a str, &'a SourceNode)> {
    node.pairs().iter().find(|(known, _)| snake(known) == name).map(|(known, node)| (known.as_str(), node))
}

fn member<'a>(node: &'a SourceNode, name: &str) -> Option<&'a SourceNode> {
    written(node, name).map(|(_, node)| node)
}

fn snake(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

fn text(node: &SourceNode, name: &str) -> Option<String> {
    member(node, name)?.text().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn mode(node: &SourceNode) -> Option<String> {
    text(member(node, "strategy")?, "mode")
}

fn targets(node: &SourceNode) -> &[SourceNode] {
    member(node, "targets").map(SourceNode::list).unwrap_or_default()
}

fn has_balance(node: &SourceNode) -> bool {
    (mode(node).as_deref() == Some("loadbalance") && targets(node).len() > 1)
        || targets(node).iter().any(has_balance)
}

/// The path of a member.
fn at(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

impl PortkeyImport {
    /// Imports a target with the targets in it.
    fn target(&mut self, node: &SourceNode, path: &str, place: TargetPlace, around: &Inherited) {
        let model = member(node, "override_params").and_then(|params| text(params, "model"));
        let inherited = Inherited { model: model.or_else(|| around.model.clone()) };
        let list = targets(node);
        let has_model = inherited.model.is_some() || member(node, "deployment_id").is_some();
        for (name, value) in node.pairs() {
            match snake(name).as_str() {
                "weight" => self.weight(&at(path, name), value, has_model || !list.is_empty()),
                snake => self.setting(snake, value, &at(path, name), !list.is_empty()),
            }
        }
        if list.is_empty() {
            return self.leaf(node, path, place, &inherited);
        }
        let mode = mode(node).unwrap_or_else(|| "single".to_owned());
        let weight = |node: &SourceNode| member(node, "weight").and_then(SourceNode::number).unwrap_or(1.0);
        let sum: f64 = list.iter().map(weight).sum();
        let chosen = Self::chosen(node, &mode);
        for (index, target) in list.iter().enumerate() {
            let path = format!("{}[{index}]", at(path, "targets"));
            let place = match mode.as_str() {
                "loadbalance" if sum > 0.0 => {
                    TargetPlace { share: place.share * weight(target) / sum, ..place }
                }
                "fallback" => TargetPlace { is_spare: place.is_spare || index > 0, ..place },
                _ if chosen == Some(index) => place,
                _ => {
                    let note = "the mode sends its requests to another target";
                    self.report.ignored(path, target, note);
                    continue;
                }
            };
            self.target(target, &path, place, &inherited);
        }
    }

    /// The only target of the modes `single` and `conditional`.
    fn chosen(node: &SourceNode, mode: &str) -> Option<usize> {
        if mode != "conditional" {
            return Some(0);
        }
        let wanted = member(node, "strategy").and_then(|strategy| text(strategy, "default"))?;
        targets(node).iter().position(|target| text(target, "name").as_deref() == Some(&wanted))
    }

    /// Imports a target that calls a provider.
    fn leaf(&mut self, node: &SourceNode, path: &str, place: TargetPlace, inherited: &Inherited) {
        let Some(found) = self.provider(node, path, inherited.model.as_deref()) else { return };
        let Some(upstream) = found.model else {
            self.unnamed.push(found.provider);
            return;
        };
        let mut members = Members::new();
        if let Some(ms) = member(node, "request_timeout").and_then(|node| node.whole(1, 86_400_000)) {
            members.insert("timeouts".to_owned(), json!({ "first_token_ms": ms }));
        }
        if self.is_balanced {
            members.insert("weight".to_owned(), json!(if place.is_spare { 0 } else { percent(place.share) }));
        }
        let id = self.draft.model(&found.provider, &upstream, &members);
        if !self.models.contains(&id) {
            self.models.push(id);
        }
    }

    /// Writes the alias, after all targets are read.
    fn compose(&mut self, root: &SourceNode) {
        if !self.models.is_empty() {
            let note = format!("the alias '{ALIAS}' of {}", self.models.join(", "));
            self.report.exact("targets", member(root, "targets").unwrap_or(root), note);
            self.draft.aliases.push((ALIAS.to_owned(), self.models.clone()));
        }
        if self.is_balanced {
            self.draft.set("routing", "strategy", "round_robin".into());
        }
        if !self.unnamed.is_empty() {
            let note = format!(
                "{} take the model of the request: clients write provider/model, or a bare name, which all providers with this \
                 model share",
                self.unnamed.join(", ")
            );
            self.report.approximate("provider", root, note);
        }
    }

    /// A weight: Portkey's are parts of their sum, and those of models are whole numbers.
    fn weight(&mut self, key: &str, node: &SourceNode, has_model: bool) {
        let note = "models.weight, in hundredths of all weights; each model in turn by its weight, instead of a random choice";
        match node.number() {
            Some(_) if self.is_balanced && has_model => self.report.approximate(key, node, note),
            Some(_) if self.is_balanced => {
                self.report.ignored(key, node, "a weight belongs to a model here, and the target names none");
            }
            Some(_) => self.report.ignored(key, node, "its strategy does not share requests"),
            None => self.report.ignored(key, node, "it is no number"),
        }
    }

    /// `strategy`.
    fn strategy(&mut self, path: &str, node: &SourceNode) {
        let mode = text(node, "mode").unwrap_or_default();
        for (name, value) in node.pairs() {
            let key = at(path, name);
            match snake(name).as_str() {
                "mode" if mode == "fallback" => {
                    let note = "the order of the targets in the alias";
                    if self.is_balanced {
                        let note = "models with weight = 0, which are used when the others fail, in turn instead of in order";
                        self.report.approximate(key, value, note);
                    } else {
                        self.report.exact(key, value, note);
                    }
                    // Without codes every status but success makes Portkey try the next target.
                    if member(node, "on_status_codes").is_none() {
                        self.draft.set("routing", "fallback_on_4xx", json!(true));
                    }
                }
                "mode" if mode == "loadbalance" => {
                    self.report.approximate(key, value, "routing.strategy = \"round_robin\"");
                }
                "mode" if mode == "single" => self.report.exact(key, value, "the first target"),
                "mode" => {
                    let note = "the gateway does not route by the content of requests; the default target is imported";
                    self.report.ignored(key, value, note);
                }
                "on_status_codes" => {
                    let codes: Vec<u64> =
                        value.list().iter().filter_map(|code| code.whole(100, 599)).collect();
                    if codes.iter().any(|code| (400..500).contains(code) && ![408, 429].contains(code)) {
                        self.draft.set("routing", "fallback_on_4xx", json!(true));
                        let note =
                            "routing.fallback_on_4xx = true: all errors of the provider try the next model";
                        self.report.approximate(key, value, note);
                    } else {
                        let note = "408, 429, 5xx and broken connections always try the next model";
                        self.report.approximate(key, value, note);
                    }
                }
                _ => self.report.ignored(key, value, NO_SUCH_SETTING),
            }
        }
    }
}

/// A share as whole hundredths; a share that is not zero has one at least.
fn percent(share: f64) -> u64 {
    if share <= 0.0 {
        return 0;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is bounded")]
    let percent = (share * 100.0).round().clamp(1.0, 10_000.0) as u64;
    percent
}
