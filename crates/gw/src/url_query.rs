//! Percent-encoding for the paths and queries that commands send.

/// A query string of the parameters that have a value.
#[must_use]
pub fn query(parameters: &[(&str, Option<&str>)]) -> String {
    let given = parameters.iter().filter_map(|(name, value)| Some(format!("{name}={}", encode((*value)?))));
    given.collect::<Vec<_>>().join("&")
}

/// Percent-encodes every byte that has a meaning in a URL.
#[must_use]
pub fn encode(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encoded = text
        .bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") });
    encoded.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stays_one_part_of_the_url() {
        assert_eq!(encode("a/../b?c#d é"), "a%2F..%2Fb%3Fc%23d%20%C3%A9");
        let parameters = [("a", Some("x&y=z")), ("b", None), ("c", Some("7d"))];
        assert_eq!(query(&parameters), "a=x%26y%3Dz&c=7d");
    }
}
