//! Finds stored items by their ids.

use std::borrow::Cow;
use std::collections::HashMap;

use super::json_text::text;
use crate::json::{View, check};

/// Stored items by id. It is built with the first search, because most requests refer to no item.
#[derive(Debug)]
pub(super) struct ItemIndex<'h> {
    items: &'h [&'h str],
    by_id: Option<HashMap<Cow<'h, str>, &'h str>>,
}

impl<'h> ItemIndex<'h> {
    /// An index of these items, each as JSON text.
    pub(super) fn new(items: &'h [&'h str]) -> Self {
        Self { items, by_id: None }
    }

    /// The last item with this id. Texts that are no JSON, and references, are not found.
    pub(super) fn get(&mut self, id: &str) -> Option<&'h str> {
        let items = self.items;
        let by_id = self.by_id.get_or_insert_with(|| items.iter().filter_map(|item| entry(item)).collect());
        by_id.get(id).copied()
    }
}

fn entry(item: &str) -> Option<(Cow<'_, str>, &str)> {
    check(item).ok()?;
    let [id, kind] = View::new(item).pick(["id", "type"]);
    let is_reference = text(kind).is_some_and(|kind| kind == "item_reference");
    text(id).filter(|_| !is_reference).map(|id| (id, item))
}
