//! Embeddings as a one-shot request: each input is a part.

use std::ops::Range;

use bytes::Bytes;
use gw_providers::adapter::{HttpCall, Target};
use gw_providers::provider::Provider;
use gw_providers::surfaces::CallForm;
use gw_wire::embeddings::{NumbersInPlace, write_embeddings};
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::operation::PlainOperation;
use gw_wire::reply::{EmbeddingsReply, Vector};
use gw_wire::request::embeddings::FixedMembers;
use gw_wire::request::fields::clip;
use gw_wire::request::{EmbeddingsRequest, Inputs};
use gw_wire::usage::{BYTES_PER_TOKEN, Usage};

use crate::catalog::Model;
use crate::error::{Error, Kind};
use crate::request::one_shot::{FRAME_TOKENS, OneShot, OneShotAnswers, OneShotFacts, OneShotSize};

/// Bytes of the other members that all calls of one request may repeat together: the usual limit of a body.
const MAX_REPEATED_BYTES: usize = 32 << 20;
/// The bytes of a number of a vector in JSON.
const NUMBER_BYTES: usize = 14;
/// The bytes of a vector in JSON if the request names no dimensions.
const USUAL_VECTOR_BYTES: usize = 1536 * NUMBER_BYTES;

impl OneShot for EmbeddingsRequest {
    fn operation(&self) -> PlainOperation {
        PlainOperation::Embeddings
    }

    fn facts(&self) -> OneShotFacts<'_> {
        OneShotFacts {
            body: &self.body,
            model: &self.model,
            prompt_bytes: self.prompt_bytes,
            references: &self.references,
            guarded: &self.guarded,
            routing: None,
        }
    }

    fn parts(&self) -> usize {
        self.inputs.len()
    }

    fn batch(&self, provider: &Provider) -> usize {
        provider.embedding_batch()
    }

    fn size(&self, parts: Range<usize>) -> OneShotSize {
        let inputs = parts.len() as u64;
        if let Inputs::Tokens(arrays) = &self.inputs {
            let arrays = arrays.get(parts).unwrap_or_default();
            // The provider reads these tokens and no others.
            let ids: u64 = arrays.iter().map(|ids| ids.len() as u64).sum();
            let prompt_tokens = ids.saturating_add(self.other_bytes.div_ceil(BYTES_PER_TOKEN));
            return OneShotSize { prompt_tokens, inputs, ..OneShotSize::default() };
        }
        let bytes = if parts.len() == self.inputs.len() {
            self.prompt_bytes
        } else {
            parts.map(|place| self.input_bytes(place)).fold(0, u64::saturating_add)
        };
        let bytes = bytes.saturating_add(self.other_bytes);
        let frames = inputs.saturating_mul(FRAME_TOKENS);
        let prompt_tokens = bytes.div_ceil(BYTES_PER_TOKEN).saturating_add(frames);
        OneShotSize { prompt_tokens, inputs, ..OneShotSize::default() }
    }

    fn check(&self, model: &Model, provider: &Provider) -> Result<(), Error> {
        let (can, id) = (provider.adapter().capabilities(), &model.id);
        if let Some(wanted) = self.dimensions {
            model.check_dimensions(wanted)?;
        }
        if matches!(self.inputs, Inputs::Tokens(_)) && !can.token_prompts {
            return Err(Error::new(
                Kind::UnsupportedValue,
                format!(
                    "Invalid 'input': token arrays are not supported by the model '{id}', because its tokens are not OpenAI's. Send text; with LangChain set check_embedding_ctx_length=False. If the provider takes OpenAI's tokens, its setting is token_arrays = true."
                ),
            ));
        }
        // Other dialects do not copy unknown members into their bodies.
        if can.openai_fields {
            bounded_repeats(id, provider.embedding_batch(), self.inputs.len(), self.fixed_members())
        } else {
            Ok(())
        }
    }

    fn encode(
        &self,
        provider: &Provider,
        parts: Range<usize>,
        _: CallForm,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure> {
        provider.adapter().embeddings(self, parts, target)
    }

    fn answer_bytes(&self, parts: usize) -> usize {
        let of_one = self.dimensions.map_or(USUAL_VECTOR_BYTES, |count| NUMBER_BYTES * count as usize);
        parts.saturating_mul(of_one)
    }

    fn meter(&self, provider: &Provider, body: &[u8], parts: usize) -> Result<Option<Usage>, Failure> {
        Ok(provider.adapter().decode_embeddings(body, parts)?.usage)
    }

    fn write(&self, provider: &Provider, answers: &mut dyn OneShotAnswers) -> Result<Bytes, Failure> {
        let merged = read_vectors(self, provider, answers)?;
        let usage = answers.usage();
        let model = reported_model(merged.model.as_deref(), self).to_owned();
        let place = match answers.get(0) {
            Some((only, _)) if answers.len() == 1 => NumbersInPlace::of(only, &merged.vectors, self.encoding),
            _ => None,
        };
        Ok(match place {
            Some(place) => {
                drop(merged);
                place.write(answers.take(0), &model, &usage)
            }
            None => write_embeddings(&merged, self.encoding, &model, &usage).into(),
        })
    }

    fn embeddings(&self) -> Option<&EmbeddingsRequest> {
        Some(self)
    }
}

/// Reads the vectors of all answers, notes the usage of each, and checks the lengths.
///
/// # Errors
/// An answer cannot be read, or the vectors have wrong lengths.
pub(crate) fn read_vectors<'a>(
    request: &EmbeddingsRequest,
    provider: &Provider,
    answers: &'a dyn OneShotAnswers,
) -> Result<EmbeddingsReply<'a>, Failure> {
    let given = (0..answers.len()).filter_map(|place| answers.get(place));
    let merged = merge_vectors(provider, given, |place, reported| answers.note(place, reported))?;
    check_lengths(&merged, request.dimensions)?;
    Ok(merged)
}

/// Reads the vectors of all answers, each with the number of its vectors, and shows the usage of each.
///
/// # Errors
/// An answer cannot be read.
pub(crate) fn merge_vectors<'a>(
    provider: &Provider,
    answers: impl Iterator<Item = (&'a Bytes, usize)>,
    mut show: impl FnMut(usize, Result<Option<Usage>, &Failure>),
) -> Result<EmbeddingsReply<'a>, Failure> {
    let mut merged = EmbeddingsReply::default();
    for (place, (body, parts)) in answers.enumerate() {
        let part = provider.adapter().decode_embeddings(body, parts);
        show(place, part.as_ref().map(|part| part.usage));
        let part = part?;
        merged.model = merged.model.or(part.model);
        merged.vectors.extend(part.vectors);
    }
    Ok(merged)
}

/// The model that the upstream reported, else the requested one.
pub(crate) fn reported_model<'a>(model: Option<&'a str>, request: &'a EmbeddingsRequest) -> &'a str {
    model.filter(|name| !name.is_empty()).unwrap_or(&request.model)
}

/// Checks that all vectors have one length, and the requested one.
fn check_lengths(reply: &EmbeddingsReply<'_>, wanted: Option<u32>) -> Result<(), Failure> {
    let first = reply.vectors.first().map_or(0, Vector::dimensions);
    let expected = wanted.map_or(first, |wanted| wanted as usize);
    if reply.vectors.iter().any(|vector| vector.dimensions() != expected) {
        let message = match wanted {
            Some(wanted) => {
                format!("The upstream returned vectors that do not have the {wanted} dimensions asked for.")
            }
            None => "The upstream returned vectors of different lengths.".to_owned(),
        };
        return Err(Failure::new(FailureKind::InvalidResponse, message));
    }
    Ok(())
}

/// Bounds the bytes that the batches of one request repeat. Each batch carries the whole body apart from the other
/// inputs, so a large member beside many inputs would multiply.
fn bounded_repeats(id: &str, batch: usize, inputs: usize, repeated: FixedMembers<'_>) -> Result<(), Error> {
    let calls = inputs.div_ceil(batch.max(1));
    if calls < 2 || calls.saturating_mul(repeated.bytes) <= MAX_REPEATED_BYTES {
        return Ok(());
    }
    let message = format!(
        "Invalid '{}': too large beside so many inputs. The model '{id}' takes {batch} inputs in one call, and each of the \
         {calls} calls repeats the {} bytes of the members beside 'input'. Expected at most {MAX_REPEATED_BYTES} bytes in \
         all of them together.",
        clip(repeated.largest),
        repeated.bytes
    );
    Err(Error::new(Kind::UnsupportedValue, message))
}
