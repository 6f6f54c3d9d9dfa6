//! Names of our types stay out of string literals: a literal is text for people or for the wire, and a mechanical rename
//! of a type must not change it.

use std::collections::BTreeSet;

use super::files::{crates, relative, rust_files};
use super::tokens::{Token, tokens, without_tests};

/// Names of HTTP and of vendors that are also names of our types.
const EXCEPTIONS: [&str; 0] = [];

/// The functions of hand-written `Debug` that take the name of their type.
const DEBUG_FUNCTIONS: [&str; 2] = ["debug_struct", "debug_tuple"];

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
        let is_debug = at >= 2
            && tokens[at - 1].is_mark('(')
            && tokens[at - 2].name().is_some_and(|name| DEBUG_FUNCTIONS.contains(&name));
        if !is_debug {
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
    for path in rust_files().into_iter().filter(|path| !super::is_test_file(path)) {
        let source = std::fs::read_to_string(&path).expect("a readable file");
        let named = named_types(&source, &types);
        found.extend(named.iter().map(|name| format!("    {}: {name}", relative(&path))));
    }
    assert!(found.is_empty(), "a string literal holds the name of a type:\n{}", found.join("\n"));
}

#[test]
fn a_type_name_in_a_literal_is_found() {
    let source = r##"
        // "EventStream" in a comment is no literal.
        fn f() { say("the\nEventStream ends", r#"a "CpuPool""#); g.debug_struct("EventStream"); EventStream::new() }
        #[cfg(test)] mod tests { fn t() { say("CpuPool") } }
    "##;
    let types = BTreeSet::from(["EventStream", "CpuPool"]);
    assert_eq!(named_types(source, &types), ["EventStream", "CpuPool"]);
    assert!(is_camel_case("EventStream") && !is_camel_case("Model") && !is_camel_case("URL"));
}
