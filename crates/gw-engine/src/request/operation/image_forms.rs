//! Edits and variations of images: requests for images with files.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use gw_providers::adapter::{HttpCall, StreamDecoder, Target};
use gw_providers::multipart::FormFile;
use gw_providers::provider::Provider;
use gw_providers::surfaces::{CallForm, Images};
use gw_wire::dialects::AnswerForm;
use gw_wire::event::Event;
use gw_wire::failure::Failure;
use gw_wire::operation::PlainOperation;
use gw_wire::request::RequestLimits;
use gw_wire::request::images::{ImageUse, ImagesRequest, parse_images_from};
use gw_wire::usage::Usage;

use super::images::of;
use crate::catalog::Model;
use crate::error::{Error, Kind, Result};
use crate::request::ValidatedRequest;
use crate::request::one_shot::{OneShot, OneShotAnswers, OneShotFacts, OneShotSize};
use crate::request::uploads::{UploadedForm, wrong_files};

/// The most images that a request is made from.
const MOST_IMAGES: usize = 16;
/// Tokens of an image that is read (platform.openai.com/docs/guides/image-generation, November 2026).
const READ_TOKENS: u64 = 1_024;

/// A request for images with the images that they are made from.
#[derive(Debug)]
struct ImagesFromImages {
    request: ImagesRequest,
    files: Vec<FormFile>,
}

/// Reads the fields of a form and takes its files.
///
/// # Errors
/// The first fault of the form.
pub(crate) fn parse(
    made_from: ImageUse,
    body: Bytes,
    form: UploadedForm,
    limits: &RequestLimits,
) -> Result<ValidatedRequest> {
    let request = parse_images_from(body, made_from, limits)?;
    let names: Vec<String> = form.files.iter().map(|file| file.field.clone()).collect();
    let count = |wanted: &str| names.iter().filter(|name| *name == wanted).count();
    let (images, masks, markups) = (count("image"), count("mask"), count("markup"));
    if images == 0 {
        return Err(wrong_files("image", &[]));
    }
    let is_edit = made_from == ImageUse::Edit;
    let most = if is_edit { MOST_IMAGES } else { 1 };
    let is_too_many = masks.max(markups) > usize::from(is_edit);
    if images > most || is_too_many || images + masks + markups != names.len() {
        let message = format!(
            "The form may have at most {most} files 'image', an edit one 'mask' and one 'markup' beside, and no others."
        );
        let mut error = Error::new(Kind::Invalid, message);
        error.code = Some("invalid_value".into());
        return Err(error);
    }
    let files = form.files.into_iter().map(|file| FormFile {
        field: file.field,
        name: file.name,
        media_type: file.media_type,
        content: file.content,
    });
    Ok(ValidatedRequest::OneShot(Box::new(ImagesFromImages { request, files: files.collect() })))
}

impl OneShot for ImagesFromImages {
    fn operation(&self) -> PlainOperation {
        PlainOperation::Images
    }

    fn facts(&self) -> OneShotFacts<'_> {
        self.request.facts()
    }

    fn name_model(&mut self, id: &str) {
        self.request.name_model(id);
    }

    fn parts(&self) -> usize {
        self.request.parts()
    }

    fn batch(&self, provider: &Provider) -> usize {
        self.request.batch(provider)
    }

    fn size(&self, parts: Range<usize>) -> OneShotSize {
        let size = OneShot::size(&self.request, parts);
        let image_tokens = (self.files.len() as u64).saturating_mul(READ_TOKENS);
        let prompt_tokens = size.prompt_tokens.saturating_add(image_tokens);
        OneShotSize { prompt_tokens, image_tokens, ..size }
    }

    fn answer_tokens(&self) -> u64 {
        self.request.answer_tokens()
    }

    fn check(&self, model: &Model, provider: &Provider) -> Result<()> {
        if provider.surfaces().images.as_deref().is_some_and(|images| !images.takes_images()) {
            let message =
                format!("The model '{}' makes no images from images: its provider has none here.", model.id);
            return Err(Error::new(Kind::UnsupportedModel, message));
        }
        self.request.check(model, provider)
    }

    fn may_be_hedged(&self) -> bool {
        false
    }

    fn encode(
        &self,
        provider: &Provider,
        parts: Range<usize>,
        _: CallForm,
        target: &Target<'_>,
    ) -> std::result::Result<HttpCall, Failure> {
        let images: &dyn Images = of(provider)?;
        images.encode_form(&self.request, parts.len(), &self.files, target)
    }

    fn answer_bytes(&self, parts: usize) -> usize {
        self.request.answer_bytes(parts)
    }

    fn meter(
        &self,
        provider: &Provider,
        body: &[u8],
        parts: usize,
    ) -> std::result::Result<Option<Usage>, Failure> {
        self.request.meter(provider, body, parts)
    }

    fn wants_stream(&self) -> bool {
        self.request.stream
    }

    fn form(&self) -> Option<Arc<dyn AnswerForm>> {
        OneShot::form(&self.request)
    }

    fn decoder(&self, provider: &Provider, media_type: &str) -> Option<Box<dyn StreamDecoder>> {
        self.request.decoder(provider, media_type)
    }

    fn replay(
        &self,
        provider: &Provider,
        body: &[u8],
        play: &mut dyn FnMut(Event<'_>),
    ) -> std::result::Result<(), Failure> {
        self.request.replay(provider, body, play)
    }

    fn write(
        &self,
        provider: &Provider,
        answers: &mut dyn OneShotAnswers,
    ) -> std::result::Result<Bytes, Failure> {
        OneShot::write(&self.request, provider, answers)
    }
}
