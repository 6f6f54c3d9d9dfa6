//! Names of our types stay out of string literals: a literal is text for people or for the wire, and a mechanical rename
//! of a type must not change it.

use std::collections::BTreeSet;

use gw_testkit::sources::relative;

use super::files::crates;
use super::tokens::{Token, tokens, without_tests};

/// Names of HTTP and of vendors that are also names of our types.
const EXCEPTIONS: [&str; 0] = [];

/// The functions of hand-written `Debug` that take the name of their type.
const DEBUG_FUNCTIONS: [&str; 2] = ["debug_struct", "debug_tuple"];

/// The attributes of serde whose literal is a path in Rust.
const PATH_ATTRIBUTES: [&str; 5] =
    ["default", "deserialize_with", "serialize_with", "skip_serializing_if", "with"];

/// Whether a name has at least two capitalised words, such as `EventStream`. One word alone is also plain English.
fn is_camel_case(name: &str) -> bool {
    let capitals = name.bytes().filter(u8::is_ascii_uppercase).count();
    name.starts_with(|first: char| first.is_ascii_uppercase())
        && capitals >= 2
        && name.bytes().any(|byte| byte.is_ascii_lowercase())
}

/// Lists the type names in the string literals of a file's code without its tests.
fn named_types<'t>(source: &str, types: &BTreeSet<&'t str>) -> Vec<&'t str> {
    let tokens = without_tests(&tokens(source));
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let Token::Text(text) = token else { continue };
        let is_name_of_code = at >= 2 && {
            let before = tokens[at - 2].name().unwrap_or_default();
            tokens[at - 1].is_mark('(') && DEBUG_FUNCTIONS.contains(&before)
                || tokens[at - 1].is_mark('=') && PATH_ATTRIBUTES.contains(&before)
        };
        if !is_name_of_code {
            let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            found.extend(words.filter_map(|word| types.get(word).copied()));
        }
    }
    found
}

#[test]
fn no_string_literal_holds_the_name_of_a_type() {
    let crates = crates();
    let names = crates.iter().flat_map(|(_, read)| read.types().map(|(name, _)| name));
    let types: BTreeSet<_> = names.filter(|name| is_camel_case(name) && !EXCEPTIONS.contains(name)).collect();
    let mut found = Vec::new();
    let files = crates.iter().flat_map(|(_, read)| &read.files);
    for path in files.filter(|path| !super::is_test_file(path)) {
        let source = std::fs::read_to_string(path).expect("a readable file");
        let named = named_types(&source, &types);
        found.extend(named.iter().map(|name| format!("    {}: {name}", relative(path))));
    }
    assert!(found.is_empty(), "a string literal holds the name of a type:\n{}", found.join("\n"));
}

#[test]
fn a_type_name_in_a_literal_is_found() {
    let source = r##"
        // "EventStream" in a comment is no literal.
        fn f() { say("the\nEventStream ends", r#"a "CpuPool""#); g.debug_struct("EventStream"); EventStream::new() }
        #[serde(with = "CpuPool::time")] struct S;
        #[cfg(test)] mod tests { fn t() { say("CpuPool") } }
    "##;
    let types = BTreeSet::from(["EventStream", "CpuPool"]);
    assert_eq!(named_types(source, &types), ["EventStream", "CpuPool"]);
    assert!(is_camel_case("EventStream") && !is_camel_case("Model") && !is_camel_case("URL"));
}
