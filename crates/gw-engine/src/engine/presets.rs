//! The presets, as the edge uses them.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::Engine;
use crate::auth::Caller;
use crate::error::Result;
use crate::plan::snapshot::Snapshot;
use crate::presets::{AppliedPreset, PresetSurface};

/// The presets that are in force at one moment. There is at least one.
#[derive(Clone, Debug)]
pub struct PresetsInForce(Arc<Snapshot>);

impl Engine {
    /// The presets that are in force now; None: there are none.
    #[must_use]
    pub fn presets(&self) -> Option<PresetsInForce> {
        let snapshot = self.services.snapshot.load();
        (!snapshot.presets.is_empty()).then(|| PresetsInForce(Arc::clone(&snapshot)))
    }
}

impl PresetsInForce {
    /// Applies the preset that a request names. None: it names none, or its body cannot be read.
    ///
    /// # Errors
    /// `model_not_found` for a preset that does not exist or whose models the key may not use, `invalid_type`.
    pub fn apply(
        &self,
        caller: &Caller,
        surface: PresetSurface,
        url_model: Option<&str>,
        body: &[u8],
    ) -> Result<Option<AppliedPreset>> {
        self.0.apply_preset(caller, surface, url_model, body)
    }

    /// The headers of a request that a target's condition reads.
    #[must_use]
    pub fn matched_headers(&self, headers: &HeaderMap) -> Vec<(HeaderName, HeaderValue)> {
        let names = self.0.presets.headers().iter();
        names
            .flat_map(|name| headers.get_all(name).iter().map(|value| (name.clone(), value.clone())))
            .collect()
    }
}
