//! The presets, as the edge uses them.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::Engine;
use crate::auth::Caller;
use crate::error::Result;
use crate::plan::snapshot::Snapshot;
use crate::presets::{AppliedPreset, PresetRequest};

/// The presets that are in force at one moment.
#[derive(Clone, Debug)]
pub struct PresetsInForce(Arc<Snapshot>);

impl Engine {
    /// The presets that are in force now. None: this body names none. `is_certain`: no later step looks at its member `preset`.
    #[must_use]
    pub fn presets(&self, body: &[u8], is_certain: bool) -> Option<PresetsInForce> {
        let snapshot = self.services.snapshot.load();
        snapshot.presets.may_apply(body, is_certain).then(|| PresetsInForce(Arc::clone(&snapshot)))
    }

    /// The headers of a request that a target's condition reads.
    #[must_use]
    pub fn matched_headers(&self, headers: &HeaderMap) -> Vec<(HeaderName, HeaderValue)> {
        let snapshot = self.services.snapshot.load();
        let names = snapshot.presets.headers().iter();
        names
            .flat_map(|name| headers.get_all(name).iter().map(|value| (name.clone(), value.clone())))
            .collect()
    }
}

impl PresetsInForce {
    /// Applies the preset that a request names. None: it names none, or its body cannot be read.
    ///
    /// # Errors
    /// `model_not_found` for a preset that does not exist or whose models the key may not use, `invalid_type`.
    pub fn apply(&self, caller: &Caller, request: PresetRequest<'_>) -> Result<Option<AppliedPreset>> {
        self.0.apply_preset(caller, request)
    }
}
