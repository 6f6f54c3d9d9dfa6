//! The patterns of personal data and secrets, and their masks. Each pattern is one pass over the text, without
//! backtracking.
//!
//! Patterns know forms, not meanings: names, and secrets that look like words, are not masked.

use std::borrow::Cow;

use regex::{Captures, Regex};

use super::assemble::CUT;

/// The kinds of text that are masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Masks {
    /// E-mail addresses.
    pub email: bool,
    /// Phone numbers.
    pub phone: bool,
    /// Payment card numbers.
    pub card: bool,
    /// Keys, tokens, passwords.
    pub secret: bool,
}

impl Masks {
    /// All kinds.
    pub const ALL: Self = Self { email: true, phone: true, card: true, secret: true };
    /// No kind.
    pub const NONE: Self = Self { email: false, phone: false, card: false, secret: false };
}

/// Keys and tokens with a known form: the gateway's and similar ones (`sk-`), AWS, GitHub, Google, Slack, JSON web
/// tokens, private keys.
const TOKENS: &str = r"\bsk-[A-Za-z0-9_-]{12,}|\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b|\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_[A-Za-z0-9_]{30,}|\bAIza[A-Za-z0-9_-]{35}|\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?|-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)";
/// A token after its scheme.
const BEARER: &str = r"(?i)(\bbearer\s+)[A-Za-z0-9._~+/=-]{20,}";
/// A secret after its name.
const ASSIGNED: &str = r#"(?i)(\b(?:api[_-]?key|client[_-]?secret|secret[_-]?access[_-]?key|aws_secret_access_key|aws_session_token|access[_-]?token|refresh[_-]?token|password|passwd)["']?\s*[:=]\s*["']?)[^\s"',;&\[\]]{6,}"#;
/// The unquoted form of RFC 5322, in any alphabet.
const EMAIL: &str = r"[\p{L}\p{N}._%+'-]+@[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+";
/// With a country code (+ or 00), in the form of North America, or with an area code in brackets or before a dash.
const PHONE: &str = r"(?:\B\+|\b00)[1-9](?:[ ()./-]{0,2}[0-9]){6,14}|(?:\B\([0-9]{3}\) ?|\b[0-9]{3}[-. ])[0-9]{3}[-. ][0-9]{4}\b|\b0[1-9][0-9]{1,4}[ /-][0-9]{3,4}[ -]?[0-9]{2,8}\b";
/// Bytes inside a text.
const DATA_URL: &str =
    r"data:([A-Za-z0-9.+/-]{0,80})(?:;[A-Za-z0-9_.=+-]{1,80}){0,4};base64,[A-Za-z0-9+/_=%-]*";

/// Members whose text is always a secret, in lower case.
const SECRET_MEMBERS: [&str; 14] = [
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "api-key",
    "api_key",
    "apikey",
    "password",
    "passwd",
    "client_secret",
    "access_token",
    "refresh_token",
    "private_key",
    "secret_access_key",
    "aws_secret_access_key",
];
/// Members with binary data: `input_audio.data`, `file.file_data`, sound, images, vectors.
const BYTES_MEMBERS: [&str; 12] = [
    "data",
    "file_data",
    "b64_json",
    "embedding",
    "audio",
    "audio_base64",
    "bytes",
    "bytesBase64Encoded",
    "image_base64",
    "imageBytes",
    "partial_image_b64",
    "videoBytes",
];
/// Shorter texts may be words.
const MIN_BINARY_CHARS: usize = 48;
/// Shorter texts of other members may be names or digests.
const MIN_UNNAMED_CHARS: usize = 512;

/// The shortest text that is masked: `a@b.c`.
const MIN_MASKED_BYTES: usize = 5;

/// A mask may isolate its neighbour, which is only then recognised.
const ROUNDS: usize = 4;

/// The compiled patterns.
#[derive(Debug)]
pub(super) struct Patterns {
    masks: Masks,
    tokens: Regex,
    bearer: Regex,
    assigned: Regex,
    email: Regex,
    phone: Regex,
    data_url: Regex,
}

impl Patterns {
    /// # Errors
    /// None: the patterns are constants that a test compiles.
    pub(super) fn new(masks: Masks) -> Result<Self, regex::Error> {
        Ok(Self {
            masks,
            tokens: Regex::new(TOKENS)?,
            bearer: Regex::new(BEARER)?,
            assigned: Regex::new(ASSIGNED)?,
            email: Regex::new(EMAIL)?,
            phone: Regex::new(PHONE)?,
            data_url: Regex::new(DATA_URL)?,
        })
    }

    /// Whether numbers outside strings must be checked.
    pub(super) fn masks_cards(&self) -> bool {
        self.masks.card
    }

    /// Masks the value of a member.
    pub(super) fn member<'t>(&self, name: &str, text: &'t str) -> Cow<'t, str> {
        if self.masks.secret
            && !text.is_empty()
            && SECRET_MEMBERS.iter().any(|known| known.eq_ignore_ascii_case(name))
        {
            return Cow::Borrowed("[secret]");
        }
        bytes_of(name, text).map_or_else(|| self.text(text), Cow::Owned)
    }

    /// Masks a text.
    pub(super) fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        if text.len() < MIN_MASKED_BYTES {
            return text;
        }
        for _ in 0..ROUNDS {
            let Some(changed) = self.round(&text) else { break };
            text = Cow::Owned(changed);
        }
        text
    }

    /// None = nothing to mask.
    fn round(&self, text: &str) -> Option<String> {
        let Masks { email, phone, card, secret } = self.masks;
        let mut now = Cow::Borrowed(text);
        let note = |found: &Captures<'_>| {
            let whole = found.get(0).map_or("", |found| found.as_str());
            let (_, bytes) = whole.rsplit_once(',').unwrap_or_default();
            let kind = found.get(1).map_or("", |kind| kind.as_str());
            let kind = if kind.is_empty() { String::new() } else { format!("{kind}, ") };
            format!("[{kind}{} bytes]", decoded_len(bytes))
        };
        replace(&mut now, &self.data_url, true, note);
        replace(&mut now, &self.tokens, secret, |_: &Captures<'_>| "[secret]".to_owned());
        for behind in [&self.bearer, &self.assigned] {
            replace(&mut now, behind, secret, |found: &Captures<'_>| {
                format!("{}[secret]", found.get(1).map_or("", |kept| kept.as_str()))
            });
        }
        replace(&mut now, &self.email, email, |_: &Captures<'_>| "[email]".to_owned());
        if card && let Some(masked) = cards(&now) {
            now = Cow::Owned(masked);
        }
        replace(&mut now, &self.phone, phone, |_: &Captures<'_>| "[phone]".to_owned());
        match now {
            Cow::Owned(changed) if changed != text => Some(changed),
            _ => None,
        }
    }
}

fn replace(now: &mut Cow<'_, str>, pattern: &Regex, is_on: bool, mask: impl Fn(&Captures<'_>) -> String) {
    if is_on && let Cow::Owned(changed) = pattern.replace_all(now, mask) {
        *now = Cow::Owned(changed);
    }
}

/// The placeholder of a value that is binary data only: a data URL, a member with binary data, or a long text of base64 alone
/// in any member.
pub(super) fn bytes_of(name: &str, text: &str) -> Option<String> {
    if let Some((head, bytes)) = text.strip_prefix("data:").and_then(|url| url.split_once(";base64,"))
        && is_base64(bytes)
    {
        let kind = head.split(';').next().filter(|kind| is_media_type(kind));
        return Some(match kind {
            Some(kind) => format!("[{kind}, {} bytes]", decoded_len(bytes)),
            None => format!("[{} bytes]", decoded_len(bytes)),
        });
    }
    let text = text.strip_suffix(CUT).unwrap_or(text);
    let is_named = text.len() >= MIN_BINARY_CHARS && BYTES_MEMBERS.contains(&name);
    let holds_bytes = is_named && is_base64(text) || is_unnamed_binary(text);
    holds_bytes.then(|| format!("[{} bytes]", decoded_len(text)))
}

/// Whether a long text is base64 alone. Prose has blanks, and hexadecimal digits are mostly written without capital letters.
fn is_unnamed_binary(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"+/-_=".contains(&byte);
    text.len() >= MIN_UNNAMED_CHARS
        && text.bytes().all(is_letter)
        && text.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn is_media_type(text: &str) -> bool {
    (1..=80).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".+/-".contains(&byte))
}

fn is_base64(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/-_=\r\n".contains(&byte))
}

/// The decoded bytes of a base64 text.
fn decoded_len(text: &str) -> usize {
    text.trim_end_matches('=').len() * 3 / 4
}

/// The digits of a card number.
const CARD_DIGITS: std::ops::RangeInclusive<usize> = 13..=19;

/// Masks payment card numbers: 13 to 19 digits in one run or in groups with a blank or a dash between them, with a
/// valid check digit and a first digit of the card industry.
fn cards(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = String::new();
    let (mut at, mut copied) = (0, 0);
    while at < bytes.len() {
        if !starts_number(bytes, at) {
            at += 1;
            continue;
        }
        match card_end(bytes, at) {
            Some(end) => {
                out.push_str(text.get(copied..at).unwrap_or_default());
                out.push_str("[card]");
                (at, copied) = (end, end);
            }
            // The next group may begin a number.
            None => at += bytes.iter().skip(at).take_while(|byte| byte.is_ascii_digit()).count().max(1),
        }
    }
    if copied == 0 {
        return None;
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Some(out)
}

/// A digit that does not continue a number, a word or a fraction.
fn starts_number(bytes: &[u8], at: usize) -> bool {
    let is_digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let before = at.checked_sub(1);
    let goes_on = match before.and_then(|before| bytes.get(before)) {
        Some(b'.') => is_digit(at.checked_sub(2)),
        Some(byte) => byte.is_ascii_alphanumeric() || *byte == b'_',
        None => false,
    };
    is_digit(Some(at)) && !goes_on
}

/// The end of the longest card number that begins here.
fn card_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut digits = Vec::with_capacity(*CARD_DIGITS.end());
    let (mut at, mut found) = (from, None);
    while let Some(byte) = bytes.get(at) {
        let next_is_digit = bytes.get(at + 1).is_some_and(u8::is_ascii_digit);
        match byte {
            b'0'..=b'9' if digits.len() < *CARD_DIGITS.end() => digits.push(byte - b'0'),
            b' ' | b'-' if next_is_digit => {}
            _ => break,
        }
        at += 1;
        let follower = bytes.get(at).copied().unwrap_or(b' ');
        let ends = !follower.is_ascii_alphanumeric() && follower != b'_';
        if byte.is_ascii_digit() && ends && is_card(&digits) {
            found = Some(at);
        }
    }
    found
}

/// The Luhn check (ISO/IEC 7812-1, annex B), and a first digit of the card industry.
fn is_card(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| match u32::from(*digit) << (place % 2) {
            doubled @ 10.. => doubled - 9,
            digit => digit,
        })
        .sum();
    CARD_DIGITS.contains(&digits.len())
        && digits.first().is_some_and(|first| (2..=6).contains(first))
        && sum.is_multiple_of(10)
}

/// Whether the digits of a JSON number are a card number.
pub(super) fn is_card_number(text: &str) -> bool {
    CARD_DIGITS.contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && is_card(&text.bytes().map(|byte| byte - b'0').collect::<Vec<_>>())
}
