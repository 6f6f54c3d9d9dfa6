//! A search for canaries: secrets in any spelling in everything that the gateway sent, logged or stored.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use gw_testkit::Response;

/// The spellings of a secret.
fn forms(secret: &str) -> Vec<Vec<u8>> {
    let bytes = secret.as_bytes();
    let mut all = vec![bytes.to_vec()];
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    all.extend([hex.to_uppercase().into_bytes(), hex.into_bytes()]);
    let kept = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let url = |hex: fn(u8) -> String| -> String {
        bytes.iter().map(|&byte| if kept(byte) { char::from(byte).to_string() } else { hex(byte) }).collect()
    };
    all.push(url(|byte| format!("%{byte:02X}")).into_bytes());
    all.push(url(|byte| format!("%{byte:02x}")).into_bytes());
    all.push(secret.replace('/', "\\/").into_bytes());
    // Base64 of a text that contains the secret at any offset, without the characters that its neighbours change.
    for before in 0..3 {
        let text = [&vec![b' '; before][..], bytes].concat();
        let sure = text.len() / 3 * 4;
        for encoded in [STANDARD_NO_PAD.encode(&text), URL_SAFE_NO_PAD.encode(&text)] {
            let from = if before == 0 { 0 } else { 4 };
            all.push(encoded.as_bytes()[from..sure].to_vec());
        }
    }
    all.sort();
    all.dedup();
    all
}

/// Everything that the gateway sent, logged or stored, by its place.
#[derive(Default)]
pub(crate) struct Heap(pub(crate) Vec<(String, Vec<u8>)>);

impl Heap {
    pub(crate) fn add(&mut self, place: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.push((place.into(), bytes.into()));
    }

    pub(crate) fn answer(&mut self, place: impl Into<String>, answer: &Response) {
        let headers: String =
            answer.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        self.add(place, [headers.as_bytes(), &answer.body].concat());
    }

    /// Every file below a directory.
    pub(crate) fn files(&mut self, directory: &Path) {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                self.files(&entry.path());
            } else {
                self.add(entry.path().display().to_string(), std::fs::read(entry.path()).unwrap_or_default());
            }
        }
    }

    #[track_caller]
    pub(crate) fn holds_none_of(&self, secrets: &[&str]) {
        for secret in secrets {
            for form in forms(secret) {
                for (place, bytes) in &self.0 {
                    let found = bytes.windows(form.len()).position(|window| window == form);
                    if let Some(at) = found {
                        let around = &bytes[at.saturating_sub(200)..bytes.len().min(at + 100)];
                        panic!("{secret} in {place}: {}", String::from_utf8_lossy(around));
                    }
                }
            }
        }
    }
}
