//! Members of a request that choose a model, an upstream or a price. The operator's configuration decides about these, so
//! such a member reaches a provider only if the operator allows it.

mod rules;

use std::borrow::Cow;

use super::body::{Member, resembles_known};
use super::fields::Path;
use super::folding::{Folded, folded};
use super::native_policy::Treatment;
use super::references::References;
use crate::json::{Kind, View};
use crate::operation::PlainOperation;
use crate::usage::USUAL_TIERS;
use rules::named;

pub use rules::{REASONING_MODE, RULES, Rule, STEERING_PREFIXES, rule_of};

/// A member of a request that has a [`Rule`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardedMember {
    /// The name in the spelling of its API, shortened for messages; `metadata.tags` for a member of a member.
    pub name: Cow<'static, str>,
    /// Why the member is not simply forwarded.
    pub rule: Rule,
    /// The name as the client wrote it, by which the member is found to be left out.
    written: Box<str>,
}

/// Whether this operation validates the whole member of this name. Any other member is forwarded like an unknown one,
/// even if another operation knows it.
fn checks(operation: PlainOperation, name: &str, is_known: bool) -> bool {
    match operation.row().checked_members {
        None => is_known && !UNCHECKED_BY_CHAT.contains(&name),
        Some(members) => members.binary_search(&name).is_ok(),
    }
}

/// Known members that chat does not use, or of which chat checks only that they are objects.
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

/// The members with a [`Rule`] that a provider may be sent.
#[derive(Clone, Debug, Default)]
pub struct AllowedMembers {
    names: Vec<Box<str>>,
    is_all: bool,
}

/// Parts of the names of tools that a provider runs itself, at their own price or on the operator's account.
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

/// Members without [`Rule::Search`] that have the provider run tools, or that may hold a member which does.
const RUN_TOOLS: [&str; 4] = ["compound_custom", "data_sources", "extra_body", "plugins"];

/// Members with [`Rule::Search`] that are charged in another way, or cost no more than the tokens.
const WITHOUT_OWN_PRICE: [&str; 4] = ["mcp_servers", "search_mode", "tools", "web_search_options"];

/// The member that names a preset of the gateway. No upstream gets it.
pub const PRESET: &str = "preset";

/// Whether a member is a `preset` that names none.
pub(super) fn names_no_preset(name: &str, value: View<'_>) -> bool {
    name == PRESET && (value.kind() == Kind::Null || value.string().is_some_and(|name| name.is_empty()))
}

/// The depth of tools in tools. No API has a deeper one, so a tool below may be any.
pub(super) const MAX_TOOL_DEPTH: u32 = 4;

/// The members of a body that have a rule. Adds the references in all other members to `references`. `other_tools` says
/// that a chat has a tool other than a function.
pub(super) fn survey(
    text: &str,
    members: &[Member],
    operation: PlainOperation,
    other_tools: bool,
    references: &mut References,
) -> Vec<GuardedMember> {
    let mut found = Vec::new();
    for (written, range) in members {
        let value = View::exact(text.get(range.clone()).unwrap_or("null"));
        // The name of a known member is borrowed.
        let is_known = matches!(written, Cow::Borrowed(_));
        let with_rule = match &**written {
            "metadata" => {
                found.extend(steering_metadata(value));
                None
            }
            "tools" if operation == PlainOperation::Chat && !other_tools => None,
            "tools" => tools(value, references).then_some((Cow::Borrowed("tools"), Rule::Search)),
            "audio" => {
                references.object(&Path::Top("audio"), value);
                None
            }
            "service_tier" if is_usual_tier(value) => None,
            // These members are known and have a rule too.
            name @ ("service_tier" | "store" | "web_search_options" | "models" | "fallbacks"
            | "fallback_model") => named(name),
            name if names_no_preset(name, value) => {
                found.push(dropped_inside(PRESET));
                continue;
            }
            name if checks(operation, name, is_known) => None,
            name if other_mode(name, value) => {
                found.push(GuardedMember {
                    written: format!("{name}.mode").into(),
                    ..dropped_inside(REASONING_MODE)
                });
                continue;
            }
            name => {
                let with_rule = named(name).filter(|_| name != "extra_body" || overrides(value));
                if with_rule.is_none() {
                    references.member(&Path::Top(name), name, value);
                }
                with_rule
            }
        };
        if let Some((name, rule)) = with_rule.filter(|(_, rule)| is_effective(*rule, value)) {
            found.push(GuardedMember { name, rule, written: Box::from(&**written) });
        }
    }
    found
}

/// Whether a member with this rule and this value changes anything. A false or empty value does not, except that an empty
/// object switches a search on.
fn is_effective(rule: Rule, value: View<'_>) -> bool {
    let is_empty = match value.kind() {
        Kind::Null => true,
        Kind::Boolean => value.text() == "false",
        Kind::String => value.string_len() == 0,
        Kind::Array => value.is_empty_array(),
        Kind::Object => rule != Rule::Search && value.members().next().is_none(),
        Kind::Integer | Kind::Decimal => false,
    };
    // A list of fallbacks is never sent to a provider, whatever it holds.
    rule == Rule::Fallback || !is_empty
}

/// The member with this name and value in a request that goes to an upstream in the client's own dialect, if it is not
/// simply forwarded. `row` is the decision of the surface's table about the name.
pub(super) fn guarded_native(name: &str, value: View<'_>, row: Option<Treatment>) -> Option<GuardedMember> {
    let (shown, rule) = match (row, name) {
        (_, "metadata") => return steering_metadata(value),
        (_, "service_tier") if is_usual_tier(value) => return None,
        (Some(Treatment::Forwarded | Treatment::Own | Treatment::Fallback | Treatment::StoredId), _) => {
            return None;
        }
        (Some(Treatment::Dropped), _) => (shown(name), Rule::Price),
        (Some(Treatment::Refused | Treatment::Priced(_)), _) => {
            named(name).unwrap_or_else(|| (shown(name), Rule::Steers))
        }
        (None, _) => match named(name) {
            // Names that only resemble a known one have no meaning.
            Some((_, Rule::Fallback)) => (shown(name), Rule::Unknown),
            Some((known, _)) if known == "tools" => (shown(name), Rule::Unknown),
            Some((known, _)) if known == "extra_body" && !overrides(value) => (known, Rule::Unknown),
            Some(with_rule) => with_rule,
            None => (shown(name), Rule::Unknown),
        },
    };
    let is_guarded = rule == Rule::Unknown || is_effective(rule, value);
    is_guarded.then(|| GuardedMember { name: shown, rule, written: name.into() })
}

/// The member of a member that is left out, by both names with a dot between them.
pub(super) fn dropped_inside(name: &'static str) -> GuardedMember {
    GuardedMember { name: Cow::Borrowed(name), rule: Rule::Price, written: name.into() }
}

/// A client's name, shortened for messages.
fn shown(name: &str) -> Cow<'static, str> {
    Cow::Owned(super::fields::clip(name).into_owned())
}

fn is_usual_tier(value: View<'_>) -> bool {
    value.string().is_some_and(|tier| USUAL_TIERS.iter().any(|usual| tier.eq_ignore_ascii_case(usual)))
}

/// A member of `metadata` that configures another gateway. OpenAI's metadata are plain strings, which are always allowed.
fn steering_metadata(value: View<'_>) -> Option<GuardedMember> {
    let steers = |(name, value): (View<'_>, View<'_>)| {
        let (name, rule) = named(&name.string()?)?;
        let is_structure = matches!(value.kind(), Kind::Array | Kind::Object);
        if !is_structure || !is_effective(rule, value) {
            return None;
        }
        // A structure is not metadata of OpenAI's, so nothing is lost with the whole member.
        if rule == Rule::Hint {
            return Some(GuardedMember { name: "metadata".into(), rule, written: "metadata".into() });
        }
        let name = format!("metadata.{name}");
        Some(GuardedMember { written: (&*name).into(), name: name.into(), rule: Rule::Steers })
    };
    value.members().find_map(steers)
}

/// Whether this member is a `reasoning` with another mode than the standard one, in any spelling.
fn other_mode(name: &str, value: View<'_>) -> bool {
    is_spelling(name, "reasoning") && has_other_mode(value)
}

/// Whether a `reasoning` has another mode than the standard one.
pub(super) fn has_other_mode(reasoning: View<'_>) -> bool {
    let is_mode = |name: View<'_>| name.string().is_some_and(|name| is_spelling(&name, "mode"));
    let mut modes = reasoning.members().filter(|(name, _)| is_mode(*name));
    modes.any(|(_, mode)| mode.kind() != Kind::Null && mode.string().is_none_or(|mode| mode != "standard"))
}

/// Whether a lenient reader takes the name for a known one, which has no `_`.
pub(crate) fn is_spelling(name: &str, known: &str) -> bool {
    folded(name, &mut Folded::default()) == Some(known)
}

/// Whether `extra_body` replaces a validated member, or holds a member with a rule.
fn overrides(value: View<'_>) -> bool {
    value.members().any(|(name, value)| {
        name.string().is_none_or(|name| {
            resembles_known(&name)
                || other_mode(&name, value)
                || rule_of(&name).is_some_and(|rule| is_effective(rule, value))
        })
    })
}

/// Adds the references in tools that the provider runs. Returns whether one of these tools has a price.
fn tools(value: View<'_>, references: &mut References) -> bool {
    if value.kind() != Kind::Array {
        references.member(&Path::Top("tools"), "", value);
        return is_priced_tool(value, 0);
    }
    let others = value.elements().filter(|tool| !is_client_tool(*tool));
    others.for_each(|tool| references.member(&Path::Top("tools"), "", tool));
    value.elements().any(|tool| is_priced_tool(tool, 0))
}

/// Whether a lenient reader takes the member of this name in a tool for its `type`.
pub(super) fn is_type(name: &str) -> bool {
    is_spelling(name, "type")
}

/// All values that a reader could take for the tool's `type`, in lower case.
pub(super) fn tool_types(tool: View<'_>) -> impl Iterator<Item = String> {
    let types = tool.members().filter(|(name, _)| name.string().is_some_and(|name| is_type(&name)));
    types.map(|(_, value)| value.string().unwrap_or_default().to_ascii_lowercase())
}

fn is_client_type(kind: &str) -> bool {
    matches!(kind, "function" | "custom")
}

/// Whether the client runs the tool itself.
pub(super) fn is_client_tool(tool: View<'_>) -> bool {
    let mut types = tool_types(tool).peekable();
    types.peek().is_some() && types.all(|kind| is_client_type(&kind))
}

/// The tools inside a tool, such as those of a namespace, for a reader of any spelling.
pub(super) fn inner_tools(tool: View<'_>) -> impl Iterator<Item = View<'_>> {
    let lists =
        tool.members().filter(|(name, _)| name.string().is_some_and(|name| is_spelling(&name, "tools")));
    lists.flat_map(|(_, list)| list.elements().chain((list.kind() == Kind::Object).then_some(list)))
}

/// Whether the provider runs the tool, or a tool inside it, at a price of its own. `depth` counts the tools around it.
fn is_priced_tool(tool: View<'_>, depth: u32) -> bool {
    let is_priced =
        |kind: &str| !is_client_type(kind) && PRICED_TOOLS.iter().any(|piece| kind.contains(piece));
    if tool_types(tool).any(|kind| is_priced(&kind)) {
        return true;
    }
    if is_client_tool(tool) {
        return false;
    }
    let is_inner_priced = |inner| depth >= MAX_TOOL_DEPTH || is_priced_tool(inner, depth + 1);
    inner_tools(tool).any(is_inner_priced)
}

impl GuardedMember {
    /// The name as the client wrote it.
    #[must_use]
    pub fn written(&self) -> &str {
        &self.written
    }

    /// Whether a request with the member may cost what the catalogue cannot hold. `tools` and `web_search_options` are counted
    /// by their own rules.
    #[must_use]
    pub fn has_unknown_price(&self) -> bool {
        match self.rule {
            Rule::Search => !WITHOUT_OWN_PRICE.contains(&&*self.name),
            // A native forward leaves out other members, too, with this rule.
            Rule::Price => self.name == REASONING_MODE || rule_of(&self.name) == Some(Rule::Price),
            _ => RUN_TOOLS.contains(&&*self.name),
        }
    }

    /// Whether a provider that gets the member may search or run tools before it answers.
    #[must_use]
    pub fn runs_tools(&self) -> bool {
        // Perplexity's `search_mode` filters the results of a model that searches anyway.
        let searches = self.rule == Rule::Search && self.name != "search_mode";
        searches || RUN_TOOLS.contains(&&*self.name)
    }
}

impl AllowedMembers {
    /// All members, whatever they mean: for an upstream that costs nothing and reaches nothing.
    #[must_use]
    pub fn all() -> Self {
        Self { names: Vec::new(), is_all: true }
    }

    /// Whether these are all members.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.is_all
    }

    /// The members with these names, however a request spells them.
    #[must_use]
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let fold = |name: &str| folded(name, &mut Folded::default()).map(Box::from);
        Self { names: names.into_iter().filter_map(fold).collect(), is_all: false }
    }

    /// Whether the member may be sent. Allowing `metadata` allows all of its members, too.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        let outer = name.split('.').next().unwrap_or(name);
        let has = |name: &str| {
            folded(name, &mut Folded::default())
                .is_some_and(|name| self.names.iter().any(|known| **known == *name))
        };
        self.is_all || !self.names.is_empty() && (has(outer) || outer != name && has(name))
    }

    /// The guarded members that must not be sent, in the client's spelling. A search is sent, because a request with one
    /// gets here only if the search is allowed or has a price.
    #[must_use]
    pub fn withheld<'g>(&self, guarded: &'g [GuardedMember]) -> Vec<&'g str> {
        let withheld = guarded.iter().filter(|member| {
            !(self.has(&member.name) || member.rule == Rule::Search && member.name == "web_search_options")
        });
        withheld.map(|member| &*member.written).collect()
    }
}

#[cfg(test)]
mod tests;
