//! Classifies the addresses in a request. Readers of URLs disagree about some addresses; an address that any reader could
//! take for a private one counts as private.

use std::net::IpAddr;

use crate::reach::{Reach, reach};

/// The class of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// No address: a data URL or base64.
    Content,
    /// An http(s) URL with a public host.
    Public(String),
    /// Something that only the provider can reach.
    Internal,
}

/// Schemes of storage services and of the provider's own disk.
const STORES: [&str; 19] = [
    "abfs", "abfss", "adl", "az", "azureml", "cos", "dbfs", "file", "gcs", "gs", "hdfs", "hf", "obs", "oss",
    "r2", "s3", "s3a", "wasb", "wasbs",
];

/// Prefixes of the names of stored files.
const STORED_NAMES: [&str; 5] = ["files/", "file-", "file_", "projects/", "cachedcontents/"];

/// Hosts of vendors where a caller's credentials give access to files; each includes its subdomains.
const VENDOR_HOSTS: [&str; 7] = [
    "api.openai.com",
    "cognitiveservices.azure.com",
    "metadata.google.com",
    "openai.azure.com",
    "services.ai.azure.com",
    "storage.cloud.google.com",
    "vertexaisearch.cloud.google.com",
];

/// Google APIs that use a caller's credentials: labels before `googleapis.com`, alone or after a region. Buckets
/// (`storage`, `firebasestorage`) are not listed, because a provider fetches them without credentials.
const GOOGLE_APIS: [&str; 24] = [
    "aiplatform",
    "artifactregistry",
    "bigquery",
    "cloudfunctions",
    "cloudkms",
    "cloudresourcemanager",
    "compute",
    "discoveryengine",
    "docs",
    "documentai",
    "drive",
    "firestore",
    "generativelanguage",
    "gmail",
    "iam",
    "iamcredentials",
    "logging",
    "notebooks",
    "oauth2",
    "pubsub",
    "run",
    "secretmanager",
    "sheets",
    "www",
];

/// Suffixes of host names inside private networks.
const PRIVATE_ENDS: [&str; 6] = [".home.arpa", ".internal", ".lan", ".local", ".localhost", ".svc"];

/// Classifies a value that is an address or the content itself.
pub(super) fn classify(address: &str) -> Address {
    // Readers of URLs ignore leading blanks and control characters.
    let trimmed = address.trim_start_matches(|c: char| c <= ' ');
    let Some((scheme, rest)) = scheme(trimmed) else {
        return if is_stored_name(trimmed) { Address::Internal } else { Address::Content };
    };
    if scheme.is_web() {
        return web(address, rest);
    }
    let has_host = rest.bytes().filter(|byte| !is_skipped(*byte)).take(2).eq(*b"//");
    if (has_host || scheme.is_store()) && !scheme.is("data") { Address::Internal } else { Address::Content }
}

/// Classifies a value that may or may not be an address. Prose may begin like an address: `File: the budget`.
pub(super) fn classify_any(text: &str) -> Address {
    let text = text.trim_matches(|c: char| c <= ' ');
    let Some((scheme, rest)) = scheme(text) else { return Address::Content };
    if scheme.is_web() {
        return if text.contains(char::is_whitespace) {
            web_or_prose(text, rest)
        } else {
            web_or_word(text, rest)
        };
    }
    let rest = rest.trim_start_matches(['\t', '\r', '\n']);
    if !rest.starts_with(SLASHES) {
        return Address::Content;
    }
    // A bucket or host name is not empty and has no blank.
    let named = rest.trim_start_matches(SLASHES).split(SLASHES).next().unwrap_or_default();
    if named.is_empty() || named.contains(' ') { Address::Content } else { classify(text) }
}

/// Whether an address is written as an http(s) URL.
pub(super) fn is_web(address: &str) -> bool {
    begins(address, "http://") || begins(address, "https://")
}

/// Whether an address has the scheme of a storage service or is the name of a stored file.
pub(crate) fn is_stored(address: &str) -> bool {
    match scheme(address) {
        Some((scheme, _)) => scheme.is_store(),
        None => is_stored_name(address),
    }
}

/// The host of an http(s) URL in lower case; None if there is none or readers could disagree about it.
#[must_use]
pub fn host_of(address: &str) -> Option<String> {
    let (_, rest) = scheme(address)?;
    host(rest)
}

/// Whether an instruction names a stored file in the form of Alibaba's long-context models: `fileid://…,fileid://…`.
pub(super) fn names_stored_file(text: &str) -> bool {
    let mut pieces = text.split(|c: char| matches!(c, ',' | ';') || c.is_whitespace());
    pieces.any(|piece| begins(piece, "fileid://"))
}

pub(super) fn is_stored_name(text: &str) -> bool {
    /// Longer text is content, not a name.
    const MAX_NAME_BYTES: usize = 512;
    text.len() <= MAX_NAME_BYTES && STORED_NAMES.iter().any(|start| begins(text, start))
}

fn begins(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start))
}

/// Some readers treat a backslash as a slash.
const SLASHES: [char; 2] = ['/', '\\'];

/// Whether readers of URLs skip this byte anywhere in a URL.
fn is_skipped(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\r' | b'\n')
}

/// A scheme as it is written. It may hold bytes that readers of URLs skip.
#[derive(Clone, Copy)]
struct Scheme<'a>(&'a str);

impl Scheme<'_> {
    fn is(self, known: &str) -> bool {
        let read = self.0.bytes().filter(|byte| !is_skipped(*byte));
        read.map(|byte| byte.to_ascii_lowercase()).eq(known.bytes())
    }

    fn is_web(self) -> bool {
        self.is("http") || self.is("https")
    }

    fn is_store(self) -> bool {
        STORES.iter().any(|known| self.is(known))
    }
}

/// The scheme and the text after its colon.
fn scheme(address: &str) -> Option<(Scheme<'_>, &str)> {
    const MAX_SCHEME_BYTES: usize = 16;
    let mut length = 0;
    for (at, byte) in address.bytes().enumerate() {
        match byte {
            b':' if length > 0 => return Some((Scheme(address.get(..at)?), address.get(at + 1..)?)),
            byte if is_skipped(byte) => {}
            b'+' | b'-' | b'.' => length += 1,
            byte if byte.is_ascii_alphanumeric() => length += 1,
            _ => return None,
        }
        if length > MAX_SCHEME_BYTES {
            return None;
        }
    }
    None
}

/// Classifies an http(s) URL; `rest` is the text after the colon.
fn web(address: &str, rest: &str) -> Address {
    // Readers disagree about the end of the host, or remove such characters.
    if address.contains(|c: char| c == '\\' || c.is_control() || c.is_whitespace()) {
        return Address::Internal;
    }
    at_host(rest)
}

/// As [`web`]; without a host it is prose about a scheme.
fn web_or_word(text: &str, rest: &str) -> Address {
    if rest.trim_start_matches(SLASHES).is_empty() { Address::Content } else { web(text, rest) }
}

/// Classifies a text with blanks that begins like an http(s) URL. To one reader the first word is the URL, to another the
/// whole text without its line ends.
fn web_or_prose(text: &str, rest: &str) -> Address {
    let word = text.split(char::is_whitespace).next().unwrap_or_default();
    let Some((_, after)) = scheme(word) else { return Address::Internal };
    let first = web_or_word(word, after);
    let read: String = rest.chars().filter(|c| !matches!(c, '\t' | '\r' | '\n')).collect();
    let authority = authority(&read);
    let is_same = match (authority.contains(char::is_whitespace), authority.contains('@')) {
        (false, _) => at_host(&read) == first,
        // No reader accepts a host with a blank, but some accept such a user.
        (true, has_user) => !has_user,
    };
    if is_same { first } else { Address::Internal }
}

fn at_host(rest: &str) -> Address {
    match host(rest) {
        Some(host) if !is_internal_host(&host) => Address::Public(host),
        _ => Address::Internal,
    }
}

/// The part between the slashes: user, host and port.
fn authority(rest: &str) -> &str {
    rest.trim_start_matches('/').split(['/', '?', '#']).next().unwrap_or_default()
}

/// The host of the text after `http:`. None if readers of URLs could disagree about it.
fn host(rest: &str) -> Option<String> {
    let authority = authority(rest);
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let host = match host.strip_prefix('[') {
        Some(literal) => literal.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let host = host.trim_end_matches('.');
    let is_clear = authority.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'%' | b'\\'))
        && !user.contains('@')
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':'));
    (!host.is_empty() && is_clear).then(|| host.to_ascii_lowercase())
}

fn is_internal_host(host: &str) -> bool {
    if let Ok(address) = host.parse::<IpAddr>() {
        return reach(address) != Reach::Public;
    }
    let is_or_ends = |known: &&str| {
        host.strip_suffix(*known).is_some_and(|front| front.is_empty() || front.ends_with('.'))
    };
    let last = host.rsplit('.').next().unwrap_or_default();
    // Another spelling of an IPv4 address, such as `0x7f.1` or `2130706433`.
    let is_number = last.starts_with(|c: char| c.is_ascii_digit());
    is_number
        || !host.contains('.')
        || PRIVATE_ENDS.iter().any(|end| host.ends_with(end))
        || VENDOR_HOSTS.iter().any(is_or_ends)
        || is_google_api(host)
}

fn is_google_api(host: &str) -> bool {
    let Some(front) = host.strip_suffix(".googleapis.com") else { return false };
    let is_api = |label: &str| {
        let region = |api: &&str| label.strip_suffix(*api);
        GOOGLE_APIS.iter().filter_map(region).any(|region| region.is_empty() || region.ends_with('-'))
    };
    // A bucket may have the name of an API.
    front != "storage" && !front.ends_with(".storage") && front.split('.').any(is_api)
}

#[cfg(test)]
mod tests;
