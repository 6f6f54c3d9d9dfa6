//! References to what lies at a provider: its stored files, buckets and vector stores, and addresses inside its network.
//! The provider reads them with the operator's credentials, so a client may name one only where the operator allows it.

mod address;

use std::borrow::Cow;
use std::collections::BTreeSet;

use memchr::memchr2;

use super::fields::Path;
use super::member_policy::{Folded, folded};
use crate::json::{Kind, View, string_end};
use address::{Address, classify, classify_any, is_stored_name, names_stored_file};

pub use address::host_of;
pub(crate) use address::is_stored;

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
const WORD_NAMES: [&str; 22] = [
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
    "prompt",
    "query",
    "reasoning",
    "refusal",
    "signature",
    "suffix",
    "summary",
    "text",
    "thinking",
    "title",
];

/// Members that hold a schema, a grammar or the model's own words: nothing in them is looked up by a provider.
const OPAQUE_MEMBERS: [&str; 18] = [
    "annotations",
    "cachecontrol",
    "citations",
    "detail",
    "ebnf",
    "functions",
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
    "responseformat",
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

    /// Notes an instruction's text, if it names a stored file: a provider that knows such names reads the file instead.
    pub(super) fn instruction(&mut self, path: &Path<'_>, text: View<'_>) {
        // No slash, and no escape that could stand for one.
        if memchr2(b'/', b'\\', text.text().as_bytes()).is_none() {
            return;
        }
        let found = text.string().is_some_and(|text| names_stored_file(&text));
        self.note(path, found.then(String::new));
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
        let address = match meaning {
            Meaning::Locator if is_stored_name(&value) => return true,
            Meaning::Locator => classify(&value),
            _ => classify_any(&value),
        };
        match address {
            Address::Content => false,
            Address::Internal => true,
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

#[cfg(test)]
mod tests;
