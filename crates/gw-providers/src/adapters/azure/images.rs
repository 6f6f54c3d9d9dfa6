//! The images of an Azure resource.

use gw_wire::failure::Failure;
use gw_wire::request::images::{ImagesReply, ImagesRequest};

use super::addresses::Addresses;
use crate::adapter::{HttpCall, StreamDecoder, Target};
use crate::adapters::openai;
use crate::multipart::FormFile;
use crate::surfaces::Images;

/// The images of a resource (learn.microsoft.com, "Azure OpenAI image generation models", November 2026).
#[derive(Debug)]
pub(super) struct AzureImages(pub(super) Addresses);

impl Images for AzureImages {
    fn encode(
        &self,
        request: &ImagesRequest,
        images: usize,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure> {
        let deployment = self.0.deployment(target);
        let model = (!self.0.is_classic).then_some(deployment);
        Ok(openai::images::call(self.0.path(deployment, "images/generations"), model, request, images))
    }

    fn takes_images(&self) -> bool {
        true
    }

    fn encode_form(
        &self,
        request: &ImagesRequest,
        images: usize,
        files: &[FormFile],
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure> {
        let deployment = self.0.deployment(target);
        let model = (!self.0.is_classic).then_some(deployment);
        let path = self.0.path(deployment, request.made_from.path());
        Ok(openai::images::form_call(path, model, request, images, files))
    }

    fn decode<'a>(&self, body: &'a [u8]) -> Result<ImagesReply<'a>, Failure> {
        openai::images::decode(body)
    }

    fn stream(&self, request: &ImagesRequest) -> Box<dyn StreamDecoder> {
        openai::images_stream::decoder(request.form)
    }
}
