//! Applies the preset that a request names, before the engine reads the request.

use std::sync::Arc;

use bytes::Bytes;
use gw_engine::cpu_pool::{CpuPool, is_heavy, offload};
use gw_engine::engine::PresetsInForce;
use gw_engine::error::Result;
use gw_engine::presets::{AppliedPreset, PresetRequest, PresetSurface};
use gw_engine::{Caller, ClientSurface};
use gw_wire::dialects::ClientDialect;
use gw_wire::dialects::gemini::GeminiMethod;
use gw_wire::gateway::PresetUse;
use gw_wire::operation::PlainOperation;

/// The request as presets see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PresetTarget {
    /// The operation of a body of OpenAI's older APIs.
    pub(crate) operation: Option<PlainOperation>,
    /// An answer is generated. Otherwise tokens are counted, or a conversation is compacted.
    pub(crate) is_generation: bool,
}

/// Applies the preset that a body or its URL names. Returns the body for the engine, and the preset.
///
/// # Errors
/// `model_not_found` for an unknown preset, `invalid_type`.
pub(crate) async fn apply(
    presets: PresetsInForce,
    cpu: &CpuPool,
    caller: &Caller,
    (target, client): (PresetTarget, &mut ClientSurface),
    body: Bytes,
) -> Result<(Bytes, Option<Arc<PresetUse>>)> {
    let surface = surface_of(target.operation, client);
    let PresetTarget { is_generation, .. } = target;
    let url_model = client.gemini.as_ref().map(|url| url.model.clone());
    let applied = if is_heavy(&body) {
        let (caller, body) = (caller.clone(), body.clone());
        let step = move || {
            let url_model = url_model.as_deref();
            presets.apply(&caller, PresetRequest { surface, is_generation, url_model, body: &body })
        };
        cpu.host(offload(step)).await?
    } else {
        let url_model = url_model.as_deref();
        presets.apply(caller, PresetRequest { surface, is_generation, url_model, body: &body })?
    };
    let Some(AppliedPreset { body: changed, url_model, preset }) = applied else { return Ok((body, None)) };
    if let (Some(model), Some(url)) = (url_model, &mut client.gemini) {
        Arc::make_mut(url).model = model;
    }
    if preset.is_some() && surface == PresetSurface::Responses {
        client.own_body = Some(body);
    }
    Ok((changed, preset))
}

/// The surface as presets see it.
fn surface_of(operation: Option<PlainOperation>, client: &ClientSurface) -> PresetSurface {
    let method = client.gemini.as_ref().map(|url| url.method);
    let is_embedding = matches!(method, Some(GeminiMethod::Embed | GeminiMethod::BatchEmbed));
    match (operation, client.dialect) {
        (Some(PlainOperation::Chat), _) => PresetSurface::Chat,
        (Some(PlainOperation::Completion), _) => PresetSurface::Completion,
        (_, ClientDialect::Messages) => PresetSurface::Messages,
        (_, ClientDialect::Responses) => PresetSurface::Responses,
        (_, ClientDialect::Gemini) if is_embedding => PresetSurface::GeminiEmbedding,
        (_, ClientDialect::Gemini) => PresetSurface::Gemini,
        (_, ClientDialect::OpenAi) => PresetSurface::OneShot,
    }
}
