//! Images through InvokeModel, whose body differs for each model vendor. "Amazon Nova User Guide", "Image generation request and
//! response structure"; Bedrock's User Guide, "Stability AI models"; both read November 2026.

use std::borrow::Cow;

use gw_wire::failure::{Failure, FailureKind};
use gw_wire::json::ObjectWriter;
use gw_wire::request::images::{GeneratedImage, ImageContent, ImagesReply, ImagesRequest};
use gw_wire::usage::{ImageQuality, ImageSize};
use serde::Deserialize;

use super::call::post;
use crate::adapter::{HttpCall, StreamDecoder, Target};
use crate::adapters::failure::{body_text, invalid, invalid_json};
use crate::adapters::native::unsupported;
use crate::adapters::openai::images_stream;
use crate::inline_files::InlineFiles;
use crate::multipart::FormFile;
use crate::surfaces::Images;

/// The shapes that Stability's models make.
const RATIOS: [(u16, u16); 9] = [(1, 1), (2, 3), (3, 2), (4, 5), (5, 4), (9, 16), (16, 9), (9, 21), (21, 9)];

/// The most images that Amazon's models make an image from.
const MOST_SOURCES: usize = 5;

/// The images of Bedrock.
#[derive(Debug)]
pub(super) struct BedrockImages;

impl Images for BedrockImages {
    fn most_images(&self) -> usize {
        1
    }

    fn check(&self, request: &ImagesRequest) -> Result<(), &'static str> {
        if request.wants_urls {
            return Err("gives no URLs of images: ask for 'b64_json'.");
        }
        if request.stream && request.n > 1 {
            return Err("streams one image: 'n' must be 1.");
        }
        Ok(())
    }

    fn encode(&self, request: &ImagesRequest, _: usize, target: &Target<'_>) -> Result<HttpCall, Failure> {
        let is = |part: &str| target.upstream_model.contains(part) || target.id.contains(part);
        let mut out = Vec::with_capacity(request.prompt().len() + 256);
        let mut body = ObjectWriter::begin(&mut out);
        if is_amazon(target) {
            amazon(request, &mut body);
        } else if is("stability") || is("stable-") {
            stability(request, &mut body);
        } else {
            return Err(unsupported(
                "Invalid 'model': of this provider's models, only those of Nova Canvas, Titan and Stability make images.",
            ));
        }
        body.finish();
        Ok(post(target.upstream_model, "invoke", out))
    }

    fn takes_images(&self) -> bool {
        true
    }

    fn encode_form(
        &self,
        request: &ImagesRequest,
        _: usize,
        files: &[FormFile],
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure> {
        let document = variation(request, files, target)?;
        Ok(document.into_call(post(target.upstream_model, "invoke", Vec::new())))
    }

    fn decode<'a>(&self, body: &'a [u8]) -> Result<ImagesReply<'a>, Failure> {
        decode(body)
    }

    fn stream(&self, request: &ImagesRequest) -> Box<dyn StreamDecoder> {
        images_stream::decoder(request.form)
    }
}

fn amazon(request: &ImagesRequest, body: &mut ObjectWriter<'_>) {
    body.string("taskType", "TEXT_IMAGE");
    body.object("textToImageParams", |text| text.raw("text", request.prompt()));
    body.object("imageGenerationConfig", |config| configure(request, config));
}

/// A call of Amazon's models that makes an image from images, as the prompt says.
fn variation(
    request: &ImagesRequest,
    files: &[FormFile],
    target: &Target<'_>,
) -> Result<InlineFiles, Failure> {
    if !is_amazon(target) {
        return Err(unsupported(
            "Invalid 'model': of this provider's models, only Nova Canvas and Titan make images from images here.",
        ));
    }
    if let Some(file) = files.iter().find(|file| file.field != "image") {
        // A mask of OpenAI is transparent where the image changes, and one of Amazon is black there.
        return Err(unsupported(format!(
            "Invalid '{}': this provider's masks are of another kind.",
            file.field
        )));
    }
    if files.len() > MOST_SOURCES {
        return Err(unsupported("Invalid 'image': this provider takes at most 5 images."));
    }
    let mut document = InlineFiles::default();
    document.json("{\"taskType\":\"IMAGE_VARIATION\",\"imageVariationParams\":{");
    if !request.prompt().is_empty() {
        document.json(format!("\"text\":{},", request.prompt()));
    }
    document.json("\"images\":[");
    for (place, file) in files.iter().enumerate() {
        if place > 0 {
            document.json(",");
        }
        document.file(file);
    }
    document.json("]},\"imageGenerationConfig\":");
    let mut out = Vec::new();
    let mut config = ObjectWriter::begin(&mut out);
    configure(request, &mut config);
    config.finish();
    document.json(out);
    document.json("}");
    Ok(document)
}

fn is_amazon(target: &Target<'_>) -> bool {
    let is = |part: &str| target.upstream_model.contains(part) || target.id.contains(part);
    is("nova-canvas") || is("titan-image")
}

/// Writes the number, the size and the quality of the images.
fn configure(request: &ImagesRequest, config: &mut ObjectWriter<'_>) {
    config.integer("numberOfImages", 1);
    let (width, height) = match request.form.size {
        Some(ImageSize::Pixels(width, height)) => (Some(width), Some(height)),
        Some(ImageSize::Class(side)) => (Some(side), Some(side)),
        None => (None, None),
    };
    for (name, side) in [("width", width), ("height", height)] {
        if let Some(side) = side {
            config.integer(name, side.into());
        }
    }
    if let Some(quality) = request.form.quality {
        let is_best = matches!(quality, ImageQuality::High | ImageQuality::Hd);
        config.string("quality", if is_best { "premium" } else { "standard" });
    }
}

fn stability(request: &ImagesRequest, body: &mut ObjectWriter<'_>) {
    body.raw("prompt", request.prompt());
    if let Some(ratio) = request.form.size.and_then(|size| size.nearest_ratio(&RATIOS)) {
        body.string("aspect_ratio", &ratio);
    }
    body.string("output_format", request.output_format.as_deref().unwrap_or("png"));
}

/// The answer of both vendors.
#[derive(Default, Deserialize)]
#[serde(default)]
struct InvokedImages<'a> {
    #[serde(borrow)]
    images: Option<Vec<Option<Cow<'a, str>>>>,
    /// Amazon's reason for images that are missing.
    #[serde(borrow)]
    error: Option<Cow<'a, str>>,
    /// Stability's reason for each image that was refused.
    #[serde(borrow)]
    finish_reasons: Option<Vec<Option<Cow<'a, str>>>>,
}

fn decode(body: &[u8]) -> Result<ImagesReply<'_>, Failure> {
    let answer: InvokedImages<'_> =
        serde_json::from_str(body_text(body)?).map_err(|fault| invalid_json(&fault))?;
    let mut reasons = answer.finish_reasons.unwrap_or_default().into_iter().flatten();
    let images = answer.images.unwrap_or_default().into_iter().flatten().filter(|image| !image.is_empty());
    let images: Vec<_> = images
        .map(|image| GeneratedImage { content: ImageContent::Base64(image), revised_prompt: None })
        .collect();
    let is_filtered = |reason: &str| reason.contains("ilter") || reason.contains("block");
    match answer.error.filter(|reason| !reason.is_empty()) {
        _ if reasons.any(|reason| is_filtered(&reason)) => Err(blocked()),
        Some(reason) if is_filtered(&reason) => Err(blocked()),
        Some(_) if images.is_empty() => {
            Err(Failure::new(FailureKind::Server, "The upstream provider could not make the image."))
        }
        _ if images.is_empty() => Err(invalid("the answer has no image")),
        _ => Ok(ImagesReply { images, ..ImagesReply::default() }),
    }
}

fn blocked() -> Failure {
    Failure::new(
        FailureKind::ContentFilter,
        "The upstream provider's filter refused the prompt or the image.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filtered_image_is_a_refusal_and_a_missing_one_is_invalid() {
        let kind = |body: &str| decode(body.as_bytes()).map(|_| ()).map_err(|failure| failure.kind);
        assert_eq!(kind(r#"{"images":["QQ=="],"error":null}"#), Ok(()));
        assert_eq!(kind(r#"{"images":["QQ=="],"seeds":[1],"finish_reasons":[null]}"#), Ok(()));
        let blocked = Err(FailureKind::ContentFilter);
        assert_eq!(
            kind(r#"{"seeds":[1],"finish_reasons":["Filter reason: prompt"],"images":[""]}"#),
            blocked
        );
        assert_eq!(kind(r#"{"images":[],"error":"blocked by our content filters"}"#), blocked);
        assert_eq!(kind(r#"{"images":[],"error":"capacity"}"#), Err(FailureKind::Server));
        assert_eq!(kind("{}"), Err(FailureKind::InvalidResponse));
    }
}
