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

/// Whether an item stands for another one: an `item_reference`, which may come without its type. Every reader of items asks
/// this function, so that an item that is found by its id is never a reference itself.
pub(super) fn is_reference(item: View<'_>) -> bool {
    let [kind, role] = item.pick(["type", "role"]);
    text(kind).map_or(role.is_none(), |kind| kind == "item_reference")
}

/// The id by which a reference finds a stored item; None for a reference, and for a text that is no JSON.
#[must_use]
pub fn referable_id(item: &str) -> Option<Cow<'_, str>> {
    check(item).ok()?;
    let view = View::new(item);
    let [id] = view.pick(["id"]);
    text(id).filter(|_| !is_reference(view))
}

fn entry(item: &str) -> Option<(Cow<'_, str>, &str)> {
    referable_id(item).map(|id| (id, item))
}
