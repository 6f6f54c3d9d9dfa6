//! Random texts that cannot be guessed.

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;

/// 256 random bits as base64url, or None if the system gives no random numbers.
#[must_use]
pub fn random_text() -> Option<String> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(BASE64.encode(bytes))
}
