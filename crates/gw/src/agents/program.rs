//! The programs that `run` knows: how each learns the address, the key and the model.

use std::env;
use std::ffi::OsStr;
use std::path::Path;

use clap::ValueEnum;
use serde_json::{Value, json};

use super::{AgentModel, Endpoint, KEY};

/// The name of the gateway in the configuration of a program.
pub(super) const PROVIDER: &str = "model-gateway";

/// A program that `run` knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Program {
    /// OpenAI's Codex
    Codex,
    /// Claude Code
    Claude,
    /// aider
    Aider,
    /// opencode
    Opencode,
    /// goose
    Goose,
    /// Any program that reads OPENAI_BASE_URL or ANTHROPIC_BASE_URL
    Other,
}

/// The changes to the environment and the arguments of a program. It has no `Debug`, because it holds a key.
pub(super) struct LaunchPlan {
    /// Arguments before those of the user. They hold no secret.
    pub(super) arguments: Vec<String>,
    /// Environment variables to set.
    pub(super) set: Vec<(&'static str, String)>,
    /// Environment variables to remove, because they lead past the gateway.
    pub(super) unset: Vec<&'static str>,
}

/// Sends Claude Code to a cloud instead of `ANTHROPIC_BASE_URL`.
const CLAUDE_CLOUDS: [&str; 5] = [
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_MANTLE",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS",
];

/// The models behind Claude Code's names `fable`, `opus`, `sonnet` and `haiku`; it uses the last one in the background.
pub(super) const CLAUDE_MODELS: [&str; 5] = [
    "ANTHROPIC_MODEL",
    "ANTHROPIC_DEFAULT_FABLE_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
];

/// Switches off what Claude Code sends elsewhere. `CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC` would do it with one variable, but
/// it also switches off the model discovery (Claude Code documentation, "Environment variables", August 2026).
pub(super) const CLAUDE_QUIET: [&str; 5] = [
    "DISABLE_TELEMETRY",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_AUTOUPDATER",
    "DISABLE_FEEDBACK_COMMAND",
    "CLAUDE_CODE_DISABLE_FEEDBACK_SURVEY",
];

/// Headers that Claude Code adds to its requests, a line each.
const CLAUDE_HEADERS: &str = "ANTHROPIC_CUSTOM_HEADERS";

/// The longest answer that Claude Code asks for from a model that it does not know.
const CLAUDE_MAX_OUTPUT_TOKENS: u64 = 32_000;

/// Switches off what Codex sends elsewhere.
pub(super) const CODEX_QUIET: [&str; 3] =
    ["analytics.enabled=false", "feedback.enabled=false", "check_for_update_on_startup=false"];

impl Program {
    /// The program of a command by the name of its file.
    pub(super) fn of(command: &OsStr) -> Self {
        match Path::new(command).file_stem().and_then(OsStr::to_str) {
            Some("codex") => Self::Codex,
            Some("claude") => Self::Claude,
            Some("aider") => Self::Aider,
            Some("opencode") => Self::Opencode,
            Some("goose") => Self::Goose,
            _ => Self::Other,
        }
    }

    /// Whether the program learns the limits of its model from its settings.
    pub(super) fn takes_limits(self) -> bool {
        matches!(self, Self::Codex | Self::Claude | Self::Opencode)
    }

    /// The plan for a start. `is_quiet` switches off telemetry, error reports and updates.
    /// `headers` are for the programs that can send some.
    pub(super) fn plan(
        self,
        endpoint: &Endpoint,
        key: &str,
        is_quiet: bool,
        headers: &[(&'static str, String)],
    ) -> LaunchPlan {
        match self {
            Self::Codex => codex(endpoint, key, is_quiet, headers),
            Self::Claude => claude(endpoint, key, is_quiet, headers),
            Self::Aider => aider(endpoint, key, is_quiet),
            Self::Opencode => opencode(endpoint, key, is_quiet),
            Self::Goose => goose(endpoint, key),
            Self::Other => other(endpoint, key),
        }
    }
}

/// Codex takes settings as `-c name=value`, with TOML values. A JSON string is a TOML string, too.
fn codex(endpoint: &Endpoint, key: &str, is_quiet: bool, headers: &[(&'static str, String)]) -> LaunchPlan {
    let quoted = |text: &str| Value::from(text).to_string();
    let headers_toml: Vec<String> =
        headers.iter().map(|(name, value)| format!("\"{name}\"={}", quoted(value))).collect();
    let provider = format!(
        "model_providers.{PROVIDER}={{name=\"Model Gateway\",base_url={},env_key=\"{KEY}\",wire_api=\"responses\"{}}}",
        quoted(&endpoint.openai_url()),
        if headers.is_empty() {
            String::new()
        } else {
            format!(",http_headers={{{}}}", headers_toml.join(","))
        }
    );
    let mut settings = vec![format!("model_provider=\"{PROVIDER}\""), provider];
    if let Some(model) = &endpoint.model {
        settings.push(format!("model={}", quoted(&model.name)));
        settings.extend(model.context.map(|tokens| format!("model_context_window={tokens}")));
    }
    if is_quiet {
        settings.extend(CODEX_QUIET.map(str::to_owned));
    }
    LaunchPlan {
        arguments: settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]).collect(),
        set: vec![(KEY, key.to_owned())],
        unset: Vec::new(),
    }
}

fn claude(endpoint: &Endpoint, key: &str, is_quiet: bool, headers: &[(&'static str, String)]) -> LaunchPlan {
    let mut set = claude_variables(endpoint, key);
    if !headers.is_empty() {
        let given = env::var(CLAUDE_HEADERS).ok().filter(|given| !given.trim().is_empty());
        let own = headers.iter().map(|(name, value)| format!("{name}: {value}"));
        let lines: Vec<String> = given.into_iter().chain(own).collect();
        set.push((CLAUDE_HEADERS, lines.join("\n")));
    }
    if is_quiet {
        set.extend(CLAUDE_QUIET.map(|name| (name, "1".to_owned())));
    }
    // A second key would be sent in another header, and the gateway refuses two different keys.
    let unset = ["ANTHROPIC_API_KEY"].into_iter().chain(CLAUDE_CLOUDS).collect();
    LaunchPlan { arguments: Vec::new(), set, unset }
}

/// The variables that connect Claude Code to the gateway.
pub(super) fn claude_variables(endpoint: &Endpoint, key: &str) -> Vec<(&'static str, String)> {
    let mut set = vec![
        ("ANTHROPIC_BASE_URL", endpoint.origin.clone()),
        ("ANTHROPIC_AUTH_TOKEN", key.to_owned()),
        ("CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY", "1".to_owned()),
    ];
    if let Some(AgentModel { name, context, max_output }) = &endpoint.model {
        set.extend(CLAUDE_MODELS.map(|variable| (variable, name.clone())));
        let most = max_output.unwrap_or(CLAUDE_MAX_OUTPUT_TOKENS).min(CLAUDE_MAX_OUTPUT_TOKENS);
        set.push(("CLAUDE_CODE_MAX_OUTPUT_TOKENS", most.to_string()));
        set.extend(context.map(|tokens| ("CLAUDE_CODE_MAX_CONTEXT_TOKENS", tokens.to_string())));
    }
    set
}

fn aider(endpoint: &Endpoint, key: &str, is_quiet: bool) -> LaunchPlan {
    let mut set = vec![("OPENAI_API_BASE", endpoint.openai_url()), ("OPENAI_API_KEY", key.to_owned())];
    set.extend(aider_model(endpoint));
    if is_quiet {
        set.extend(AIDER_QUIET.map(|name| (name, "false".to_owned())));
    }
    LaunchPlan { arguments: Vec::new(), set, unset: Vec::new() }
}

const AIDER_QUIET: [&str; 2] = ["AIDER_ANALYTICS", "AIDER_CHECK_UPDATE"];

/// The variable with aider's model. `openai/` chooses the client of OpenAI's API.
pub(super) fn aider_model(endpoint: &Endpoint) -> Option<(&'static str, String)> {
    endpoint.model.as_ref().map(|model| ("AIDER_MODEL", format!("openai/{}", model.name)))
}

fn opencode(endpoint: &Endpoint, key: &str, is_quiet: bool) -> LaunchPlan {
    let mut set = vec![("OPENCODE_CONFIG_CONTENT", opencode_settings(endpoint, key).to_string())];
    if is_quiet {
        set.push(("OPENCODE_DISABLE_AUTOUPDATE", "1".to_owned()));
    }
    LaunchPlan { arguments: Vec::new(), set, unset: Vec::new() }
}

/// The configuration of opencode.
pub(super) fn opencode_settings(endpoint: &Endpoint, key: &str) -> Value {
    let mut models = serde_json::Map::new();
    if let Some(AgentModel { name, context, max_output }) = &endpoint.model {
        let limit =
            context.zip(*max_output).map(|(context, output)| json!({ "context": context, "output": output }));
        let limit = limit.map(|limit| json!({ "name": name, "limit": limit }));
        models.insert(name.clone(), limit.unwrap_or_else(|| json!({ "name": name })));
    }
    let mut settings = json!({
        "$schema": "https://opencode.ai/config.json",
        "provider": {
            PROVIDER: {
                "npm": "@ai-sdk/openai-compatible",
                "name": "Model Gateway",
                "options": { "baseURL": endpoint.openai_url(), "apiKey": key },
                "models": models,
            },
        },
    });
    if let (Some(model), Some(members)) = (&endpoint.model, settings.as_object_mut()) {
        members.insert("model".to_owned(), format!("{PROVIDER}/{}", model.name).into());
    }
    settings
}

fn goose(endpoint: &Endpoint, key: &str) -> LaunchPlan {
    LaunchPlan { arguments: Vec::new(), set: goose_variables(endpoint, key), unset: Vec::new() }
}

/// The variables that connect goose to the gateway.
pub(super) fn goose_variables(endpoint: &Endpoint, key: &str) -> Vec<(&'static str, String)> {
    let mut set = vec![
        ("GOOSE_PROVIDER", "openai".to_owned()),
        ("OPENAI_HOST", endpoint.origin.clone()),
        ("OPENAI_BASE_PATH", "v1/chat/completions".to_owned()),
        ("OPENAI_API_KEY", key.to_owned()),
    ];
    set.extend(endpoint.model.as_ref().map(|model| ("GOOSE_MODEL", model.name.clone())));
    set
}

/// The variables that the SDKs of OpenAI and Anthropic read.
fn other(endpoint: &Endpoint, key: &str) -> LaunchPlan {
    let mut set = vec![
        ("OPENAI_BASE_URL", endpoint.openai_url()),
        ("OPENAI_API_BASE", endpoint.openai_url()),
        ("OPENAI_API_KEY", key.to_owned()),
        ("ANTHROPIC_BASE_URL", endpoint.origin.clone()),
        ("ANTHROPIC_API_KEY", key.to_owned()),
    ];
    if let Some(model) = &endpoint.model {
        set.extend(["OPENAI_MODEL", "ANTHROPIC_MODEL"].map(|name| (name, model.name.clone())));
    }
    LaunchPlan { arguments: Vec::new(), set, unset: vec!["ANTHROPIC_AUTH_TOKEN"] }
}

#[cfg(test)]
mod tests;
