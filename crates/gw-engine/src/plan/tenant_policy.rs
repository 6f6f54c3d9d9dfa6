//! Decides which members and references of a request may reach a provider: a client must not read stored files, choose
//! a price or pick a model with the operator's credentials, unless the provider's configuration allows it.

use gw_providers::provider::Provider;
use gw_wire::dialects::ClientRequest;
use gw_wire::hosted_tools::HostedTool;
use gw_wire::request::native_policy::{GuardedType, NativePolicy, PolicyPlace, Treatment};
use gw_wire::request::{GuardedMember, PRESET, References, Rule};

use crate::catalog::Model;
use crate::error::{Error, Kind, Result};
use crate::plan::candidate::Candidate;
use crate::request::ValidatedRequest;

/// Checks whether the request may be sent to this candidate. `fetches_images`: a provider that takes only bytes never gets the address of
/// an image.
///
/// # Errors
/// `unsupported_value`, with the setting that allows it.
pub(crate) fn permitted(
    candidate: &Candidate,
    request: &ValidatedRequest,
    fetches_images: bool,
) -> Result<()> {
    let Candidate { provider, model, .. } = candidate;
    // The edge takes the preset out of a request that names one. This one is left, so the configuration has no such preset.
    let of_client = request.client().map(|client| &*client.native.policy.members).unwrap_or_default();
    if request
        .guarded()
        .iter()
        .chain(of_client)
        .any(|member| member.name == PRESET && member.rule == Rule::Steers)
    {
        return Err(Error::new(Kind::ModelNotFound, "The preset of the request does not exist."));
    }
    let native = request.client().map(|client| &client.native).filter(|own| candidate.speaks(own.dialect));
    match native.map(|native| forwarded(provider, model, &native.policy)) {
        Some(Ok(())) => {}
        Some(Err(error)) if provider.adapter().is_native_certain() => return Err(error),
        // The provider may have no such API, and a chat without these parts suits it. A warning names them.
        Some(Err(_)) | None => members(provider, model, request.guarded())?,
    }
    if provider.takes_references() {
        return Ok(());
    }
    references(provider, request.references(), fetches_images)
}

/// Whether the candidate speaks the client's own dialect, and may be sent the request in it.
pub(crate) fn is_forwarded(candidate: &Candidate, client: &ClientRequest) -> bool {
    let Candidate { provider, model, .. } = candidate;
    candidate.speaks(client.native.dialect) && forwarded(provider, model, &client.native.policy).is_ok()
}

/// Whether calls of this hosted tool at the model can be charged.
pub(crate) fn has_price(model: &Model, tool: HostedTool) -> bool {
    model.prices.as_ref().is_some_and(|prices| prices.has_tool(tool))
}

/// Checks a request that the provider gets as the client wrote it.
fn forwarded(provider: &Provider, model: &Model, policy: &NativePolicy) -> Result<()> {
    if let Some(member) = policy.refused_member(provider.allowed()) {
        return Err(refused(provider, member));
    }
    if let Some(guarded) = policy.refused_type(provider.allowed(), |tool| has_price(model, tool)) {
        return Err(refused_type(provider, guarded));
    }
    let at_own_host = || provider.host().filter(|host| policy.hosts.contains(*host));
    match policy.stored.as_deref().or_else(at_own_host) {
        Some(place) if !provider.takes_references() => Err(stored(provider, place)),
        _ => Ok(()),
    }
}

fn refused_type(provider: &Provider, guarded: &GuardedType) -> Error {
    let (kind, provider) = (&guarded.kind, provider.name());
    let (member, what) = match guarded.place {
        PolicyPlace::Tool => ("tools", "tools"),
        _ => ("input", "content"),
    };
    let allowing = format!("with allow_members = [\"{kind}\"] in the provider's configuration");
    let why = match guarded.treatment {
        Some(Treatment::Priced(tool)) => format!(
            "its calls have a price of their own, and the catalogue does not hold it. The operator can set it with \
             pricing.tools.{} of the model, or allow the type {allowing}",
            tool.price_name()
        ),
        Some(_) => format!(
            "it may reach other accounts, hosts or models, or costs what the catalogue does not hold. The operator can \
             allow it {allowing}"
        ),
        None => "this release of the gateway does not know the type".to_owned(),
    };
    let message = format!(
        "Invalid '{member}': the provider '{provider}' is not sent {what} of the type '{kind}', because {why}."
    );
    Error::new(Kind::UnsupportedValue, message)
}

fn members(provider: &Provider, model: &Model, guarded: &[GuardedMember]) -> Result<()> {
    let found = guarded.iter().find(|member| {
        let (is_forwarded, is_taken) =
            (provider.forwards_member(&member.name), provider.takes_member(&member.name));
        match member.rule {
            // A member that is not forwarded does nothing. Without its context, the answer would belong to another
            // question.
            Rule::Search if member.name == "web_search_options" => {
                is_forwarded && !is_taken && !has_price(model, HostedTool::WebSearch)
            }
            Rule::Steers | Rule::Search => is_forwarded && !is_taken,
            Rule::Context => !(is_forwarded && is_taken),
            Rule::Price | Rule::Account | Rule::Fallback | Rule::Hint | Rule::Unknown => false,
        }
    });
    found.map_or(Ok(()), |member| Err(refused(provider, member)))
}

fn refused(provider: &Provider, member: &GuardedMember) -> Error {
    let GuardedMember { name, rule, .. } = member;
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
    Error::new(Kind::UnsupportedValue, message)
}

fn references(provider: &Provider, references: &References, fetches_images: bool) -> Result<()> {
    let image = || {
        let is_fetched = fetches_images && !provider.adapter().capabilities().image_urls;
        references.image.as_deref().filter(|_| !is_fetched)
    };
    let verbatim = || {
        let is_forwarded = provider.adapter().capabilities().openai_fields;
        references.verbatim.as_deref().filter(|_| is_forwarded)
    };
    let at_own_host = || {
        let is_named = provider.host().is_some_and(|host| references.hosts.contains(host));
        is_named.then_some("messages")
    };
    let Some(place) = references.carried.as_deref().or_else(image).or_else(verbatim).or_else(at_own_host)
    else {
        return Ok(());
    };
    Err(stored(provider, place))
}

fn stored(provider: &Provider, place: &str) -> Error {
    let provider = provider.name();
    let message = format!(
        "Invalid '{place}': it refers to something that is stored at the provider '{provider}' or lies in its network, \
         which clients may not read with the operator's credentials. An address with a blank, a backslash or a control \
         character counts as one that does. Send the content itself, as a data URL or as 'file_data'. The operator can \
         allow it with file_ids = true in the provider's configuration."
    );
    Error::new(Kind::UnsupportedValue, message)
}
