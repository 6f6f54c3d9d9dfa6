//! One level of a schema with its references and its `allOf` merged in.

use std::borrow::Cow;
use std::collections::HashMap;

use gw_wire::json::{Kind, Node, Tree};
use gw_wire::names::{NameIndex, position};

use super::ReferenceBudget;
use crate::adapters::definitions::{TABLES, definitions};

/// How often a reference is replaced by its target inside that target.
const MAX_UNROLLS: usize = 2;

/// The longest chain of references and `allOf`s without a keyword between them. A longer chain is a circle.
const MAX_CHAIN: usize = 16;

/// Reads a schema and follows its references.
#[derive(Debug)]
pub(super) struct SchemaReader<'t, 'a> {
    root: Node<'t, 'a>,
    /// The definitions by their usual references.
    definitions: HashMap<String, Node<'t, 'a>>,
    budget: &'t mut ReferenceBudget,
    /// How often each reference was followed on the way to the current position.
    above: HashMap<Cow<'a, str>, usize>,
    /// The result allows more values than the schema.
    pub(super) is_simplified: bool,
}

impl<'t, 'a> SchemaReader<'t, 'a> {
    pub(super) fn new(tree: &'t Tree<'a>, budget: &'t mut ReferenceBudget) -> Self {
        let (root, above) = (tree.root(), HashMap::new());
        Self { root, definitions: definitions(root), budget, above, is_simplified: false }
    }

    /// Whether the budget is used up, so that nothing more is read.
    pub(super) fn is_exhausted(&self) -> bool {
        self.budget.is_exhausted()
    }

    /// Leaves the position that these references led to.
    pub(super) fn leave(&mut self, references: &[Cow<'a, str>]) {
        for reference in references {
            if let Some(times) = self.above.get_mut(reference) {
                *times = times.saturating_sub(1);
            }
        }
    }

    /// Returns the target of a reference. None if the reference was followed too often on the way here, or if the
    /// target exceeds the budget.
    fn follow(&mut self, reference: &Cow<'a, str>) -> Option<Node<'t, 'a>> {
        let times = self.above.entry(reference.clone()).or_default();
        *times += 1;
        if *times > MAX_UNROLLS {
            return None;
        }
        let found = self.resolve(reference)?;
        let (mut values, mut bytes) = (found.size(), found.text().len());
        // Definitions inside the target cost nothing until a reference reads them.
        for table in found.pick(TABLES).into_iter().flatten() {
            values = values.saturating_sub(table.size());
            bytes = bytes.saturating_sub(table.text().len());
        }
        self.budget.charge_values(values, bytes);
        (!self.is_exhausted()).then_some(found)
    }

    /// Resolves a pointer into the same document: `#`, `#/$defs/name` or any other path.
    fn resolve(&mut self, reference: &str) -> Option<Node<'t, 'a>> {
        if let Some(found) = self.definitions.get(reference) {
            return Some(*found);
        }
        let path = reference.strip_prefix('#')?;
        let mut place = self.root;
        for step in path.split('/').skip(1) {
            let step = step.replace("~1", "/").replace("~0", "~");
            let mut found = None;
            match place.kind() {
                Kind::Array => {
                    let wanted: usize = step.parse().ok()?;
                    for (at, element) in place.elements().enumerate().take(wanted.saturating_add(1)) {
                        self.budget.charge_values(1, 0);
                        found = (at == wanted).then_some(element);
                    }
                }
                _ => {
                    for (name, value) in place.members() {
                        self.budget.charge_values(1, name.text().len());
                        if name.string().is_some_and(|name| name == step) {
                            found = Some(value);
                            break;
                        }
                    }
                }
            }
            if self.is_exhausted() {
                return None;
            }
            place = found?;
        }
        Some(place)
    }
}

/// Entries with unique names, in their order.
#[derive(Debug)]
pub(super) struct OrderedEntries<'a, T> {
    entries: Vec<(Cow<'a, str>, T)>,
    /// Exists only for many entries.
    index: Option<NameIndex>,
}

impl<T> Default for OrderedEntries<'_, T> {
    fn default() -> Self {
        Self { entries: Vec::new(), index: None }
    }
}

impl<'a, T: Copy> OrderedEntries<'a, T> {
    /// Adds an entry unless its name is taken.
    pub(super) fn put(&mut self, name: Cow<'a, str>, value: T) {
        if self.has(&name) {
            return;
        }
        if let Some(index) = &mut self.index {
            index.insert(&name, self.entries.len());
        }
        self.entries.push((name, value));
        if self.index.is_none() {
            self.index = self.indexed();
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.place(name).is_some()
    }

    pub(super) fn get(&self, name: &str) -> Option<T> {
        self.entries.get(self.place(name)?).map(|(_, value)| *value)
    }

    pub(super) fn remove(&mut self, name: &str) {
        if let Some(at) = self.place(name) {
            self.entries.remove(at);
            self.index = self.indexed();
        }
    }

    fn place(&self, name: &str) -> Option<usize> {
        let name_at = |at| self.entries.get(at).map(|(name, _): &(Cow<'a, str>, T)| &**name);
        position(self.index.as_ref(), self.entries.len(), name, name_at)
    }

    fn indexed(&self) -> Option<NameIndex> {
        NameIndex::of(self.entries.iter().map(|(name, _)| &**name))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, T)> {
        self.entries.iter().map(|(name, value)| (&**name, *value))
    }

    /// Returns copies of the entries.
    pub(super) fn entries(&self) -> impl Iterator<Item = (Cow<'a, str>, T)> {
        self.entries.iter().cloned()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// The keywords of a schema, merged with those of its reference and its `allOf`.
#[derive(Debug, Default)]
pub(super) struct FlatSchema<'t, 'a> {
    /// All keywords except `properties`, `required`, `$…` and `definitions`.
    pub(super) members: OrderedEntries<'a, Node<'t, 'a>>,
    pub(super) properties: OrderedEntries<'a, Node<'t, 'a>>,
    /// The schema has `properties`, possibly empty.
    pub(super) is_object: bool,
    pub(super) required: OrderedEntries<'a, ()>,
    /// The references that led here, until [`SchemaReader::leave`] takes them.
    pub(super) references: Vec<Cow<'a, str>>,
}

impl<'t, 'a> FlatSchema<'t, 'a> {
    pub(super) fn of(schema: Node<'t, 'a>, source: &mut SchemaReader<'t, 'a>) -> Self {
        let mut flat = Self::default();
        flat.add(schema, source, MAX_CHAIN);
        // `const` is stricter than `enum`, and both are written as `enum`.
        if flat.members.has("const") {
            flat.members.remove("enum");
        }
        flat
    }

    /// Merges a schema. Entries that exist win: a schema's own keywords go before those of its reference.
    fn add(&mut self, schema: Node<'t, 'a>, source: &mut SchemaReader<'t, 'a>, chain: usize) {
        let mut others = Vec::new();
        for (name, value) in schema.members() {
            if source.is_exhausted() {
                return;
            }
            let name = name.string().unwrap_or_default();
            match &*name {
                "$ref" => others.extend(self.target(value, source)),
                "allOf" => others.extend(value.elements()),
                "properties" => {
                    self.is_object = true;
                    for (name, value) in value.members() {
                        self.properties.put(name.string().unwrap_or_default(), value);
                    }
                }
                "required" => {
                    for name in value.elements().filter_map(Node::string) {
                        self.required.put(name, ());
                    }
                }
                "definitions" => {}
                _ if name.starts_with('$') => {}
                _ => self.members.put(name, value),
            }
        }
        for other in others {
            match chain.checked_sub(1) {
                _ if source.is_exhausted() => return,
                Some(chain) => self.add(other, source, chain),
                None => source.is_simplified = true,
            }
        }
    }

    /// Returns the target of a reference. None, with the result marked as simplified, if the reference leads nowhere or
    /// too often into itself.
    fn target(&mut self, reference: Node<'t, 'a>, source: &mut SchemaReader<'t, 'a>) -> Option<Node<'t, 'a>> {
        source.budget.charge_reference(reference.text().len());
        if source.is_exhausted() {
            return None;
        }
        let reference = reference.string()?;
        let found = source.follow(&reference);
        self.references.push(reference);
        source.is_simplified |= found.is_none();
        found
    }
}
