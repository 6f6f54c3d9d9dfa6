//! Resolves the name in a request to models: ids, aliases, bare names, strategy suffixes. Hash lookups, no scans.

use std::collections::HashSet;
use std::sync::Arc;

use super::claude_names::claude_name;
use super::model::Model;
use super::problem::CatalogProblem;
use super::providers::ProviderFacts;
use crate::names_map::NamesMap;
use crate::presets;
use crate::settings::{AliasSettings, Aliases};

/// The models of a requested name.
#[derive(Clone, Copy, Debug)]
pub struct Resolved<'a> {
    /// One model for an id; all models of a bare name, in catalogue order. There is at least one.
    pub models: &'a [Arc<Model>],
    /// The canonical strategy of a `:floor` or `:nitro` suffix.
    pub strategy: Option<&'static str>,
}

/// The suffixes that choose a strategy.
const SUFFIXES: [(&str, &str); 2] = [(":floor", "cheapest"), (":nitro", "throughput")];

/// Splits an id into provider and model name.
pub(super) fn split_id(id: &str) -> Result<(&str, &str), &'static str> {
    let Some((provider, name)) = id.split_once('/') else {
        return Err("an id has the form <provider>/<model_name>");
    };
    // Only the first slash separates: a local server may name a model by its path, as `/models/x.gguf`.
    if provider.trim().is_empty() || name.trim().is_empty() {
        return Err("an id has a provider before its first slash and a model's name behind it");
    }
    if id.chars().any(char::is_control) {
        return Err("an id has no control characters");
    }
    Ok((provider, name))
}

/// Models in catalogue order.
type Models = Vec<Arc<Model>>;

/// The models in catalogue order, with an index of all names.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) models: Models,
    by_id: NamesMap<Arc<str>, usize>,
    by_name: NamesMap<Box<str>, Models>,
    aliases: NamesMap<Box<str>, Models>,
    /// The aliases that have a model, in the order of their names.
    listed: Vec<ListedAlias>,
}

/// An alias as lists show it.
#[derive(Debug)]
pub(super) struct ListedAlias {
    pub(super) name: Box<str>,
    /// A second name of the alias, which the model discovery of Claude Code keeps.
    pub(super) claude_name: Option<Box<str>>,
}

impl Index {
    /// An index of models with unique ids, in catalogue order.
    pub(super) fn new(models: Models) -> Self {
        let mut index = Self::default();
        for (at, model) in models.iter().enumerate() {
            index.by_id.insert(Arc::clone(&model.id), at);
            index.by_name.entry(model.bare_name().into()).or_default().push(Arc::clone(model));
        }
        index.models = models;
        index
    }

    /// Adds the aliases. Their problems go to `problems`.
    pub(super) fn alias(
        &mut self,
        all: &Aliases,
        providers: &[ProviderFacts<'_>],
        problems: &mut Vec<CatalogProblem>,
    ) {
        let mut resolved = NamesMap::with_capacity_and_hasher(all.len(), Default::default());
        // Providers whose model list is not read yet. They may have the missing models.
        let discovering: HashSet<&str> =
            providers.iter().filter(|provider| provider.discovers).map(|provider| provider.name).collect();
        let may_turn_up = |target: &str| match target.split_once('/') {
            Some((provider, _)) => discovering.contains(provider),
            None => !discovering.is_empty(),
        };
        let mut problem = |alias: &str, message: String| {
            problems.push(CatalogProblem::of_alias(alias, message));
        };
        for (alias, AliasSettings { targets, has_claude_name, .. }) in all {
            if alias.trim().is_empty() || alias.chars().any(char::is_control) {
                problem(alias, format!("alias {alias:?} is not a name"));
                continue;
            }
            if self.by_id.contains_key(&**alias) {
                problem(alias, format!("alias '{alias}' hides the model of the same id"));
                continue;
            }
            let mut stands_for = Distinct::default();
            for target in targets {
                if !self.alias_target(alias, target, all, &mut stands_for) && !may_turn_up(target) {
                    problem(alias, missing_target(alias, target, all));
                }
            }
            if stands_for.models.is_empty() {
                continue;
            }
            let claude_name = claude_name(alias).filter(|_| *has_claude_name);
            if let Some(name) = &claude_name {
                let is_taken = all.contains_key(name) || resolved.contains_key(name.as_str());
                if is_taken {
                    let message = format!(
                        "alias '{alias}': Claude Code would list it as '{name}', which is another alias"
                    );
                    problem(alias, message);
                    continue;
                }
                resolved.insert(Box::from(name.as_str()), stands_for.models.clone());
            }
            resolved.insert(Box::from(alias.as_str()), stands_for.models);
            let claude_name = claude_name.map(Box::from);
            self.listed.push(ListedAlias { name: Box::from(alias.as_str()), claude_name });
        }
        self.aliases = resolved;
    }

    /// The aliases that have a model, in the order of their names.
    pub(super) fn listed_aliases(&self) -> &[ListedAlias] {
        &self.listed
    }

    /// The models of an alias or of its second name, in the order of its targets.
    pub(super) fn alias_models(&self, name: &str) -> &[Arc<Model>] {
        self.aliases.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Tells each model the names that stand for it, so that a key's model list can use them.
    pub(super) fn tell_names(&self) {
        let mut names: Vec<Vec<Box<str>>> = vec![Vec::new(); self.models.len()];
        let is_hidden = |name: &str| self.by_id.contains_key(name) || self.aliases.contains_key(name);
        let bare = self.by_name.iter().filter(|(name, _)| !is_hidden(name));
        for (name, models) in bare.chain(&self.aliases) {
            for model in models {
                let place = self.place(&model.id).and_then(|at| names.get_mut(at));
                place.into_iter().for_each(|names| names.push(name.clone()));
            }
        }
        for (model, names) in self.models.iter().zip(names) {
            // The models belong to this catalogue, so nothing has set the names before.
            let _first = model.names.set(names.into());
        }
    }

    /// Adds the models of an alias' target: an id, another alias (one level, so there are no circles), or a bare name.
    /// False if there is no model.
    fn alias_target(&self, alias: &str, target: &str, all: &Aliases, stands_for: &mut Distinct) -> bool {
        let mut add = |name: &str| {
            let models = self.exact(name).or_else(|| self.by_name.get(name).map(Vec::as_slice));
            stands_for.add(models.unwrap_or_default());
            models.is_some()
        };
        match all.get(target) {
            Some(next) if alias != target && !self.by_id.contains_key(target) => {
                next.targets.iter().filter(|name| add(name)).count() > 0
            }
            _ => add(target),
        }
    }

    /// The model of exactly this id.
    pub(super) fn get(&self, id: &str) -> Option<&Arc<Model>> {
        self.models.get(self.place(id)?)
    }

    /// The place of the model with exactly this id.
    pub(super) fn place(&self, id: &str) -> Option<usize> {
        self.by_id.get(id).copied()
    }

    fn exact(&self, id: &str) -> Option<&[Arc<Model>]> {
        self.get(id).map(std::slice::from_ref)
    }

    fn lookup(&self, name: &str) -> Option<&[Arc<Model>]> {
        self.exact(name)
            .or_else(|| self.aliases.get(name).or_else(|| self.by_name.get(name)).map(Vec::as_slice))
    }

    /// Looks up an id, an alias, a bare name, and then the name without a strategy suffix.
    pub(super) fn resolve(&self, name: &str) -> Option<Resolved<'_>> {
        if let Some(models) = self.lookup(name) {
            return Some(Resolved { models, strategy: None });
        }
        // An alias has this name, too. Where there are presets, requests come here without the prefix.
        let name = name.strip_prefix(presets::PREFIX).unwrap_or(name);
        if let Some(models) = self.aliases.get(name) {
            return Some(Resolved { models, strategy: None });
        }
        let (stem, strategy) = SUFFIXES
            .iter()
            .find_map(|(suffix, strategy)| name.strip_suffix(suffix).map(|stem| (stem, *strategy)))?;
        self.lookup(stem).map(|models| Resolved { models, strategy: Some(strategy) })
    }
}

/// The most aliases that the search for a circle visits.
const MAX_STEPS: usize = 64;

/// The reason why an alias' target has no model.
fn missing_target(alias: &str, target: &str, all: &Aliases) -> String {
    let next = all.get(target).filter(|_| target != alias);
    if next.is_some() && leads_to(target, alias, all) {
        return format!(
            "alias '{alias}' stands for '{target}', which leads back to '{alias}': aliases in a circle have no model"
        );
    }
    match next.and_then(|next| next.targets.iter().find(|name| *name != target && all.contains_key(*name))) {
        Some(last) => format!(
            "alias '{alias}' stands for the alias '{target}' of the alias '{last}'; name the models of '{last}'"
        ),
        None => format!("alias '{alias}' stands for '{target}', which no configured provider has"),
    }
}

/// Whether the targets of `from`, their targets and so on reach the alias `to`.
fn leads_to(from: &str, to: &str, all: &Aliases) -> bool {
    let mut open = vec![from];
    let mut seen = HashSet::new();
    while let Some(name) = open.pop().filter(|_| seen.len() < MAX_STEPS) {
        if name == to {
            return true;
        }
        if seen.insert(name)
            && let Some(next) = all.get(name)
        {
            open.extend(next.targets.iter().map(String::as_str));
        }
    }
    false
}

/// Distinct models in the order of their arrival.
#[derive(Default)]
struct Distinct {
    models: Models,
    known: HashSet<Arc<str>>,
}

impl Distinct {
    /// Adds the models that are not there yet.
    fn add(&mut self, more: &[Arc<Model>]) {
        for model in more {
            if self.known.insert(Arc::clone(&model.id)) {
                self.models.push(Arc::clone(model));
            }
        }
    }
}
