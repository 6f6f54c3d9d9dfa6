//! One level of a schema with what it refers to put in place.

use std::borrow::Cow;

use gw_wire::json::{Kind, View};

/// So often a reference is put in place inside itself.
const UNROLLED: usize = 2;

/// So many references and `allOf`s lead from one to the next at most; more is a circle.
const CHAIN: usize = 16;

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
    pub(super) fn of(
        schema: View<'a>,
        root: View<'a>,
        above: &[Cow<'a, str>],
        is_simplified: &mut bool,
    ) -> Self {
        let mut flat = Self::default();
        flat.add(schema, root, above, CHAIN, is_simplified);
        // The one value says more than the choice of values, and they are written under one name.
        if flat.members.iter().any(|(name, _)| name == "const") {
            flat.members.retain(|(name, _)| name != "enum");
        }
        flat
    }

    /// What is there already wins: a schema's own words count more than those of its reference.
    fn add(
        &mut self,
        schema: View<'a>,
        root: View<'a>,
        above: &[Cow<'a, str>],
        chain: usize,
        is_simplified: &mut bool,
    ) {
        let mut others = Vec::new();
        for (name, value) in schema.members() {
            let name = name.string().unwrap_or_default();
            match &*name {
                "$ref" => others.extend(self.target(value, root, above, is_simplified)),
                "allOf" => others.extend(value.elements()),
                "properties" => {
                    self.is_object = true;
                    for (name, value) in value.members() {
                        put(&mut self.properties, name.string().unwrap_or_default(), value);
                    }
                }
                "required" => {
                    for name in value.elements().filter_map(View::string) {
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
                Some(chain) => self.add(other, root, above, chain, is_simplified),
                None => *is_simplified = true,
            }
        }
    }

    /// What a reference names. None, and the schema allows more than it should, for one that leads nowhere or too often
    /// into itself.
    fn target(
        &mut self,
        reference: View<'a>,
        root: View<'a>,
        above: &[Cow<'a, str>],
        is_simplified: &mut bool,
    ) -> Option<View<'a>> {
        let reference = reference.string()?;
        let times = above.iter().chain(&self.references).filter(|known| **known == reference).count();
        let found = if times < UNROLLED { resolve(root, &reference) } else { None };
        self.references.push(reference);
        *is_simplified |= found.is_none();
        found
    }
}

fn put<'a>(list: &mut Vec<(Cow<'a, str>, View<'a>)>, name: Cow<'a, str>, value: View<'a>) {
    if !list.iter().any(|(known, _)| *known == name) {
        list.push((name, value));
    }
}

/// A pointer into the same document: `#`, `#/$defs/name`, any other path.
fn resolve<'a>(root: View<'a>, reference: &str) -> Option<View<'a>> {
    let path = reference.strip_prefix('#')?;
    let mut place = root;
    for step in path.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        place = match place.kind() {
            Kind::Array => place.elements().nth(step.parse().ok()?)?,
            _ => place.members().find(|(name, _)| name.string().is_some_and(|name| name == step))?.1,
        };
    }
    Some(place)
}
