//! The fingerprint of a provider's account. Sealed reasoning goes back only to the account that gave it.

use aws_lc_rs::digest::{Context, SHA256};
use secrecy::ExposeSecret;

use crate::seal::FINGERPRINT_BYTES;
use crate::settings::ProviderSettings;

/// The options that choose an account or a region of a vendor.
const OPTIONS: [&str; 3] = ["region", "project", "profile"];

/// The beginning of SHA-256 over the API, the address, the region, the project, the profile and the first key. It is the
/// same after a restart, in every replica and with every version. The key cannot be computed from it.
pub(super) fn fingerprint(settings: &ProviderSettings, base_url: &str) -> [u8; FINGERPRINT_BYTES] {
    let mut digest = Context::new(&SHA256);
    let mut add = |text: &str| {
        // With its length, no part can be taken for the end of the one before.
        digest.update(&(text.len() as u64).to_be_bytes());
        digest.update(text.as_bytes());
    };
    add("model-gateway account 1");
    add(settings.api.as_str());
    add(base_url.trim_end_matches('/'));
    for name in OPTIONS {
        add(settings.options.get(name).and_then(toml::Value::as_str).unwrap_or_default());
    }
    add(settings.api_keys.first().map_or("", |(key, _)| key.expose_secret()));
    let digest = digest.finish();
    let mut fingerprint = [0; FINGERPRINT_BYTES];
    fingerprint.iter_mut().zip(digest.as_ref()).for_each(|(byte, of_digest)| *byte = *of_digest);
    fingerprint
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Api;

    fn settings(api: Api, keys: &[&str], region: &str) -> ProviderSettings {
        let mut options = toml::Table::new();
        options.insert("region".to_owned(), toml::Value::String(region.to_owned()));
        ProviderSettings {
            api_keys: keys.iter().map(|key| ((*key).into(), 1)).collect(),
            options,
            ..ProviderSettings::plain("p", api)
        }
    }

    #[test]
    fn an_account_is_its_api_address_region_and_first_key() {
        let url = "https://a.example/v1";
        let one = fingerprint(&settings(Api::ANTHROPIC, &["sk-one"], ""), url);
        // The value is part of every sealed string, so it must never change.
        assert_eq!(one, FINGERPRINT);
        let same = [
            fingerprint(&settings(Api::ANTHROPIC, &["sk-one", "sk-two"], ""), url),
            fingerprint(&settings(Api::ANTHROPIC, &["sk-one"], ""), "https://a.example/v1/"),
        ];
        assert!(same.iter().all(|of| *of == one));
        let others = [
            fingerprint(&settings(Api::OPENAI, &["sk-one"], ""), url),
            fingerprint(&settings(Api::ANTHROPIC, &["sk-two", "sk-one"], ""), url),
            fingerprint(&settings(Api::ANTHROPIC, &[], ""), url),
            fingerprint(&settings(Api::ANTHROPIC, &["sk-one"], "eu-west-1"), url),
            fingerprint(&settings(Api::ANTHROPIC, &["sk-one"], ""), "https://b.example/v1"),
        ];
        assert!(others.iter().all(|of| *of != one));
    }

    const FINGERPRINT: [u8; FINGERPRINT_BYTES] = [146, 121, 180, 249, 137, 100, 183, 194];
}
