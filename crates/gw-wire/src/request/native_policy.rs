//! The policy of native forwards: which members, tools and parts of a request are sent, dropped or refused when the upstream speaks the
//! client's own dialect.
//!
//! One table (`native_policy/rows.rs`) holds a decision for every member, tool type and part type of the vendors' newest SDKs. A name
//! without a row is left out (members) or refused (types of tools and parts), until somebody decides about it.

mod chat_rows;
mod inner_work;
mod messages;
mod messages_rows;
mod responses;
mod responses_rows;
mod rows;
mod terms;

use std::collections::BTreeSet;

use super::fields::{Path, clip};
use super::member_policy::{
    AllowedMembers, GuardedMember, PRESET, Rule, dropped_inside, guarded_native, names_no_preset,
};
use super::references::References;
use crate::hosted_tools::{HostedCalls, HostedTool};
use crate::json::{Kind, View};

pub use inner_work::{FILE_RESULT_TOKENS, InnerWork, PAGE_TOKENS, SEARCH_RESULT_TOKENS, results_of};
pub(super) use inner_work::{chat_tools, is_unpriced_part};
pub use messages::survey_messages;
pub use responses::{ResponsesSurvey, survey_responses};
pub use rows::treatment;
pub use terms::{PolicyPlace, Row, Surface, Treatment};

/// The calls of a hosted tool that are expected at most, if the request sets no bound. A reservation assumes them.
pub const MOST_HOSTED_CALLS: u32 = 10;

/// The type of a tool or of a part that is not simply forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardedType {
    /// The type, shortened for messages.
    pub kind: Box<str>,
    /// Whether it is the type of a tool or of a part.
    pub place: PolicyPlace,
    /// The decision; None = the table has no row for the type.
    pub treatment: Option<Treatment>,
}

/// The parts of a request that need a decision before an upstream of the client's own dialect gets it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NativePolicy {
    /// Members with a rule, and members without a row.
    pub members: Vec<GuardedMember>,
    /// Types of tools and parts that are not simply forwarded, each once.
    pub types: Vec<GuardedType>,
    /// The path of the first reference to a resource in the operator's account.
    pub stored: Option<Box<str>>,
    /// The tools that the request offers. The tools of a namespace count instead of the namespace.
    pub tool_count: usize,
    /// The most calls of hosted tools that the request allows.
    pub most_calls: HostedCalls,
    /// The upstream's work beyond one reading of the prompt and one answer.
    pub inner: InnerWork,
    /// The upstream keeps the conversation as a message thread.
    pub keeps_thread: bool,
    /// The hosts of the addresses that the survey found.
    pub hosts: BTreeSet<Box<str>>,
}

impl NativePolicy {
    /// The first type that must not be sent. `has_price` tells whether the calls of a hosted tool can be charged.
    pub fn refused_type<'p>(
        &'p self,
        allowed: &AllowedMembers,
        has_price: impl Fn(HostedTool) -> bool,
    ) -> Option<&'p GuardedType> {
        self.types.iter().find(|guarded| {
            let is_charged = match guarded.treatment {
                Some(Treatment::Priced(tool)) => has_price(tool),
                _ => false,
            };
            let is_open =
                allowed.has(&guarded.kind) || guarded.place == PolicyPlace::Tool && allowed.has("tools");
            !is_charged && !is_open
        })
    }

    /// The first member that must not be sent, and that the request needs.
    #[must_use]
    pub fn refused_member(&self, allowed: &AllowedMembers) -> Option<&GuardedMember> {
        self.members.iter().find(|member| member.rule.is_refusal() && !allowed.has(&member.name))
    }

    /// The members that are left out, in the client's spelling, and a warning for each.
    #[must_use]
    pub fn left_out(&self, allowed: &AllowedMembers) -> (Vec<&str>, Vec<String>) {
        let mut warnings: Vec<String> = Vec::new();
        let mut names = Vec::new();
        for member in &self.members {
            let what = match member.rule {
                Rule::Unknown => "member_dropped",
                rule if rule.is_dropped() => "parameter_dropped",
                _ => continue,
            };
            if allowed.has(&member.name) {
                continue;
            }
            names.push(member.written());
            let warning = format!("{what}:{}", plain(&member.name));
            if warnings.len() < MAX_WARNINGS && !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
        (names, warnings)
    }
}

/// The most warnings of one request. The names in them come from the client.
const MAX_WARNINGS: usize = 32;

/// A client's name for a warning, which goes into a header, too.
#[must_use]
pub fn plain(name: &str) -> String {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte));
    if is_plain && !name.is_empty() { clip(name).into_owned() } else { "unknown".to_owned() }
}

/// Collects the findings of one request.
#[derive(Debug)]
struct Surveyor {
    surface: Surface,
    found: NativePolicy,
    seen: BTreeSet<(PolicyPlace, String)>,
    /// The tokens of the largest result of a hosted tool.
    largest_result: u64,
}

impl Surveyor {
    fn new(surface: Surface) -> Self {
        Self { surface, found: NativePolicy::default(), seen: BTreeSet::new(), largest_result: 0 }
    }

    /// Judges the top-level members, and returns those with these names as [`View::pick`] does.
    fn members<'a, const N: usize>(&mut self, body: View<'a>, names: [&str; N]) -> [Option<View<'a>>; N] {
        let mut found = [None; N];
        for (name, value) in body.members() {
            let Some(name) = name.string() else { continue };
            let is_null = value.kind() == Kind::Null;
            if let Some((_, place)) = names.iter().zip(&mut found).find(|(known, _)| **known == name) {
                *place = (!is_null).then_some(value);
            }
            if names_no_preset(&name, value) {
                self.found.members.push(dropped_inside(PRESET));
                continue;
            }
            if is_null {
                continue;
            }
            let row = treatment(self.surface, PolicyPlace::Member, &name);
            if row == Some(Treatment::StoredId) {
                self.stored(&Path::Top(&name));
            }
            self.found.members.extend(guarded_native(&name, value, row));
        }
        found
    }

    /// Judges the type of a tool or of a part. Returns its decision.
    fn judge(&mut self, place: PolicyPlace, kind: &str) -> Option<Treatment> {
        let decision = treatment(self.surface, place, kind);
        if place == PolicyPlace::Tool {
            self.note_price(kind, decision);
        }
        let is_guarded = matches!(decision, None | Some(Treatment::Priced(_) | Treatment::Refused));
        if is_guarded && self.seen.insert((place, kind.to_owned())) {
            let kind = clip(kind).into_owned().into_boxed_str();
            self.found.types.push(GuardedType { kind, place, treatment: decision });
        }
        decision
    }

    /// Notes a reference to a resource in the operator's account.
    fn stored(&mut self, path: &Path<'_>) {
        self.found.stored.get_or_insert_with(|| path.to_string().into());
    }

    /// Notes the first reference inside a value that holds no free JSON.
    fn references(&mut self, path: &Path<'_>, value: View<'_>) {
        self.reference(path, "", value);
    }

    /// Notes an address that the provider reads, if it is one inside its network or of something that it stores.
    fn address(&mut self, path: &Path<'_>, name: &str, value: Option<View<'_>>) {
        let Some(value) = value else { return };
        self.reference(&path.member(name), "url", value);
    }

    fn reference(&mut self, path: &Path<'_>, name: &str, value: View<'_>) {
        let mut references = References::default();
        references.member(path, name, value);
        if let Some(at) = references.verbatim {
            self.found.stored.get_or_insert(at);
        }
        self.found.hosts.append(&mut references.hosts);
    }
}

/// The string of a member, if it is a string.
fn word<'a>(value: Option<View<'a>>) -> Option<std::borrow::Cow<'a, str>> {
    value.and_then(View::string)
}

/// Whether a member has an id in it: a string that is not empty.
fn is_id(value: Option<View<'_>>) -> bool {
    value.is_some_and(|value| match value.kind() {
        Kind::String => value.string_len() > 0,
        Kind::Null => false,
        _ => true,
    })
}

#[cfg(test)]
mod tests;
