//! A JSON value as a flat list of its nodes, built in one pass, for rewriting deeply nested documents. A `View` scans a
//! whole value to find its next sibling, so reading every level takes time proportional to size times depth. A tree knows
//! where each value ends.

use std::borrow::Cow;

use super::view::{Kind, View, string_end};

/// A value with all values inside it.
#[derive(Clone, Debug)]
pub struct Tree<'a> {
    /// In the order of the text: a container comes before its content. The first entry is the value itself.
    entries: Vec<Entry<'a>>,
}

#[derive(Clone, Debug)]
struct Entry<'a> {
    /// The literal of the member's name; empty for an element and for the value itself.
    name: &'a str,
    text: &'a str,
    /// The index of the first entry after this one and its content.
    next: usize,
}

/// One value of a [`Tree`].
#[derive(Clone, Copy, Debug)]
pub struct Node<'t, 'a> {
    tree: &'t Tree<'a>,
    at: usize,
}

impl<'a> Tree<'a> {
    /// The tree of a value whose text was checked.
    #[must_use]
    pub fn new(view: View<'a>) -> Self {
        let text = view.text();
        let bytes = text.as_bytes();
        let mut entries: Vec<Entry<'a>> = Vec::new();
        // The open containers: index of the entry, start offset, whether it is an object.
        let mut open: Vec<(usize, usize, bool)> = Vec::new();
        let mut name = "";
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            let start = at;
            match byte {
                b' ' | b'\n' | b'\r' | b'\t' | b',' | b':' => {
                    at += 1;
                    continue;
                }
                b'{' | b'[' => {
                    at += 1;
                    open.push((entries.len(), start, *byte == b'{'));
                    entries.push(Entry { name: std::mem::take(&mut name), text: "", next: 0 });
                    continue;
                }
                b'}' | b']' => {
                    at += 1;
                    let Some((entry, start, _)) = open.pop() else { break };
                    let next = entries.len();
                    if let Some(entry) = entries.get_mut(entry) {
                        entry.text = text.get(start..at).unwrap_or_default();
                        entry.next = next;
                    }
                }
                b'"' => {
                    at = string_end(bytes, at);
                    let literal = text.get(start..at).unwrap_or_default();
                    if name.is_empty() && matches!(open.last(), Some((_, _, true))) {
                        name = literal;
                        continue;
                    }
                    let next = entries.len() + 1;
                    entries.push(Entry { name: std::mem::take(&mut name), text: literal, next });
                }
                _ => {
                    let rest = bytes.get(at..).unwrap_or_default();
                    let ends = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t');
                    at += rest.iter().position(ends).unwrap_or(rest.len()).max(1);
                    let text = text.get(start..at).unwrap_or_default();
                    let next = entries.len() + 1;
                    entries.push(Entry { name: std::mem::take(&mut name), text, next });
                }
            }
            if open.is_empty() {
                break;
            }
        }
        // Only a text that was not checked leaves containers open.
        let end = entries.len();
        for (entry, start, _) in open {
            if let Some(entry) = entries.get_mut(entry) {
                (entry.text, entry.next) = (text.get(start..).unwrap_or_default(), end);
            }
        }
        Self { entries }
    }

    /// The node of the value itself.
    #[must_use]
    pub fn root(&self) -> Node<'_, 'a> {
        Node { tree: self, at: 0 }
    }

    /// The number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True only for an empty text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl<'t, 'a> Node<'t, 'a> {
    /// The JSON text of the value.
    #[must_use]
    pub fn text(self) -> &'a str {
        self.tree.entries.get(self.at).map_or("", |entry| entry.text)
    }

    /// The value as a view.
    #[must_use]
    pub fn view(self) -> View<'a> {
        View::exact(self.text())
    }

    /// The kind of the value.
    #[must_use]
    pub fn kind(self) -> Kind {
        self.view().kind()
    }

    /// The decoded string; `None` for another kind.
    #[must_use]
    pub fn string(self) -> Option<Cow<'a, str>> {
        self.view().string()
    }

    /// The number of values: the node itself and all values inside it.
    #[must_use]
    pub fn size(self) -> usize {
        self.next() - self.at
    }

    /// The members in order, as name literal and value; none for another kind.
    pub fn members(self) -> impl Iterator<Item = (View<'a>, Node<'t, 'a>)> {
        let children = self.children(self.text().starts_with('{'));
        children.filter_map(|child| {
            let name = child.tree.entries.get(child.at)?.name;
            Some((View::exact(name), child))
        })
    }

    /// The elements in order; none for another kind.
    pub fn elements(self) -> impl Iterator<Item = Node<'t, 'a>> {
        self.children(self.text().starts_with('['))
    }

    /// The first member with this name.
    #[must_use]
    pub fn member(self, name: &str) -> Option<Self> {
        let named = |literal: View<'_>| literal.string().is_some_and(|known| known == name);
        self.members().find(|(literal, _)| named(*literal)).map(|(_, value)| value)
    }

    /// The first members with these names, all found in one pass.
    #[must_use]
    pub fn pick<const N: usize>(self, names: [&str; N]) -> [Option<Self>; N] {
        let mut found = [None; N];
        for (literal, value) in self.members() {
            let Some(name) = literal.string() else { continue };
            if let Some((_, place)) = names.iter().zip(&mut found).find(|(known, _)| *name == ***known) {
                place.get_or_insert(value);
            }
        }
        found
    }

    /// The value and all values inside it in the order of the text, each with its name literal.
    pub fn walk(self) -> impl Iterator<Item = (View<'a>, Node<'t, 'a>)> {
        (self.at..self.next()).filter_map(move |at| {
            let name = self.tree.entries.get(at)?.name;
            Some((View::exact(name), Node { tree: self.tree, at }))
        })
    }

    fn next(self) -> usize {
        self.tree.entries.get(self.at).map_or(self.at, |entry| entry.next.max(self.at + 1))
    }

    /// The direct children, if this is a container of the wanted kind.
    fn children(self, wanted: bool) -> impl Iterator<Item = Node<'t, 'a>> {
        let end = if wanted { self.next() } else { 0 };
        let mut at = self.at + 1;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let child = Node { tree: self.tree, at };
            at = child.next();
            Some(child)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Node, Tree};
    use crate::json::{View, check};

    /// Asserts that a view and a tree read the same, level by level.
    fn alike(view: View<'_>, node: Node<'_, '_>) {
        assert_eq!(view.text(), node.text());
        let members: Vec<_> = node.members().collect();
        assert_eq!(view.members().count(), members.len());
        for ((name, value), (known, node)) in view.members().zip(members) {
            assert_eq!(name, known);
            alike(value, node);
        }
        let elements: Vec<_> = node.elements().collect();
        assert_eq!(view.elements().count(), elements.len());
        view.elements().zip(elements).for_each(|(value, node)| alike(value, node));
    }

    #[test]
    fn a_tree_and_a_view_read_alike() {
        for text in [
            "1",
            "\"a\"",
            "[]",
            "{}",
            r#" { "a" : [ 1 , -2.5e3 , "x\"]" , { } , [ [ ] ] ] , "" : null , "b" : { "c" : true } } "#,
            r#"{"":"","a":""}"#,
        ] {
            let view = View::new(text);
            let tree = Tree::new(view);
            alike(view, tree.root());
            assert_eq!(tree.len(), view.extent().values, "{text}");
        }
    }

    #[test]
    fn members_are_found_by_name() {
        let tree = Tree::new(View::new(r#"{"a":{"b":1},"b":2,"\u0063":3,"b":4}"#));
        let root = tree.root();
        assert_eq!(root.member("b").map(Node::text), Some("2"));
        let [c, b, none] = root.pick(["c", "b", "d"]);
        assert_eq!((c.map(Node::text), b.map(Node::text)), (Some("3"), Some("2")));
        assert!(none.is_none());
        assert_eq!((root.size(), root.walk().count()), (6, 6));
    }

    proptest! {
        #[test]
        fn building_a_tree_never_panics(text in "[\\[\\]{}\",:0-9a ]{0,24}") {
            let view = View::new(&text);
            let tree = Tree::new(view);
            if !tree.is_empty() {
                let root = tree.root();
                let _ = root.walk().count() + root.members().count() + root.elements().count();
                if check(view.text()).is_ok() {
                    alike(view, root);
                }
            }
        }
    }
}
