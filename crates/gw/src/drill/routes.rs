//! The names that are drilled, and who is in the plan of each: what the engine itself explains.

use std::collections::BTreeMap;
use std::sync::Arc;

use gw_engine::explain::RankedCandidate;
use gw_engine::{Caller, Engine};
use serde_json::Value;

use super::client::Ask;
use super::fault::Fault;
use super::stage::Stage;
use crate::cli::Stop;
use crate::models::unknown_model;

/// A name that clients ask for.
#[derive(Debug)]
pub(super) struct Route {
    /// As clients write it.
    pub name: String,
    /// All that its models do is embed.
    pub embeds: bool,
    /// In the order of the plan.
    pub candidates: Vec<Candidate>,
    /// Providers of candidates that can be given tools.
    with_tools: Vec<Arc<str>>,
}

/// Who may serve it.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// Catalogue id.
    pub model: String,
    /// Its provider.
    pub provider: Arc<str>,
}

impl Route {
    /// The providers in its plan, each once.
    #[must_use]
    pub(super) fn providers(&self) -> Vec<Arc<str>> {
        let mut providers: Vec<Arc<str>> = Vec::new();
        for candidate in &self.candidates {
            if !providers.contains(&candidate.provider) {
                providers.push(Arc::clone(&candidate.provider));
            }
        }
        providers
    }

    /// Whether this fault can happen to its clients.
    #[must_use]
    pub(super) fn can_have(&self, fault: Fault, provider: &Arc<str>) -> bool {
        let tools = fault != Fault::ToolIndex || self.with_tools.contains(provider);
        tools && (!self.embeds || fault.fits_embeddings())
    }
}

/// A name that is not drilled, and why.
pub(super) type Skipped = (String, String);

/// Every alias, every name of several models, with `all` every model; with `only` these names and no other.
///
/// # Errors
/// Exit code 2 when there is none.
pub(super) fn find(
    stage: &Stage,
    only: &[String],
    all: bool,
    routing: Option<&Value>,
) -> Result<(Vec<Route>, Vec<Skipped>), Stop> {
    let engine = stage.engine(None)?;
    let names = if only.is_empty() { names(stage, all)? } else { only.to_vec() };
    let (mut routes, mut skipped) = (Vec::new(), Vec::new());
    for name in names {
        match route(stage, &engine, &name, routing) {
            Ok(route) => routes.push(route),
            Err(why) if only.is_empty() => skipped.push((name, why)),
            Err(why) => return Err(Stop::Usage(why)),
        }
    }
    if routes.is_empty() {
        return Err(Stop::Usage(
            "nothing to drill: the configuration has no alias, and no two models share a name; --all drills every model by \
             its id"
                .to_owned(),
        ));
    }
    Ok((routes, skipped))
}

fn names(stage: &Stage, all: bool) -> Result<Vec<String>, Stop> {
    let setup = stage.setup();
    let catalog = setup.catalog(false).map_err(|problems| Stop::Usage(problems.join("\n")))?;
    let aliases = &setup.config.engine.aliases;
    let mut names: Vec<String> = aliases.keys().cloned().collect();
    let mut shared = BTreeMap::<&str, usize>::new();
    for model in catalog.models() {
        *shared.entry(model.bare_name()).or_default() += 1;
    }
    let shared = shared.into_iter().filter(|(name, count)| *count > 1 && !aliases.contains_key(*name));
    names.extend(shared.map(|(name, _)| name.to_owned()));
    if all {
        names.extend(catalog.models().iter().map(|model| model.id.to_string()));
    }
    Ok(names)
}

/// # Errors
/// Why nobody can be asked by this name.
fn route(stage: &Stage, engine: &Engine, name: &str, routing: Option<&Value>) -> Result<Route, String> {
    let catalog = stage.setup().catalog(false).map_err(|problems| problems.join("\n"))?;
    let chats =
        catalog.resolve(name).is_none_or(|resolved| resolved.models.iter().any(|model| model.is_chat()));
    let asked = |ask: Ask| candidates(engine, ask, name, routing);
    let candidates = asked(if chats { Ask::Chat { stream: true, tools: false } } else { Ask::Embeddings })?;
    let with_tools =
        if chats { asked(Ask::Chat { stream: true, tools: true }).unwrap_or_default() } else { Vec::new() };
    let with_tools = with_tools.into_iter().map(|candidate| candidate.provider).collect();
    Ok(Route { name: name.to_owned(), embeds: !chats, candidates, with_tools })
}

fn candidates(
    engine: &Engine,
    ask: Ask,
    name: &str,
    routing: Option<&Value>,
) -> Result<Vec<Candidate>, String> {
    let explanation = engine.explain(&Caller::operator(), ask.body(name, routing));
    let explanation = explanation.map_err(|error| unknown_model(error.code(), &error.message))?;
    let candidate = |RankedCandidate { model, .. }| Candidate {
        model: model.id.to_string(),
        provider: Arc::clone(&model.provider),
    };
    Ok(explanation.candidates.into_iter().map(candidate).collect())
}
