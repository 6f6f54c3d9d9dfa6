//! Chooses the targets of an alias whose conditions a request meets.

use std::sync::Arc;

use crate::catalog::Model;
use crate::error::{Error, Kind, Result};
use crate::plan::PlanRequest;
use crate::presets::Preset;
use crate::request::ValidatedRequest;
use crate::settings::{ModelFeature, TargetMatch};

/// The models of the targets whose condition holds, then those of the targets without a condition. One of both may be empty.
///
/// # Errors
/// `no_matching_target`.
pub(super) fn targets(preset: &Preset, planner: &PlanRequest<'_>) -> Result<[Vec<Arc<Model>>; 2]> {
    let mut found: [Vec<Arc<Model>>; 2] = Default::default();
    let [matching, others] = &mut found;
    for target in &preset.settings.conditional {
        let list = match &target.condition {
            None => &mut *others,
            Some(condition) if holds(condition, planner) => &mut *matching,
            Some(_) => continue,
        };
        for model in planner
            .snapshot
            .catalog
            .resolve(&target.model)
            .map(|resolved| resolved.models)
            .unwrap_or_default()
        {
            if !list.iter().any(|known| known.id == model.id) {
                list.push(Arc::clone(model));
            }
        }
    }
    if found.iter().all(Vec::is_empty) {
        let message = format!("No target of '{}' is for this request.", preset.used.name);
        return Err(Error::new(Kind::NoMatchingTarget, message));
    }
    Ok(found)
}

fn holds(condition: &TargetMatch, planner: &PlanRequest<'_>) -> bool {
    let PlanRequest { caller, request, headers: given, attribution, .. } = planner;
    let TargetMatch { headers, tags, keys, teams, features, .. } = condition;
    let has_header = |(name, value): &(String, String)| {
        let mut given = given.iter().filter(|(given, _)| given == name.as_str());
        given.any(|(_, given)| given.as_bytes() == value.as_bytes())
    };
    let has_tag =
        |tag: &String| attribution.is_some_and(|names| names.tags.iter().any(|given| **given == **tag));
    let is_key = |key: &String| **key == **caller.key_id() || **key == **caller.key_name();
    let is_team = |team: &String| caller.team().is_some_and(|given| **given == **team);
    headers.iter().all(has_header)
        && (tags.is_empty() || tags.iter().any(has_tag))
        && (keys.is_empty() || keys.iter().any(is_key))
        && (teams.is_empty() || teams.iter().any(is_team))
        && features.iter().all(|feature| needs(request, *feature))
        && has_length(condition, request)
}

fn has_length(condition: &TargetMatch, request: &ValidatedRequest) -> bool {
    let TargetMatch { prompt_tokens_above, prompt_tokens_below, .. } = condition;
    if prompt_tokens_above.is_none() && prompt_tokens_below.is_none() {
        return true;
    }
    let tokens = request.estimated_prompt_tokens();
    prompt_tokens_above.is_none_or(|above| tokens > above)
        && prompt_tokens_below.is_none_or(|below| tokens < below)
}

/// Whether a request needs a feature of its model.
fn needs(request: &ValidatedRequest, feature: ModelFeature) -> bool {
    let ValidatedRequest::Chat(request) = request else { return false };
    let needs = &request.needs;
    match feature {
        ModelFeature::FunctionCalling => needs.tools,
        ModelFeature::Vision => needs.image,
        ModelFeature::Audio => needs.audio_input || needs.audio_output,
        ModelFeature::JsonMode => needs.json_mode,
        ModelFeature::JsonSchema => needs.json_schema,
    }
}
