//! Tests of vectors.

use proptest::prelude::*;

use super::{VectorError, finite, read_vector, write_embeddings};
use crate::reply::{EmbeddingsReply, Vector};
use crate::request::EncodingFormat;
use crate::usage::Usage;

fn base64(vector: &Vector<'_>) -> String {
    let mut out = Vec::new();
    vector.write_base64(&mut out);
    serde_json::from_slice(&out).unwrap()
}

fn float(vector: &Vector<'_>) -> String {
    let mut out = Vec::new();
    vector.write_float(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn arrays_hold_finite_numbers_only() {
    for (text, len) in [
        ("[0]", 1),
        (" [ 1 , -2.5e-3,\n3E+5 ] ", 3),
        ("[3.4028235e38,-3.4028235e38,1e-999]", 3),
        ("[99999999999999999999999999999999999999]", 1),
        ("[340282350000000000000000000000000000000]", 1),
    ] {
        let vector = read_vector(text).unwrap();
        assert_eq!((vector.dimensions(), float(&vector)), (len, text.trim().to_owned()));
    }
    for (text, error) in [
        ("[]", VectorError::Empty),
        ("[ ]", VectorError::Empty),
        ("[1e999]", VectorError::NotFinite),
        ("[0,-1e39]", VectorError::NotFinite),
        ("[1e+39]", VectorError::NotFinite),
        ("[999999999999999999999999999999999999999]", VectorError::NotFinite),
        ("[1,null]", VectorError::Type),
        ("[\"1\"]", VectorError::Type),
        ("[[1]]", VectorError::Type),
        ("[1,]", VectorError::Type),
        ("[,1]", VectorError::Type),
        ("[1 2]", VectorError::Type),
        ("[01]", VectorError::Type),
        ("[NaN]", VectorError::Type),
        ("[1]]", VectorError::Type),
        ("[1", VectorError::Type),
        ("[", VectorError::Type),
        ("", VectorError::Type),
        ("null", VectorError::Type),
        ("{}", VectorError::Type),
        ("1", VectorError::Type),
    ] {
        assert_eq!(read_vector(text).unwrap_err(), error, "{text}");
    }
}

#[test]
fn base64_is_of_little_endian_floats() {
    // 1.0 and -2.0 as 00 00 80 3f, 00 00 00 c0.
    for text in ["\"AACAPwAAAMA=\"", "\"AACAPwAAAMA\"", "\"AACAPwAAAMA\\u003d\""] {
        let vector = read_vector(text).unwrap();
        assert_eq!((vector.dimensions(), &*float(&vector)), (2, "[1.0,-2.0]"));
        assert_eq!(base64(&vector), "AACAPwAAAMA=");
    }
    assert_eq!(base64(&read_vector("[1, -2]").unwrap()), "AACAPwAAAMA=");
    for (text, error) in [
        ("\"\"", VectorError::Empty),
        ("\"AAAA\"", VectorError::Base64),
        ("\"not base64!\"", VectorError::Base64),
        ("\"AACA_w==\"", VectorError::Base64),
        ("\"AACAfw==\"", VectorError::NotFinite),
    ] {
        assert_eq!(read_vector(text).unwrap_err(), error, "{text}");
    }
    assert_eq!(finite(vec![f32::NAN]).unwrap_err(), VectorError::NotFinite);
}

#[test]
fn the_answer_is_openais_list_of_embeddings() {
    let vectors = vec![read_vector("[0.10, 2]").unwrap(), read_vector("\"AACAPwAAAMA=\"").unwrap()];
    let reply = EmbeddingsReply { vectors, ..EmbeddingsReply::default() };
    let usage = Usage { prompt: 7, ..Usage::default() };
    let written = |encoding| String::from_utf8(write_embeddings(&reply, encoding, "m\"", &usage)).unwrap();
    assert_eq!(
        written(EncodingFormat::Float),
        concat!(
            r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.10, 2]},"#,
            r#"{"object":"embedding","index":1,"embedding":[1.0,-2.0]}],"model":"m\"","#,
            r#""usage":{"prompt_tokens":7,"total_tokens":7}}"#
        )
    );
    assert!(written(EncodingFormat::Base64).contains(r#""index":0,"embedding":"zczMPQAAAEA="}"#));
}

proptest! {
    #[test]
    fn floats_survive_every_encoding(numbers in prop::collection::vec(prop::num::f32::NORMAL | prop::num::f32::SUBNORMAL | prop::num::f32::ZERO, 1..40)) {
        let vector = finite(numbers.clone()).unwrap();
        let (json, encoded) = (float(&vector), base64(&vector));
        let again = read_vector(&json).unwrap();
        prop_assert_eq!(again.dimensions(), numbers.len());
        prop_assert_eq!(&base64(&again), &encoded);
        let literal = format!("\"{encoded}\"");
        let Vector::Floats(back) = read_vector(&literal).unwrap() else { panic!("floats") };
        let bits = |numbers: &[f32]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&back), bits(&numbers));
    }

    #[test]
    fn reading_any_text_never_panics(text in any::<String>(), near in "[\\[\\]\",0-9eE.+\\- ]{0,16}") {
        for text in [text, near] {
            if let Ok(vector) = read_vector(&text) {
                prop_assert!(vector.dimensions() > 0);
                let checked: Result<serde_json::Value, _> = serde_json::from_str(&text);
                prop_assert!(checked.is_ok());
            }
        }
    }
}
