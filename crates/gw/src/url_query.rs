//! The queries that commands send.

use gw_wire::percent::encode;

/// A query string of the parameters that have a value.
#[must_use]
pub fn query(parameters: &[(&str, Option<&str>)]) -> String {
    let given = parameters.iter().filter_map(|(name, value)| Some(format!("{name}={}", encode((*value)?))));
    given.collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stays_one_part_of_the_url() {
        let parameters = [("a", Some("x&y=z")), ("b", None), ("c", Some("7d"))];
        assert_eq!(query(&parameters), "a=x%26y%3Dz&c=7d");
    }
}
