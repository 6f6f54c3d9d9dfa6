//! References inside a schema.

use std::borrow::Cow;
use std::collections::HashMap;

use gw_wire::json::Node;

use crate::adapters::definitions::definitions;

/// The most references in a schema. A schema with more counts as recursive.
const MAX_REFERENCES: usize = 512;

/// Whether a definition refers to itself, or a reference cannot be resolved. Each definition is visited once.
pub(super) fn is_recursive(schema: Node<'_, '_>) -> bool {
    let Some(roots) = of(schema) else { return true };
    if roots.is_empty() {
        return false;
    }
    let mut walk = Walk { definitions: definitions(schema), ways: HashMap::new() };
    roots.into_iter().any(|path| walk.leads_back(path))
}

/// Returns all references in a value; None if there are too many.
fn of<'a>(value: Node<'_, 'a>) -> Option<Vec<Cow<'a, str>>> {
    let mut found = Vec::new();
    for (name, value) in value.walk() {
        if name.string().is_some_and(|name| name == "$ref")
            && let Some(path) = value.string()
        {
            found.push(path);
        }
        if found.len() > MAX_REFERENCES {
            return None;
        }
    }
    Some(found)
}

/// A walk from definition to definition.
struct Walk<'t, 'a> {
    definitions: HashMap<String, Node<'t, 'a>>,
    /// The visited definitions; true while the walk is inside one.
    ways: HashMap<String, bool>,
}

impl Walk<'_, '_> {
    fn leads_back(&mut self, path: Cow<'_, str>) -> bool {
        if let Some(is_inside) = self.ways.get(&*path) {
            return *is_inside;
        }
        let Some(next) = self.definitions.get(&*path).and_then(|definition| of(*definition)) else {
            return true;
        };
        self.ways.insert(path.clone().into_owned(), true);
        let back = next.into_iter().any(|path| self.leads_back(path));
        self.ways.insert(path.into_owned(), false);
        back
    }
}
