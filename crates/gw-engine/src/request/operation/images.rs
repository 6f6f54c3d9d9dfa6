//! A request for images as a one-shot request. It is divided where a provider makes fewer images in one call.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use gw_providers::adapter::{HttpCall, StreamDecoder, Target};
use gw_providers::provider::Provider;
use gw_providers::surfaces::{CallForm, Images};
use gw_wire::dialects::AnswerForm;
use gw_wire::dialects::images::ImagesForm;
use gw_wire::event::{COMPLETED_IMAGE, Event, PARTIAL_IMAGE_TOKENS};
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::operation::PlainOperation;
use gw_wire::reply::Finish;
use gw_wire::request::images::{ImageUse, ImagesReply, ImagesRequest};
use gw_wire::usage::{BYTES_PER_TOKEN, ImageQuality, ImageSize, Units, Usage};

use crate::catalog::Model;
use crate::clock;
use crate::error::{Error, Kind};
use crate::request::one_shot::{FRAME_TOKENS, OneShot, OneShotAnswers, OneShotSize, facts_of_members};

/// The bytes of a usual image in base64.
const IMAGE_BYTES: usize = 3 << 20;
/// Image tokens of the largest usual image, by quality (GPT Image at platform.openai.com/docs/guides/image-generation, November
/// 2026): 1024x1536 pixels.
const LOW_TOKENS: u64 = 408;
const MEDIUM_TOKENS: u64 = 1_584;
const HIGH_TOKENS: u64 = 6_240;
/// The pixels of that image.
const USUAL_PIXELS: u64 = 1024 * 1536;
/// Tokens of the text that some models write beside an image.
const TEXT_TOKENS: u64 = 256;

impl OneShot for ImagesRequest {
    fn operation(&self) -> PlainOperation {
        PlainOperation::Images
    }

    facts_of_members!();

    fn name_model(&mut self, id: &str) {
        id.clone_into(&mut self.model);
    }

    fn parts(&self) -> usize {
        self.n as usize
    }

    fn batch(&self, provider: &Provider) -> usize {
        provider.surfaces().images.as_deref().map_or(usize::MAX, Images::most_images)
    }

    fn size(&self, parts: Range<usize>) -> OneShotSize {
        let images = parts.len() as u64;
        let prompt_tokens = self.prompt_bytes.div_ceil(BYTES_PER_TOKEN).saturating_add(FRAME_TOKENS);
        let units = Units::images(images, self.form);
        OneShotSize {
            prompt_tokens,
            inputs: 1,
            answers: images,
            units,
            most: Some(units),
            ..OneShotSize::default()
        }
    }

    fn answer_tokens(&self) -> u64 {
        let of_quality = match self.form.quality {
            Some(ImageQuality::Low) => LOW_TOKENS,
            Some(ImageQuality::Medium | ImageQuality::Standard) => MEDIUM_TOKENS,
            Some(ImageQuality::High | ImageQuality::Hd) | None => HIGH_TOKENS,
        };
        let pixels = match self.form.size {
            Some(ImageSize::Class(side)) => u64::from(side).pow(2).saturating_mul(3) / 2,
            Some(size) => size.pixels().unwrap_or(USUAL_PIXELS),
            None => USUAL_PIXELS,
        };
        let of_size = of_quality.saturating_mul(pixels.max(USUAL_PIXELS)).div_ceil(USUAL_PIXELS);
        let partial = u64::from(self.partial_images).saturating_mul(PARTIAL_IMAGE_TOKENS);
        of_size.saturating_add(partial).saturating_add(TEXT_TOKENS)
    }

    fn check(&self, model: &Model, provider: &Provider) -> Result<(), Error> {
        let Some(images) = provider.surfaces().images.as_deref() else {
            let message = format!("The model '{}' cannot make images: its provider has no images.", model.id);
            return Err(Error::new(Kind::UnsupportedModel, message));
        };
        images.check(self).map_err(|what| {
            Error::new(Kind::UnsupportedParameter, format!("The model '{}' {what}", model.id))
        })
    }

    /// The upstream does not tell whether the slower of two calls has made its images, so those of both would be charged.
    fn may_be_hedged(&self) -> bool {
        false
    }

    fn encode(
        &self,
        provider: &Provider,
        parts: Range<usize>,
        _: CallForm,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure> {
        of(provider)?.encode(self, parts.len(), target)
    }

    fn answer_bytes(&self, parts: usize) -> usize {
        parts.saturating_mul(if self.wants_urls { 1_024 } else { IMAGE_BYTES })
    }

    fn meter(&self, provider: &Provider, body: &[u8], _: usize) -> Result<Option<Usage>, Failure> {
        Ok(Some(of(provider)?.decode(body)?.measured(self.form)))
    }

    fn wants_stream(&self) -> bool {
        self.stream
    }

    fn form(&self) -> Option<Arc<dyn AnswerForm>> {
        self.stream.then(|| {
            let is_edit = self.made_from == ImageUse::Edit;
            Arc::new(ImagesForm { is_edit }) as Arc<dyn AnswerForm>
        })
    }

    fn decoder(&self, provider: &Provider, _: &str) -> Option<Box<dyn StreamDecoder>> {
        of(provider).ok().map(|images| images.stream(self))
    }

    fn replay(
        &self,
        provider: &Provider,
        body: &[u8],
        play: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), Failure> {
        let reply = of(provider)?.decode(body)?;
        play(Event::Usage(reply.measured(self.form)));
        for image in &reply.images {
            let event = reply.event(image);
            play(Event::Extra { choice: 0, name: COMPLETED_IMAGE, value: &event });
        }
        play(Event::Finish { choice: 0, reason: Finish::Stop });
        play(Event::End);
        Ok(())
    }

    fn write(&self, provider: &Provider, answers: &mut dyn OneShotAnswers) -> Result<Bytes, Failure> {
        let images = of(provider)?;
        let mut replies: Vec<ImagesReply<'_>> = Vec::with_capacity(answers.len());
        let mut fault = None;
        for place in 0..answers.len() {
            let Some((body, _)) = answers.get(place) else { continue };
            let reply = images.decode(body);
            let usage = reply.as_ref().map(|reply| Some(reply.measured(self.form)));
            answers.note(place, usage);
            match reply {
                Ok(reply) => replies.push(reply),
                Err(failure) => fault = fault.or(Some(failure)),
            }
        }
        if let Some(failure) = fault {
            return Err(failure);
        }
        Ok(self.write(&replies, clock::unix_seconds(), &answers.usage(), answers.cost()).into())
    }
}

pub(super) fn of(provider: &Provider) -> Result<&dyn Images, Failure> {
    provider.surfaces().images.as_deref().ok_or_else(no_images)
}

fn no_images() -> Failure {
    Failure::new(FailureKind::Unsupported, "This provider makes no images.")
}
