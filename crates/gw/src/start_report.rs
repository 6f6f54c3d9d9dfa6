//! The log lines of a start: the configuration file, the data directory, and the reason for each provider that is on without
//! a configuration file.

use std::collections::BTreeSet;
use std::path::Path;

use gw_command::CommandError;
use gw_config::setup::{self, Setup};
use gw_config::{key_strength, opened_members};
use gw_providers::presets;
use gw_providers::settings::ProviderSettings;

use crate::{certificate_times, local_servers};

/// The outcome of the search for model servers on this machine.
#[derive(Debug)]
pub enum ServerSearch {
    /// Not searched, because the configuration file lists the providers.
    Configured,
    /// Not searched, because of `--no-discover`.
    SwitchedOff,
    /// Not searched, because the program does not run in a terminal. A service then has the same providers at every start.
    NoTerminal,
    /// These servers were found and are on.
    Done(Vec<ProviderSettings>),
}

impl ServerSearch {
    /// Whether model servers were found.
    #[must_use]
    pub fn has_found(&self) -> bool {
        matches!(self, Self::Done(found) if !found.is_empty())
    }
}

/// Logs the facts about this start.
///
/// # Errors
/// Exit code 2 with the problems of the catalogue.
pub fn log(setup: &Setup, search: &ServerSearch, data: &Path) -> Result<(), CommandError> {
    let catalog = setup.catalog(false).map_err(|problems| CommandError::problems(&problems))?;
    let weak_keys = key_strength::note(&setup.config.engine.keys);
    let opened = opened_members::notes(&setup.config.providers);
    let notes = setup.notes.iter().cloned().chain(setup::unlisted(&catalog));
    let mut logged = BTreeSet::new();
    let certificate = setup.config.server.tls.as_ref().and_then(certificate_times::note);
    for note in notes.chain(weak_keys).chain(opened).chain(certificate) {
        // A check of the file together with the entries of the API has left its notes already.
        if logged.insert(note.clone()) {
            tracing::warn!("{note}");
        }
    }
    match &setup.path {
        Some(path) => tracing::info!("configuration: {}", path.display()),
        None => {
            tracing::info!(
                "configuration: none (--config and MODEL_GATEWAY_CONFIG are not set, and this directory has no gateway.toml)"
            )
        }
    }
    tracing::info!(
        "data directory: {} (set server.data_dir or MODEL_GATEWAY_DATA_DIR to change it)",
        data.display()
    );
    for line in providers(&setup.config.providers, search) {
        tracing::info!("{line}");
    }
    let names: Vec<_> = setup.config.providers.iter().map(|provider| provider.name.as_str()).collect();
    tracing::info!(providers = names.join(" "), models = catalog.models().len(), "starting");
    Ok(())
}

/// Names the store of the keys. The address of a database server is not shown, because it can hold a password.
#[must_use]
pub fn store_name(setup: &Setup, data: &Path) -> String {
    match &setup.config.store.url {
        Some(_) => "the store at store.url".to_owned(),
        None => data.join("gateway.db").display().to_string(),
    }
}

/// A line for each provider that is on without a configuration file, for the search, and for the demo provider.
fn providers(on: &[ProviderSettings], search: &ServerSearch) -> Vec<String> {
    let found: &[ProviderSettings] = match search {
        ServerSearch::Configured => return Vec::new(),
        ServerSearch::Done(found) => found,
        ServerSearch::SwitchedOff | ServerSearch::NoTerminal => &[],
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
        ServerSearch::SwitchedOff => {
            Some("did not search for model servers on this machine, because of --no-discover".to_owned())
        }
        ServerSearch::NoTerminal => Some(
            "did not search for model servers on this machine, because standard input or output is not a terminal"
                .to_owned(),
        ),
        ServerSearch::Done(found) if found.is_empty() => {
            Some(format!("found no model server on this machine (ports {})", local_servers::ports()))
        }
        ServerSearch::Done(_) | ServerSearch::Configured => None,
    });
    lines.push(if on.iter().any(|provider| provider.name == DEMO) {
        "provider 'demo' is on, because no other provider is: it answers without a network".to_owned()
    } else {
        "provider 'demo' is off, because another provider is on; to have both, write a gateway.toml with a [[providers]] \
         entry for each (demo needs only name = \"demo\")"
            .to_owned()
    });
    lines
}

const DEMO: &str = "demo";

#[cfg(test)]
mod tests {
    use gw_config::default_providers;
    use gw_providers::settings::Api;

    use super::*;

    fn server(name: &str, url: &str) -> ProviderSettings {
        ProviderSettings { base_url: Some(url.to_owned()), ..ProviderSettings::plain(name, Api::OPENAI) }
    }

    #[test]
    fn a_found_server_is_named_with_its_address_and_demo_is_off() {
        let vllm = server("vllm", "http://127.0.0.1:8000/v1");
        let openai = ProviderSettings::plain("openai", Api::OPENAI);
        let lines = providers(&[openai, vllm.clone()], &ServerSearch::Done(vec![vllm]));
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert_eq!(lines[0], "provider 'openai' is on: OPENAI_API_KEY is set");
        assert_eq!(lines[1], "provider 'vllm' is on: a model server answers at http://127.0.0.1:8000/v1");
        assert!(
            lines[2].starts_with("provider 'demo' is off") && lines[2].contains("name = \"demo\""),
            "{lines:?}"
        );
    }

    #[test]
    fn a_search_that_found_nothing_or_was_not_made_is_logged() {
        let demo = [default_providers::demo()];
        let lines = providers(&demo, &ServerSearch::Done(Vec::new()));
        assert_eq!(lines[0], "found no model server on this machine (ports 11434, 8000, 8080, 1234)");
        assert!(lines[1].starts_with("provider 'demo' is on"), "{lines:?}");
        assert!(providers(&demo, &ServerSearch::NoTerminal)[0].ends_with("is not a terminal"));
        assert!(providers(&demo, &ServerSearch::SwitchedOff)[0].ends_with("--no-discover"));
        assert!(providers(&demo, &ServerSearch::Configured).is_empty());
    }
}
