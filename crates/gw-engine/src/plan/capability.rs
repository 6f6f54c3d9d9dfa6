//! Checks whether a model has the capabilities that a request needs.

use gw_providers::adapter::Capabilities;
use gw_providers::provider::Provider;
use gw_wire::dialects::{ClientRequest, NativeNeed};
use gw_wire::request::Needs;

use crate::catalog::Model;
use crate::error::{Error, Kind, Result};
use crate::plan::candidate::Candidate;
use crate::plan::tenant_policy::is_forwarded;
use crate::request::ValidatedRequest;
use crate::request::fan_out;
use crate::request::required_capabilities::RequiredCapabilities;

/// Choices of a prompt that are requested one by one from a provider that gives one choice a call.
const MAX_CHOICES: u32 = 8;

/// Checks whether a candidate serves the parts of a request that only the client's own dialect has.
///
/// # Errors
/// The part that only an upstream of the dialect serves.
pub(crate) fn speaks_as_needed(candidate: &Candidate, request: &ValidatedRequest) -> Result<()> {
    match request.client() {
        Some(client @ ClientRequest { need: NativeNeed::Required(fault), .. })
            if !is_forwarded(candidate, client) =>
        {
            Err(fault.clone().into())
        }
        _ => Ok(()),
    }
}

/// Checks the number of the tools that the candidate gets in the client's own body, which hosted tools belong to.
///
/// # Errors
/// More tools than the model takes.
pub(crate) fn own_tools_fit(candidate: &Candidate, request: &ValidatedRequest) -> Result<()> {
    let Some(client) = request.client().filter(|client| is_forwarded(candidate, client)) else {
        return Ok(());
    };
    let Candidate { model, provider, .. } = candidate;
    let max_tools = model.max_tools.or(provider.adapter().capabilities().max_tools);
    within_max_tools(&model.id, max_tools, client.native.policy.tool_count)
}

/// Keeps the candidates that speak the client's own dialect, if the request has an effect at them only and there are any.
pub(crate) fn keep_preferred(candidates: &mut Vec<Candidate>, request: &ValidatedRequest) {
    let Some(client) = request.client().filter(|client| client.need == NativeNeed::Preferred) else { return };
    let gets_own_body = |candidate: &Candidate| is_forwarded(candidate, client);
    if candidates.iter().any(gets_own_body) {
        candidates.retain(gets_own_body);
    }
}

/// Checks the capabilities.
///
/// # Errors
/// The capability that the model lacks.
pub(crate) fn capable(model: &Model, provider: &Provider, wanted: RequiredCapabilities<'_>) -> Result<()> {
    let can = provider.adapter().capabilities();
    let id = &model.id;
    match wanted {
        RequiredCapabilities::Chat { needs, n } => {
            writes_text(model, "chat")?;
            listed_features(model, needs)?;
            chat_fields(id, can.openai_fields, needs)?;
            within_max_tools(id, model.max_tools.or(can.max_tools), needs.tool_count)?;
            several_choices(id, &can, n, 1)
        }
        RequiredCapabilities::Completion { suffix, tokens, n, prompts } => {
            writes_text(model, "complete text")?;
            if suffix && !can.suffix {
                return Err(unsupported_parameter("suffix", id));
            }
            if tokens && !can.token_prompts {
                return Err(unsupported_value("prompt", "token arrays are not", id));
            }
            several_choices(id, &can, n, prompts)
        }
        RequiredCapabilities::OneShot(request) => {
            if let Some(category) = request.operation().row().category
                && !model.is_of(category.name)
            {
                return Err(unsupported_model(id, &format!("is not {}", category.noun)));
            }
            request.check(model, provider)
        }
    }
}

/// Whether the model's catalogue entry lacks a feature or a kind of input that a chat needs. Another model may have it. Every other refusal
/// is about the kind of the request or about a provider's API, so no upgrade may hide it.
pub(crate) fn lacks_feature(model: &Model, wanted: RequiredCapabilities<'_>) -> bool {
    match wanted {
        RequiredCapabilities::Chat { needs, .. } => {
            writes_text(model, "chat").is_ok() && listed_features(model, needs).is_err()
        }
        RequiredCapabilities::Completion { .. } | RequiredCapabilities::OneShot(_) => false,
    }
}

/// Bounds the upstream calls of a request whose choices its provider does not give in one call.
fn several_choices(id: &str, can: &Capabilities, n: u32, prompts: usize) -> Result<()> {
    if n > can.choices && n > MAX_CHOICES {
        let asked = format!("more than {MAX_CHOICES} choices are not");
        return Err(unsupported_value("n", &asked, id));
    }
    let calls = fan_out::calls(can, n, prompts);
    if prompts > can.prompts && calls > fan_out::MAX_CALLS {
        let most = fan_out::MAX_CALLS;
        let asked = format!(
            "so many prompts in one request (they become {calls} upstream calls, and {most} are the most) are not"
        );
        return Err(unsupported_value("prompt", &asked, id));
    }
    Ok(())
}

/// Checks the number of tools against the model's limit, or else the provider's. No tool is ever left out silently.
fn within_max_tools(id: &str, max_tools: Option<usize>, count: usize) -> Result<()> {
    let Some(most) = max_tools.filter(|most| count > *most) else { return Ok(()) };
    let message = format!(
        "Invalid 'tools': array too long. The model '{id}' takes at most {most} tools in one request, but got {count} instead."
    );
    Err(Error { code: Some("array_above_max_length".into()), ..Error::new(Kind::Invalid, message) })
}

/// Refuses a model that generates no text, such as an embedding model. `work` completes the message: "cannot {work}".
fn writes_text(model: &Model, work: &str) -> Result<()> {
    match model.only_category() {
        Some(category) => {
            Err(unsupported_model(&model.id, &format!("is {} and cannot {work}", category.noun)))
        }
        None => Ok(()),
    }
}

/// Checks the features and the kinds of input that the model's catalogue entry lists.
fn listed_features(model: &Model, needs: &Needs) -> Result<()> {
    let id = &model.id;
    if needs.tools && !model.supports("function_calling") {
        return Err(unsupported_parameter("tools", id));
    }
    if needs.json_schema && !model.supports("json_schema") {
        return Err(unsupported_value("response_format", "'json_schema' is not", id));
    }
    if needs.json_mode && !model.supports("json_mode") && !model.supports("json_schema") {
        return Err(unsupported_value("response_format", "'json_object' is not", id));
    }
    if needs.image && !model.supports("vision") && !model.accepts_input("image") {
        return Err(unsupported_value("messages", "image content is not", id));
    }
    if needs.audio_input && !model.supports("audio") && !model.accepts_input("audio") {
        return Err(unsupported_value("messages", "audio content is not", id));
    }
    Ok(())
}

/// Checks the parts of a chat that only providers with OpenAI's fields serve.
fn chat_fields(id: &str, openai_fields: bool, needs: &Needs) -> Result<()> {
    if needs.audio_output && !openai_fields {
        return Err(unsupported_value("modalities", "audio output is not", id));
    }
    match needs.openai_only {
        Some(Needs::OTHER_PARTS) if !openai_fields => {
            let message =
                format!("Invalid 'messages': a content part's type is not supported by the model '{id}'.");
            Err(Error { code: Some("invalid_value".into()), ..Error::new(Kind::Invalid, message) })
        }
        Some(what) if !openai_fields => Err(unsupported_value(what, "this value is not", id)),
        _ => Ok(()),
    }
}

fn unsupported_model(id: &str, why: &str) -> Error {
    Error::new(Kind::UnsupportedModel, format!("The model '{id}' {why}."))
}

fn unsupported_parameter(name: &str, id: &str) -> Error {
    Error::new(
        Kind::UnsupportedParameter,
        format!("Unsupported parameter: '{name}' is not supported by the model '{id}'."),
    )
}

fn unsupported_value(name: &str, what: &str, id: &str) -> Error {
    Error::new(Kind::UnsupportedValue, format!("Invalid '{name}': {what} supported by the model '{id}'."))
}
