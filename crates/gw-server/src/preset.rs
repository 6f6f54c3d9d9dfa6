//! Applies the preset that a request names, before the engine reads the request.

use std::sync::Arc;

use bytes::Bytes;
use gw_engine::cpu_pool::{CpuPool, is_heavy, offload};
use gw_engine::engine::PresetsInForce;
use gw_engine::error::Result;
use gw_engine::presets::{AppliedPreset, PresetSurface};
use gw_engine::{Caller, ClientSurface};
use gw_wire::dialects::ClientDialect;
use gw_wire::dialects::gemini::GeminiMethod;
use gw_wire::gateway::PresetUse;
use gw_wire::operation::PlainOperation;

/// Applies the preset that a body or its URL names. `operation` is that of a body of OpenAI's older APIs. Returns the body for the engine, and the preset.
///
/// # Errors
/// `model_not_found` for an unknown preset, `invalid_type`.
pub(crate) async fn apply(
    presets: PresetsInForce,
    cpu: &CpuPool,
    caller: &Caller,
    (operation, surface): (Option<PlainOperation>, &mut ClientSurface),
    body: Bytes,
) -> Result<(Bytes, Option<Arc<PresetUse>>)> {
    let kind = kind_of(operation, surface);
    let url_model = surface.gemini.as_ref().map(|url| url.model.clone());
    let applied = if is_heavy(&body) {
        let (caller, body) = (caller.clone(), body.clone());
        let step = move || presets.apply(&caller, kind, url_model.as_deref(), &body);
        cpu.host(offload(step)).await?
    } else {
        presets.apply(caller, kind, url_model.as_deref(), &body)?
    };
    let Some(AppliedPreset { body, url_model, preset }) = applied else { return Ok((body, None)) };
    if let (Some(model), Some(url)) = (url_model, &mut surface.gemini) {
        Arc::make_mut(url).model = model;
    }
    Ok((body, preset))
}

/// The surface as presets see it.
fn kind_of(operation: Option<PlainOperation>, surface: &ClientSurface) -> PresetSurface {
    let method = surface.gemini.as_ref().map(|url| url.method);
    let is_embedding = matches!(method, Some(GeminiMethod::Embed | GeminiMethod::BatchEmbed));
    match (operation, surface.dialect) {
        (Some(PlainOperation::Chat), _) => PresetSurface::Chat,
        (Some(PlainOperation::Completion), _) => PresetSurface::Completion,
        (_, ClientDialect::Messages) => PresetSurface::Messages,
        (_, ClientDialect::Responses) => PresetSurface::Responses,
        (_, ClientDialect::Gemini) if !is_embedding => PresetSurface::Gemini,
        (_, ClientDialect::Gemini | ClientDialect::OpenAi) => PresetSurface::OneShot,
    }
}
