//! Imports the configuration of LiteLLM's proxy. The facts are those of its documentation (`config_settings.md`) and of its
//! example configurations.

mod budgets;
mod deployments;
mod groups;
mod prices;
mod providers;
mod settings;

use std::collections::BTreeMap;

use super::draft::Draft;
use super::report::{ImportReport, NO_SUCH_SETTING};
use super::yaml::SourceNode;
use groups::Groups;

/// One import.
#[derive(Debug, Default)]
struct Import {
    draft: Draft,
    report: ImportReport,
    groups: Groups,
    /// The settings that several sections may have, and the key that each has its value from.
    chosen: BTreeMap<&'static str, String>,
}

/// Converts a whole file.
pub(super) fn convert(root: &SourceNode) -> (Draft, ImportReport) {
    let mut import = Import::default();
    if let Some(variables) = root.get("environment_variables") {
        import.environment_variables(variables);
    }
    for (section, node) in root.pairs() {
        match section.as_str() {
            "environment_variables" => {}
            "model_list" => {
                for (index, entry) in node.list().iter().enumerate() {
                    import.deployment(index, entry);
                }
            }
            "router_settings" | "litellm_settings" | "general_settings" => import.settings(section, node),
            "include" => import.report.ignored(section, node, "import each included file by itself"),
            "guardrails" | "policies" | "policy_attachments" => {
                import.report.ignored(
                    section,
                    node,
                    "the gateway has no guardrails; put them in front of it",
                );
            }
            "mcp_servers" => import.report.ignored(section, node, "the gateway is no MCP gateway"),
            _ => import.report.ignored(section, node, NO_SUCH_SETTING),
        }
    }
    import.compose_groups();
    (import.draft, import.report)
}

impl Import {
    fn environment_variables(&mut self, node: &SourceNode) {
        for (name, value) in node.pairs() {
            let key = format!("environment_variables.{name}");
            match value.text() {
                None => self.report.ignored(key, value, "it has no value; set the variable yourself"),
                Some(text) if text.contains('}') || text.contains("${") => {
                    self.report.ignored(
                        key,
                        value,
                        "its value has a '}' or a '${'; set the variable yourself",
                    );
                }
                Some(text) => {
                    let note = "the default of each ${NAME}; a variable of the environment wins";
                    self.report.approximate(key, value, note);
                    self.draft.defaults.insert(name.clone(), text);
                }
            }
        }
    }

    /// The text of a value: `os.environ/NAME` becomes a reference, and everything else stays as it is.
    fn reference(&mut self, text: &str) -> String {
        match text.strip_prefix("os.environ/") {
            Some(name) => self.draft.variable(name),
            None => text.to_owned(),
        }
    }
}
