//! A provider's model list while it is read.

use std::collections::HashSet;

use crate::adapter::ListedModel;

/// The models so far. Each name is unique.
#[derive(Default)]
pub(super) struct ModelList {
    models: Vec<ListedModel>,
    seen: HashSet<String>,
}

impl ModelList {
    /// Adds a model, unless its name is empty or already in the list.
    pub(super) fn add(&mut self, name: &str, context_length: Option<u64>) {
        if !name.is_empty() && self.seen.insert(name.to_owned()) {
            let context_length = context_length.filter(|tokens| *tokens > 0);
            self.models.push(ListedModel { name: name.to_owned(), context_length });
        }
    }

    /// The models in the order of the list.
    pub(super) fn into_models(self) -> Vec<ListedModel> {
        self.models
    }
}
