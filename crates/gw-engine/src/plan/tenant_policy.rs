//! Decides which members and references of a request may reach a provider: a client must not read stored files, choose
//! a price or pick a model with the operator's credentials, unless the provider's configuration allows it.

use gw_providers::provider::Provider;
use gw_wire::request::{GuardedMember, References, Rule};

use crate::error::{Error, Kind, Result};
use crate::request::ValidatedRequest;

/// Checks whether the request may be sent to this provider.
///
/// # Errors
/// `unsupported_value`, with the setting that allows it.
pub(crate) fn permitted(provider: &Provider, request: &ValidatedRequest) -> Result<()> {
    members(provider, request.guarded())?;
    if provider.takes_references() {
        return Ok(());
    }
    references(provider, request.references())
}

fn members(provider: &Provider, guarded: &[GuardedMember]) -> Result<()> {
    let refused = guarded.iter().find(|member| {
        let (is_forwarded, is_taken) =
            (provider.forwards_member(&member.name), provider.takes_member(&member.name));
        match member.rule {
            // A member that is not forwarded does nothing. Without its context, the answer would belong to another
            // question.
            Rule::Steers | Rule::Search => is_forwarded && !is_taken,
            Rule::Context => !(is_forwarded && is_taken),
            Rule::Price | Rule::Account | Rule::Fallback => false,
        }
    });
    let Some(GuardedMember { name, rule, .. }) = refused else { return Ok(()) };
    let why = match rule {
        Rule::Search => "it has a price of its own, and the catalogue does not hold that price",
        Rule::Context => "it changes the meaning of the answer, and the gateway cannot apply it here",
        _ => "it chooses a model, an upstream or credentials, and only the gateway chooses these",
    };
    let provider = provider.name();
    let setting = name.split('.').next().unwrap_or(name);
    let message = format!(
        "Invalid '{name}': the provider '{provider}' is not sent this member, because {why}. The operator can allow it \
         with allow_members = [\"{setting}\"] in the provider's configuration."
    );
    Err(Error::new(Kind::UnsupportedValue, message))
}

fn references(provider: &Provider, references: &References) -> Result<()> {
    let verbatim = || {
        let is_forwarded = provider.adapter().capabilities().openai_fields;
        references.verbatim.as_deref().filter(|_| is_forwarded)
    };
    let at_own_host = || {
        let is_named = provider.host().is_some_and(|host| references.hosts.contains(host));
        is_named.then_some("messages")
    };
    let Some(place) = references.carried.as_deref().or_else(verbatim).or_else(at_own_host) else {
        return Ok(());
    };
    let provider = provider.name();
    let message = format!(
        "Invalid '{place}': it refers to something that is stored at the provider '{provider}' or lies in its network, \
         which clients may not read with the operator's credentials. An address with a blank, a backslash or a control \
         character counts as one that does. Send the content itself, as a data URL or as 'file_data'. The operator can \
         allow it with file_ids = true in the provider's configuration."
    );
    Err(Error::new(Kind::UnsupportedValue, message))
}
