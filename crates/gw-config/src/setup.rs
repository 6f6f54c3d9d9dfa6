//! The setup of a run: the configuration, completed by the providers of the environment, and the parts that are built from it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

use gw_engine::auth::matches;
use gw_engine::catalog::{Catalog, CatalogProblem, Model, ProviderFacts, SHIPPED};
use gw_engine::engine::Deployed;
use gw_engine::response_cache;
use gw_engine::settings::RuleSettings;
use gw_providers::provider::Provider;
use gw_providers::seal::Sealer;
use gw_providers::settings::{Api, ProviderSettings};
use gw_wire::money::Price;

use crate::catalogue_update::{Installed, installed};
use crate::loader;
use crate::settings::{Config, Loaded, Readable, Refused};
use crate::{default_providers, key_strength, paths, preset_names, variable_hints};
use gw_command::{CommandError, Common, first_lines};

/// A configuration without problems, with the providers of the environment when there is no file.
#[derive(Debug)]
pub struct Setup {
    /// The settings.
    pub config: Config,
    /// The file it was read from.
    pub path: Option<PathBuf>,
    /// Notes for the operator, one line each.
    pub notes: Vec<String>,
    /// The documents of the catalogue: the shipped ones, or an update in the data directory.
    pub documents: Vec<Arc<str>>,
}

/// Reads the configuration.
///
/// # Errors
/// Exit code 2 with every problem.
pub fn load(common: &Common) -> Result<Setup, CommandError> {
    read(common).map_err(|problems| {
        let lines: Vec<_> = problems.iter().map(|problem| format!("  {problem}")).collect();
        CommandError::Usage(format!("the configuration cannot be used:\n{}", first_lines(&lines).trim_end()))
    })
}

/// Reads the configuration.
///
/// # Errors
/// Every problem.
pub fn read(common: &Common) -> Result<Setup, Vec<String>> {
    let loaded = loader::load(paths::config_source(common.config.as_deref()));
    loaded.map(complete).map_err(|refused| refused_offline(refused).1)
}

/// Builds all parts that need no network, and returns their problems.
#[must_use]
pub fn offline(loaded: Loaded) -> (Setup, Vec<String>) {
    let mut setup = complete(loaded);
    setup.demo_if_alone();
    let problems = setup.problems(|_| false);
    (setup, problems)
}

/// Does the same as [`offline`] for a configuration with problems. Its own problems come first, then those of its readable
/// parts. None: no part of the configuration could be read.
#[must_use]
pub fn refused_offline(refused: Refused) -> (Option<Setup>, Vec<String>) {
    let mut problems: Vec<String> = refused.problems.iter().map(ToString::to_string).collect();
    let Some(readable) = refused.readable else { return (None, problems) };
    let Readable { loaded, broken_providers } = *readable;
    let mut setup = complete(loaded);
    if broken_providers.is_empty() {
        setup.demo_if_alone();
    }
    // Only the name of a broken provider is known, so it stands in as a provider that may have any model.
    let stand_in = |name: &String| ProviderSettings {
        base_url: Some("http://127.0.0.1".to_owned()),
        discover: true,
        ..ProviderSettings::plain(name, Api::OPENAI)
    };
    setup.config.providers.extend(broken_providers.iter().map(stand_in));
    // A provider whose settings have a problem would have another one when it is built.
    let locations = setup.config.locations.clone();
    let is_reported =
        |name: &str| refused.problems.iter().any(|problem| locations.is_in_provider(name, &problem.path));
    problems.extend(setup.problems(is_reported));
    (Some(setup), problems)
}

/// A note about each model whose provider is not configured.
pub fn unlisted(catalog: &Catalog) -> impl Iterator<Item = String> {
    catalog
        .unlisted()
        .iter()
        .map(|id| format!("models: '{id}' is not listed: its provider is not configured"))
}

fn complete(loaded: Loaded) -> Setup {
    let Loaded { config, path } = loaded;
    let Installed { document, note } = installed(&config);
    let notes = note.into_iter().collect();
    let mut setup = Setup { config, path, notes, documents: documents(document) };
    if setup.path.is_none() {
        let known = known_providers(&setup.documents);
        let (mut providers, notes) = default_providers::providers(&paths::variable);
        for provider in &mut providers {
            // The shipped catalogue has no models of these providers, so their own list is needed.
            provider.discover |= !known.contains(&provider.name);
        }
        // The API may have made providers already.
        providers.retain(|provider| setup.config.providers.iter().all(|known| known.name != provider.name));
        setup.config.providers.extend(providers);
        setup.notes.extend(notes);
    }
    setup
}

impl Setup {
    /// The problems of the providers' settings, of the catalogue with its aliases, and of `[[cache.semantic]]`. Adds notes about
    /// settings that are valid but useless. Leaves out the providers that `is_reported` names.
    fn problems(&mut self, is_reported: impl Fn(&str) -> bool) -> Vec<String> {
        let built = self.config.providers.iter().filter(|settings| !is_reported(&settings.name));
        let mut problems: Vec<String> = built.filter_map(|settings| self.built(settings).err()).collect();
        match self.catalog(false) {
            Ok(catalog) => {
                problems.extend(self.semantic_problems(&catalog));
                self.notes.extend(unlisted(&catalog));
            }
            Err(found) => problems.extend(found),
        }
        self.notes.extend(self.useless_names());
        self.notes.extend(preset_names::notes(&self.config.engine.aliases));
        self.notes.extend(key_strength::note(&self.config.engine.keys));
        self.notes.extend(variable_hints::notes(&self.config.providers));
        problems
    }

    /// Notes about the entries of keys' `models` and about rules that match nothing.
    fn useless_names(&self) -> Vec<String> {
        // The aliases are left out, so that the problem of an alias does not hide the problem of a key.
        let engine = &self.config.engine;
        let facts = self.facts();
        let Ok(catalog) = Catalog::build(&self.documents(), &engine.models, &BTreeMap::new(), &facts, &[])
        else {
            return Vec::new();
        };
        let ids: BTreeSet<&str> = catalog.models().iter().map(|model| &*model.id).collect();
        let discovering: BTreeSet<&str> =
            facts.iter().filter(|fact| fact.discovers).map(|fact| fact.name).collect();
        let fits = |pattern: &str| match pattern.strip_suffix('*') {
            _ if engine.aliases.contains_key(pattern) => true,
            Some(start) => {
                let provider = start.split_once('/').map(|(provider, _)| provider);
                has_start(&ids, start)
                    || has_start(&discovering, start)
                    || provider.is_some_and(|name| discovering.contains(name))
            }
            None => match pattern.split_once('/') {
                _ if catalog.resolve(pattern).is_some() => true,
                Some((provider, _)) => discovering.contains(provider),
                None => !discovering.is_empty(),
            },
        };
        let mut notes = Vec::new();
        for key in &engine.keys {
            for pattern in key.models.iter().flatten().filter(|pattern| !fits(pattern)) {
                notes.push(format!(
                    "keys: the key '{}' allows '{pattern}', but no model of the configured providers has this name",
                    key.name
                ));
            }
        }
        let may_serve = |pattern: &str, providers: &[String]| {
            let is_theirs = |id: &str| {
                let provider = id.split_once('/').map_or(id, |(provider, _)| provider);
                providers.is_empty() || providers.iter().any(|pattern| matches(pattern, provider))
            };
            !discovering.is_empty() || ids.iter().any(|id| matches(pattern, id) && is_theirs(id))
        };
        notes.extend(engine.budgets.iter().filter_map(|rule| self.useless_rule(rule, may_serve)));
        notes
    }

    /// A note about a rule that can match nothing.
    fn useless_rule(
        &self,
        rule: &RuleSettings,
        may_serve: impl Fn(&str, &[String]) -> bool,
    ) -> Option<String> {
        let (engine, content) = (&self.config.engine, &self.config.store.content);
        let has_key = |name: &str| {
            let stored = content.keys.iter().any(|key| key.name == name || key.id == name);
            stored || engine.keys.iter().any(|key| key.name == name) || name.starts_with("sk-gw-")
        };
        // End users and tags of other keys do not count.
        let has_names = |name: &str| {
            let stored =
                content.keys.iter().any(|key| key.trust_attribution && (key.name == name || key.id == name));
            stored
                || engine.keys.iter().any(|key| key.trust_attribution && key.name == name)
                || name.starts_with("sk-gw-")
        };
        let needs_names = !rule.tags.is_empty() || !rule.end_users.is_empty();
        let has_team = |name: &str| content.teams.iter().any(|team| team.id == name);
        let has_provider =
            |pattern: &str| self.config.providers.iter().any(|provider| matches(pattern, &provider.name));
        let none = |names: &[String], fits: &dyn Fn(&str) -> bool| {
            !names.is_empty() && !names.iter().any(|name| fits(name))
        };
        let missing = match () {
            () if none(&rule.teams, &has_team) => ("team", &rule.teams),
            () if none(&rule.keys, &has_key) => ("key", &rule.keys),
            () if needs_names && none(&rule.keys, &has_names) => ("key with trust_attribution", &rule.keys),
            () if none(&rule.models, &|pattern| may_serve(pattern, &[])) => ("model", &rule.models),
            () if none(&rule.providers, &has_provider) => ("provider", &rule.providers),
            () if none(&rule.models, &|pattern| may_serve(pattern, &rule.providers)) => {
                ("model of these providers", &rule.models)
            }
            () => return None,
        };
        let (kind, names) = missing;
        Some(format!(
            "budgets: the rule '{}' can match nothing: the configuration has no {kind} '{}'",
            rule.name,
            names.join("', '")
        ))
    }

    /// The documents of the catalogue as texts.
    #[must_use]
    pub fn documents(&self) -> Vec<&str> {
        self.documents.iter().map(|document| &**document).collect()
    }

    /// The providers as the catalogue sees them.
    fn facts(&self) -> Vec<ProviderFacts<'_>> {
        let facts = self.config.providers.iter().map(|provider| ProviderFacts {
            name: &provider.name,
            api: provider.api,
            price_multiplier: provider.price_multiplier,
            discovers: provider.discover,
        });
        facts.collect()
    }

    /// Adds the demo provider when there is no other provider.
    pub fn demo_if_alone(&mut self) {
        if self.config.providers.is_empty() {
            self.config.providers.push(default_providers::demo());
        }
    }

    /// Builds the providers, which seal their reasoning with `sealer`. Opens no connection.
    ///
    /// # Errors
    /// The problems of each provider.
    pub fn deploy(&self, sealer: &Sealer) -> Result<Vec<Deployed>, Vec<String>> {
        let (mut deployed, mut problems) = (Vec::new(), Vec::new());
        for settings in &self.config.providers {
            match self.built(settings) {
                Ok(provider) => deployed.push(Deployed {
                    provider: Arc::new(provider.with_sealer(sealer.clone())),
                    price_multiplier: settings.price_multiplier,
                    discovers: settings.discover,
                }),
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() { Ok(deployed) } else { Err(problems) }
    }

    /// Builds a provider, or tells its problem after its location.
    fn built(&self, settings: &ProviderSettings) -> Result<Provider, String> {
        let built = Provider::build(settings, self.config.timeouts);
        built.map_err(|problem| self.config.locations.of_provider(&settings.name, problem.to_string()))
    }

    /// Builds the catalogue that the gateway starts with. `all` adds the models of known providers that are not configured.
    ///
    /// # Errors
    /// The problems of the catalogue.
    pub fn catalog(&self, all: bool) -> Result<Catalog, Vec<String>> {
        let mut facts = self.facts();
        let known = if all { known_providers(&self.documents) } else { Vec::new() };
        for name in &known {
            if !facts.iter().any(|fact| fact.name == name) {
                facts.push(ProviderFacts {
                    name,
                    api: Api::of_known_provider(name).unwrap_or(Api::OPENAI),
                    price_multiplier: Price::from_nanos(1_000_000_000),
                    discovers: false,
                });
            }
        }
        let engine = &self.config.engine;
        let built = Catalog::build(&self.documents(), &engine.models, &engine.aliases, &facts, &[]);
        let placed =
            |CatalogProblem { entry, message }| self.config.locations.of_entry(entry.as_ref(), message);
        built.map_err(|problems| problems.into_iter().map(placed).collect())
    }
}

impl Setup {
    /// The problems of the models in `[[cache.semantic]]`.
    #[must_use]
    pub fn semantic_problems(&self, catalog: &Catalog) -> Vec<String> {
        let providers = &self.config.providers;
        let discovers = |name: &str| providers.iter().any(|known| known.discover && known.name == name);
        let problems = response_cache::semantic_problems(&self.config.cache.semantic, catalog, discovers);
        let placed = |(alias, problem): (String, String)| self.config.locations.of_semantic(&alias, &problem);
        problems.into_iter().map(placed).collect()
    }
}

/// Whether one of the names begins with `start`.
fn has_start(names: &BTreeSet<&str>, start: &str) -> bool {
    let mut from = names.range::<str, _>((Bound::Included(start), Bound::Unbounded));
    from.next().is_some_and(|name| name.starts_with(start))
}

/// The documents of the catalogue. `update` replaces the shipped models, except for those of the demo.
#[must_use]
pub fn documents(update: Option<Arc<str>>) -> Vec<Arc<str>> {
    vec![update.unwrap_or_else(|| SHIPPED.into()), gw_providers::demo::demo_catalogue().into()]
}

/// The model of the first command to try: the cheapest chat model, or the first one when no price is known. Models that
/// fail on purpose are left out.
#[must_use]
pub fn model_to_try(catalog: &Catalog) -> Option<String> {
    let chats = |model: &&Arc<Model>| {
        let is_chat = |kinds: &Vec<Box<str>>| kinds.iter().any(|kind| &**kind == "chat");
        !model.is_fault && model.category.as_ref().is_none_or(is_chat)
    };
    let price = |model: &&Arc<Model>| model.price_sum().unwrap_or(u128::MAX);
    catalog.models().iter().filter(chats).min_by_key(price).map(|model| model.id.to_string())
}

/// The providers with models in the catalogue, each once.
fn known_providers(documents: &[Arc<str>]) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Entry {
        id: String,
    }
    let mut names = BTreeMap::new();
    for document in documents {
        for entry in serde_json::from_str::<Vec<Entry>>(document).unwrap_or_default() {
            if let Some((provider, _)) = entry.id.split_once('/') {
                let next = names.len();
                names.entry(provider.to_owned()).or_insert(next);
            }
        }
    }
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_by_key(|(_, place)| *place);
    names.into_iter().map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gw_engine::settings::ModelSettings;
    use gw_testkit::cpu_time::assert_cpu_time;

    use super::{Setup, documents, loader};

    /// A setup with these models of `acme`, with `beta`, which may have any model, and with a key that has these patterns.
    fn setup(models: impl Iterator<Item = String>, patterns: Vec<String>) -> Setup {
        let text = "[[providers]]\nname = \"acme\"\napi = \"openai\"\nbase_url = \"http://127.0.0.1:1\"\n\
                    [[providers]]\nname = \"beta\"\napi = \"openai\"\nbase_url = \"http://127.0.0.1:1\"\ndiscover = true\n\
                    [[keys]]\nname = \"k\"\nkey = \"sk-test-0123456789\"\n\
                    [aliases]\n\"team*\" = \"acme/fast\"\nquick = \"acme/fast\"\n";
        let mut config = loader::parse(text, Path::new("gateway.toml"), &|_| None).unwrap();
        config.engine.models = models.map(|id| ModelSettings { id, ..ModelSettings::default() }).collect();
        config.engine.keys[0].models = Some(patterns);
        Setup { config, path: None, notes: Vec::new(), documents: documents(None) }
    }

    #[test]
    fn a_pattern_without_a_model_gets_a_note() {
        let patterns = [
            ("acme/fast", true),
            ("fast", true),
            ("acme/f*", true),
            ("a*", true),
            ("*", true),
            ("quick", true),
            ("team*", true),
            ("beta/x", true),
            ("beta/x*", true),
            ("b*", true),
            // The models of `beta` are not known yet.
            ("slow", true),
            ("acme/slow", false),
            ("acme/g*", false),
            ("acme/fast-*", false),
            ("betas/*", false),
            ("c*", false),
            ("gamma/x", false),
        ];
        let asked = patterns.iter().map(|(pattern, _)| (*pattern).to_owned()).collect();
        let setup = setup(["acme/fast".to_owned()].into_iter(), asked);
        let useless = patterns.iter().filter(|(_, fits)| !fits).map(|(pattern, _)| {
            format!(
                "keys: the key 'k' allows '{pattern}', but no model of the configured providers has this name"
            )
        });
        assert_eq!(setup.useless_names(), useless.collect::<Vec<_>>());
    }

    #[test]
    fn the_cost_of_a_keys_patterns_grows_as_the_configuration_does() {
        let sized = |count: usize| {
            let patterns = (0..count).map(|at| format!("acme/x{at:06}*")).collect();
            (setup((0..count).map(|at| format!("acme/m{at:06}")), patterns), count)
        };
        let look = |(setup, count): &(Setup, usize)| assert_eq!(setup.useless_names().len(), *count);
        let (small, large) = (sized(500), sized(16_000));
        // Both counts grow by a factor of 32. Quadratic work would grow by a factor of 1,000.
        assert_cpu_time("16,000 patterns of a key", || look(&small), || look(&large), |small| small * 96);
    }
}
