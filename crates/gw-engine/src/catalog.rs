//! The models that the gateway can reach: their facts, their prices, and the names that stand for them.
//!
//! A [`Catalog`] never changes: a reload builds a new one.

mod build;
mod charge_lines;
pub(crate) mod claude_names;
mod codex_list;
mod compare;
mod date;
mod entry;
mod gemini_list;
mod list;
mod measured;
mod messages_list;
pub mod model;
mod names;
pub mod prices;
mod pricing;
mod problem;
mod providers;
pub mod query;
mod shipped;
#[cfg(test)]
mod tests;
mod unit_prices;

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use self::build::Builder;
pub use self::list::{Visible, not_found};
pub use self::model::Model;
use self::names::Index;
pub use self::names::Resolved;
pub use self::problem::{CatalogProblem, ConfiguredEntry};
pub use self::providers::{Discovered, ProviderFacts};
use crate::error::Result;
use crate::settings::{Aliases, ModelSettings};

/// The catalogue file that is part of the program.
pub const SHIPPED: &str = include_str!("../data/catalogue.json");

/// The day of the newest facts in [`SHIPPED`]: the latest `as_of`.
pub const SHIPPED_AS_OF: &str = "2026-11-20";

/// The models of the configured providers.
#[derive(Debug, Default)]
pub struct Catalog {
    index: Index,
    unlisted: Vec<String>,
    /// The body of the most common request: all models, for a caller who may see all.
    everything: OnceLock<Bytes>,
    /// The system prompt in the models that Codex lists.
    codex_instructions: Option<Arc<str>>,
}

impl Catalog {
    /// Builds the catalogue. Order: the `shipped` files, then `overrides` that add a model in file order, then
    /// `discovered` models in the order of the providers. Only models of configured providers are kept.
    ///
    /// # Errors
    /// All problems.
    pub fn build(
        shipped: &[&str],
        overrides: &[ModelSettings],
        aliases: &Aliases,
        providers: &[ProviderFacts<'_>],
        discovered: &[Discovered],
    ) -> std::result::Result<Self, Vec<CatalogProblem>> {
        Self::build_after((&Self::default(), &|_| false), shipped, overrides, aliases, providers, discovered)
    }

    /// As [`Catalog::build`], with the measurements of an earlier catalogue, for the models of the providers that the
    /// function names.
    ///
    /// # Errors
    /// As [`Catalog::build`].
    pub(crate) fn build_after(
        (earlier, is_kept): (&Self, &dyn Fn(&str) -> bool),
        shipped: &[&str],
        overrides: &[ModelSettings],
        aliases: &Aliases,
        providers: &[ProviderFacts<'_>],
        discovered: &[Discovered],
    ) -> std::result::Result<Self, Vec<CatalogProblem>> {
        let mut unreadable = Vec::new();
        let entries = build::parse(shipped, &mut unreadable);
        let mut builder = Builder::new(providers);
        builder.shipped(&entries);
        builder.overrides(overrides);
        builder.discovered(providers, discovered, aliases);
        let mut models = builder.finish();
        for model in models.iter_mut().filter_map(Arc::get_mut) {
            if let Some(known) = earlier.get(&model.id).filter(|known| is_kept(&known.provider)) {
                model.measured = Arc::clone(&known.measured);
                model.health = Arc::clone(&known.health);
            }
        }
        let mut index = Index::new(models);
        let mut problems = unreadable;
        problems.append(&mut builder.problems);
        index.alias(aliases, providers, &mut problems);
        index.tell_names();
        if !problems.is_empty() {
            return Err(problems);
        }
        let unlisted = std::mem::take(&mut builder.unlisted);
        let codex_instructions = earlier.codex_instructions.clone();
        Ok(Self { index, unlisted, everything: OnceLock::new(), codex_instructions })
    }

    /// Sets the system prompt in the models that Codex lists. None: Codex lists none of these models.
    #[must_use]
    pub fn with_codex_instructions(self, codex_instructions: Option<Arc<str>>) -> Self {
        Self { codex_instructions, ..self }
    }

    /// All models, in catalogue order.
    #[must_use]
    pub fn models(&self) -> &[Arc<Model>] {
        &self.index.models
    }

    /// The ids of `[[models]]` entries whose provider is not configured. They are legal, and the log mentions them.
    #[must_use]
    pub fn unlisted(&self) -> &[String] {
        &self.unlisted
    }

    /// The model of exactly this id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Arc<Model>> {
        self.index.get(id)
    }

    /// The models of a requested name: an id, an alias, a bare name, or one of these with a strategy suffix.
    #[must_use]
    pub fn resolve(&self, name: &str) -> Option<Resolved<'_>> {
        self.index.resolve(name)
    }

    /// How many models a provider has.
    #[must_use]
    pub fn count(&self, provider: &str) -> usize {
        self.index.models.iter().filter(|model| &*model.provider == provider).count()
    }

    /// The names of the models and aliases that the caller may use, in the order of the list.
    #[must_use]
    pub fn names(&self, visible: Visible<'_>) -> Vec<String> {
        list::names(&self.index, visible)
    }

    /// The body of `GET /v1/models`: the models, then the aliases. `query` is the raw query string. With `client_version` in
    /// it, the body also has the `models` that Codex reads.
    ///
    /// # Errors
    /// 400 for a paging parameter out of range.
    pub fn list(&self, query: &str, visible: Visible<'_>) -> Result<Bytes> {
        let page = || list::page(&self.index, query, visible, self.codex_instructions.as_deref());
        if !query.is_empty() || visible.is_some() {
            return page();
        }
        if self.index.models.iter().any(|model| model.measured.window().samples > 0) {
            return page();
        }
        if let Some(everything) = self.everything.get() {
            return Ok(everything.clone());
        }
        let everything = page()?;
        Ok(self.everything.get_or_init(|| everything).clone())
    }

    /// The body of `GET /v1/models` in Anthropic's shape: the names for Claude Code, the aliases, then the models. Only
    /// models that can chat are listed. `query` is the raw query string.
    ///
    /// # Errors
    /// 400 for a paging parameter out of range, or a cursor that names no entry.
    pub fn list_for_messages(&self, query: &str, visible: Visible<'_>) -> Result<Bytes> {
        messages_list::page(&self.index, query, visible)
    }

    /// The body of `GET /v1/models/{id}` in Anthropic's shape. `id` is percent-decoded once.
    ///
    /// # Errors
    /// 404 if there is no such model, or the caller may not see it.
    pub fn retrieve_for_messages(&self, id: &str, visible: Visible<'_>) -> Result<Bytes> {
        messages_list::one(&self.index, id, visible)
    }

    /// The body of `GET /v1beta/models` in Google's shape. `query` is the raw query string.
    ///
    /// # Errors
    /// 400 for a paging parameter out of range, or a token that names no entry.
    pub fn list_for_gemini(&self, query: &str, visible: Visible<'_>) -> Result<Bytes> {
        gemini_list::page(&self.index, query, visible)
    }

    /// The body of `GET /v1beta/models/{id}` in Google's shape. `id` is percent-decoded once.
    ///
    /// # Errors
    /// 404 if there is no such model, or the caller may not see it.
    pub fn retrieve_for_gemini(&self, id: &str, visible: Visible<'_>) -> Result<Bytes> {
        gemini_list::one(&self.index, id, visible)
    }

    /// The body of `GET /v1/models/{id}`. `id` is percent-decoded once.
    ///
    /// # Errors
    /// 404 if there is no such model, or the caller may not see it.
    pub fn retrieve(&self, id: &str, visible: Visible<'_>) -> Result<Bytes> {
        list::one(&self.index, id, visible)
    }

    /// The body of `GET /v1/models/compare`. `query` is the raw query string.
    ///
    /// # Errors
    /// 400 unless the query names two to four different models; 404 if one of them is unknown.
    pub fn compare(&self, query: &str, visible: Visible<'_>) -> Result<Bytes> {
        compare::compare(&self.index, query, visible)
    }
}
