//! The key of an answer: a hash of everything that the answer depends on, and of its scope. There is no key without a
//! scope.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use gw_wire::operation::PlainOperation;
use gw_wire::request::Body;

use crate::canonical;
use crate::hasher::Hasher;
use crate::native_digests::NativeDigests;

/// The group of callers that share answers. A caller outside a scope cannot find its answers, and cannot guess at them
/// from response times.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// One API key, by its id. This is the default.
    Key(Arc<str>),
    /// A team whose keys share answers, by the id of the team.
    Team(Arc<str>),
}

impl Scope {
    /// The letter of the kind, which stored values contain too.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Key(_) => "k",
            Self::Team(_) => "t",
        }
    }

    /// The key's or the team's id.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Key(id) | Self::Team(id) => id,
        }
    }
}

/// A request, and everything else that decides its answer.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The operation. Each input of embeddings has its own key.
    pub route: PlainOperation,
    /// The model as the client named it.
    pub model: &'a str,
    /// The models that may answer, in their order: their ids, and other conditions such as a permitted upgrade.
    pub candidates: &'a [&'a str],
    /// A number that changes with every part of the configuration or of a policy that an answer depends on.
    pub config: u64,
    /// The body. Its members `stream`, `stream_options`, `user`, `metadata`, `cache` and `routing` are ignored. So is
    /// `model`, which is a component of its own, and `encoding_format` in a request for embeddings.
    pub body: &'a Body,
    /// The client's own body and headers, if an upstream may get them.
    pub native: Option<NativeDigests>,
    /// The JSON text of one input of a request for embeddings. It replaces the member `input`, so an input has one key
    /// in every batch. None: the body counts as it is.
    pub input: Option<&'a str>,
}

/// The key of an answer: SHA-256 over a [`Scope`] and a [`Question`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key([u8; 32]);

impl Key {
    /// The key of a question in a scope. None if the body has no canonical form. A body that the gateway accepts always
    /// has one.
    #[must_use]
    pub fn of(scope: &Scope, question: &Question<'_>) -> Option<Self> {
        Self::over(scope, question, COMPONENTS.iter())
    }

    /// The keys of the inputs of a batch, each equal to that of [`Key::of`]. The common part of the request is read
    /// once.
    #[must_use]
    pub fn of_inputs<'i>(
        scope: &Scope,
        question: &Question<'_>,
        inputs: impl Iterator<Item = Cow<'i, str>>,
    ) -> Option<Vec<Self>> {
        // The body is the last component, so all that stands before the input is the same for every key.
        let mut begun = Hasher::new();
        for (_, feed) in COMPONENTS.iter().filter(|(name, _)| *name != BODY) {
            feed(scope, question, &mut begun)?;
        }
        let members = members(question, Some("input"));
        let (before, after) = members.split_at(members.partition_point(|(name, _)| *name < "input"));
        feed_count(members.len() + 1, &mut begun);
        feed_members(before, &mut begun)?;
        let key = |input: Cow<'i, str>| {
            let mut out = begun.clone();
            feed_members(&[("input", &input)], &mut out)?;
            feed_members(after, &mut out)?;
            Some(Self(out.finalize()))
        };
        inputs.map(key).collect()
    }

    /// The key of a [`crate::Context`]: the question without its messages, and `rest` in their place.
    pub(crate) fn of_context(scope: &Scope, question: &Question<'_>, rest: Hasher) -> Option<Self> {
        let components = COMPONENTS.iter().filter(|(name, _)| ![BODY, NATIVE].contains(name));
        let around = Self::over(scope, question, components)?;
        let mut out = Hasher::new();
        feed_members(&members(question, Some("messages")), &mut out)?;
        question.native.iter().for_each(|native| out.update(native.around));
        // The key of an answer begins with the kind of a scope, and no kind is "around".
        let mut all = Hasher::new();
        canonical::feed_text("around", &mut all);
        all.update(around.0);
        all.update(out.finalize());
        all.update(rest.finalize());
        Some(Self(all.finalize()))
    }

    fn over<'c>(
        scope: &Scope,
        question: &Question<'_>,
        components: impl Iterator<Item = &'c Component>,
    ) -> Option<Self> {
        let mut out = Hasher::new();
        for (_, feed) in components {
            feed(scope, question, &mut out)?;
        }
        Some(Self(out.finalize()))
    }

    /// The key of an upstream call that identical requests share: this question, asked of these candidates under these
    /// circumstances. It is not the key of an answer.
    #[must_use]
    pub fn of_call(&self, candidates: &[&str], circumstances: u64) -> Self {
        let mut out = Hasher::new();
        canonical::feed_text("call", &mut out);
        out.update(self.0);
        out.update(circumstances.to_le_bytes());
        candidates.iter().for_each(|candidate| canonical::feed_text(candidate, &mut out));
        Self(out.finalize())
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first bytes, for logs and for choosing a shard. They do not identify the key.
    #[must_use]
    pub fn short(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:016x}…)", self.short().swap_bytes())
    }
}

/// Members of a body that do not change the answer, or that are a component of their own.
const IGNORED_MEMBERS: [&str; 7] =
    ["cache", "metadata", "model", "routing", "stream", "stream_options", "user"];

/// Members whose empty list says as much as a missing member.
const LISTS: [&str; 2] = ["stop", "tools"];

/// Whether a JSON value is a list without elements.
fn is_empty_list(value: &str) -> bool {
    let inner = value.trim_ascii().strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    inner.is_some_and(|inner| inner.trim_ascii().is_empty())
}

/// A component of the key: its name, which is not fed, and the function that feeds it. What it feeds marks its own end, by a fixed
/// length, by a length or by a count at its begin, so no component can run into the next.
type Component = (&'static str, fn(&Scope, &Question<'_>, &mut Hasher) -> Option<()>);

/// Feeds the number of the parts that follow.
fn feed_count(count: usize, out: &mut Hasher) {
    out.number(b'c', count as u64);
}

/// The name of the last component, the body.
const BODY: &str = "body";

/// The name of the component for the client's own body.
const NATIVE: &str = "native";

/// Everything that an answer depends on. A test leaves each component out in turn and finds two requests that would
/// then share an answer.
const COMPONENTS: [Component; 8] = [
    ("whose", |scope, _, out| feed_str(scope.kind(), out)),
    ("scope", |scope, _, out| feed_str(scope.id(), out)),
    ("route", |_, question, out| feed_str(question.route.row().cache_name, out)),
    ("model", |_, question, out| feed_str(question.model, out)),
    ("candidates", |_, question, out| {
        feed_count(question.candidates.len(), out);
        question.candidates.iter().try_for_each(|candidate| feed_str(candidate, out))
    }),
    ("config", |_, question, out| {
        out.update(question.config.to_le_bytes());
        Some(())
    }),
    (NATIVE, |_, question, out| {
        out.update([u8::from(question.native.is_some())]);
        question.native.iter().for_each(|native| out.update(native.all));
        Some(())
    }),
    (BODY, |_, question, out| {
        let mut members = members(question, question.input.map(|_| "input"));
        members.extend(question.input.map(|input| ("input", input)));
        members.sort_unstable();
        feed_count(members.len(), out);
        feed_members(&members, out)
    }),
];

fn feed_str(text: &str, out: &mut Hasher) -> Option<()> {
    canonical::feed_text(text, out);
    Some(())
}

/// The members of a body that count, sorted by name, without the member `excluded`.
fn members<'q>(question: &Question<'q>, excluded: Option<&str>) -> Vec<(&'q str, &'q str)> {
    let is_embedding = question.route == PlainOperation::Embeddings;
    let matters = |name: &str| {
        // A vector is stored as numbers, whatever their format in the response.
        let is_format_only = is_embedding && name == "encoding_format";
        !is_format_only && !IGNORED_MEMBERS.contains(&name) && Some(name) != excluded
    };
    let is_given = |(name, value): &(&str, &str)| !(LISTS.contains(name) && is_empty_list(value));
    let members = question.body.members().filter(|(name, _)| matters(name));
    let mut members: Vec<_> = members.filter(is_given).collect();
    members.sort_unstable();
    members
}

fn feed_members(members: &[(&str, &str)], out: &mut Hasher) -> Option<()> {
    for (name, value) in members {
        canonical::feed_text(name, out);
        canonical::feed(value, out)?;
    }
    Some(())
}

#[cfg(test)]
mod tests;
