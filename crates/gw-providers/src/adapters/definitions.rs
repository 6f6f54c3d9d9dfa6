//! The definitions of a JSON Schema, by the references that name them.

use std::collections::HashMap;

use gw_wire::json::Node;

/// The members of a schema that hold definitions.
pub(super) const TABLES: [&str; 2] = ["$defs", "definitions"];

/// All definitions. The keys are references, which are pointers of RFC 6901. Of two definitions with one name the first
/// counts.
pub(super) fn definitions<'t, 'a>(schema: Node<'t, 'a>) -> HashMap<String, Node<'t, 'a>> {
    let mut found = HashMap::new();
    for (table, definitions) in TABLES.into_iter().zip(schema.pick(TABLES)) {
        for (name, definition) in definitions.into_iter().flat_map(Node::members) {
            let name = name.string().unwrap_or_default().replace('~', "~0").replace('/', "~1");
            found.entry(format!("#/{table}/{name}")).or_insert(definition);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use gw_wire::json::{Tree, View};

    use super::definitions;

    #[test]
    fn definition_names_are_escaped_as_json_pointers() {
        let schema = r#"{"$defs":{"a":1,"b/~":2,"a":3},"definitions":{"a":4},"x":{"$defs":{"c":5}}}"#;
        let tree = Tree::new(View::new(schema));
        let mut found: Vec<_> =
            definitions(tree.root()).into_iter().map(|(path, node)| (path, node.text())).collect();
        found.sort_unstable();
        let expected = [("#/$defs/a", "1"), ("#/$defs/b~1~0", "2"), ("#/definitions/a", "4")];
        assert_eq!(found, expected.map(|(path, text)| (path.to_owned(), text)));
    }
}
