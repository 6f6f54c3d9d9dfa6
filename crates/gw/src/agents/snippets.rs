//! The configuration to paste for each program. `YOUR_KEY` stands for the key.

use clap::ValueEnum;
use serde_json::{Value, json};

use super::program::{
    CLAUDE_QUIET, PROVIDER, aider_model, claude_variables, goose_variables, opencode_settings,
};
use super::{Endpoint, KEY};

/// The text that stands for the key.
pub(super) const PLACEHOLDER: &str = "YOUR_KEY";

/// A program that `setup` knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Tool {
    /// OpenAI's Codex: config.toml
    Codex,
    /// Claude Code: shell commands
    Claude,
    /// Claude Code: settings.json
    ClaudeSettings,
    /// Programs with an SDK of OpenAI: shell commands
    Openai,
    /// Programs with an SDK of Anthropic: shell commands
    Anthropic,
    /// aider: shell commands
    Aider,
    /// opencode: opencode.json
    Opencode,
    /// goose: shell commands
    Goose,
}

impl Tool {
    /// The place of the configuration and of the key.
    pub(super) fn place(self) -> String {
        let create = "'model-gateway keys create --name NAME' makes a key";
        let shell = format!(
            "Run these commands in the shell of the program, with a gateway key instead of {PLACEHOLDER}; {create}."
        );
        match self {
            Self::Codex => format!(
                "Add these lines to ~/.codex/config.toml, the first ones above its tables, and put a gateway key into the \
                 environment variable {KEY}; {create}."
            ),
            Self::ClaudeSettings => format!(
                "Add this to ~/.claude/settings.json, with a gateway key instead of {PLACEHOLDER}; {create}."
            ),
            Self::Opencode => format!(
                "Add this to ~/.config/opencode/opencode.json, and put a gateway key into the environment variable {KEY}; \
                 {create}."
            ),
            Self::Claude | Self::Openai | Self::Anthropic | Self::Aider | Self::Goose => shell,
        }
    }

    /// The configuration.
    pub(super) fn snippet(self, endpoint: &Endpoint) -> String {
        match self {
            Self::Codex => codex(endpoint),
            Self::Claude => exports(&claude(endpoint)) + "unset ANTHROPIC_API_KEY\n",
            Self::ClaudeSettings => {
                let variables = claude(endpoint).into_iter();
                let env: serde_json::Map<String, Value> =
                    variables.map(|(name, value)| (name.to_owned(), value.into())).collect();
                format!("{:#}\n", json!({ "env": env }))
            }
            Self::Openai => exports(&[
                ("OPENAI_BASE_URL", endpoint.openai_url()),
                ("OPENAI_API_KEY", PLACEHOLDER.to_owned()),
            ]),
            Self::Anthropic => {
                let variables = [
                    ("ANTHROPIC_BASE_URL", endpoint.origin.clone()),
                    ("ANTHROPIC_API_KEY", PLACEHOLDER.to_owned()),
                ];
                exports(&variables) + "unset ANTHROPIC_AUTH_TOKEN\n"
            }
            Self::Aider => {
                let mut variables = vec![
                    ("OPENAI_API_BASE", endpoint.openai_url()),
                    ("OPENAI_API_KEY", PLACEHOLDER.to_owned()),
                ];
                variables.extend(aider_model(endpoint));
                exports(&variables)
            }
            Self::Opencode => format!("{:#}\n", opencode_settings(endpoint, &format!("{{env:{KEY}}}"))),
            Self::Goose => exports(&goose_variables(endpoint, PLACEHOLDER)),
        }
    }
}

/// The variables of Claude Code, with those that switch off what it sends elsewhere.
fn claude(endpoint: &Endpoint) -> Vec<(&'static str, String)> {
    let mut variables = claude_variables(endpoint, PLACEHOLDER);
    variables.extend(CLAUDE_QUIET.map(|name| (name, "1".to_owned())));
    variables
}

fn codex(endpoint: &Endpoint) -> String {
    let quoted = |text: &str| Value::from(text).to_string();
    let mut text = String::new();
    if let Some(model) = &endpoint.model {
        text += &format!("model = {}\n", quoted(&model.name));
        if let Some(tokens) = model.context {
            text += &format!("model_context_window = {tokens}\n");
        }
    }
    text += &format!(
        "model_provider = \"{PROVIDER}\"\n\n[model_providers.{PROVIDER}]\nname = \"Model Gateway\"\nbase_url = {}\n\
         env_key = \"{KEY}\"\nwire_api = \"responses\"\n",
        quoted(&endpoint.openai_url())
    );
    text
}

fn exports(variables: &[(&str, String)]) -> String {
    variables
        .iter()
        .map(|(name, value)| format!("export {name}='{}'\n", value.replace('\'', "'\\''")))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::AgentModel;
    use super::*;

    const NAME: &str = "odd/it's \"a\" $HOME `model` \\";

    fn endpoint() -> Endpoint {
        let model = AgentModel { name: NAME.to_owned(), context: Some(64_000), max_output: Some(8000) };
        Endpoint { origin: "https://gw.example:4000".to_owned(), model: Some(model) }
    }

    /// The value of a variable after a shell has run the commands.
    fn after(commands: &str, variable: &str) -> String {
        let script = format!("set -eu\n{commands}printf %s \"${{{variable}-}}\"\n");
        let output =
            Command::new("sh").arg("-c").arg(script).env("ANTHROPIC_API_KEY", "other").output().unwrap();
        assert!(output.status.success(), "{commands}\n{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn shell_commands_set_the_variables_of_each_program() {
        for (tool, variable, value) in [
            (Tool::Claude, "ANTHROPIC_BASE_URL", "https://gw.example:4000"),
            (Tool::Claude, "ANTHROPIC_MODEL", NAME),
            (Tool::Claude, "ANTHROPIC_API_KEY", ""),
            (Tool::Claude, "CLAUDE_CODE_MAX_OUTPUT_TOKENS", "8000"),
            (Tool::Claude, "DISABLE_TELEMETRY", "1"),
            (Tool::Openai, "OPENAI_BASE_URL", "https://gw.example:4000/v1"),
            (Tool::Openai, "OPENAI_API_KEY", PLACEHOLDER),
            (Tool::Anthropic, "ANTHROPIC_BASE_URL", "https://gw.example:4000"),
            (Tool::Anthropic, "ANTHROPIC_API_KEY", PLACEHOLDER),
            (Tool::Goose, "OPENAI_HOST", "https://gw.example:4000"),
            (Tool::Goose, "GOOSE_MODEL", NAME),
        ] {
            assert_eq!(after(&tool.snippet(&endpoint()), variable), value, "{tool:?} {variable}");
        }
        assert_eq!(after(&Tool::Aider.snippet(&endpoint()), "AIDER_MODEL"), format!("openai/{NAME}"));
    }

    #[test]
    fn the_configuration_of_codex_is_toml() {
        let document: toml::Table = Tool::Codex.snippet(&endpoint()).parse().unwrap();
        assert_eq!(document["model"].as_str(), Some(NAME));
        assert_eq!(document["model_provider"].as_str(), Some(PROVIDER));
        let provider = &document["model_providers"][PROVIDER];
        assert_eq!(provider["base_url"].as_str(), Some("https://gw.example:4000/v1"));
        assert_eq!(
            (provider["env_key"].as_str(), provider["wire_api"].as_str()),
            (Some(KEY), Some("responses"))
        );
    }

    #[test]
    fn the_settings_files_are_json() {
        let read = |tool: Tool| serde_json::from_str::<Value>(&tool.snippet(&endpoint())).unwrap();
        assert_eq!(read(Tool::ClaudeSettings)["env"]["ANTHROPIC_AUTH_TOKEN"], PLACEHOLDER);
        assert_eq!(read(Tool::ClaudeSettings)["env"]["ANTHROPIC_DEFAULT_HAIKU_MODEL"], NAME);
        let opencode = read(Tool::Opencode);
        assert_eq!(opencode["provider"][PROVIDER]["options"]["apiKey"], "{env:MODEL_GATEWAY_KEY}");
        assert_eq!(opencode["model"], format!("{PROVIDER}/{NAME}"));
    }

    #[test]
    fn every_program_is_told_where_the_key_goes() {
        for tool in Tool::value_variants() {
            let place = tool.place();
            assert!(place.contains(KEY) || place.contains(PLACEHOLDER), "{tool:?}");
            assert!(place.contains("keys create"), "{tool:?}");
        }
    }
}
