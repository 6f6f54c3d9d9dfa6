//! The subject of a probe: the provider's settings, and the model with the facts that the catalogue has about it.

use std::collections::BTreeMap;
use std::sync::Arc;

use gw_command::{CommandError, Common};
use gw_config::paths;
use gw_config::setup::{self, Setup};
use gw_engine::catalog::{Catalog, Model, ProviderFacts};
use gw_providers::provider::Provider;
use gw_providers::settings::{Api, ProviderSettings, Timeouts};
use gw_wire::nearest::did_you_mean;
use secrecy::{ExposeSecret, SecretString};

use super::args::ProbeArgs;

/// The shortest secret that is searched for and removed. Shorter values are ordinary words.
const MIN_SECRET_BYTES: usize = 8;
/// The key of the call with a wrong key.
pub(super) const WRONG_KEY: &str = "sk-model-gateway-probe-wrong-key-4f1d";

/// The model of a probe.
#[derive(Clone, Debug)]
pub(super) struct ProbeSubject {
    /// The id in the catalogue, `<provider>/<model>`.
    pub id: String,
    /// The model's name at the provider.
    pub upstream_model: String,
    /// The catalogue's entry, if it has one.
    pub model: Option<Arc<Model>>,
    /// The context in tokens, from the catalogue.
    pub context_length: Option<u64>,
    /// The longest answer in tokens, from the catalogue.
    pub max_output_tokens: Option<u64>,
    /// The model makes vectors instead of text.
    pub embeds: bool,
}

/// The settings of the provider, and the model to probe.
#[derive(Debug)]
pub(super) struct ProbeTarget {
    /// The provider's settings.
    pub settings: ProviderSettings,
    /// The model.
    pub subject: ProbeSubject,
}

impl ProbeTarget {
    /// Finds the provider and the model of the command line, without a call.
    ///
    /// # Errors
    /// Exit code 2: the configuration has no such provider, or no model is known.
    pub(super) fn find(common: &Common, args: &ProbeArgs) -> Result<Self, CommandError> {
        let (settings, catalog) = match &args.base_url {
            Some(url) => unconfigured(args, url)?,
            None => of_file(common, args)?,
        };
        let subject = subject(&settings, &catalog, args)?;
        Ok(Self { settings, subject })
    }

    /// Finds the provider and the model in a configuration, without a call.
    ///
    /// # Errors
    /// Exit code 2: the configuration has no such provider, or no model is known.
    pub(super) fn of_setup(setup: Setup, args: &ProbeArgs) -> Result<Self, CommandError> {
        let (settings, catalog) = configured(setup, &args.provider)?;
        let subject = subject(&settings, &catalog, args)?;
        Ok(Self { settings, subject })
    }

    /// Builds the provider.
    ///
    /// # Errors
    /// Exit code 2: its settings are wrong.
    pub(super) fn provider(&self) -> Result<Provider, CommandError> {
        Provider::build(&self.settings, Timeouts::default())
            .map_err(|problem| CommandError::Usage(problem.to_string()))
    }

    /// The provider with a wrong key. None: it has no key, or its credentials are more than a key.
    pub(super) fn with_wrong_key(&self) -> Option<Provider> {
        if self.settings.api_keys.is_empty() {
            return None;
        }
        let is_credential = |(name, _): &(String, SecretString)| {
            ["authorization", "x-api-key", "api-key"].iter().any(|known| name.eq_ignore_ascii_case(known))
        };
        if self.settings.headers.iter().any(is_credential) {
            return None;
        }
        let api_keys = vec![(SecretString::from(WRONG_KEY.to_owned()), 1)];
        Provider::build(&ProviderSettings { api_keys, ..self.settings.clone() }, Timeouts::default()).ok()
    }

    /// The secrets that no answer may repeat.
    pub(super) fn secrets(&self) -> Vec<String> {
        let keys = self.settings.api_keys.iter().map(|(key, _)| key);
        let headers = self.settings.headers.iter().map(|(_, value)| value);
        let all = keys.chain(headers).map(|secret| secret.expose_secret().to_owned());
        all.chain([WRONG_KEY.to_owned()]).filter(|secret| secret.len() >= MIN_SECRET_BYTES).collect()
    }
}

/// The provider of the file with this name.
fn of_file(common: &Common, args: &ProbeArgs) -> Result<(ProviderSettings, Catalog), CommandError> {
    if args.api.is_some() || args.key_env.is_some() {
        let message = "--api and --key-env describe an endpoint that is not configured; add --base-url URL";
        return Err(CommandError::Usage(message.to_owned()));
    }
    let mut setup = setup::load(common)?;
    setup.demo_if_alone();
    configured(setup, &args.provider)
}

/// The configured provider with this name.
fn configured(setup: Setup, provider: &str) -> Result<(ProviderSettings, Catalog), CommandError> {
    let catalog = setup.catalog(false).map_err(|problems| CommandError::problems(&problems))?;
    let names: Vec<String> = setup.config.providers.iter().map(|provider| provider.name.clone()).collect();
    let found = setup.config.providers.into_iter().find(|configured| configured.name == provider);
    let settings = found.ok_or_else(|| {
        let hint = did_you_mean(provider, names.iter().map(String::as_str));
        let hint = hint.unwrap_or_else(|| format!("the configured providers are {}", names.join(", ")));
        CommandError::Usage(format!("no provider '{provider}' is configured; {hint}"))
    })?;
    Ok((settings, catalog))
}

/// An endpoint of the command line.
fn unconfigured(args: &ProbeArgs, url: &str) -> Result<(ProviderSettings, Catalog), CommandError> {
    let named = |name: &String| Api::named(name).filter(|api| !api.is_demo);
    let api = match &args.api {
        None => Api::of_known_provider(&args.provider).unwrap_or(Api::OPENAI),
        Some(name) => named(name).ok_or_else(|| {
            let known = Api::ALL.iter().filter(|api| !api.is_demo).map(|api| api.as_str());
            CommandError::Usage(format!(
                "--api: '{name}' is not one of {}",
                known.collect::<Vec<_>>().join(", ")
            ))
        })?,
    };
    let mut settings = ProviderSettings::plain(&args.provider, api);
    settings.base_url = Some(url.to_owned());
    if let Some(name) = &args.key_env {
        let key = paths::variable(name).ok_or_else(|| {
            CommandError::Usage(format!("--key-env: the environment variable {name} is not set"))
        })?;
        settings.api_keys.push((SecretString::from(key.trim().to_owned()), 1));
    }
    let facts = [ProviderFacts {
        name: &settings.name,
        api,
        price_multiplier: settings.price_multiplier,
        discovers: true,
    }];
    let documents = setup::documents(None);
    let shipped: Vec<&str> = documents.iter().map(|document| &**document).collect();
    let catalog = Catalog::build(&shipped, &[], &BTreeMap::new(), &facts, &[]).map_err(|problems| {
        CommandError::problems(&problems.iter().map(ToString::to_string).collect::<Vec<_>>())
    })?;
    Ok((settings, catalog))
}

fn subject(
    settings: &ProviderSettings,
    catalog: &Catalog,
    args: &ProbeArgs,
) -> Result<ProbeSubject, CommandError> {
    let own = |model: &&Arc<Model>| *model.provider == *settings.name;
    let models = || catalog.models().iter().filter(own);
    let model = match &args.model {
        Some(name) => {
            let is_named = |model: &&Arc<Model>| {
                *model.id == **name || model.bare_name() == name || *model.upstream_model == **name
            };
            models().find(is_named).cloned()
        }
        None => {
            let price = |model: &&Arc<Model>| model.price_sum().unwrap_or(u128::MAX);
            let cheapest = models().filter(|model| !model.is_fault && model.is_chat()).min_by_key(price);
            let found = cheapest.or_else(|| models().find(|model| !model.is_fault));
            Some(Arc::clone(found.ok_or_else(|| no_model(settings))?))
        }
    };
    Ok(match (model, &args.model) {
        (Some(model), _) => ProbeSubject {
            id: model.id.to_string(),
            upstream_model: model.upstream_model.to_string(),
            context_length: model.context_length,
            max_output_tokens: model.max_output_tokens,
            embeds: args.embeddings || model.is_embedding_only(),
            model: Some(model),
        },
        (None, Some(name)) => {
            let own = name.strip_prefix(&format!("{}/", settings.name)).unwrap_or(name);
            ProbeSubject {
                id: format!("{}/{own}", settings.name),
                upstream_model: own.to_owned(),
                model: None,
                context_length: None,
                max_output_tokens: None,
                embeds: args.embeddings,
            }
        }
        (None, None) => return Err(no_model(settings)),
    })
}

fn no_model(settings: &ProviderSettings) -> CommandError {
    CommandError::Usage(format!(
        "the catalogue has no model of '{0}'; name one: model-gateway probe {0} MODEL",
        settings.name
    ))
}
