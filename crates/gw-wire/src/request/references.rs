//! Finds references to resources at a provider: stored files, buckets, vector stores and addresses inside its network. The
//! provider reads them with the operator's credentials, so a client may use them only where the operator allows it.

mod address;

use std::borrow::Cow;
use std::collections::BTreeSet;

use memchr::memchr2;

use super::fields::{Path, clip};
use super::folding::{Folded, folded};
use crate::json::{Kind, View, string_end};
use address::{Address, classify, classify_any, is_stored_name, is_web, names_stored_file};

pub use address::host_of;
pub(crate) use address::is_stored;

/// The references of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// The path of the first reference that every dialect can carry.
    pub carried: Option<Box<str>>,
    /// The path of the first image at an http(s) address that only a provider or its network can reach. A provider that takes only
    /// bytes never sees the address.
    pub image: Option<Box<str>>,
    /// The path of the first reference that reaches only providers of the client's own dialect.
    pub verbatim: Option<Box<str>>,
    /// The hosts of the request's http(s) URLs, in lower case.
    pub hosts: BTreeSet<Box<str>>,
}

/// Members whose strings name a stored resource. Lower case, without `_` and `-`, sorted.
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

/// Members whose strings are prose, not addresses. Spelled and sorted like [`REFERENCE_NAMES`].
const WORD_NAMES: [&str; 23] = [
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
    "transcript",
];

/// Members that hold a schema, a grammar or the model's own text. A provider looks up nothing in them.
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
    /// Records the id of a stored resource.
    pub(super) fn id(&mut self, path: &Path<'_>, id: Option<View<'_>>) {
        if id.is_some_and(|id| id.string_len() > 0) {
            self.carried.get_or_insert_with(|| path.to_string().into());
        }
    }

    /// Records an address, or nothing if the value is the content itself.
    pub(super) fn address(&mut self, path: &Path<'_>, address: &str) {
        match classify(address) {
            Address::Content => {}
            Address::Public(host) => _ = self.hosts.insert(host.into()),
            Address::Internal => _ = self.carried.get_or_insert_with(|| path.to_string().into()),
        }
    }

    /// As [`References::address`], for an image, whose bytes may be sent in the place of its address.
    pub(super) fn image(&mut self, path: &Path<'_>, address: &str) {
        match classify(address) {
            Address::Content => {}
            Address::Public(host) => _ = self.hosts.insert(host.into()),
            Address::Internal => {
                let place = if is_web(address) { &mut self.image } else { &mut self.carried };
                place.get_or_insert_with(|| path.to_string().into());
            }
        }
    }

    /// Records a reference in a member that reaches only providers of the client's own dialect. One pass over the value.
    pub(crate) fn member(&mut self, path: &Path<'_>, name: &str, value: View<'_>) {
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

    /// As [`References::member`], for an object whose `id` names a stored resource.
    pub(super) fn object(&mut self, path: &Path<'_>, value: View<'_>) {
        let found = self.find(value.text(), Meaning::Other, true);
        self.note(path, found);
    }

    /// Records a stored file that an instruction names: a provider that knows such names reads the file instead.
    pub(super) fn instruction(&mut self, path: &Path<'_>, text: View<'_>) {
        // A file name needs a slash, which may be escaped.
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

    /// The name of the first member in this text that refers to a stored resource; empty for the value itself. With `ids`
    /// every `id` is a reference.
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
                return Some(clip(&name).into_owned());
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

/// The meaning of a member's strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// Names of stored resources.
    Reference,
    /// Ids or addresses; the value decides.
    Locator,
    /// Prose.
    Words,
    /// Unknown.
    Other,
}

impl Meaning {
    /// The meaning of a name that [`folded`] returned.
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
