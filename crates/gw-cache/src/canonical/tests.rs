//! Pairs of texts with the same and with different canonical forms. Random pairs are in `key/tests/random.rs`.

use gw_testkit::cpu_time::assert_cpu_time;

use crate::hasher::Hasher;

fn form(text: &str) -> Option<[u8; 32]> {
    let mut out = Hasher::new();
    super::feed(text, &mut out)?;
    Some(out.finalize())
}

fn same(one: &str, other: &str) {
    assert!(form(one).is_some(), "{one}");
    assert_eq!(form(one), form(other), "{one} and {other}");
}

fn differ(one: &str, other: &str) {
    assert!(form(one).is_some() && form(other).is_some(), "{one} {other}");
    assert_ne!(form(one), form(other), "{one} and {other}");
}

#[test]
fn numbers_are_their_decimal_value() {
    for one in ["1", "1.0", "1e0", "1E+0", "10e-1", "0.1e1", "1.000", "0.001e3", "100e-2"] {
        same("1", one);
    }
    for zero in ["0", "-0", "0.0", "-0.000", "0e9", "0e-99999999999999999999"] {
        same("0", zero);
    }
    same("1500", "1.5e3");
    same("-120.50", "-1.205e2");
    same("0.00012", "1.2e-4");
    same("1e400", "10e399");
    differ("1", "-1");
    differ("1", "10");
    differ("0.1", "0.01");
    differ("12", "1.2");
    // These differ beyond the precision of a double.
    differ("9007199254740993", "9007199254740992");
    differ("123456789012345678901234567890", "123456789012345678901234567891");
    differ("0.1", "0.1000000000000000055511151231257827");
    // Powers beyond 64 bits are compared as text.
    same("1e99999999999999999999", "1e99999999999999999999");
    differ("1e99999999999999999999", "1e99999999999999999998");
    differ("1e9223372036854775807", "10e9223372036854775807");
    differ("1e99999999999999999999", r#""1e99999999999999999999""#);
}

#[test]
fn strings_are_their_characters() {
    same(r#""a""#, r#""\u0061""#);
    same(r#""é/\n""#, "\"\\u00e9\\/\\u000a\"");
    same(r#""😀""#, r#""\ud83d\ude00""#);
    differ(r#""a""#, r#""A""#);
    differ(r#""1""#, "1");
    differ(r#""null""#, "null");
    // A composed and a decomposed character look alike, but a model gets different characters.
    differ("\"\u{e9}\"", "\"e\u{301}\"");
}

#[test]
fn order_and_blanks_do_not_matter_in_objects_and_order_does_in_arrays() {
    same(r#"{"a":1,"b":[2,3]}"#, "\t{ \"b\" : [ 2 ,3 ],\r\n\"a\" :1 } ");
    same(r#"{"a":{"x":1,"y":{}},"b":[]}"#, r#"{"b":[],"a":{"y":{},"\u0078":1.0}}"#);
    differ("[1,2]", "[2,1]");
    differ("[1,2]", "[12]");
    differ("[[1],2]", "[[1,2]]");
    differ("[]", "{}");
    differ("[]", "[[]]");
    differ("[null]", "[]");
    differ(r#"{"a":null}"#, "{}");
    differ(r#"{"a":"b"}"#, r#"{"b":"a"}"#);
    differ(r#"{"a":{"b":1},"c":2}"#, r#"{"a":{"b":1,"c":2}}"#);
    differ(r#"["a","b"]"#, r#"["ab"]"#);
    differ(r#"[{"a":1},{"b":2}]"#, r#"[{"a":1,"b":2}]"#);
    differ(r#"{"a":1}"#, r#"{"b":1}"#);
    differ(r#"[{"a":{"x":1}}]"#, r#"[{"a":{"y":1}}]"#);
    let simple = ["true", "false", "null", "0", "1", "\"\"", "[]", "{}"];
    for (at, one) in simple.iter().enumerate() {
        simple[at + 1..].iter().for_each(|other| differ(one, other));
    }
}

#[test]
fn the_order_of_two_members_with_one_name_counts() {
    differ(r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#);
    differ(r#"{"a":1,"a":1}"#, r#"{"a":1}"#);
    same(r#"{"a":1,"b":0,"a":2}"#, r#"{"b":0,"a":1,"\u0061":2}"#);
}

#[test]
fn a_text_that_is_not_json_has_no_form() {
    for text in ["", " ", "{", "[1,]", "nul", "1 2", r#"{"a"}"#, r#""\ud800""#, r#"{"\ud800":1}"#, "01", "+1"]
    {
        assert_eq!(form(text), None, "{text}");
    }
}

#[test]
fn no_part_runs_into_the_next() {
    // These would be equal if strings had no length and arrays no beginning.
    differ(r#"["a","b"]"#, r#"["asb"]"#);
    differ("[[],[]]", "[[[]]]");
    differ(r#"{"a":"","b":""}"#, r#"{"a":"sb"}"#);
    // These would be equal if objects had no end or no beginning.
    differ(r#"[{"a":1},"b",2]"#, r#"[{"a":1,"b":2}]"#);
    differ(r#"[[{"a":1}]]"#, r#"[["a",1],{}]"#);
    // These would be equal if strings had no mark: a string whose length and text look like the form of an array.
    let lengths = [0x100, 0x4068, 0x7f60, 0x3f7f];
    let strings: Vec<String> = lengths.map(|length| format!("\"{}\"", "x".repeat(length))).into();
    let array = format!("[{}]", strings.join(","));
    let mut bytes = vec![b'a'];
    for length in lengths {
        bytes.extend((length as u64).to_le_bytes());
        bytes.extend(std::iter::repeat_n(b'x', length));
    }
    bytes.push(b'e');
    let (length, text) = bytes.split_at(8);
    assert_eq!(u64::from_le_bytes(length.try_into().unwrap()), text.len() as u64);
    let text = std::str::from_utf8(text).unwrap();
    let mut escaped = String::new();
    text.chars().for_each(|c| escaped.push_str(&format!("\\u{:04x}", u32::from(c))));
    differ(&array, &format!("\"{escaped}\""));
}

#[test]
fn neither_arrays_nor_objects_are_read_beyond_the_deepest_level() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = |depth: usize| form(&format!("{}1{}", open.repeat(depth), close.repeat(depth)));
        assert!(nested(128).is_some() && nested(129).is_none(), "{open}");
    }
}

#[test]
fn a_deep_text_is_read_once_and_a_too_deep_one_is_refused() {
    let nested = |depth: usize, inner: &str| {
        let (open, close) = ("[{\"a\":".repeat(depth / 2), "}]".repeat(depth / 2));
        format!("{open}{inner}{close}")
    };
    assert!(form(&nested(128, "1")).is_some());
    assert!(form(&nested(130, "1")).is_none());
    let numbers = vec!["1"; 300_000].join(",");
    let flat = format!("[{numbers}]");
    let deep = nested(120, &flat);
    let read = |text: &str| assert!(form(text).is_some());
    // A text that is read again at each level would take more than a hundred times as long.
    assert_cpu_time("a deep text", || read(&flat), || read(&deep), |flat| flat * 12);
}
