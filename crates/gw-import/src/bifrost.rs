//! Imports the `config.json` of Bifrost. The facts are those of its JSON Schema (`transports/config.schema.json` of
//! github.com/maximhq/bifrost), its example configurations and docs.getbifrost.ai, read in November 2026.

mod governance;
mod providers;

use serde_json::{Value, json};

use super::draft::Draft;
use super::known_provider::is_variable_name;
use super::report::{ImportReport, NO_SUCH_SETTING};
use super::yaml::SourceNode;

/// One import.
#[derive(Debug, Default)]
struct BifrostImport {
    draft: Draft,
    report: ImportReport,
    /// Bifrost's name of each imported provider, and the providers that it has become.
    providers: Vec<(String, Vec<ImportedAccount>)>,
    /// The most retries of any provider.
    retries: u64,
}

/// A provider of the result, with the ids and the names of its keys at Bifrost.
#[derive(Clone, Debug)]
struct ImportedAccount {
    name: String,
    key_ids: Vec<String>,
}

/// Converts a whole file.
pub(super) fn convert(root: &SourceNode) -> (Draft, ImportReport) {
    let mut import = BifrostImport::default();
    // Keys name providers, so the providers come first.
    for (name, provider) in root.get("providers").map(SourceNode::pairs).unwrap_or_default() {
        import.provider(name, provider);
    }
    for (section, node) in root.pairs() {
        match section.as_str() {
            "providers" | "$schema" => {}
            "client" => import.client(node),
            "governance" => import.governance(node),
            _ => import.report.ignored(section, node, section_note(section)),
        }
    }
    (import.draft, import.report)
}

/// The reason why a section is left out.
fn section_note(section: &str) -> &'static str {
    match section {
        "config_store" | "logs_store" => {
            "the gateway has a store of its own (store.url); the content of Bifrost's is not taken over"
        }
        "encryption_key" => "the gateway makes its own key for secrets at rest",
        "vector_store" | "local_cache" => "the gateway keeps answers in memory or in Redis (cache.backend)",
        "mcp" => "the gateway is no MCP gateway",
        "plugins" => {
            "the gateway has no plugins; [cache], [telemetry.otlp] and /metrics stand for some of them"
        }
        "framework" => "the catalogue of the gateway has the prices (model-gateway models update)",
        "guardrails_config" => "the gateway has no guardrails; put them in front of it",
        "auth_config" => "people sign in by [identity], and programs by keys of the role admin",
        _ => NO_SUCH_SETTING,
    }
}

/// The text of a value, which may be an object with the name of a variable.
fn text(node: &SourceNode) -> Option<String> {
    let inner = || {
        let named = ["env_var", "ref", "value"].into_iter().filter_map(|key| node.get(key)?.text());
        named.into_iter().find(|text| !text.is_empty())
    };
    node.text().or_else(inner).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The variable that a value names.
fn variable(text: &str) -> Option<&str> {
    text.strip_prefix("env.").filter(|name| is_variable_name(name))
}

impl BifrostImport {
    /// The text of a value that is no secret: `env.NAME` becomes a reference.
    fn reference(&mut self, text: &str) -> String {
        match variable(text) {
            Some(name) => self.draft.variable(name),
            None => text.to_owned(),
        }
    }

    /// A reference to the variable with a secret: its own, or `wanted` for a secret that the file holds itself.
    fn secret(&mut self, key: String, node: &SourceNode, place: &str, wanted: &str) -> Option<String> {
        let Some(text) = text(node) else {
            self.report.ignored(key, node, "it is empty, so no key is sent");
            return None;
        };
        if let Some(name) = variable(&text) {
            self.report.exact(key, node, place);
            return Some(self.draft.variable(name));
        }
        let reference = self.draft.secret(&text, wanted);
        self.report.approximate(key, node, format!("{place}: {reference}; the secret itself is not written"));
        Some(reference)
    }

    /// `client`.
    fn client(&mut self, node: &SourceNode) {
        for (name, value) in node.pairs() {
            let key = format!("client.{name}");
            match name.as_str() {
                "max_request_body_size_mb" => {
                    self.whole(&key, value, (1, 1024), ("server", "body_limit_mib"));
                }
                "log_retention_days" => self.whole(&key, value, (1, 36_500), ("store", "retention_days")),
                "allowed_origins" => self.origins(&key, value),
                "enforce_auth_on_inference" | "enforce_governance_header" => match value.bool() {
                    Some(true) => self.report.exact(key, value, "a gateway with keys always asks for one"),
                    _ => self.report.ignored(key, value, "a gateway with keys always asks for one"),
                },
                "drop_excess_requests" => match value.bool() {
                    Some(true) => {
                        let note = "requests above server.max_in_flight always get 503 at once";
                        self.report.approximate(key, value, note);
                    }
                    _ => {
                        self.report.ignored(key, value, "requests above server.max_in_flight get 503 at once")
                    }
                },
                "enable_logging" | "disable_content_logging" => {
                    let note = "the request log is always on and has no texts; keys.log_payloads is a setting of each key";
                    self.report.approximate(key, value, note);
                }
                "prometheus_labels" | "logging_headers" => {
                    self.report.ignored(key, value, "the labels of /metrics are fixed");
                }
                _ if name.starts_with("mcp_") => {
                    self.report.ignored(key, value, "the gateway is no MCP gateway");
                }
                _ => self.report.ignored(key, value, NO_SUCH_SETTING),
            }
        }
    }

    fn whole(&mut self, key: &str, node: &SourceNode, (min, max): (u64, u64), place: (&'static str, &str)) {
        let (section, member) = place;
        match node.whole(min, max) {
            Some(number) => {
                self.draft.set(section, member, json!(number));
                self.report.exact(key, node, format!("{section}.{member}"));
            }
            None => self.report.ignored(key, node, format!("it is no whole number from {min} to {max}")),
        }
    }

    fn origins(&mut self, key: &str, node: &SourceNode) {
        let origins: Vec<String> = node.list().iter().filter_map(SourceNode::text).collect();
        let is_origin = |origin: &String| {
            let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
            origin == "*" || host.is_some_and(|host| !host.is_empty() && !host.contains(['/', '*', '$']))
        };
        let (kept, left): (Vec<_>, Vec<_>) = origins.into_iter().partition(is_origin);
        self.draft.set("server", "cors_origins", kept.into_iter().map(Value::from).collect());
        if left.is_empty() {
            self.report.exact(key, node, "server.cors_origins");
        } else {
            let note = format!("server.cors_origins without {}, which is no scheme://host", left.join(", "));
            self.report.approximate(key, node, note);
        }
    }
}
