//! References to what lies at a provider: its stored files, buckets and vector stores, and addresses inside its network.
//! The provider reads them with the operator's credentials, so a client may name one only where the operator allows it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::fields::Path;
use super::member_policy::{Folded, folded};
use crate::json::{Kind, View, string_end};

/// The references of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// Where the first reference stands that every dialect can carry.
    pub carried: Option<Box<str>>,
    /// Where the first reference stands that only a provider of the client's own dialect is sent.
    pub verbatim: Option<Box<str>>,
    /// The hosts of the request's http(s) addresses, in lower case.
    pub hosts: BTreeSet<Box<str>>,
}

/// What an address leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Address {
    /// Nowhere: it is a data URL or base64.
    Content,
    /// A host that anybody can reach.
    Public(String),
    /// Something that only the provider can reach.
    Internal,
}

/// Schemes of storage services and of the provider's own disk.
const STORES: [&str; 19] = [
    "abfs", "abfss", "adl", "az", "azureml", "cos", "dbfs", "file", "gcs", "gs", "hdfs", "hf", "obs", "oss",
    "r2", "s3", "s3a", "wasb", "wasbs",
];

/// How the names of stored files begin.
const STORED_NAMES: [&str; 5] = ["files/", "file-", "file_", "projects/", "cachedcontents/"];

/// Hosts of vendors where a caller's credentials open files; each stands for its subdomains too. Google's
/// `storage.googleapis.com` is not among them: a provider fetches its addresses without credentials.
const VENDOR_HOSTS: [&str; 8] = [
    "api.openai.com",
    "cognitiveservices.azure.com",
    "generativelanguage.googleapis.com",
    "metadata.google.com",
    "openai.azure.com",
    "services.ai.azure.com",
    "storage.cloud.google.com",
    "vertexaisearch.cloud.google.com",
];

/// Ends of names that lead into a private network.
const PRIVATE_ENDS: [&str; 5] = [".home.arpa", ".internal", ".lan", ".local", ".localhost"];

/// Members whose strings name something stored. Lower case, without `_` and `-`, sorted.
const REFERENCE_NAMES: [&str; 36] = [
    "assistantid",
    "attachmentid",
    "attachmentids",
    "audioid",
    "bucket",
    "bucketname",
    "cachedcontent",
    "cachedcontents",
    "collectionid",
    "collectionids",
    "connectorid",
    "container",
    "containerid",
    "corpusid",
    "datasetid",
    "datastore",
    "datastoreid",
    "fileid",
    "fileids",
    "fileuri",
    "fileuris",
    "gcsuri",
    "imageid",
    "inputfileid",
    "knowledgebaseid",
    "knowledgebaseids",
    "libraryid",
    "libraryids",
    "mediaid",
    "ragcorpus",
    "s3uri",
    "threadid",
    "uploadid",
    "vectorstoreid",
    "vectorstoreids",
    "videoid",
];

/// Members whose strings are words, not addresses. As [`REFERENCE_NAMES`].
const WORD_NAMES: [&str; 20] = [
    "arguments",
    "caption",
    "content",
    "context",
    "definition",
    "description",
    "filename",
    "input",
    "instructions",
    "name",
    "output",
    "pattern",
    "query",
    "reasoning",
    "refusal",
    "signature",
    "summary",
    "text",
    "thinking",
    "title",
];

/// Members that hold a schema, a grammar or the model's own words: nothing in them is looked up by a provider.
const OPAQUE_MEMBERS: [&str; 16] = [
    "annotations",
    "cachecontrol",
    "citations",
    "detail",
    "ebnf",
    "grammar",
    "guidedchoice",
    "guidedgrammar",
    "guidedjson",
    "guidedregex",
    "jsonschema",
    "reasoning",
    "reasoningcontent",
    "reasoningdetails",
    "regex",
    "structuredoutputs",
];

impl References {
    /// Notes an id of something stored.
    pub(super) fn id(&mut self, path: &Path<'_>, id: Option<View<'_>>) {
        if id.is_some_and(|id| id.string_len() > 0) {
            self.carried.get_or_insert_with(|| path.to_string().into());
        }
    }

    /// Notes an address or the content itself.
    pub(super) fn address(&mut self, path: &Path<'_>, address: &str) {
        match classify(address) {
            Address::Content => {}
            Address::Public(host) => _ = self.hosts.insert(host.into()),
            Address::Internal => _ = self.carried.get_or_insert_with(|| path.to_string().into()),
        }
    }

    /// Notes what only a provider of the client's own dialect is sent, if it is or holds a reference. One pass.
    pub(super) fn member(&mut self, path: &Path<'_>, name: &str, value: View<'_>) {
        let mut buffer = Folded::default();
        let name = folded(name, &mut buffer).unwrap_or("");
        if !matches!(value.kind(), Kind::String | Kind::Array | Kind::Object)
            || OPAQUE_MEMBERS.binary_search(&name).is_ok()
        {
            return;
        }
        let found = self.find(value.text(), Meaning::of(name), false);
        self.note(path, found);
    }

    /// As [`References::member`], for an object whose `id` is that of something stored.
    pub(super) fn object(&mut self, path: &Path<'_>, value: View<'_>) {
        let found = self.find(value.text(), Meaning::Other, true);
        self.note(path, found);
    }

    fn note(&mut self, path: &Path<'_>, found: Option<String>) {
        let Some(name) = found else { return };
        let at = if name.is_empty() { path.to_string() } else { format!("{path} ({name})") };
        self.verbatim.get_or_insert_with(|| at.into());
    }

    /// The name of the first member in this text that refers to something stored; empty for the value itself.
    /// `ids`: an `id` is a reference whatever it looks like.
    fn find(&mut self, text: &str, meaning: Meaning, ids: bool) -> Option<String> {
        let bytes = text.as_bytes();
        let (mut at, mut meaning, mut name) = (0, meaning, Cow::Borrowed(""));
        while let Some(byte) = bytes.get(at) {
            if *byte != b'"' {
                if *byte == b'{' {
                    meaning = Meaning::Other;
                }
                at += 1;
                continue;
            }
            let end = string_end(bytes, at);
            let literal = View::exact(text.get(at..end).unwrap_or("\"\""));
            at = end;
            let rest = text.get(at..).unwrap_or_default().trim_start_matches([' ', '\n', '\r', '\t']);
            if rest.starts_with(':') {
                name = literal.string().unwrap_or_default();
                meaning = match folded(&name, &mut Folded::default()).unwrap_or("") {
                    "id" if ids => Meaning::Reference,
                    name => Meaning::of(name),
                };
            } else if meaning != Meaning::Words && self.is_reference(literal, meaning) {
                return Some(super::fields::clip(&name).into_owned());
            }
        }
        None
    }

    fn is_reference(&mut self, value: View<'_>, meaning: Meaning) -> bool {
        if meaning == Meaning::Reference {
            return value.string_len() > 0;
        }
        let Some(value) = value.string() else { return false };
        if meaning == Meaning::Locator && is_stored_name(&value) {
            return true;
        }
        match classify(&value) {
            Address::Content => false,
            Address::Internal => meaning == Meaning::Locator || !is_stored_name(&value),
            Address::Public(host) => {
                self.hosts.insert(host.into());
                false
            }
        }
    }
}

/// What the strings of a member are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// Names of something stored.
    Reference,
    /// An id or an address: of what, the value tells.
    Locator,
    /// Words.
    Words,
    /// Anything.
    Other,
}

impl Meaning {
    /// By a name that [`folded`] gave.
    fn of(name: &str) -> Self {
        if REFERENCE_NAMES.binary_search(&name).is_ok() {
            Self::Reference
        } else if WORD_NAMES.binary_search(&name).is_ok() {
            Self::Words
        } else if ["id", "ids", "uri", "url", "file", "source"].iter().any(|end| name.ends_with(end)) {
            Self::Locator
        } else {
            Self::Other
        }
    }
}

/// The host of an http(s) address, in lower case; None when it has none that can be told.
#[must_use]
pub fn host_of(address: &str) -> Option<String> {
    let (_, rest) = scheme(address)?;
    host(rest)
}

fn is_stored_name(text: &str) -> bool {
    /// Longer text is content, not a name.
    const LONGEST: usize = 512;
    text.len() <= LONGEST && STORED_NAMES.iter().any(|start| begins(text, start))
}

fn begins(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start))
}

fn classify(address: &str) -> Address {
    // Readers of URLs ignore blanks and control characters in front.
    let address = address.trim_start_matches(|c: char| c <= ' ');
    let Some((scheme, rest)) = scheme(address) else {
        return if is_stored_name(address) { Address::Internal } else { Address::Content };
    };
    let is = |known: &str| scheme.eq_ignore_ascii_case(known);
    if is("http") || is("https") {
        return match host(rest) {
            Some(host) if !is_internal_host(&host) => Address::Public(host),
            _ => Address::Internal,
        };
    }
    let is_store = rest.starts_with("//") || STORES.iter().any(|known| is(known));
    if is_store && !is("data") { Address::Internal } else { Address::Content }
}

/// Whether an address has the scheme of a storage service, or is the name of a stored file.
pub(crate) fn is_stored(address: &str) -> bool {
    match scheme(address) {
        Some((scheme, _)) => STORES.iter().any(|known| scheme.eq_ignore_ascii_case(known)),
        None => is_stored_name(address),
    }
}

/// The scheme and what follows its colon.
fn scheme(address: &str) -> Option<(&str, &str)> {
    const LONGEST: usize = 16;
    let head = address.as_bytes().get(..LONGEST.min(address.len())).unwrap_or_default();
    let end = head.iter().position(|byte| *byte == b':')?;
    let (scheme, rest) = (address.get(..end)?, address.get(end + 1..)?);
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    (end > 0 && scheme.bytes().all(fits)).then_some((scheme, rest))
}

/// The host behind `http:`. None when readers of URLs could disagree about it.
fn host(rest: &str) -> Option<String> {
    let rest = rest.trim_start_matches(['/', '\\']);
    let authority = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    let clear = |byte: u8| byte.is_ascii_graphic() && byte != b'%';
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = match host.strip_prefix('[') {
        Some(literal) => literal.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let host = host.trim_end_matches('.');
    (!host.is_empty() && authority.bytes().all(clear)).then(|| host.to_ascii_lowercase())
}

fn is_internal_host(host: &str) -> bool {
    let is_or_ends = |known: &&str| {
        host.strip_suffix(*known).is_some_and(|front| front.is_empty() || front.ends_with('.'))
    };
    if let Ok(address) = host.parse::<IpAddr>() {
        return is_private(address);
    }
    let last = host.rsplit('.').next().unwrap_or_default();
    // Another spelling of an IPv4 address, as `0x7f.1` or `2130706433`.
    let is_number = last.starts_with(|c: char| c.is_ascii_digit());
    let google = host.ends_with(".googleapis.com")
        && host != "storage.googleapis.com"
        && !host.ends_with(".storage.googleapis.com");
    is_number
        || google
        || !host.contains('.')
        || PRIVATE_ENDS.iter().any(|end| host.ends_with(end))
        || VENDOR_HOSTS.iter().any(is_or_ends)
}

fn is_private(address: IpAddr) -> bool {
    let v4 = |address: Ipv4Addr| {
        let [first, second, ..] = address.octets();
        address.is_private()
            || address.is_loopback()
            || address.is_link_local()
            || address.is_broadcast()
            || first == 0
            || (first == 100 && (64..128).contains(&second))
    };
    let v6 = |address: Ipv6Addr| {
        let [first, ..] = address.segments();
        address.is_loopback()
            || address.is_unspecified()
            || first & 0xfe00 == 0xfc00
            || first & 0xffc0 == 0xfe80
    };
    match address {
        IpAddr::V4(address) => v4(address),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(mapped) => v4(mapped),
            None => v6(address),
        },
    }
}

#[cfg(test)]
mod tests;
