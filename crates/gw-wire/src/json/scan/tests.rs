//! Tests of the scanner; serde_json confirms the results.

use proptest::prelude::*;
use serde_json::value::RawValue;

use super::{Bounds, Extent, ScanError, check, check_members, number_end};
use crate::json::View;

fn second_opinion(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

#[test]
fn valid_json_is_accepted_and_lookalikes_are_refused() {
    let yes = [
        "0",
        "-0",
        "-0.0e-0",
        "1E+9",
        "1e999",
        "\"\"",
        "\"\\u0000\"",
        "[]",
        "{}",
        " [ 1 , 2 ] ",
        "{\"a\":{\"b\":[null]}}",
        "true",
        "false",
        "null",
        "\"\u{7f}\u{2028}\"",
        "\t\r\n1\n",
        "[[],{},[{}]]",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
    ];
    let no = [
        "",
        " ",
        "01",
        "-",
        "+1",
        "1.",
        ".5",
        "1e",
        "1e+",
        "--1",
        "NaN",
        "Infinity",
        "tru",
        "truee",
        "nul",
        "'a'",
        "\"",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\n\"",
        "\"\0\"",
        "[",
        "]",
        "[1",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{1:1}",
        "{,}",
        "[}",
        "{]",
        "[1}",
        "{\"a\":1]",
        "1 2",
        "{}{}",
        "\u{feff}{}",
        "\u{a0}1",
        "[1]]",
        "// c\n1",
        "\x0c1",
    ];
    for text in yes {
        assert!(check(text).is_ok() && second_opinion(text), "{text:?}");
    }
    for text in no {
        assert!(check(text).is_err() && !second_opinion(text), "{text:?}");
    }
}

#[test]
fn exactly_128_levels_are_allowed() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
        let levels = if open.starts_with("[{") { 2 } else { 1 };
        let nested = |depth: usize| open.repeat(depth / levels) + "1" + &close.repeat(depth / levels);
        assert!(check(&nested(128)).is_ok());
        assert!(matches!(check(&nested(128 + levels)), Err(ScanError::TooDeep(_))));
        assert!(matches!(check(&nested(1_000_000)), Err(ScanError::TooDeep(_))));
    }
    assert!(check(&("[".repeat(128) + &"]".repeat(128))).is_ok());
    assert!(check(&("[".repeat(129) + &"]".repeat(129))).is_err());
    let wide = format!("[{}[]]", "[[[]]],".repeat(1000));
    assert!(check(&wide).is_ok(), "depth is of the nesting, not of the number of brackets");
}

#[test]
fn a_lone_surrogate_escape_is_detected() {
    let seen = |text: &str| check(text).unwrap().lone_surrogate;
    assert_eq!(seen(r#""\ud83d\ude00""#), None);
    assert_eq!(seen(r#""\uD83D\uDE00 \u00e9""#), None);
    assert_eq!(seen(r#""a\ud83d""#), Some(2));
    assert_eq!(seen(r#""\ude00""#), Some(1));
    assert_eq!(seen(r#""\ud83d\ud83d\ude00""#), Some(1));
    assert_eq!(seen(r#""\ud83dx\ude00""#), Some(1));
    assert_eq!(seen(r#""\ud83d\n""#), Some(1));
    assert_eq!(seen(r#"{"\udfff":1}"#), Some(2));
    assert_eq!(seen(r#""\\ud83d""#), None, "an escaped backslash begins no escape");
}

#[test]
fn number_ends_follow_the_json_grammar() {
    for (text, end) in
        [("12,", Some(2)), ("-1.5e3]", Some(6)), ("0123", Some(1)), ("-", None), ("x", None), ("", None)]
    {
        assert_eq!(number_end(text.as_bytes(), 0), end, "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn agrees_with_serde_json(text in "[\\[\\]{}\",:0-9eE.+\\-tfnrulase\\\\ \n\u{1}é]{0,24}") {
        prop_assert_eq!(check(&text).is_ok(), second_opinion(&text));
    }

    #[test]
    fn reading_any_text_never_panics(text in any::<String>()) {
        prop_assert_eq!(check(&text).is_ok(), second_opinion(&text));
    }

    #[test]
    fn strings_decode_unless_they_hold_a_lone_surrogate(inner in "(\\\\u[dD][89abAB cC][0-9a-f]{2}|\\\\n|x){0,6}") {
        let text = format!("\"{inner}\"");
        if let Ok(checked) = check(&text) {
            prop_assert_eq!(checked.lone_surrogate.is_none(), serde_json::from_str::<String>(&text).is_ok());
        }
    }
}

#[test]
fn the_check_collects_the_outermost_members() {
    let text = " { \"a\" : [1, {\"x\":2}] ,\"b\\n\":null,\"\":-1.5e3 , \"c\":{\"d\":{}} ,\"e\" :\"f\" } ";
    let (_, found) = check_members(text, Bounds::NONE).unwrap();
    let members: Vec<_> = found.iter().map(|member| (member.name, member.value)).collect();
    assert_eq!(members, View::new(text).members().collect::<Vec<_>>());
    let extents = [(4, 2), (1, 0), (1, 0), (2, 2), (1, 0)].map(|(values, depth)| Extent { values, depth });
    assert_eq!(found.iter().map(|member| member.extent).collect::<Vec<_>>(), extents);
    assert_eq!(View::new(text).extent(), Extent { values: 10, depth: 3 });
    for text in ["[{\"a\":1}]", "{}", " 1", "\"a\"", "[]"] {
        assert!(check_members(text, Bounds::NONE).unwrap().1.is_empty(), "{text}");
    }
}

#[test]
fn the_check_stops_at_its_bounds_of_members_and_values() {
    let members = |count| Bounds { members: count, ..Bounds::NONE };
    let text = r#"{"a":{"x":1,"y":2},"b":[{"z":3}]}"#;
    assert!(check_members(text, members(2)).is_ok());
    assert_eq!(check_members(text, members(1)), Err(ScanError::TooManyMembers(19)));
    let values = |count| Bounds { values: count, ..Bounds::NONE };
    assert!(check_members(text, values(7)).is_ok());
    assert!(matches!(check_members(text, values(6)), Err(ScanError::TooManyValues(_))));
    // Numbers in arrays do not count, whatever their spelling.
    assert!(check_members("[1,-2,3.5e1,[4],[5,6]]", values(3)).is_ok());
    assert!(matches!(check_members("[1,null]", values(1)), Err(ScanError::TooManyValues(3))));
}
