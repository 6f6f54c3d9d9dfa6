//! Model names as segments of a path.

use gw_wire::percent;

/// Percent-encodes each segment of a path; the slashes between segments stay.
pub(in crate::adapters) fn encoded_path(path: &str) -> String {
    percent::encode_except(path, b"/@")
}

#[cfg(test)]
mod tests {
    use super::encoded_path;

    #[test]
    fn a_model_name_cannot_change_the_path() {
        assert_eq!(encoded_path("a b?c#d%e:f/é@1"), "a%20b%3Fc%23d%25e%3Af/%C3%A9@1");
    }
}
