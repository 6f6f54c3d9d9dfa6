//! Whether a model can do what a request asks for (step 10 of CONTRACT 1.0).

use gw_providers::adapter::Capabilities;
use gw_providers::provider::Provider;
use gw_wire::request::Needs;
use gw_wire::request::embeddings::FixedMembers;
use gw_wire::request::fields::clip;

use crate::catalog::Model;
use crate::error::{Error, Kind, Result};
use crate::share;

/// Choices per prompt that are asked for one by one where a provider cannot give several.
const MOST_CHOICES: u32 = 8;

/// The most bytes beside the inputs that all calls of one embeddings request carry: the usual limit of a body.
const MOST_REPEATED_BYTES: usize = 32 << 20;

/// What kind of model an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted<'a> {
    Chat { needs: &'a Needs, n: u32 },
    Completion { suffix: bool, tokens: bool, n: u32, prompts: usize },
    Embeddings { dimensions: Option<u32>, tokens: bool, inputs: usize, repeated: FixedMembers<'a> },
}

/// Whether a model can do what a request asks for.
pub(crate) fn capable(model: &Model, provider: &Provider, wanted: Wanted<'_>) -> Result<()> {
    let can = provider.adapter().capabilities();
    let id = &model.id;
    match wanted {
        Wanted::Chat { needs, n } => {
            if model.is_embedding_only() {
                return Err(unsupported_model(id, "is an embedding model and cannot chat"));
            }
            chat_needs(model, can.openai_fields, needs)?;
            several_choices(id, &can, n, 1)
        }
        Wanted::Completion { suffix, tokens, n, prompts } => {
            if model.is_embedding_only() {
                return Err(unsupported_model(id, "is an embedding model and cannot complete text"));
            }
            if suffix && !can.suffix {
                return Err(unsupported_parameter("suffix", id));
            }
            if tokens && !can.token_prompts {
                return Err(unsupported_value("prompt", "token arrays are not", id));
            }
            several_choices(id, &can, n, prompts)
        }
        Wanted::Embeddings { dimensions, tokens, inputs, repeated } => {
            if !model.is_embedding() {
                return Err(unsupported_model(id, "is not an embedding model"));
            }
            if let Some(wanted) = dimensions {
                model.check_dimensions(wanted)?;
            }
            if tokens && !can.token_prompts {
                return Err(Error::new(
                    Kind::UnsupportedValue,
                    format!(
                        "Invalid 'input': token arrays are not supported by the model '{id}', because its tokens are not OpenAI's. Send text; with LangChain set check_embedding_ctx_length=False."
                    ),
                ));
            }
            // Other dialects write a body of their own, without the members they do not know.
            if can.openai_fields {
                bounded_repeats(id, provider.embedding_batch(), inputs, repeated)
            } else {
                Ok(())
            }
        }
    }
}

/// Each call carries all of the body but its part of the inputs: a large member and many inputs would become far more than
/// the client has sent.
fn bounded_repeats(id: &str, batch: usize, inputs: usize, repeated: FixedMembers<'_>) -> Result<()> {
    let calls = inputs.div_ceil(batch.max(1));
    if calls < 2 || calls.saturating_mul(repeated.bytes) <= MOST_REPEATED_BYTES {
        return Ok(());
    }
    let message = format!(
        "Invalid '{}': too large beside so many inputs. The model '{id}' takes {batch} inputs in one call, and each of the \
         {calls} calls repeats the {} bytes of the members beside 'input'. Expected at most {MOST_REPEATED_BYTES} bytes in \
         all of them together.",
        clip(repeated.largest),
        repeated.bytes
    );
    Err(Error::new(Kind::UnsupportedValue, message))
}

/// What a provider does not give in one call is asked for in several, within reason (CONTRACT 1.4, `n`).
fn several_choices(id: &str, can: &Capabilities, n: u32, prompts: usize) -> Result<()> {
    if n > can.choices && n > MOST_CHOICES {
        let asked = format!("more than {MOST_CHOICES} choices are not");
        return Err(unsupported_value("n", &asked, id));
    }
    if prompts > can.prompts && share::calls(can, n, prompts) > share::MOST_CALLS {
        return Err(unsupported_value("prompt", "so many prompts in one request are not", id));
    }
    Ok(())
}

fn chat_needs(model: &Model, openai_fields: bool, needs: &Needs) -> Result<()> {
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
    if needs.audio_output && !openai_fields {
        return Err(unsupported_value("modalities", "audio output is not", id));
    }
    match needs.openai_only {
        Some(Needs::OTHER_PARTS) if !openai_fields => Err(Error {
            kind: Kind::Invalid,
            code: Some("invalid_value".into()),
            message: format!(
                "Invalid 'messages': a content part's type is not supported by the model '{id}'."
            )
            .into(),
            retry_after: None,
        }),
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
