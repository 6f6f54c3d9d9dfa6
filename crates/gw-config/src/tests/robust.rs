//! The loader survives any text, and recognises names with one wrong letter.

use std::path::Path;

use proptest::prelude::*;

use super::super::parse;
use super::super::schema::{Kind, Section};
use super::super::tables::ROOT;
use super::bare;

const EXAMPLE: &str = include_str!("../../../../gateway.example.toml");

/// Every section with the headers that lead to it: a table below `[[x]]` needs an `x` above it.
fn sections() -> Vec<(String, &'static Section)> {
    fn below(kind: &'static Kind, path: &str, above: &str, found: &mut Vec<(String, &'static Section)>) {
        let (header, section) = match kind {
            Kind::Table(section) => (format!("{above}[{path}]\n"), *section),
            Kind::Tables(section) | Kind::List { of: Kind::Either(_, Kind::Table(section)), .. } => {
                (format!("{above}[[{path}]]\n"), *section)
            }
            _ => return,
        };
        for key in section.keys {
            below(&key.kind, &format!("{path}.{}", key.name), &header, found);
        }
        found.push((header, section));
    }
    let mut found = Vec::new();
    for key in ROOT.keys {
        below(&key.kind, key.name, "", &mut found);
    }
    found
}

/// The mistakes that change one letter of a name.
type Change<'a> = &'a dyn Fn(&mut Vec<char>);

/// Every text that is one slip away.
fn slips(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut slips = Vec::new();
    for at in 0..letters.len() {
        let with = |change: Change<'_>| {
            let mut letters = letters.clone();
            change(&mut letters);
            letters.into_iter().collect::<String>()
        };
        slips.push(with(&|letters| {
            letters.remove(at);
        }));
        slips.push(with(&|letters| letters[at] = 'x'));
        slips.push(with(&|letters| letters.insert(at, letters[at])));
        if at > 0 {
            slips.push(with(&|letters| letters.swap(at, at - 1)));
        }
    }
    slips
}

#[test]
fn each_key_misspelled_by_one_letter_is_recognised_on_its_line() {
    let sections = sections();
    assert!(sections.len() >= 20, "{sections:?}");
    for (header, section) in sections {
        for key in section.keys {
            for slip in slips(key.name).into_iter().filter(|slip| section.key(slip).is_none()) {
                let text = format!("# a remark\n\n{header}  {slip} = 1\n");
                let line = text.lines().count();
                let problems = parse(&text, Path::new("g.toml"), &bare).unwrap_err();
                let quoted = format!("'{}'", key.name);
                let said = problems.iter().find(|problem| problem.message == "unknown key").expect(&text);
                assert_eq!((said.location.line, said.location.column), (line, 3), "{text}");
                assert!(said.hint.as_ref().is_some_and(|hint| hint.contains(&quoted)), "{text}{said}");
                assert!(said.path.ends_with(&format!(".{slip}")), "{text}{said}");
            }
        }
    }
}

#[test]
fn deep_nesting_is_refused_not_followed() {
    for text in [
        "a = ".to_owned() + &"[".repeat(100_000),
        "a = ".to_owned() + &"{a=".repeat(100_000),
        "[".to_owned() + &"a.".repeat(50_000) + "a]",
    ] {
        assert!(parse(&text, Path::new("g.toml"), &bare).is_err());
    }
}

/// The locations of problems must exist in the text.
fn answers(text: &str) -> Result<(), TestCaseError> {
    if let Err(problems) = parse(text, Path::new("g.toml"), &bare) {
        prop_assert!(!problems.is_empty());
        for pair in problems.windows(2) {
            let place = |index: usize| (pair[index].location.line, pair[index].location.column);
            prop_assert!(place(0) <= place(1), "{pair:?}");
        }
        for problem in problems {
            prop_assert!(problem.location.line <= text.split('\n').count(), "{problem}");
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_text_is_answered(text in "\\PC{0,200}") {
        answers(&text)?;
    }

    #[test]
    fn any_toml_like_text_is_answered(text in "([\\[\\]{}=.\",'$\\n #-]|server|keys|providers|listen|key|file|1|true|\\$\\{A\\}){0,60}") {
        answers(&text)?;
    }

    #[test]
    fn a_damaged_example_is_answered(from in 0usize..8000, length in 0usize..40, insert in "\\PC{0,6}") {
        let at = |mut offset: usize| {
            offset = offset.min(EXAMPLE.len());
            while !EXAMPLE.is_char_boundary(offset) {
                offset -= 1;
            }
            offset
        };
        let (start, end) = (at(from), at(from + length));
        answers(&format!("{}{insert}{}", &EXAMPLE[..start], &EXAMPLE[end..]))?;
    }
}
