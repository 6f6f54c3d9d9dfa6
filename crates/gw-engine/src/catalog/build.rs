//! Builds the catalogue: shipped facts, overrides field by field, discovered models. It reports all problems at once.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use gw_providers::model_rules::{ModelRules, Thinks};
use gw_providers::settings::{Api, TimeoutOverrides};
use gw_routing::health::Health;
use gw_wire::money::Price;

use super::entry::{Provenance, render};
use super::model::{Dimensions, Modalities, Model, Performance, Scores};
use super::names::split_id;
use super::prices::Prices;
use super::problem::CatalogProblem;
use super::providers::{Discovered, ProviderFacts};
use super::{pricing, shipped};
use crate::settings::{Aliases, ModelSettings, PricingSettings};

/// An entry before its prices are final.
struct ModelDraft<'a> {
    model: Model,
    pricing: pricing::PriceDraft,
    multiplier: Price,
    provenance: Provenance<'a>,
}

/// Collects entries in catalogue order.
pub(super) struct Builder<'a> {
    multipliers: HashMap<&'a str, Price>,
    apis: HashMap<&'a str, Api>,
    drafts: Vec<ModelDraft<'a>>,
    places: HashMap<Arc<str>, usize>,
    /// Ids of `[[models]]` whose provider is not configured.
    pub(super) unlisted: Vec<String>,
    pub(super) problems: Vec<CatalogProblem>,
}

impl<'a> Builder<'a> {
    /// An empty builder.
    pub(super) fn new(providers: &[ProviderFacts<'a>]) -> Self {
        Self {
            multipliers: providers
                .iter()
                .map(|provider| (provider.name, provider.price_multiplier))
                .collect(),
            apis: providers.iter().map(|provider| (provider.name, provider.api)).collect(),
            drafts: Vec::new(),
            places: HashMap::new(),
            unlisted: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Adds the shipped entries of configured providers.
    pub(super) fn shipped(&mut self, entries: &'a [shipped::ShippedEntry<'a>]) {
        for entry in entries {
            let Some((provider, name)) = self.checked(&entry.id, "catalogue entry") else { continue };
            let Some(&multiplier) = self.multipliers.get(provider) else { continue };
            if self.places.contains_key(&*entry.id) {
                let message = format!("catalogue entry '{}' is there twice", entry.id);
                self.problems.push(CatalogProblem::of_document(message));
                continue;
            }
            let pricing = pricing::PriceDraft::shipped(&entry.pricing).unwrap_or_else(|error| {
                let message = format!("catalogue entry '{}': pricing: {error}", entry.id);
                self.problems.push(CatalogProblem::of_document(message));
                pricing::PriceDraft::default()
            });
            let mut model = blank(&entry.id, provider, entry.upstream_model.as_deref().unwrap_or(name));
            fill(&mut model, entry);
            let license = entry.license_source.as_deref();
            let provenance =
                Provenance { pricing: Some(&entry.pricing), scores: Some(&entry.quality_scores), license };
            self.add(ModelDraft { model, pricing, multiplier, provenance });
        }
    }

    /// Adds the `[[models]]` entries, or overrides existing models with them.
    pub(super) fn overrides(&mut self, overrides: &[ModelSettings]) {
        let mut seen = HashSet::new();
        for set in overrides {
            let Some((provider, name)) = self.checked(&set.id, "model") else { continue };
            if !seen.insert(&*set.id) {
                let message = format!("model '{}' is there twice", set.id);
                self.problems.push(CatalogProblem::of_model(&set.id, message));
                continue;
            }
            let Some(&multiplier) = self.multipliers.get(provider) else {
                self.unlisted.push(set.id.clone());
                continue;
            };
            if !self.places.contains_key(&*set.id) {
                self.add(bare(&set.id, provider, name, multiplier));
            }
            let place = self.places.get(&*set.id).copied();
            if let Some(draft) = place.and_then(|at| self.drafts.get_mut(at)) {
                draft.apply(set);
            }
        }
    }

    /// Adds the models that a provider lists and no entry describes, in the order of the configured providers. Blank
    /// and overlong names are skipped, because the operator cannot mend them. A model with an entry is not added; its
    /// entry takes the context length if it has none. A name that is an alias stays one.
    pub(super) fn discovered(
        &mut self,
        providers: &[ProviderFacts<'_>],
        discovered: &[Discovered],
        aliases: &Aliases,
    ) {
        for facts in providers {
            let provider = facts.name;
            let of_provider =
                self.drafts.iter().enumerate().filter(|(_, draft)| *draft.model.provider == *provider);
            let covered: HashMap<Arc<str>, usize> =
                of_provider.map(|(at, draft)| (Arc::clone(&draft.model.upstream_model), at)).collect();
            let lists = discovered.iter().filter(|(of, _)| of == provider);
            for listed in lists.flat_map(|(_, models)| models) {
                let id = format!("{provider}/{}", listed.name);
                let upstream = listed.upstream_name.as_deref().unwrap_or(&listed.name);
                let known = self.places.get(&*id).or_else(|| covered.get(upstream)).copied();
                if let Some(draft) = known.and_then(|at| self.drafts.get_mut(at)) {
                    draft.model.context_length = draft.model.context_length.or(listed.context_length);
                } else if id.len() <= MAX_DISCOVERED_ID_BYTES
                    && split_id(&id).is_ok()
                    && !(facts.api.names_models_in_urls && leads_elsewhere(&listed.name))
                    && !aliases.contains_key(&id)
                {
                    let mut draft = bare(&id, provider, upstream, facts.price_multiplier);
                    draft.model.context_length = listed.context_length;
                    draft.model.category = listed.only_category.map(|category| vec![category.into()]);
                    self.add(draft);
                }
            }
        }
    }

    /// The models in catalogue order, ready to be shown.
    pub(super) fn finish(&mut self) -> Vec<Arc<Model>> {
        let mut models = Vec::with_capacity(self.drafts.len());
        for mut draft in std::mem::take(&mut self.drafts) {
            let id = &draft.model.id;
            let problem = |found: &str| CatalogProblem::of_model(id, format!("model '{id}': {found}"));
            match draft.pricing.finish(draft.multiplier) {
                Ok(prices) => draft.model.prices = prices,
                Err(found) => self.problems.push(problem(&found)),
            }
            self.problems.extend(impossible(&draft.model).map(problem));
            let api = self.apis.get(&*draft.model.provider);
            if api.is_some_and(|api| api.names_models_in_urls) && leads_elsewhere(&draft.model.upstream_model)
            {
                let found =
                    "upstream_model is a part of the provider's URLs, and has '.' or '..' between slashes";
                self.problems.push(problem(found));
            }
            let declared = draft.model.lists_feature("reasoning");
            draft.model.rules = api.map(|api| {
                ModelRules::of(api.rules, &draft.model.upstream_model, &draft.model.id)
                    .with_declared_reasoning(declared)
            });
            draft.model.reasons_unasked = reasons_unasked(&draft.model);
            let date = draft.provenance.pricing.and_then(|pricing| pricing.as_of.as_deref());
            draft.model.priced_as_of = date.map(Arc::from);
            limit(&mut draft.model);
            render(&mut draft.model, draft.provenance);
            models.push(Arc::new(draft.model));
        }
        models
    }

    fn add(&mut self, draft: ModelDraft<'a>) {
        self.places.insert(Arc::clone(&draft.model.id), self.drafts.len());
        self.drafts.push(draft);
    }

    fn checked<'i>(&mut self, id: &'i str, what: &str) -> Option<(&'i str, &'i str)> {
        let problem = |found| CatalogProblem::of_model(id, format!("{what} '{id}': {found}"));
        split_id(id).map_err(|found| self.problems.push(problem(found))).ok()
    }
}

/// Whether a name as a part of a URL's path would lead to another path. No encoding keeps a URL from reading dots so.
fn leads_elsewhere(name: &str) -> bool {
    name.split('/').any(|segment| matches!(segment, "." | ".."))
}

/// The longest discovered model id, in bytes. Requests may not name longer ones.
const MAX_DISCOVERED_ID_BYTES: usize = 256;

impl ModelDraft<'_> {
    fn apply(&mut self, set: &ModelSettings) {
        let model = &mut self.model;
        if let Some(upstream) = &set.upstream_model {
            model.upstream_model = upstream.as_str().into();
        }
        replace(&mut model.name, set.name.as_deref().map(Box::from));
        replace(&mut model.description, set.description.as_deref().map(Box::from));
        let texts = |list: &Vec<String>| list.iter().map(|text| Box::from(text.as_str())).collect::<Vec<_>>();
        model.category = set.category.as_ref().map(texts).or(model.category.take());
        model.features = set.features.as_ref().map(texts).or(model.features.take());
        model.context_length = set.context_length.or(model.context_length);
        model.max_output_tokens = set.max_output_tokens.or(model.max_output_tokens);
        model.max_tools = set.max_tools.or(model.max_tools);
        if set.modalities_input.is_some() || set.modalities_output.is_some() {
            let modalities = model.modalities.get_or_insert_default();
            replace(&mut modalities.input, set.modalities_input.as_ref().map(texts));
            replace(&mut modalities.output, set.modalities_output.as_ref().map(texts));
        }
        if set.license.is_some() {
            model.license = set.license.as_deref().map(Box::from);
            self.provenance.license = None;
        }
        if set.pricing != PricingSettings::default() {
            self.pricing.apply(&set.pricing);
            self.provenance.pricing = None;
        }
        let [overall, code, math, reasoning] = set.quality_scores;
        if set.quality_scores.iter().any(Option::is_some) {
            let old = model.scores;
            model.scores = Scores {
                overall: overall.or(old.overall),
                code: code.or(old.code),
                math: math.or(old.math),
                reasoning: reasoning.or(old.reasoning),
            };
            self.provenance.scores = None;
        }
        let old = model.performance;
        model.performance = Performance {
            availability: set.availability.or(old.availability),
            latency_p50_ms: set.latency_p50_ms.or(old.latency_p50_ms),
            latency_p99_ms: set.latency_p99_ms.or(old.latency_p99_ms),
        };
        if let Some(choice) = &set.embedding_dimensions {
            model.dimensions = dimensions(choice);
        }
        model.timeouts = set.timeouts;
        model.prompt_cache = set.prompt_cache;
        model.weight = set.weight.unwrap_or(model.weight);
    }
}

/// Whether a model reasons unasked: by its row or, if the row does not say it, by its features.
fn reasons_unasked(model: &Model) -> bool {
    let row = model.rules.filter(|rules| rules.thinks != Thinks::Unknown && !rules.is_declared_to_reason());
    row.map_or_else(|| model.lists_feature("reasoning"), |row| row.reasons_unasked())
}

/// Fills in limits from the model's row of rules if neither the configuration nor the provider's list has them.
fn limit(model: &mut Model) {
    let Some(rules) = model.rules else { return };
    model.context_length = model.context_length.or(rules.context_tokens());
    let within = |answer: u64| model.context_length.map_or(answer, |context| answer.min(context));
    model.max_output_tokens = model.max_output_tokens.or_else(|| rules.max_output_tokens().map(within));
}

fn replace<T>(place: &mut T, with: Option<T>) {
    if let Some(with) = with {
        *place = with;
    }
}

/// An entry without facts.
fn bare<'a>(id: &str, provider: &str, name: &str, multiplier: Price) -> ModelDraft<'a> {
    let (pricing, provenance) = (pricing::PriceDraft::default(), Provenance::default());
    ModelDraft { model: blank(id, provider, name), pricing, multiplier, provenance }
}

impl Model {
    /// A model that stands in the records of requests which name no model of the catalogue.
    pub(crate) fn stand_in(id: &str, provider: &str, prices: Option<Prices>) -> Self {
        Self { prices, ..blank(id, provider, id) }
    }
}

fn blank(id: &str, provider: &str, upstream_model: &str) -> Model {
    Model {
        id: id.into(),
        provider: provider.into(),
        upstream_model: upstream_model.into(),
        rules: None,
        reasons_unasked: false,
        name: id.split_once('/').map_or(id, |(_, name)| name).into(),
        description: "".into(),
        category: None,
        context_length: None,
        max_output_tokens: None,
        max_tools: None,
        modalities: None,
        features: None,
        license: None,
        prices: None,
        priced_as_of: None,
        performance: Performance::default(),
        measured: Arc::default(),
        // Replicas draw different jitter, so that they do not probe at the same time.
        health: Arc::new(Health::seeded(rand::random())),
        weight: 1,
        scores: Scores::default(),
        dimensions: None,
        open_weights: None,
        release_date: None,
        knowledge_cutoff: None,
        deprecation_date: None,
        is_fault: false,
        timeouts: TimeoutOverrides::default(),
        prompt_cache: None,
        names: OnceLock::new(),
        answer_names: OnceLock::new(),
        entry: Bytes::new(),
        id_end: 0,
        performance_at: 0..0,
        entry_end: Bytes::new(),
        revision: 0,
    }
}

fn fill(model: &mut Model, entry: &shipped::ShippedEntry<'_>) {
    replace(&mut model.name, entry.name.as_deref().map(Box::from));
    replace(&mut model.description, entry.description.as_deref().map(Box::from));
    model.category.clone_from(&entry.category);
    model.context_length = entry.context_length;
    model.max_output_tokens = entry.max_output_tokens;
    model.max_tools = entry.max_tools;
    model.modalities = entry
        .modalities
        .as_ref()
        .map(|known| Modalities { input: known.input.clone(), output: known.output.clone() });
    model.features.clone_from(&entry.features);
    model.license.clone_from(&entry.license);
    let prior = entry.performance;
    model.performance = Performance {
        availability: prior.availability,
        latency_p50_ms: prior.latency_p50_ms,
        latency_p99_ms: prior.latency_p99_ms,
    };
    let scores = &entry.quality_scores;
    model.scores =
        Scores { overall: scores.overall, code: scores.code, math: scores.math, reasoning: scores.reasoning };
    model.dimensions = match &entry.embedding_dimensions {
        None => None,
        Some(shipped::ShippedDimensions::Native(size)) => Some(Dimensions::Native(*size)),
        Some(shipped::ShippedDimensions::Choice(choice)) => dimensions(choice),
    };
    model.open_weights = entry.open_weights;
    model.release_date.clone_from(&entry.release_date);
    model.knowledge_cutoff.clone_from(&entry.knowledge_cutoff);
    model.deprecation_date.clone_from(&entry.deprecation_date);
    model.is_fault = entry.fault;
}

/// Two numbers are a range, any other count is a set, and none means that there is no choice.
fn dimensions(choice: &[u32]) -> Option<Dimensions> {
    match *choice {
        [] => None,
        [a, b] => Some(Dimensions::Range(a.min(b), a.max(b))),
        _ => Some(Dimensions::Set(choice.to_vec())),
    }
}

fn impossible(model: &Model) -> impl Iterator<Item = &'static str> + use<> {
    let Performance { availability, latency_p50_ms, latency_p99_ms } = model.performance;
    let Scores { overall, code, math, reasoning } = model.scores;
    let zero = match &model.dimensions {
        Some(Dimensions::Native(size)) => *size == 0,
        Some(Dimensions::Set(set)) => set.contains(&0),
        Some(Dimensions::Range(least, _)) => *least == 0,
        None => false,
    };
    let latencies = [latency_p50_ms, latency_p99_ms].into_iter().flatten();
    [
        (zero, "embedding_dimensions contains 0"),
        (model.upstream_model.is_empty(), "upstream_model is empty"),
        (
            availability.is_some_and(|percent| !(0.0..=100.0).contains(&percent)),
            "performance.availability is not a percentage",
        ),
        (
            latencies.into_iter().any(|ms| !ms.is_finite() || ms < 0.0),
            "performance.latency is not a number of milliseconds",
        ),
        (
            [overall, code, math, reasoning].into_iter().flatten().any(|score| !score.is_finite()),
            "quality_scores contains what is not a number",
        ),
    ]
    .into_iter()
    .filter_map(|(broken, problem)| broken.then_some(problem))
}

/// Parses the catalogue files. An unreadable file is a problem, not a panic.
pub(super) fn parse<'a>(
    texts: &[&'a str],
    problems: &mut Vec<CatalogProblem>,
) -> Vec<shipped::ShippedEntry<'a>> {
    let mut entries = Vec::new();
    for text in texts {
        match serde_json::from_str::<Vec<shipped::ShippedEntry<'a>>>(text) {
            Ok(more) => entries.extend(more),
            Err(error) => problems.push(CatalogProblem::of_document(format!("catalogue file: {error}"))),
        }
    }
    entries
}
