//! The names that are drilled, and the candidates of each. The engine's own explanation lists the candidates.

use std::collections::BTreeMap;
use std::sync::Arc;

use gw_command::CommandError;
use gw_engine::catalog::Model;
use gw_engine::explain::RankedCandidate;
use gw_engine::{Caller, Engine, RequestMarks};
use serde::Deserialize;
use serde_json::Value;

use super::client::RequestKind;
use super::fault::Fault;
use super::gateway::DrillGateway;
use crate::models::unknown_model;

/// A name that clients request.
#[derive(Debug)]
pub(super) struct Route {
    /// The name, as clients write it.
    pub name: String,
    /// Whether its models only embed.
    pub embeds: bool,
    /// The candidates, in the order of the plan.
    pub candidates: Vec<Candidate>,
    /// The providers of candidates that take tools.
    with_tools: Vec<Arc<str>>,
}

/// A model that may serve the route.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Candidate {
    /// The catalogue id.
    pub model: String,
    /// The provider.
    pub provider: Arc<str>,
}

impl Route {
    /// The providers of the candidates, each once.
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

    /// Whether this fault of the provider can happen on this route.
    #[must_use]
    pub(super) fn can_have(&self, fault: Fault, provider: &Arc<str>) -> bool {
        let tools = fault != Fault::ToolIndex || self.with_tools.contains(provider);
        tools && (!self.embeds || fault.fits_embeddings())
    }
}

/// A name that is not drilled, and the reason.
pub(super) type Skipped = (String, String);

/// Finds the routes: every alias and every name that several models share. `all` adds every model; `only` replaces them all.
///
/// # Errors
/// Exit code 2 when there is no route.
pub(super) fn find(
    gateway: &DrillGateway,
    only: &[String],
    all: bool,
    routing: Option<&Value>,
) -> Result<(Vec<Route>, Vec<Skipped>), CommandError> {
    let engine = gateway.engine(None)?;
    let names = if only.is_empty() { names(gateway, all)? } else { only.to_vec() };
    let (mut routes, mut skipped) = (Vec::new(), Vec::new());
    for name in names {
        match route(gateway, &engine, &name, routing) {
            Ok(route) => routes.push(route),
            Err(error) if only.is_empty() => skipped.push((name, error.to_string())),
            Err(error) => return Err(CommandError::Usage(error.to_string())),
        }
    }
    if routes.is_empty() {
        return Err(CommandError::Usage(
            "nothing to drill: the configuration has no alias, and no two models share a name; --all drills every model by \
             its id"
                .to_owned(),
        ));
    }
    Ok((routes, skipped))
}

fn names(gateway: &DrillGateway, all: bool) -> Result<Vec<String>, CommandError> {
    let setup = gateway.setup();
    let catalog = setup.catalog(false).map_err(|problems| CommandError::problems(&problems))?;
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

/// The reason why a name has no candidates.
#[derive(Debug, thiserror::Error)]
enum RouteError {
    #[error("{}", .0.join("\n"))]
    Catalogue(Vec<String>),
    #[error("{0}")]
    Refused(String),
    #[error("the explanation of the route cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
}

/// # Errors
/// When the name has no candidates.
fn route(
    gateway: &DrillGateway,
    engine: &Engine,
    name: &str,
    routing: Option<&Value>,
) -> Result<Route, RouteError> {
    let catalog = gateway.setup().catalog(false).map_err(RouteError::Catalogue)?;
    let resolved = catalog.resolve(name);
    let is_any = |is: fn(&Model) -> bool| {
        resolved.as_ref().is_none_or(|resolved| resolved.models.iter().any(|model| is(model)))
    };
    let chats = is_any(Model::is_chat);
    if !chats && !is_any(Model::is_embedding) {
        return Err(RouteError::Refused("a drill sends chats and embeddings only".to_owned()));
    }
    let asked = |ask: RequestKind| candidates(engine, ask, name, routing);
    let candidates = asked(if chats {
        RequestKind::Chat { stream: true, tools: false }
    } else {
        RequestKind::Embeddings
    })?;
    let with_tools = if chats {
        asked(RequestKind::Chat { stream: true, tools: true }).unwrap_or_default()
    } else {
        Vec::new()
    };
    let with_tools = with_tools.into_iter().map(|candidate| candidate.provider).collect();
    Ok(Route { name: name.to_owned(), embeds: !chats, candidates, with_tools })
}

fn candidates(
    engine: &Engine,
    ask: RequestKind,
    name: &str,
    routing: Option<&Value>,
) -> Result<Vec<Candidate>, RouteError> {
    let explanation = engine.explain(&Caller::operator(), &RequestMarks::default(), ask.body(name, routing));
    let explanation =
        explanation.map_err(|error| RouteError::Refused(unknown_model(error.code(), &error.message)))?;
    let candidate = |RankedCandidate { model, .. }| Candidate {
        model: model.id.to_string(),
        provider: Arc::clone(&model.provider),
    };
    Ok(explanation.candidates.into_iter().map(candidate).collect())
}
