//! Members of a request that choose a model, an upstream or a price: what decides over them is the operator's
//! configuration, so a provider that would obey them is not sent them unasked.

mod rules;

use std::borrow::Cow;

use super::Member;
use super::body::{is_known, resembles_known};
use super::fields::Path;
use super::references::References;
use crate::json::{Kind, View};
use rules::named;

pub(crate) use rules::{Folded, folded, without_joints};
pub use rules::{RULES, Rule, STEERING_PREFIXES, rule_of};

/// A member of a request that has a [`Rule`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarded {
    /// Its name, short enough to be shown: as its API spells it, `metadata.tags` for a member of a member.
    pub name: Cow<'static, str>,
    /// Why it is not simply forwarded.
    pub rule: Rule,
    /// Its name as the client wrote it, of any length: what is left out is found by it.
    written: Box<str>,
}

/// The endpoint that a body was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    Chat,
    Completions,
    Embeddings,
}

impl Endpoint {
    /// Whether this endpoint checks the member of this name all through. What it does not is forwarded as it came, as an
    /// unknown member is, although another endpoint may know it.
    fn checks(self, name: &str) -> bool {
        match self {
            Self::Chat => is_known(name) && !UNCHECKED_BY_CHAT.contains(&name),
            Self::Completions => CHECKED_BY_COMPLETIONS.binary_search(&name).is_ok(),
            Self::Embeddings => CHECKED_BY_EMBEDDINGS.binary_search(&name).is_ok(),
        }
    }
}

/// Known members that a chat has no use for, and those of which it checks nothing but that they are objects.
const UNCHECKED_BY_CHAT: [&str; 10] = [
    "best_of",
    "dimensions",
    "echo",
    "encoding_format",
    "input",
    "moderation",
    "prediction",
    "prompt",
    "prompt_cache_options",
    "suffix",
];

const CHECKED_BY_COMPLETIONS: [&str; 21] = [
    "best_of",
    "cache",
    "echo",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "max_tokens",
    "model",
    "n",
    "presence_penalty",
    "prompt",
    "response_format",
    "routing",
    "seed",
    "stop",
    "stream",
    "stream_options",
    "suffix",
    "temperature",
    "top_p",
    "user",
];

/// `cache` and `routing` are never forwarded.
const CHECKED_BY_EMBEDDINGS: [&str; 7] =
    ["cache", "dimensions", "encoding_format", "input", "model", "routing", "user"];

/// The members that a provider may be sent although they have a [`Rule`].
#[derive(Clone, Debug, Default)]
pub struct AllowedMembers(Vec<Box<str>>);

/// Values of `service_tier` that never raise the price: the usual tier, or the one that the operator's account has.
const USUAL_TIERS: [&str; 5] = ["auto", "default", "on_demand", "standard", "standard_only"];

/// Pieces of the names of tools that a provider runs itself, at a price of their own or on the operator's account.
const PRICED_TOOLS: [&str; 17] = [
    "browse",
    "builtin_function",
    "computer",
    "connector",
    "execution",
    "fetch",
    "generation",
    "interpreter",
    "knowledge",
    "library",
    "maps",
    "mcp",
    "openrouter:",
    "rag",
    "retrieval",
    "search",
    "url_context",
];

/// The members of a body that have a rule. Adds the references in all other members to `references`. `other_tools`: at
/// least one tool of a chat is not a function.
pub(super) fn survey(
    text: &str,
    members: &[Member],
    endpoint: Endpoint,
    other_tools: bool,
    references: &mut References,
) -> Vec<Guarded> {
    let mut found = Vec::new();
    for (written, range) in members {
        let value = View::exact(text.get(range.clone()).unwrap_or("null"));
        let ruled = match &**written {
            "metadata" => {
                found.extend(steering_metadata(value));
                None
            }
            "tools" if endpoint == Endpoint::Chat && !other_tools => None,
            "tools" => tools(value, references).then_some((Cow::Borrowed("tools"), Rule::Search)),
            "audio" => {
                references.object(&Path::Top("audio"), value);
                None
            }
            "service_tier" if is_usual_tier(value) => None,
            // They are known, and have a rule all the same.
            name @ ("service_tier" | "store" | "web_search_options" | "models" | "fallbacks") => named(name),
            name if endpoint.checks(name) => None,
            name => {
                let ruled = named(name).filter(|_| name != "extra_body" || overrides(value));
                if ruled.is_none() {
                    references.member(&Path::Top(name), name, value);
                }
                ruled
            }
        };
        if let Some((name, rule)) = ruled.filter(|(_, rule)| chooses(*rule, value)) {
            found.push(Guarded { name, rule, written: written.clone() });
        }
    }
    found
}

/// Whether a member with this rule and this value changes anything. What is switched off or empty does not; an empty
/// object switches a search on.
fn chooses(rule: Rule, value: View<'_>) -> bool {
    let is_empty = match value.kind() {
        Kind::Null => true,
        Kind::Boolean => value.text() == "false",
        Kind::String => value.string_len() == 0,
        Kind::Array => value.is_empty_array(),
        Kind::Object => rule != Rule::Search && value.members().next().is_none(),
        Kind::Integer | Kind::Decimal => false,
    };
    // No provider is sent a list of fallbacks, whatever is in it.
    rule == Rule::Fallback || !is_empty
}

fn is_usual_tier(value: View<'_>) -> bool {
    value.string().is_some_and(|tier| USUAL_TIERS.iter().any(|usual| tier.eq_ignore_ascii_case(usual)))
}

/// A member of `metadata` that steers a gateway. OpenAI's own are labels: plain strings, whatever their names.
fn steering_metadata(value: View<'_>) -> Option<Guarded> {
    let steers = |(name, value): (View<'_>, View<'_>)| {
        let (name, rule) = named(&name.string()?)?;
        let is_structure = matches!(value.kind(), Kind::Array | Kind::Object);
        let name = format!("metadata.{name}");
        (is_structure && chooses(rule, value)).then(|| Guarded {
            written: (&*name).into(),
            name: name.into(),
            rule: Rule::Steers,
        })
    };
    value.members().find_map(steers)
}

/// Whether `extra_body` replaces what the gateway checked, or holds a member with a rule.
fn overrides(value: View<'_>) -> bool {
    value.members().any(|(name, value)| {
        name.string().is_none_or(|name| {
            resembles_known(&name) || rule_of(&name).is_some_and(|rule| chooses(rule, value))
        })
    })
}

/// Notes what the tools that the client does not run refer to; whether one of them has a price.
fn tools(value: View<'_>, references: &mut References) -> bool {
    if value.kind() != Kind::Array {
        references.member(&Path::Top("tools"), "", value);
        return is_priced_tool(value);
    }
    let others = value.elements().filter(|tool| !is_client_tool(*tool));
    others.for_each(|tool| references.member(&Path::Top("tools"), "", tool));
    value.elements().any(is_priced_tool)
}

/// Whether a lenient reader takes the member of this name in a tool for its `type`.
pub(super) fn is_type(name: &str) -> bool {
    folded(name, &mut Folded::default()) == Some("type")
}

/// What a reader could take for the tool's `type`, in lower case.
fn tool_types(tool: View<'_>) -> impl Iterator<Item = String> {
    let types = tool.members().filter(|(name, _)| name.string().is_some_and(|name| is_type(&name)));
    types.map(|(_, value)| value.string().unwrap_or_default().to_ascii_lowercase())
}

fn is_client_type(kind: &str) -> bool {
    matches!(kind, "function" | "custom")
}

/// Whether the client runs the tool itself.
fn is_client_tool(tool: View<'_>) -> bool {
    let mut types = tool_types(tool).peekable();
    types.peek().is_some() && types.all(|kind| is_client_type(&kind))
}

fn is_priced_tool(tool: View<'_>) -> bool {
    let is_priced =
        |kind: &str| !is_client_type(kind) && PRICED_TOOLS.iter().any(|piece| kind.contains(piece));
    tool_types(tool).any(|kind| is_priced(&kind))
}

impl AllowedMembers {
    /// These members, however they are spelled.
    #[must_use]
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let fold = |name: &str| folded(name, &mut Folded::default()).map(Box::from);
        Self(names.into_iter().filter_map(fold).collect())
    }

    /// Whether the member may be sent. What is allowed of `metadata` is allowed of all its members.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        let outer = name.split('.').next().unwrap_or(name);
        !self.0.is_empty()
            && folded(outer, &mut Folded::default())
                .is_some_and(|name| self.0.iter().any(|known| **known == *name))
    }

    /// The names of these members that must not be sent, as the client wrote them.
    #[must_use]
    pub fn withheld<'g>(&self, guarded: &'g [Guarded]) -> Vec<&'g str> {
        let withheld = guarded.iter().filter(|member| !self.has(&member.name));
        withheld.map(|member| &*member.written).collect()
    }
}

#[cfg(test)]
mod tests;
