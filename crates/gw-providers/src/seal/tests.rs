//! Sealed strings: equal content gives equal strings, and only the right key opens an unchanged one.

use secrecy::ExposeSecret;

use super::{EncryptionKey, KeyFormatError, SealOrigin, Sealer, is_sealed};

fn sealer(byte: u8) -> Sealer {
    Sealer::new(&EncryptionKey::from_bytes(&[byte; 32]))
}

fn origin() -> SealOrigin {
    SealOrigin { provider: "my-anthropic".to_owned(), model: "claude".to_owned(), account: [7; 8] }
}

#[test]
fn a_payload_comes_back_with_its_origin() {
    for payload in [&b""[..], b"x", &[0; 3000], "考え".as_bytes()] {
        let sealed = sealer(1).seal(&origin(), payload).unwrap();
        assert!(
            is_sealed(&sealed)
                && sealed[4..].bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        );
        assert_eq!(sealer(1).open(&sealed), Some((origin(), payload.to_vec())));
        let overhead = 12 + 16 + 8 + 4 + "my-anthropicclaude".len();
        assert_eq!(sealed.len(), 4 + ((payload.len() + overhead) * 4).div_ceil(3));
    }
}

#[test]
fn equal_content_gives_equal_strings_and_every_difference_another_nonce() {
    let sealed = |origin: &SealOrigin, payload: &[u8]| sealer(1).seal(origin, payload).unwrap();
    let first = sealed(&origin(), b"payload");
    assert_eq!(first, sealed(&origin(), b"payload"));
    let others = [
        sealed(&origin(), b"Payload"),
        sealed(
            &SealOrigin { provider: "my-anthropi".to_owned(), model: "cclaude".to_owned(), ..origin() },
            b"payload",
        ),
        sealed(&SealOrigin { account: [8; 8], ..origin() }, b"payload"),
        sealer(2).seal(&origin(), b"payload").unwrap(),
    ];
    for (at, other) in others.iter().enumerate() {
        assert_ne!(other[..20], first[..20], "{at}");
    }
}

#[test]
fn a_changed_character_a_cut_string_and_another_key_open_nothing() {
    let sealed = sealer(1).seal(&origin(), b"payload").unwrap();
    for at in 0..sealed.len() {
        let mut changed = sealed.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        assert_eq!(sealer(1).open(&String::from_utf8(changed).unwrap()), None, "{at}");
        assert_eq!(sealer(1).open(&sealed[..at]), None, "{at}");
    }
    assert_eq!(sealer(2).open(&sealed), None);
    assert_eq!(sealer(1).open(&format!("{sealed}A")), None);
    for other in ["", "gw1.", "gw1.AAAA", "gw2.AAAA", "EqQBCkYIBRgC", "gw1.é"] {
        assert_eq!(sealer(1).open(other), None, "{other}");
    }
}

#[test]
fn payloads_and_names_have_bounds() {
    assert!(sealer(1).seal(&origin(), &vec![0; 8 << 20]).is_some());
    assert!(sealer(1).seal(&origin(), &vec![0; (8 << 20) + 1]).is_none());
    let long = SealOrigin { model: "m".repeat(70_000), ..origin() };
    assert!(sealer(1).seal(&long, b"x").is_none());
    let largest = sealer(1).seal(&origin(), &vec![0; 8 << 20]).unwrap();
    assert!(sealer(1).open(&largest).is_some());
    assert!(sealer(1).open(&format!("gw1.{}", "A".repeat(12 << 20))).is_none());
}

#[test]
fn a_key_is_base64_or_hexadecimal() {
    let hex = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";
    let base64 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    for text in [hex, base64, base64.trim_end_matches('='), &format!(" {base64}\n")] {
        assert_eq!(EncryptionKey::parse(text).unwrap().to_base64().expose_secret(), base64, "{text}");
    }
    for text in ["", "secret", &hex[2..], &base64[4..], &"g".repeat(64), &"é".repeat(32)] {
        assert_eq!(EncryptionKey::parse(text).err(), Some(KeyFormatError), "{text}");
    }
    let debug = format!("{:?} {:?}", EncryptionKey::parse(hex).unwrap(), sealer(9));
    assert!(!debug.contains("0, 1, 2") && !debug.contains("9, 9") && !debug.contains("AAEC"), "{debug}");
}

#[test]
fn random_keys_differ() {
    let sealed = Sealer::random().seal(&origin(), b"x").unwrap();
    assert_eq!(Sealer::random().open(&sealed), None);
}

#[test]
fn k03_the_keys_before_rotations_open_and_only_the_current_one_seals() {
    let key = |byte: u8| EncryptionKey::from_bytes(&[byte; 32]);
    let rotated = Sealer::rotated(&key(3), &[key(2), key(1)]);
    for byte in [1, 2, 3] {
        for payload in [&b""[..], b"x", &[0; 3000]] {
            let sealed = sealer(byte).seal(&origin(), payload).unwrap();
            assert_eq!(rotated.open(&sealed), Some((origin(), payload.to_vec())), "{byte}");
        }
    }
    assert_eq!(rotated.open(&sealer(4).seal(&origin(), b"x").unwrap()), None);
    let sealed = rotated.seal(&origin(), b"payload");
    assert_eq!(sealed, sealer(3).seal(&origin(), b"payload"));
    assert_eq!(sealer(2).open(&sealed.unwrap()), None);
    let old = sealer(1).seal(&origin(), b"payload").unwrap();
    for at in 0..old.len() {
        let mut changed = old.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        assert_eq!(rotated.open(&String::from_utf8(changed).unwrap()), None, "{at}");
    }
}
