//! Images of Gemini models and of Imagen on Vertex AI, with the bodies of the `gemini` adapter.

use gw_wire::failure::Failure;
use gw_wire::request::images::{ImagesReply, ImagesRequest};

use super::gemini::PUBLISHER;
use super::location::ProjectLocation;
use crate::adapter::{HttpCall, StreamDecoder, Target};
use crate::adapters::gemini::{images, post};
use crate::adapters::openai::images_stream;
use crate::surfaces::Images;

/// The images of a project.
#[derive(Debug)]
pub(super) struct VertexImages(pub(super) ProjectLocation);

impl Images for VertexImages {
    fn most_images(&self) -> usize {
        1
    }

    fn check(&self, request: &ImagesRequest) -> Result<(), &'static str> {
        images::check(request)
    }

    fn encode(&self, request: &ImagesRequest, _: usize, target: &Target<'_>) -> Result<HttpCall, Failure> {
        let (method, body) = images::encode(request, target);
        Ok(post(self.0.path(PUBLISHER, target.upstream_model, method), body))
    }

    fn decode<'a>(&self, body: &'a [u8]) -> Result<ImagesReply<'a>, Failure> {
        images::decode(body)
    }

    fn stream(&self, request: &ImagesRequest) -> Box<dyn StreamDecoder> {
        images_stream::decoder(request.form)
    }
}
