//! Masked values, values that stay unchanged, and inputs that must not cause a panic.

use std::sync::{Arc, LazyLock};

use proptest::prelude::*;

use super::*;

fn redactor(most: usize) -> Redactor {
    static PATTERNS: LazyLock<Arc<Patterns>> =
        LazyLock::new(|| Arc::new(Patterns::new(Masks::ALL).expect("the patterns are right")));
    Redactor { patterns: Arc::clone(&PATTERNS), most }
}

fn masked(body: &str) -> String {
    static LONG: LazyLock<Redactor> = LazyLock::new(|| redactor(1 << 20));
    let said = LONG.body(body.as_bytes(), false);
    assert!(!said.is_cut, "{body}");
    said.text
}

#[test]
fn what_looks_like_a_secret_or_a_person_is_masked() {
    let key = format!("sk-gw-{}", "a1B2".repeat(11));
    for (text, wanted) in [
        ("mail alice@example.com, or bob.o'neil+x@mail.example.co.uk.", "mail [email], or [email]."),
        ("müller@exämple.de", "[email]"),
        ("call +49 (171) 234-5678 or 0049 171 2345678", "call [phone] or [phone]"),
        ("(555) 123-4567, 555-123-4567, 0171 2345678", "[phone], [phone], [phone]"),
        ("4111 1111 1111 1111 and 4111-1111-1111-1111", "[card] and [card]"),
        ("amex 378282246310005, order 12 5555555555554444 x", "amex [card], order 12 [card] x"),
        (&format!("key {key}!"), "key [secret]!"),
        ("sk-proj-abcdefghijkl and sk-ant-api03-abcdefgh", "[secret] and [secret]"),
        ("Authorization: Bearer abcdefghijklmnopqrstu.v", "Authorization: Bearer [secret]"),
        ("AKIAIOSFODNN7EXAMPLE", "[secret]"),
        (
            "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "aws_secret_access_key = [secret]",
        ),
        ("password: hunter22, ok", "password: [secret], ok"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "[secret]"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-_", "[secret]"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- x", "[secret] x"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE and cut", "[secret]"),
        ("see data:image/png;base64,AAAAAAAA here", "see [image/png, 6 bytes] here"),
    ] {
        assert_eq!(masked(text), wanted);
        let json = serde_json::json!({ "messages": [{ "content": text }] }).to_string();
        let read: serde_json::Value = serde_json::from_str(&masked(&json)).unwrap();
        assert_eq!(read["messages"][0]["content"], wanted);
    }
}

#[test]
fn what_is_none_stays_to_the_letter() {
    for text in [
        "{ \"a\" : 1.50,\n \"b\":[1e5,-0, 12345678901234567890] ,\"\\u00e9\\/\":\"\\u0041\\n\\ud83d\\ude00\" }",
        r#"{"temperature":0.4111111111111111,"seed":1795253896123,"model":"acme/fast-2026-01"}"#,
        r#"{"lone":"\ud800 and \udc00\ud800","nul":"\u0000"}"#,
        "a@b, x @y.z, task-force-of-many-people, 4111 1111 1111 1112, version 1.2.3, 2026-11-21T09:00:00Z",
        "1+2345678, a bearer of good tidings, req_019aa1111111111111111, 10.0.0.1",
        "{\"not\": json",
        "",
    ] {
        assert_eq!(masked(text), text);
    }
    let off = Redactor::new(Masks::NONE, 1000).unwrap();
    let text = r#"{"password":"x","a":"alice@example.com","n":4111111111111111}"#;
    assert_eq!(off.body(text.as_bytes(), false).text, text);
}

#[test]
fn escapes_numbers_names_and_json_in_strings_hide_nothing() {
    for (body, wanted) in [
        (r#"{"a":"alice\u0040example.com"}"#, r#"{"a":"[email]"}"#),
        (r#"{"a":"\nalice@example.com"}"#, r#"{"a":"\n[email]"}"#),
        (r#"{"a":"\ud800alice\u0040example.com"}"#, "{\"a\":\"\u{fffd}[email]\"}"),
        (r#"{"alice@example.com":1}"#, r#"{"[email]":1}"#),
        (r#"{"card": 4111111111111111, "x":[4111111111111111]}"#, r#"{"card": "[card]", "x":["[card]"]}"#),
        (
            r#"{"arguments":"{\"to\":\"a\\u0040b.org\",\"n\": 1}"}"#,
            r#"{"arguments":"{\"to\":\"[email]\",\"n\": 1}"}"#,
        ),
        (r#"{"Authorization":"x y","password":""}"#, r#"{"Authorization":"[secret]","password":""}"#),
    ] {
        assert_eq!(masked(body), wanted);
    }
}

#[test]
fn bytes_are_replaced_by_their_size() {
    let bytes = "QUJD".repeat(1000);
    for (body, wanted) in [
        (
            format!(r#"{{"input_audio":{{"data":"{bytes}","format":"wav"}}}}"#),
            r#"{"input_audio":{"data":"[3000 bytes]","format":"wav"}}"#,
        ),
        (format!(r#"{{"file_data":"{bytes}"}}"#), r#"{"file_data":"[3000 bytes]"}"#),
        (format!(r#"{{"url":"data:image/png;base64,{bytes}"}}"#), r#"{"url":"[image/png, 3000 bytes]"}"#),
        (r#"{"data":"short words"}"#.to_owned(), r#"{"data":"short words"}"#),
    ] {
        assert_eq!(masked(&body), wanted);
        // Also when they are longer than what is kept.
        let long = body.replace(&bytes, &"QUJD".repeat(100_000));
        let short = redactor(100).body(long.as_bytes(), false);
        assert_eq!((short.text, short.is_cut), (wanted.replace("3000", "300000"), false));
    }
}

#[test]
fn images_and_sound_are_replaced_in_any_member() {
    let bytes = "QUJD".repeat(500);
    for (before, after) in [
        (r#"{"output":[{"type":"image_generation_call","id":"ig_1","result":""#, r#""}]}"#),
        (r#"{"type":"speech.audio.delta","audio":""#, r#""}"#),
        (r#"{"type":"response.output_audio.delta","delta":""#, r#""}"#),
        (r#"{"item":{"content":[{"type":"input_audio","audio":""#, r#""}]}}"#),
        (r#"{"instances":[{"image":{"bytesBase64Encoded":""#, r#""}}]}"#),
        (r#"{"image":{"source":{"bytes":""#, r#""}}}"#),
        (r#"{"image_base64":""#, r#""}"#),
        (r#"{"partial_image_b64":""#, r#""}"#),
        (r#"{"any":["of_no_name",""#, r#""]}"#),
    ] {
        assert_eq!(masked(&format!("{before}{bytes}{after}")), format!("{before}[1500 bytes]{after}"));
        // A streamed answer that was cut has a mark at its end.
        assert_eq!(masked(&format!("{before}{bytes}…{after}")), format!("{before}[1500 bytes]{after}"));
    }
    for text in [
        format!(r#"{{"text":"{}"}}"#, "Words and blanks ".repeat(100)),
        format!(r#"{{"text":"{}"}}"#, "x".repeat(2000)),
        format!(r#"{{"result":"{}"}}"#, "0a".repeat(2000)),
        format!(r#"{{"delta":"{}"}}"#, "Name".repeat(100)),
        format!(r#"{{"text":"{}"}}"#, "Line\n".repeat(500)),
    ] {
        assert_eq!(masked(&text), text);
    }
}

#[test]
fn a_long_body_is_cut_at_a_character_and_flagged() {
    for body in [
        serde_json::json!({ "a": "é".repeat(5_000), "b": "é".repeat(5_000) }).to_string(),
        serde_json::json!(vec!["ü"; 3_000]).to_string(),
        serde_json::json!(vec![0.25; 3_000]).to_string(),
        "ß".repeat(9_000),
    ] {
        for most in [1, 2, 3, 100, 999, 1000, 4096] {
            let said = redactor(most).body(body.as_bytes(), false);
            assert!(
                said.is_cut && said.text.len() <= most && said.text.len() + 8 > most.min(999),
                "{most} {}",
                said.text.len()
            );
            assert!(body.starts_with(&said.text), "{most}");
        }
    }
    assert!(redactor(100).body(b"{}", true).is_cut);
}

#[test]
fn no_half_of_a_secret_is_left_where_a_body_is_cut() {
    let secrets = ["alice@example.com", "4111111111111111", "sk-gw-0123456789abcdefghij", "+49 171 2345678"];
    for secret in secrets {
        // Many that are longer than their masks: what was read beyond the length comes into it.
        let text = format!("{secret} ").repeat(400);
        for body in [text.clone(), serde_json::json!({ "a": text }).to_string()] {
            for most in (200..230).chain(1_500..1_510) {
                let said = redactor(most).body(body.as_bytes(), false);
                for part in [&secret[..6], &secret[secret.len() - 6..]] {
                    assert!(!said.text.contains(part), "{most}: {part} in {}", said.text);
                }
            }
        }
    }
}

/// Pieces of which a text that means harm is made.
fn nasty() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[0-9]{1,20}",
        "[a-z0-9.@+ -]{1,12}",
        r#"[\[\]{}":,\\u/d-]{1,6}"#,
        r"\\u[0-9a-d]{4}",
        Just("sk-".to_owned()),
        Just("Bearer ".to_owned()),
        Just("password=".to_owned()),
        Just("data:;base64,".to_owned()),
        Just("-----BEGIN PRIVATE KEY-----".to_owned()),
        Just("4111 1111 1111 1111".to_owned()),
        Just("a@b.cd".to_owned()),
        Just("+4917123456".to_owned()),
        "\\PC{0,4}",
    ];
    proptest::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn masking_never_panics_and_masking_again_changes_nothing(text in nasty(), name in nasty()) {
        let inner = serde_json::json!({ "x": &text }).to_string();
        let json = serde_json::json!({ name: &text, "in": inner }).to_string();
        for body in [&text, &json] {
            let once = masked(body);
            prop_assert_eq!(&masked(&once), &once, "{}", body);
        }
        prop_assert!(json::check(&masked(&json)).is_ok());
    }

    #[test]
    fn any_bytes_at_any_length_are_cut_and_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), text in nasty(), most in 0_usize..200) {
        for body in [&bytes[..], text.as_bytes(), serde_json::json!([text, text]).to_string().as_bytes()] {
            prop_assert!(redactor(most).body(body, false).text.len() <= most);
        }
    }

    #[test]
    fn a_literal_of_any_escapes_is_read(escapes in proptest::collection::vec(r#"\\u[dD][89a-fA-F][0-9]{2}|\\n|x|\\\\|\\u00e9"#, 0..8)) {
        let literal = format!("\"{}\"", escapes.concat());
        let text = decoded(&literal);
        prop_assert!(escapes.is_empty() || !text.is_empty());
        prop_assert!(!text.contains("\\u"));
    }
}
