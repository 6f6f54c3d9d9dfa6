//! The model of a request whose client named none.

use std::sync::Arc;

use gw_wire::request::fields::{Path, missing};

use super::snapshot::Snapshot;
use crate::auth::Caller;
use crate::catalog::Model;
use crate::error::Result;
use crate::request::ValidatedRequest;

/// Names the model, if the client named none: the first model of the operation's category that the caller may use. A model of
/// the demo comes after all others.
///
/// # Errors
/// The caller may use no model of the category, so the client has to name one.
pub(crate) fn name_usual_model(
    request: &mut ValidatedRequest,
    snapshot: &Snapshot,
    caller: &Caller,
) -> Result<()> {
    let ValidatedRequest::OneShot(request) = request else { return Ok(()) };
    if !request.facts().model.is_empty() {
        return Ok(());
    }
    let category = request.operation().row().category;
    let serves = |model: &&Arc<Model>| model.only_category() == category && caller.may_use(model);
    let provider = |model: &Arc<Model>| snapshot.providers.get(&model.provider);
    let is_demo = |model: &&Arc<Model>| provider(model).is_some_and(|provider| provider.api().is_demo);
    let usual = snapshot.catalog.models().iter().filter(serves).min_by_key(is_demo);
    request.name_model(&usual.ok_or_else(|| missing(&Path::Top("model")))?.id);
    Ok(())
}
