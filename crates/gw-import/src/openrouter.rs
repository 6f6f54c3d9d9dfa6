//! Imports a request or a preset of OpenRouter: its models become an alias. The facts are those of "Model Fallbacks", "Provider
//! Routing" and "Presets" (openrouter.ai/docs/guides/routing, openrouter.ai/docs/features/presets), read in November 2026.

use serde_json::{Value, json};

use super::draft::{Draft, Members};
use super::report::{ImportReport, NO_SUCH_SETTING};
use super::yaml::{Data, SourceNode};

/// The provider.
const PROVIDER: &str = "openrouter";
/// The note of members that OpenRouter reads, and that a client must send itself.
const SENT: &str = "clients send it with each request, and providers.allow_members lets it through; the gateway adds nothing to requests";

/// One import.
#[derive(Debug, Default)]
struct OpenRouterImport {
    draft: Draft,
    report: ImportReport,
    /// The models in order, as OpenRouter names them.
    models: Vec<String>,
    /// The members of a request that reach OpenRouter although they choose an upstream.
    allowed: Vec<&'static str>,
}

/// Converts a whole file.
pub(super) fn convert(root: &SourceNode) -> (Draft, ImportReport) {
    let mut import = OpenRouterImport::default();
    // The answers of OpenRouter's API have the settings of a preset in a member.
    let is_map = |node: &&SourceNode| matches!(node.data, Data::Map(_));
    let wrapped = root.get("config").filter(is_map);
    let (request, path) = wrapped.map_or((root, ""), |config| (config, "config."));
    for (name, node) in request.pairs() {
        import.member(name, node, &format!("{path}{name}"));
    }
    // The members beside the settings.
    for (name, node) in root.pairs().iter().filter(|_| wrapped.is_some()) {
        import.member(name, node, name);
    }
    let slug = root.get("slug").and_then(SourceNode::text);
    import.compose(slug);
    (import.draft, import.report)
}

impl OpenRouterImport {
    fn member(&mut self, name: &str, node: &SourceNode, key: &str) {
        match name {
            "model" => {
                let text = node.text();
                self.add_models(text.into_iter().collect(), true);
                self.report.exact(key, node, "the first target of the alias");
            }
            "models" => {
                let models = node.list().iter().filter_map(SourceNode::text).collect();
                self.add_models(models, false);
                self.report.exact(key, node, "the targets of the alias, in this order");
            }
            "fallbacks" => {
                let models = node.list().iter().filter_map(|entry| entry.get("model")?.text()).collect();
                self.add_models(models, false);
                self.report.exact(key, node, "the last targets of the alias");
            }
            "route" => match node.text().as_deref() {
                Some("fallback") => self.report.exact(key, node, "an alias tries its targets in order"),
                _ => self.report.ignored(key, node, NO_SUCH_SETTING),
            },
            "provider" => self.preferences(key, node),
            "transforms" => self.sent(key, node, "transforms"),
            "plugins" => self.sent(key, node, "plugins"),
            "preset" => {
                let note =
                    "this member names an alias of the gateway; write the preset's settings into an alias";
                self.report.ignored(key, node, note);
            }
            "slug" => self.report.exact(key, node, "the name of the alias"),
            "config" if matches!(node.data, Data::Map(_)) => {}
            _ => {
                let note =
                    "clients send it; an alias can set parameters and a system prompt (docs/presets.md)";
                self.report.ignored(key, node, note);
            }
        }
    }

    /// `model` stands before `models`, wherever it is written.
    fn add_models(&mut self, models: Vec<String>, is_first: bool) {
        let is_name = |model: &String| !model.is_empty() && !model.contains(char::is_whitespace);
        let models: Vec<String> = models.into_iter().filter(is_name).collect();
        self.models.retain(|known| !is_first || !models.contains(known));
        let place = if is_first { 0 } else { self.models.len() };
        for model in models.into_iter().rev() {
            if !self.models.contains(&model) {
                self.models.insert(place, model);
            }
        }
    }

    fn sent(&mut self, key: &str, node: &SourceNode, member: &'static str) {
        self.allow(member);
        self.report.approximate(key, node, SENT);
    }

    fn allow(&mut self, member: &'static str) {
        if !self.allowed.contains(&member) {
            self.allowed.push(member);
        }
    }

    /// `provider`: how OpenRouter chooses among its own providers.
    fn preferences(&mut self, path: &str, node: &SourceNode) {
        self.allow("provider");
        for (name, value) in node.pairs() {
            let key = format!("{path}.{name}");
            match name.as_str() {
                "sort" => self.sort(&key, value),
                "order"
                | "only"
                | "ignore"
                | "allow_fallbacks"
                | "require_parameters"
                | "quantizations"
                | "max_price"
                | "preferred_min_throughput"
                | "preferred_max_latency" => {
                    self.report.approximate(key, value, SENT);
                }
                // A client that forgets the member gives its data away, so the report must not call this taken over.
                "data_collection" | "zdr" | "enforce_distillable_text" => {
                    let note = "the gateway does not enforce it: set it for the account at openrouter.ai, or send `provider` with each \
                                request";
                    self.report.ignored(key, value, note);
                }
                _ => self.report.ignored(key, value, NO_SUCH_SETTING),
            }
        }
    }

    /// `sort`: a word, or an object with `by` and `partition`. Only `partition = "none"` sorts the models of the request, too.
    fn sort(&mut self, key: &str, node: &SourceNode) {
        let by = node.text().or_else(|| node.get("by")?.text());
        let strategy = match by.as_deref() {
            Some("price") => "cheapest",
            Some("throughput") => "throughput",
            Some("latency") => "fastest",
            _ => return self.report.ignored(key, node, NO_SUCH_SETTING),
        };
        if node.get("partition").and_then(SourceNode::text).as_deref() == Some("none") {
            self.draft.set("routing", "strategy", strategy.into());
            let note = format!(
                "routing.strategy = \"{strategy}\" among the models; among OpenRouter's providers {SENT}"
            );
            self.report.approximate(key, node, note);
        } else {
            self.report.approximate(key, node, SENT);
        }
    }

    /// Writes the provider, its models and the alias.
    fn compose(&mut self, slug: Option<String>) {
        let key = self.draft.variable("OPENROUTER_API_KEY");
        let mut members =
            Members::from_iter([("api".to_owned(), "openai".into()), ("api_key".to_owned(), key.into())]);
        if !self.allowed.is_empty() {
            let allowed: Vec<Value> = self.allowed.iter().map(|member| json!(member)).collect();
            members.insert("allow_members".to_owned(), allowed.into());
        }
        let provider = self.draft.provider(PROVIDER, members);
        let mut add = |model: &String| {
            let Some((base, variant)) = strategy_variant(model) else {
                return self.draft.model(&provider, model, &Members::new());
            };
            let upstream = Members::from_iter([("upstream_model".to_owned(), model.as_str().into())]);
            self.draft.model(&provider, &format!("{base}-{variant}"), &upstream)
        };
        let ids: Vec<String> = self.models.iter().map(&mut add).collect();
        // Clients continue to send the name of the model that they know from OpenRouter.
        let first =
            self.models.first().map(|model| strategy_variant(model).map_or(model.as_str(), |(base, _)| base));
        let name =
            slug.filter(|slug| !slug.contains(char::is_whitespace)).or_else(|| first.map(str::to_owned));
        // `@preset/NAME` in a request is the alias NAME.
        let name = name.map(|name| name.strip_prefix("@preset/").map(str::to_owned).unwrap_or(name));
        match name {
            Some(name) if !ids.is_empty() => self.draft.aliases.push((name, ids)),
            _ => self.draft.discover(&provider),
        }
    }
}

/// The model and the variant of a name such as `openai/gpt-4o:nitro`. These words after a name choose a strategy of the gateway, so
/// no id may end in them.
fn strategy_variant(model: &str) -> Option<(&str, &str)> {
    model.rsplit_once(':').filter(|(_, variant)| ["nitro", "floor"].contains(variant))
}
