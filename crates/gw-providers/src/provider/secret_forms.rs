//! The forms in which an upstream may repeat a secret.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use gw_wire::{hex, percent};

/// Returns the secret as it is, as base64 of both alphabets, as hexadecimal digits in small and capital letters, and with percent codes. A
/// padded form stands before its beginning without the padding, so that it is replaced whole.
pub(super) fn secret_forms(secret: String) -> [String; 8] {
    let bytes = secret.as_bytes();
    let digits = hex::encode(bytes);
    [
        STANDARD.encode(bytes),
        STANDARD_NO_PAD.encode(bytes),
        URL_SAFE.encode(bytes),
        URL_SAFE_NO_PAD.encode(bytes),
        digits.to_ascii_uppercase(),
        digits,
        percent::encode(&secret),
        secret,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_of_a_secret_is_known() {
        let forms = secret_forms("sk-a?>~/1".to_owned());
        for form in [
            "c2stYT8+fi8x",
            "c2stYT8-fi8x",
            "736b2d613f3e7e2f31",
            "736B2D613F3E7E2F31",
            "sk-a%3F%3E~%2F1",
            "sk-a?>~/1",
        ] {
            assert!(forms.iter().any(|known| known == form), "{form}: {forms:?}");
        }
    }
}
