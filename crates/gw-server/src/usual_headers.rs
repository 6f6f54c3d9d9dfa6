//! The header maps of answers whose names are those of earlier answers.
//!
//! A map of headers hashes each name, which takes about 200 instructions for each of the 14 names of a generated answer. A copy of
//! a map with the same names takes a third of that.

use std::sync::OnceLock;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::response::ExtraHeaders;

/// The lists of names that are remembered. They differ by the limits of the key, the surface, the response cache, and whether the
/// answer is a stream.
const SHAPES: usize = 16;

/// Maps with the names of the first answers, without their values.
#[derive(Debug, Default)]
pub(crate) struct UsualHeaders {
    shapes: [OnceLock<HeaderMap>; SHAPES],
}

impl UsualHeaders {
    /// The map of these headers.
    pub(crate) fn map(&self, headers: ExtraHeaders) -> HeaderMap {
        let known = self.shapes.iter().map_while(OnceLock::get).find(|shape| has_names(shape, &headers));
        if let Some(shape) = known {
            let mut map = shape.clone();
            map.values_mut().zip(headers).for_each(|(place, (_, value))| *place = value);
            return map;
        }
        let mut map = HeaderMap::with_capacity(headers.len());
        map.extend(headers);
        let is_distinct = map.len() == map.keys_len();
        if let Some(place) = self.shapes.iter().find(|place| is_distinct && place.get().is_none()) {
            let mut shape = map.clone();
            shape.values_mut().for_each(|value| *value = HeaderValue::from_static(""));
            // Another thread may have been faster.
            let _ = place.set(shape);
        }
        map
    }
}

/// Whether a map has exactly these names, in this order.
fn has_names(shape: &HeaderMap, headers: &[(HeaderName, HeaderValue)]) -> bool {
    // Names of answers are constants, whose copies share their text. To compare the places of two texts takes less than to compare
    // the texts.
    let is_same = |(one, (other, _)): (&HeaderName, &(HeaderName, HeaderValue))| {
        std::ptr::eq(one.as_str(), other.as_str()) || one == other
    };
    shape.len() == headers.len() && shape.keys().zip(headers).all(is_same)
}

#[cfg(test)]
mod tests {
    use http::header::{ACCEPT, HOST, HeaderName, VARY};
    use http::{HeaderMap, HeaderValue};
    use proptest::prelude::*;

    use super::UsualHeaders;

    const OWN: HeaderName = HeaderName::from_static("x-own");

    fn list(headers: &[(HeaderName, &'static str)]) -> Vec<(HeaderName, HeaderValue)> {
        headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn a_map_has_the_values_of_its_own_answer() {
        let usual = UsualHeaders::default();
        for value in ["first", "second"] {
            let map = usual.map(list(&[(OWN, value), (HOST, "h")]));
            assert_eq!(
                (map.len(), &map[OWN], &map[HOST]),
                (2, &HeaderValue::from_static(value), &"h".parse().unwrap())
            );
        }
        let kept: Vec<_> = usual.shapes.iter().filter_map(|shape| shape.get()).collect();
        assert!(
            kept.len() == 1 && kept[0].values().all(HeaderValue::is_empty),
            "no value of an answer is kept"
        );
    }

    proptest! {
        #[test]
        fn every_list_gives_the_map_of_its_headers(
            lists in prop::collection::vec(prop::collection::vec((0..4usize, 0..3usize), 0..5), 1..20),
        ) {
            let (names, values) = ([OWN, ACCEPT, HOST, VARY], ["", "a", "b"]);
            let usual = UsualHeaders::default();
            for headers in lists {
                let headers: Vec<_> = headers.iter().map(|(name, value)| (names[*name].clone(), values[*value])).collect();
                let mut expected = HeaderMap::new();
                for (name, value) in list(&headers) {
                    expected.append(name, value);
                }
                let map = usual.map(list(&headers));
                prop_assert_eq!(&map, &expected);
                let order: Vec<_> = map.iter().collect();
                prop_assert_eq!(order, expected.iter().collect::<Vec<_>>());
            }
        }
    }
}
