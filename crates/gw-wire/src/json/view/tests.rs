//! Tests of views.

use proptest::prelude::*;

use super::{Kind, View};
use crate::json::check;

#[test]
fn members_and_elements_point_into_the_text() {
    let text = " { \"a\" : [1, \"x]\\\"}\" ,{} ] ,\"b\\n\":null,\"\":-1.5e3 } ";
    let view = View::new(text);
    let members: Vec<_> =
        view.members().map(|(name, value)| (name.string().unwrap(), value.text())).collect();
    let expected = [("a", "[1, \"x]\\\"}\" ,{} ]"), ("b\n", "null"), ("", "-1.5e3")];
    assert_eq!(members, expected.map(|(name, value)| (name.into(), value)));
    let array = View::new(expected[0].1);
    assert_eq!(array.elements().map(View::text).collect::<Vec<_>>(), ["1", "\"x]\\\"}\"", "{}"]);
    assert_eq!(view.elements().count() + array.members().count() + View::new("1").elements().count(), 0);
    assert!(View::new("[ ]").is_empty_array() && !array.is_empty_array() && !view.is_empty_array());
}

#[test]
fn number_kinds_follow_the_spelling() {
    for (text, kind) in [
        ("0", Kind::Integer),
        ("-0", Kind::Integer),
        ("1.0", Kind::Decimal),
        ("1e2", Kind::Decimal),
        ("1E2", Kind::Decimal),
        ("true", Kind::Boolean),
        ("null", Kind::Null),
        ("\"1\"", Kind::String),
        ("[]", Kind::Array),
        ("{}", Kind::Object),
    ] {
        assert_eq!(View::new(text).kind(), kind, "{text}");
    }
}

proptest! {
    #[test]
    fn string_len_is_the_length_of_the_string(text in any::<String>(), ascii in any::<bool>()) {
        let mut literal = serde_json::to_string(&text).unwrap();
        if ascii {
            literal = literal.encode_utf16().map(|unit| match unit {
                0..=0x7e => char::from(u8::try_from(unit).unwrap()).to_string(),
                _ => format!("\\u{unit:04x}"),
            }).collect();
        }
        prop_assert!(check(&literal).unwrap().lone_surrogate.is_none());
        let view = View::new(&literal);
        prop_assert_eq!(view.string_len(), text.len());
        prop_assert_eq!(&*view.string().unwrap(), &*text);
    }

    #[test]
    fn unchecked_text_ends_without_a_panic(text in "[\\[\\]{}\",:0-9\\\\ né]{0,24}") {
        let view = View::new(&text);
        let _ = (view.kind(), view.string(), view.string_len());
        prop_assert!(view.elements().count() + view.members().count() <= text.len());
    }
}
