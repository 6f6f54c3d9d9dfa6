//! A packed vector is small and is written again byte for byte.

use proptest::prelude::*;

use super::*;
use crate::embeddings::read_vector;

fn float(vector: &Vector<'_>) -> String {
    let mut out = Vec::new();
    vector.write_float(&mut out);
    String::from_utf8(out).unwrap()
}

fn base64(vector: &Vector<'_>) -> String {
    let mut out = Vec::new();
    vector.write_base64(&mut out);
    String::from_utf8(out).unwrap()
}

/// The 64-bit float as Python writes it, which is what OpenAI sends.
fn python(number: f32) -> String {
    let plain = serde_json::to_string(&f64::from(number)).unwrap();
    if number == 0.0 || number.abs() >= 1e-4 {
        return plain;
    }
    let (mantissa, exponent) = format!("{:e}", f64::from(number))
        .split_once('e')
        .map(|(m, e)| (m.to_owned(), e.to_owned()))
        .unwrap();
    let digits = exponent.trim_start_matches('-');
    format!("{mantissa}e-{digits:0>2}")
}

/// Checks that a vector is restored exactly; returns its packed size.
fn comes_back(text: &str) -> usize {
    let fresh = read_vector(text).unwrap();
    let bytes = fresh.pack();
    let kept = Vector::Packed(Packed::read(&bytes).unwrap());
    let spaceless: String = text.split_ascii_whitespace().collect();
    let shown = float(&kept);
    assert!(shown == text || shown == spaceless, "{shown} for {text}");
    assert_eq!((kept.dimensions(), base64(&kept)), (fresh.dimensions(), base64(&fresh)), "{text}");
    assert_eq!(kept.pack(), bytes);
    let packed = Packed::read(&bytes).unwrap();
    assert!(shown.len() <= packed.max_encoded_bytes(EncodingFormat::Float), "{text}");
    assert_eq!(base64(&kept).len(), packed.max_encoded_bytes(EncodingFormat::Base64), "{text}");
    bytes.len()
}

fn array(numbers: impl Iterator<Item = String>) -> String {
    format!("[{}]", numbers.collect::<Vec<_>>().join(","))
}

#[test]
fn packed_vectors_are_little_larger_than_their_floats() {
    let numbers: Vec<f32> = (1..=1536_u16).map(|n| (f32::from(n) * 0.731).sin() * 0.05).collect();
    let least = numbers.len() * 4 + HEADER;
    let single = array(numbers.iter().map(|number| serde_json::to_string(number).unwrap()));
    assert_eq!(comes_back(&single), least);
    let double = array(numbers.iter().map(|number| serde_json::to_string(&f64::from(*number)).unwrap()));
    assert_eq!(comes_back(&double), least);
    let like_python = array(numbers.iter().copied().map(python));
    assert!(like_python.contains("e-05"), "some of them are odd");
    assert!((least..least * 11 / 10).contains(&comes_back(&like_python)));
    let spaced = double.replace(',', ",\n      ");
    assert_eq!(comes_back(&spaced), least);
    // Numbers that are no 32-bit floats are not lost either.
    let other = array((1..=1536_u16).map(|n| format!("{}", (f64::from(n) * 0.731).sin() * 0.05)));
    assert_eq!(comes_back(&other), other.len() + HEADER);
    let decoded = Vector::Floats(numbers);
    let bytes = decoded.pack();
    let kept = Vector::Packed(Packed::read(&bytes).unwrap());
    assert_eq!((float(&kept), base64(&kept)), (float(&decoded), base64(&decoded)));
}

#[test]
fn unusual_numbers_keep_their_position_and_spelling() {
    for text in [
        "[0]",
        "[0,1,-0,0.0,-0.0]",
        "[0.123456789012345678,0.25,-0.5,1.0,0.75]",
        "[1e-05,0.015625,0.03125,0.0625,0.125,1E+2]",
        "[0.015625,0.03125,0.0625,0.125,1e-05]",
        " [ 0.015625 , 2 ] ",
        "[1.40129846e-45,3.4028235e38]",
    ] {
        comes_back(text.trim());
    }
    let longer_than_a_byte_counts = format!("[0.25,0.{}]", "1".repeat(300));
    comes_back(&longer_than_a_byte_counts);
}

#[test]
fn bytes_that_are_no_packed_vector_are_refused() {
    let bytes = read_vector("[0.015625,0.03125,0.0625,1e-05]").unwrap().pack();
    assert!(Packed::read(&bytes).is_some());
    for end in 0..bytes.len() {
        let read = Packed::read(&bytes[..end]);
        // Without its odd number it is a different but valid vector; only the store's checksum detects that.
        assert!(read.is_none() || end == HEADER + 16, "{end}");
    }
    for other in [
        &b"x\x01\0\0\0\0\0\0\0"[..],
        b"s\0\0\0\0",
        b"s\xff\xff\xff\xff\0\0\0\0",
        b"t\xff\xff\xff\x7f[0]",
        b"[0.1]",
    ] {
        assert!(Packed::read(other).is_none(), "{other:?}");
    }
}

proptest! {
    #[test]
    fn packed_vectors_are_restored_letter_for_letter(
        numbers in prop::collection::vec((any::<f32>(), 0..5_u8), 1..60),
        spelling in 0..3_u8,
    ) {
        let spell = |(number, odd): &(f32, u8)| {
            let number = if number.is_finite() { *number } else { 0.5 };
            match if *odd == 0 { 3 } else { spelling } {
                0 => serde_json::to_string(&number).unwrap(),
                1 => serde_json::to_string(&f64::from(number)).unwrap(),
                2 => python(number),
                _ => format!("{number:e}"),
            }
        };
        comes_back(&array(numbers.iter().map(spell)));
    }

    #[test]
    fn unpacking_never_panics(
        form in 0..3_usize,
        len in 0..6_u32,
        rest in prop::collection::vec(prop_oneof![Just(0_u8), 0..12_u8, any::<u8>()], 0..60),
    ) {
        let mut bytes = vec![b"sdt"[form]];
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(&rest);
        if let Some(packed) = Packed::read(&bytes) {
            let vector = Vector::Packed(packed);
            prop_assert_eq!(&vector.pack(), &bytes);
            let _ = (float_bytes(&vector), base64(&vector));
        }
    }
}

fn float_bytes(vector: &Vector<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    vector.write_float(&mut out);
    out
}
