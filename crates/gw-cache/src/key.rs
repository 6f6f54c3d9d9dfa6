//! What an answer is found by: everything that it depends on, and whose it is. There is no key without a scope.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use gw_wire::request::Body;
use sha2::{Digest, Sha256};

use crate::canonical;

/// Whose answers these are. Nobody outside a scope can find, or by the time of an answer guess at, what is in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One API key, by its id: the default.
    Key(Arc<str>),
    /// A team whose keys agreed to share, by the team's id.
    Team(Arc<str>),
}

impl Scope {
    /// The kind's letter; also in stored values.
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

/// Which endpoint was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// Chat completions.
    Chat,
    /// Text completions.
    Completion,
    /// Embeddings: each input has its own key.
    Embedding,
}

impl Route {
    fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Completion => "completion",
            Self::Embedding => "embedding",
        }
    }
}

/// What is asked, and in what circumstances it would be answered.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The endpoint.
    pub route: Route,
    /// The model as the client named it.
    pub model: &'a str,
    /// The models that may answer, in their order: ids, and whatever else decides (an upgrade's permission, …).
    pub candidates: &'a [&'a str],
    /// Changes with whatever in the configuration or in policies an answer depends on.
    pub config: u64,
    /// The request. `stream`, `stream_options`, `user`, `metadata`, `cache` and `routing` do not matter in it, nor does
    /// `model`, which is a part of its own; in one for embeddings `encoding_format` does not, either.
    pub body: &'a Body,
    /// For embeddings: one input's JSON text. It stands for the member `input`, so that an input is found whatever else is
    /// in its batch. None: the body counts as it is.
    pub input: Option<&'a str>,
}

/// An answer's name: SHA-256 over [`Scope`] and [`Question`]. [`Key::of`] is the only way to an
/// answer's.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key([u8; 32]);

impl Key {
    /// The key of a question in a scope. None when the body has no canonical form, which a body that was accepted always has:
    /// then the answer is not kept.
    #[must_use]
    pub fn of(scope: &Scope, question: &Question<'_>) -> Option<Self> {
        Self::over(scope, question, COMPONENTS.iter())
    }

    /// The keys of the inputs of a batch, each as [`Key::of`] makes it. What they have in common is read once, so that the work
    /// is that of reading the request.
    #[must_use]
    pub fn of_inputs<'i>(
        scope: &Scope,
        question: &Question<'_>,
        inputs: impl Iterator<Item = Cow<'i, str>>,
    ) -> Option<Vec<Self>> {
        let mut around = Sha256::new();
        for (name, feed) in COMPONENTS.iter().filter(|(name, _)| *name != BODY) {
            part(name, |out| feed(scope, question, out), &mut around)?;
        }
        let members = members(question, Some("input"));
        let (before, after) = members.split_at(members.partition_point(|(name, _)| *name < "input"));
        let mut begun = Sha256::new();
        feed_members(before, &mut begun)?;
        let key = |input: Cow<'i, str>| {
            let mut out = around.clone();
            let body = |body: &mut Sha256| {
                body.clone_from(&begun);
                feed_members(&[("input", &input)], body)?;
                feed_members(after, body)
            };
            part(BODY, body, &mut out)?;
            Some(Self(out.finalize().into()))
        };
        inputs.map(key).collect()
    }

    /// The key of what stands around a part of a question: the rest of it, and what `rest` was fed in place of its messages.
    pub(crate) fn around(scope: &Scope, question: &Question<'_>, rest: Sha256) -> Option<Self> {
        let components = COMPONENTS.iter().filter(|(name, _)| *name != BODY);
        let around = Self::over(scope, question, components)?;
        let mut out = Sha256::new();
        feed_members(&members(question, Some("messages")), &mut out)?;
        // Three hashes of a known length behind a name that no component has: no answer's key is made like this.
        let mut all = Sha256::new();
        canonical::feed_text("around", &mut all);
        all.update(around.0);
        all.update(out.finalize());
        all.update(rest.finalize());
        Some(Self(all.finalize().into()))
    }

    fn over<'c>(
        scope: &Scope,
        question: &Question<'_>,
        components: impl Iterator<Item = &'c Component>,
    ) -> Option<Self> {
        let mut out = Sha256::new();
        for (name, feed) in components {
            part(name, |out| feed(scope, question, out), &mut out)?;
        }
        Some(Self(out.finalize().into()))
    }

    /// The key of a call that is shared by those who ask this question, of these candidates and in these circumstances. No answer has
    /// it.
    #[must_use]
    pub fn of_call(&self, candidates: &[&str], circumstances: u64) -> Self {
        let mut out = Sha256::new();
        canonical::feed_text("call", &mut out);
        out.update(self.0);
        out.update(circumstances.to_le_bytes());
        candidates.iter().for_each(|candidate| canonical::feed_text(candidate, &mut out));
        Self(out.finalize().into())
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first bytes: for logs, and for choosing a shard. No identity.
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
const NO_MATTER: [&str; 7] = ["cache", "metadata", "model", "routing", "stream", "stream_options", "user"];

/// A part of the key: its name, and how it is fed.
type Component = (&'static str, fn(&Scope, &Question<'_>, &mut Sha256) -> Option<()>);

/// Feeds a component: its own hash of a known length, behind its name. So none can run into the next.
fn part(name: &str, feed: impl FnOnce(&mut Sha256) -> Option<()>, out: &mut Sha256) -> Option<()> {
    let mut component = Sha256::new();
    feed(&mut component)?;
    canonical::feed_text(name, out);
    out.update(component.finalize());
    Some(())
}

/// The name of the component that is the request itself: the last one.
const BODY: &str = "body";

/// All that an answer depends on. A test takes each out in turn and finds two requests that then share an answer.
const COMPONENTS: [Component; 7] = [
    ("whose", |scope, _, out| text(scope.kind(), out)),
    ("scope", |scope, _, out| text(scope.id(), out)),
    ("route", |_, question, out| text(question.route.name(), out)),
    ("model", |_, question, out| text(question.model, out)),
    ("candidates", |_, question, out| {
        question.candidates.iter().try_for_each(|candidate| text(candidate, out))
    }),
    ("config", |_, question, out| {
        out.update(question.config.to_le_bytes());
        Some(())
    }),
    (BODY, |_, question, out| {
        let mut members = members(question, question.input.map(|_| "input"));
        members.extend(question.input.map(|input| ("input", input)));
        members.sort_unstable();
        feed_members(&members, out)
    }),
];

fn text(text: &str, out: &mut Sha256) -> Option<()> {
    canonical::feed_text(text, out);
    Some(())
}

/// What matters of a body, but for one of its members, in the order of the names.
fn members<'q>(question: &Question<'q>, but: Option<&str>) -> Vec<(&'q str, &'q str)> {
    let is_vector = question.route == Route::Embedding;
    let matters = |name: &str| {
        // A vector is kept as numbers, however they are to be written.
        let is_spelling = is_vector && name == "encoding_format";
        !is_spelling && !NO_MATTER.contains(&name) && Some(name) != but
    };
    let mut members: Vec<_> = question.body.members().filter(|(name, _)| matters(name)).collect();
    members.sort_unstable();
    members
}

fn feed_members(members: &[(&str, &str)], out: &mut Sha256) -> Option<()> {
    for (name, value) in members {
        canonical::feed_text(name, out);
        canonical::feed(value, out)?;
    }
    Some(())
}

#[cfg(test)]
mod tests;
