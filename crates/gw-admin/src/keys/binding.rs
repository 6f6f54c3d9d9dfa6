//! The limits that bind keys now, as the running gateway counts them.

use std::collections::HashMap;

use crate::me::{BindingLimit, binding_limit};
use crate::records::Records;

/// The binding limit of each key. None: only a running gateway knows it, or it cannot be read now.
pub(super) struct BindingLimits(Option<HashMap<String, Option<BindingLimit>>>);

impl BindingLimits {
    /// The limits of these keys, with one question to the limiter.
    pub(super) async fn read(records: &Records, ids: &[&str]) -> Self {
        let Some(engine) = &records.engine else { return Self(None) };
        let uses = engine.limits_of_keys(&ids.iter().copied().collect()).await;
        Self(uses.map(|uses| uses.into_iter().map(|(id, uses)| (id, binding_limit(&uses))).collect()))
    }

    /// The limit of a key. The outer option: whether it is known.
    pub(super) fn take(&mut self, id: &str) -> Option<Option<BindingLimit>> {
        self.0.as_mut().map(|limits| limits.remove(id).flatten())
    }
}
