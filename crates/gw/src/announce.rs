//! What a start tells the operator: each provider that is on without a configuration and the reason, and the data directory.

use std::path::Path;

use gw_providers::presets;
use gw_providers::settings::ProviderSettings;

use crate::cli::Stop;
use crate::local;
use crate::setup::{self, Setup};

/// The outcome of the search for model servers on this machine.
#[derive(Debug)]
pub enum Search {
    /// Not searched: there is a configuration file, and it names the providers.
    Configured,
    /// Not searched: `--no-discover`.
    SwitchedOff,
    /// Not searched: nobody sits at a terminal, so a start always has the same providers.
    NoTerminal,
    /// These servers were found and are on now.
    Done(Vec<ProviderSettings>),
}

impl Search {
    /// Whether model servers were found.
    #[must_use]
    pub fn has_found(&self) -> bool {
        matches!(self, Self::Done(found) if !found.is_empty())
    }
}

/// Logs what the operator should know about this start.
///
/// # Errors
/// Exit code 2 with what is wrong with the catalogue.
pub fn say(setup: &Setup, search: &Search, data: &Path) -> Result<(), Stop> {
    let catalog = setup.catalog(false).map_err(|problems| Stop::Usage(problems.join("\n")))?;
    for note in setup.notes.iter().cloned().chain(setup::unlisted(&catalog)) {
        tracing::warn!("{note}");
    }
    match &setup.path {
        Some(path) => tracing::info!("configuration: {}", path.display()),
        None => {
            tracing::info!("configuration: none (no --config, no MODEL_GATEWAY_CONFIG, no gateway.toml here)")
        }
    }
    tracing::info!(
        "data directory: {} (server.data_dir or MODEL_GATEWAY_DATA_DIR chooses another one)",
        data.display()
    );
    for line in providers(&setup.config.providers, search) {
        tracing::info!("{line}");
    }
    let names: Vec<_> = setup.config.providers.iter().map(|provider| provider.name.as_str()).collect();
    tracing::info!(providers = names.join(" "), models = catalog.models().len(), "starting");
    Ok(())
}

/// Where keys are kept, in words for the terminal: never the address of a server, which can hold a password.
#[must_use]
pub fn store(setup: &Setup, data: &Path) -> String {
    match &setup.config.store.url {
        Some(_) => "the store of [store] url".to_owned(),
        None => data.join("gateway.db").display().to_string(),
    }
}

/// A line for each provider that is on without a configuration, and for what is off because of it.
fn providers(on: &[ProviderSettings], search: &Search) -> Vec<String> {
    let found: &[ProviderSettings] = match search {
        Search::Configured => return Vec::new(),
        Search::Done(found) => found,
        Search::SwitchedOff | Search::NoTerminal => &[],
    };
    let mut lines = Vec::new();
    for provider in on.iter().filter(|provider| provider.name != DEMO) {
        let name = &provider.name;
        if found.iter().any(|server| server.name == *name) {
            let url = provider.base_url.as_deref().unwrap_or_default();
            lines.push(format!("provider '{name}' is on: a model server answers at {url}"));
        } else if let Some(variable) = presets::find(name).and_then(|preset| preset.key_variable) {
            lines.push(format!("provider '{name}' is on: {variable} is set"));
        }
    }
    lines.extend(match search {
        Search::SwitchedOff => {
            Some("not searched for model servers on this machine: --no-discover".to_owned())
        }
        Search::NoTerminal => Some(
            "not searched for model servers on this machine: standard input or output is not a terminal"
                .to_owned(),
        ),
        Search::Done(found) if found.is_empty() => {
            Some(format!("no model server found on this machine (ports {})", local::ports()))
        }
        Search::Done(_) | Search::Configured => None,
    });
    lines.push(if on.iter().any(|provider| provider.name == DEMO) {
        "provider 'demo' is on: it answers offline, because no other provider is on".to_owned()
    } else {
        "provider 'demo' is off, because another provider is on; to have both, write a gateway.toml with [[providers]] \
         entries for both: name = \"demo\" is all that demo needs"
            .to_owned()
    });
    lines
}

const DEMO: &str = "demo";

#[cfg(test)]
mod tests {
    use gw_providers::settings::Api;

    use super::*;
    use crate::automatic;

    fn server(name: &str, url: &str) -> ProviderSettings {
        ProviderSettings { base_url: Some(url.to_owned()), ..automatic::plain(name, Api::OpenAi) }
    }

    #[test]
    fn a_found_server_is_named_with_its_address_and_demo_is_said_to_be_off() {
        let vllm = server("vllm", "http://127.0.0.1:8000/v1");
        let openai = automatic::plain("openai", Api::OpenAi);
        let lines = providers(&[openai, vllm.clone()], &Search::Done(vec![vllm]));
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert_eq!(lines[0], "provider 'openai' is on: OPENAI_API_KEY is set");
        assert_eq!(lines[1], "provider 'vllm' is on: a model server answers at http://127.0.0.1:8000/v1");
        assert!(
            lines[2].starts_with("provider 'demo' is off") && lines[2].contains("name = \"demo\""),
            "{lines:?}"
        );
    }

    #[test]
    fn a_search_that_found_nothing_or_was_not_made_says_so() {
        let demo = [automatic::demo()];
        let lines = providers(&demo, &Search::Done(Vec::new()));
        assert_eq!(lines[0], "no model server found on this machine (ports 11434, 8000, 8080, 1234)");
        assert!(lines[1].starts_with("provider 'demo' is on"), "{lines:?}");
        assert!(providers(&demo, &Search::NoTerminal)[0].ends_with("is not a terminal"));
        assert!(providers(&demo, &Search::SwitchedOff)[0].ends_with("--no-discover"));
        assert!(providers(&demo, &Search::Configured).is_empty());
    }
}
