//! One level of a schema with what it refers to put in place.

use std::borrow::Cow;
use std::collections::HashMap;

use gw_wire::json::{Kind, View};

/// So often a reference is put in place inside itself.
const UNROLLED: usize = 2;

/// So many references and `allOf`s lead from one to the next at most; more is a circle.
const CHAIN: usize = 16;

/// Bytes that are looked at and names that are compared for one schema at most. References that are put in place can make a
/// small schema a lot of work.
const MOST_WORK: usize = 8 << 20;

/// The whole schema that is read.
#[derive(Debug)]
pub(super) struct Source<'a> {
    root: View<'a>,
    /// What nearly all references name, by the reference.
    definitions: HashMap<String, View<'a>>,
    work_left: usize,
    /// What was read allows more than what was written.
    pub(super) is_simplified: bool,
}

impl<'a> Source<'a> {
    pub(super) fn new(root: View<'a>) -> Self {
        let mut definitions = HashMap::new();
        for (name, value) in root.members() {
            let Some(place) = name.string().filter(|name| matches!(&**name, "$defs" | "definitions")) else {
                continue;
            };
            for (name, value) in value.members() {
                let name = name.string().unwrap_or_default().replace('~', "~0").replace('/', "~1");
                definitions.insert(format!("#/{place}/{name}"), value);
            }
        }
        Self { root, definitions, work_left: MOST_WORK, is_simplified: false }
    }

    pub(super) fn charge(&mut self, work: usize) {
        self.work_left = self.work_left.saturating_sub(work);
    }

    /// Nothing more is read.
    pub(super) fn is_exhausted(&self) -> bool {
        self.work_left == 0
    }

    /// A pointer into the same document: `#`, `#/$defs/name`, any other path.
    fn resolve(&mut self, reference: &str) -> Option<View<'a>> {
        if let Some(found) = self.definitions.get(reference) {
            return Some(*found);
        }
        let path = reference.strip_prefix('#')?;
        let mut place = self.root;
        for step in path.split('/').skip(1) {
            self.charge(place.text().len());
            if self.is_exhausted() {
                return None;
            }
            let step = step.replace("~1", "/").replace("~0", "~");
            place = match place.kind() {
                Kind::Array => place.elements().nth(step.parse().ok()?)?,
                _ => place.members().find(|(name, _)| name.string().is_some_and(|name| name == step))?.1,
            };
        }
        Some(place)
    }
}

/// A schema's keywords, those of its reference and its `allOf` merged in.
#[derive(Debug, Default)]
pub(super) struct Flat<'a> {
    /// Everything but `properties`, `required`, `$…` and `definitions`, in order, each name once.
    pub(super) members: Vec<(Cow<'a, str>, View<'a>)>,
    /// In order, each name once.
    pub(super) properties: Vec<(Cow<'a, str>, View<'a>)>,
    /// Has `properties`, if empty ones.
    pub(super) is_object: bool,
    pub(super) required: Vec<Cow<'a, str>>,
    /// The references that led here.
    pub(super) references: Vec<Cow<'a, str>>,
}

impl<'a> Flat<'a> {
    /// `above` are the references that this schema lies in.
    pub(super) fn of(schema: View<'a>, source: &mut Source<'a>, above: &[Cow<'a, str>]) -> Self {
        let mut flat = Self::default();
        flat.add(schema, source, above, CHAIN);
        // The one value says more than the choice of values, and they are written under one name.
        if flat.members.iter().any(|(name, _)| name == "const") {
            flat.members.retain(|(name, _)| name != "enum");
        }
        flat
    }

    /// What is there already wins: a schema's own words count more than those of its reference.
    fn add(&mut self, schema: View<'a>, source: &mut Source<'a>, above: &[Cow<'a, str>], chain: usize) {
        let mut others = Vec::new();
        source.charge(schema.text().len());
        for (name, value) in schema.members() {
            source.charge(self.members.len());
            if source.is_exhausted() {
                return;
            }
            let name = name.string().unwrap_or_default();
            match &*name {
                "$ref" => others.extend(self.target(value, source, above)),
                "allOf" => others.extend(value.elements()),
                "properties" => {
                    self.is_object = true;
                    for (name, value) in value.members() {
                        source.charge(self.properties.len());
                        if source.is_exhausted() {
                            return;
                        }
                        put(&mut self.properties, name.string().unwrap_or_default(), value);
                    }
                }
                "required" => {
                    for name in value.elements().filter_map(View::string) {
                        source.charge(self.required.len() + self.properties.len());
                        if source.is_exhausted() {
                            return;
                        }
                        if !self.required.contains(&name) {
                            self.required.push(name);
                        }
                    }
                }
                "definitions" => {}
                _ if name.starts_with('$') => {}
                _ => put(&mut self.members, name, value),
            }
        }
        for other in others {
            match chain.checked_sub(1) {
                Some(chain) => self.add(other, source, above, chain),
                None => source.is_simplified = true,
            }
        }
    }

    /// What a reference names. None, and the schema allows more than it should, for one that leads nowhere or too often
    /// into itself.
    fn target(
        &mut self,
        reference: View<'a>,
        source: &mut Source<'a>,
        above: &[Cow<'a, str>],
    ) -> Option<View<'a>> {
        let reference = reference.string()?;
        let times = above.iter().chain(&self.references).filter(|known| **known == reference).count();
        let found = if times < UNROLLED { source.resolve(&reference) } else { None };
        self.references.push(reference);
        source.is_simplified |= found.is_none();
        found
    }
}

fn put<'a>(list: &mut Vec<(Cow<'a, str>, View<'a>)>, name: Cow<'a, str>, value: View<'a>) {
    if !list.iter().any(|(known, _)| *known == name) {
        list.push((name, value));
    }
}
