//! Masks gateway keys in what a client wrote into its URL or into the id of its request.

use std::borrow::Cow;

/// The beginning of each generated key.
const PREFIX: &str = "sk-gw-";
/// The characters of the key's public id that follow.
const ID_CHARS: usize = 6;
const MASK: &str = "***";

/// The text with `***` in the place of the secret part of each generated key. The id of the key stays, so that the operator finds the
/// key that has to be rotated.
pub(crate) fn masked_keys(text: &str) -> Cow<'_, str> {
    let Some((mut before, mut rest)) = text.split_once(PREFIX) else { return Cow::Borrowed(text) };
    let mut masked = String::with_capacity(text.len());
    loop {
        masked.push_str(before);
        masked.push_str(PREFIX);
        let end = rest.find(|char: char| !char.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (key, after) = rest.split_at(end);
        masked.push_str(key.get(..ID_CHARS).unwrap_or(key));
        if key.len() > ID_CHARS {
            masked.push_str(MASK);
        }
        match after.split_once(PREFIX) {
            Some(next) => (before, rest) = next,
            None => {
                masked.push_str(after);
                return Cow::Owned(masked);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_key_stays_and_its_secret_goes() {
        for (text, masked) in [
            ("/v1/models", "/v1/models"),
            ("/v1/models/sk-gw-abc123DEF456/x", "/v1/models/sk-gw-abc123***/x"),
            ("/admin/v1/keys/sk-gw-abc123", "/admin/v1/keys/sk-gw-abc123"),
            ("sk-gw-abc1234sk-gw-", "sk-gw-abc123***-gw-"),
            ("sk-gw-abc1234/sk-gw-xyz", "sk-gw-abc123***/sk-gw-xyz"),
            ("é sk-gw-é", "é sk-gw-é"),
        ] {
            assert_eq!(masked_keys(text), masked);
        }
    }
}
