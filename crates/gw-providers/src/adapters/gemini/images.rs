//! Images of Gemini models (<https://ai.google.dev/gemini-api/docs/image-generation>) and of Imagen
//! (<https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/imagen-api>), read November 2026. Both services take the
//! same bodies.

use std::borrow::Cow;

use bytes::Bytes;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::json::ObjectWriter;
use gw_wire::reply::{Finish, Image};
use gw_wire::request::images::{GeneratedImage, ImageContent, ImageUse, ImagesReply, ImagesRequest};
use gw_wire::usage::{ImageSize, Usage, small};
use serde::Deserialize;

use super::inline::{MOST_FILE_BYTES, add_file};
use super::path::{ModelPaths, method, post};
use super::response;
use crate::adapter::{HttpCall, StreamDecoder, Target};
use crate::adapters::failure::{body_text, invalid, invalid_json};
use crate::adapters::native::unsupported;
use crate::adapters::openai::images_stream;
use crate::inline_files::InlineFiles;
use crate::multipart::FormFile;
use crate::surfaces::Images;

/// The shapes that Gemini makes.
const GEMINI_RATIOS: [(u16, u16); 10] =
    [(1, 1), (2, 3), (3, 2), (3, 4), (4, 3), (4, 5), (5, 4), (9, 16), (16, 9), (21, 9)];
/// The shapes that Imagen makes.
const IMAGEN_RATIOS: [(u16, u16); 5] = [(1, 1), (3, 4), (4, 3), (9, 16), (16, 9)];

/// The images of a service.
#[derive(Debug)]
pub(in crate::adapters) struct GeminiImages<P>(pub(in crate::adapters) P);

impl<P: ModelPaths> Images for GeminiImages<P> {
    fn most_images(&self) -> usize {
        1
    }

    fn check(&self, request: &ImagesRequest) -> Result<(), &'static str> {
        check(request)
    }

    fn encode(&self, request: &ImagesRequest, _: usize, target: &Target<'_>) -> Result<HttpCall, Failure> {
        let (method, body) = encode(request, target);
        Ok(post(self.0.method_path(target.upstream_model, method), body))
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
        let document = encode_edit(request, files, target)?;
        Ok(document.into_call(post(self.0.method_path(target.upstream_model, method(false)), Bytes::new())))
    }

    fn decode<'a>(&self, body: &'a [u8]) -> Result<ImagesReply<'a>, Failure> {
        decode(body)
    }

    fn stream(&self, request: &ImagesRequest) -> Box<dyn StreamDecoder> {
        images_stream::decoder(request.form)
    }
}

/// Checks whether the service can do what the request asks for.
fn check(request: &ImagesRequest) -> Result<(), &'static str> {
    if request.wants_urls {
        return Err("gives no URLs of images: ask for 'b64_json'.");
    }
    if request.stream && request.n > 1 {
        return Err("streams one image: 'n' must be 1.");
    }
    if request.made_from == ImageUse::Variation {
        return Err("makes no variations: use an edit with a prompt.");
    }
    Ok(())
}

/// The body of an edit of images, for one image.
fn encode_edit(
    request: &ImagesRequest,
    files: &[FormFile],
    target: &Target<'_>,
) -> Result<InlineFiles, Failure> {
    if target.rules.predicts_images {
        return Err(unsupported("Invalid 'image': Imagen makes no images from images here."));
    }
    if let Some(file) = files.iter().find(|file| file.field != "image") {
        let message = format!("Invalid '{}': Gemini edits whole images, as the prompt says.", file.field);
        return Err(unsupported(message));
    }
    let bytes = files.iter().map(|file| file.content.length().unwrap_or(0)).sum::<u64>();
    if bytes > MOST_FILE_BYTES {
        return Err(unsupported("Invalid 'image': Gemini takes images of at most 14.9 MB together."));
    }
    let mut document = InlineFiles::default();
    document.json("{\"contents\":[{\"role\":\"user\",\"parts\":[");
    for file in files {
        add_file(&mut document, file, image_type(file));
        document.json(",");
    }
    document.json("{\"text\":");
    document.json(request.prompt().to_owned());
    document.json("}]}],\"generationConfig\":");
    let mut out = Vec::new();
    let mut config = ObjectWriter::begin(&mut out);
    configure(request, &mut config);
    config.finish();
    document.json(out);
    document.json("}");
    Ok(document)
}

/// The media type of an image.
fn image_type(file: &FormFile) -> &str {
    let told = file.media_type.as_deref().filter(|told| told.starts_with("image/"));
    told.unwrap_or(
        match file.name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).as_deref() {
            Some("jpg" | "jpeg") => "image/jpeg",
            Some("webp") => "image/webp",
            _ => "image/png",
        },
    )
}

/// The method of the model and its body, for one image.
fn encode(request: &ImagesRequest, target: &Target<'_>) -> (&'static str, Vec<u8>) {
    let mut out = Vec::with_capacity(request.prompt().len() + 256);
    let mut body = ObjectWriter::begin(&mut out);
    let is_imagen = target.rules.predicts_images;
    if is_imagen {
        body.array("instances", [request.prompt()], |out, prompt| {
            let mut instance = ObjectWriter::begin(out);
            instance.raw("prompt", prompt);
            instance.finish();
        });
        body.object("parameters", |parameters| {
            parameters.integer("sampleCount", 1);
            // Without it, a blocked prompt is an empty answer.
            parameters.boolean("includeRaiReason", true);
            shape(request, &IMAGEN_RATIOS, "sampleImageSize", parameters);
            if let Some(format) = request.output_format.as_deref().filter(|format| *format != "webp") {
                parameters.object("outputOptions", |options| {
                    options.string("mimeType", if format == "jpeg" { "image/jpeg" } else { "image/png" });
                });
            }
        });
    } else {
        body.array("contents", [request.prompt()], |out, prompt| {
            let mut content = ObjectWriter::begin(out);
            content.string("role", "user");
            content.array("parts", [prompt], |out, prompt| {
                let mut part = ObjectWriter::begin(out);
                part.raw("text", prompt);
                part.finish();
            });
            content.finish();
        });
        body.object("generationConfig", |config| configure(request, config));
    }
    body.finish();
    (if is_imagen { "predict" } else { method(false) }, out)
}

/// Writes what Gemini is to make.
fn configure(request: &ImagesRequest, config: &mut ObjectWriter<'_>) {
    config.strings("responseModalities", ["IMAGE"]);
    if request.form.size.is_some() {
        config.object("imageConfig", |image| shape(request, &GEMINI_RATIOS, "imageSize", image));
    }
}

/// Writes the shape and the class that are next to the size that the client asked for. The usual class is left out, because some
/// models know no other.
fn shape(
    request: &ImagesRequest,
    ratios: &[(u16, u16)],
    class_name: &'static str,
    out: &mut ObjectWriter<'_>,
) {
    let size = request.form.size;
    out.optional_string("aspectRatio", size.and_then(|size| size.nearest_ratio(ratios)).as_deref());
    let class = match size {
        Some(ImageSize::Pixels(width, height)) => match u64::from(width) * u64::from(height) {
            0..=2_000_000 => None,
            2_000_001..=8_000_000 => Some("2K"),
            _ => Some("4K"),
        },
        Some(ImageSize::Class(2048)) => Some("2K"),
        Some(ImageSize::Class(4096)) => Some("4K"),
        Some(ImageSize::Class(_)) | None => None,
    };
    out.optional_string(class_name, class);
}

/// The answer of Imagen.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ImagenAnswer<'a> {
    #[serde(borrow)]
    predictions: Option<Vec<ImagenPrediction<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ImagenPrediction<'a> {
    #[serde(borrow)]
    bytes_base64_encoded: Option<Cow<'a, str>>,
    #[serde(borrow)]
    rai_filtered_reason: Option<Cow<'a, str>>,
}

/// Reads an answer of either kind.
fn decode(body: &[u8]) -> Result<ImagesReply<'_>, Failure> {
    let text = body_text(body)?;
    let is_prediction = text.trim_start().strip_prefix('{').is_some_and(|rest| {
        let rest = rest.trim_start();
        rest.starts_with('}')
            || rest.starts_with("\"predictions\"")
            || rest.starts_with("\"deployedModelId\"")
    });
    if is_prediction { predicted(text) } else { generated(body) }
}

/// Reads an answer of Imagen, which reports no tokens.
fn predicted(text: &str) -> Result<ImagesReply<'_>, Failure> {
    let answer: ImagenAnswer<'_> = serde_json::from_str(text).map_err(|fault| invalid_json(&fault))?;
    let mut images = Vec::new();
    for prediction in answer.predictions.unwrap_or_default() {
        match (prediction.bytes_base64_encoded, prediction.rai_filtered_reason) {
            (Some(bytes), _) if !bytes.is_empty() => images.push(image(bytes)),
            _ => return Err(blocked()),
        }
    }
    // Without a reason, a blocked prompt has no prediction.
    if images.is_empty() { Err(blocked()) } else { Ok(ImagesReply { images, ..ImagesReply::default() }) }
}

/// Reads an answer of a Gemini model.
fn generated(body: &[u8]) -> Result<ImagesReply<'_>, Failure> {
    let reply = response::decode(body)?;
    let is_blocked = reply.choices.iter().any(|choice| choice.finish == Some(Finish::ContentFilter));
    let made = reply.choices.into_iter().flat_map(|choice| choice.images);
    let images: Vec<_> = made.map(|Image { base64, .. }| image(base64)).collect();
    if images.is_empty() {
        return Err(if is_blocked { blocked() } else { invalid("the answer has no image") });
    }
    Ok(ImagesReply { images, usage: reply.usage.map(drawn), ..ImagesReply::default() })
}

/// Output whose kind the upstream does not tell is image tokens, but for the thoughts.
fn drawn(usage: Usage) -> Usage {
    let made = usage.completion.saturating_sub(usage.reasoning.unwrap_or(0));
    Usage { image_completion: usage.image_completion.or_else(|| Some(small(made))), ..usage }
}

fn image(base64: Cow<'_, str>) -> GeneratedImage<'_> {
    GeneratedImage { content: ImageContent::Base64(base64), revised_prompt: None }
}

fn blocked() -> Failure {
    Failure::new(
        FailureKind::ContentFilter,
        "The upstream provider's filter refused the prompt or the image.",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind(body: &serde_json::Value) -> Result<usize, FailureKind> {
        let body = body.to_string();
        decode(body.as_bytes()).map(|reply| reply.images.len()).map_err(|failure| failure.kind)
    }

    #[test]
    fn blocked_images_are_refusals_and_missing_ones_are_invalid() {
        let blocked = Err(FailureKind::ContentFilter);
        assert_eq!(kind(&json!({"promptFeedback": {"blockReason": "SAFETY"}})), blocked);
        let candidate = |reason: &str| json!({"candidates": [{"finishReason": reason}]});
        for reason in ["IMAGE_SAFETY", "PROHIBITED_CONTENT", "IMAGE_RECITATION"] {
            assert_eq!(kind(&candidate(reason)), blocked, "{reason}");
        }
        assert_eq!(kind(&candidate("STOP")), Err(FailureKind::InvalidResponse));
        assert_eq!(kind(&json!({"predictions": [{"raiFilteredReason": "no"}]})), blocked);
        assert_eq!(kind(&json!({})), blocked);
        assert_eq!(kind(&json!({"predictions": [{"bytesBase64Encoded": "QQ=="}]})), Ok(1));
    }

    #[test]
    fn tokens_of_images_are_told_apart() {
        let inline = json!({"inlineData": {"mimeType": "image/png", "data": "QQ=="}});
        let answer = |details: serde_json::Value| {
            json!({
                "candidates": [{"content": {"parts": [inline]}, "finishReason": "STOP"}],
                "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 1290, "totalTokenCount": 1295,
                    "candidatesTokensDetails": details}
            })
            .to_string()
        };
        for details in [json!(null), json!([{"modality": "IMAGE", "tokenCount": 1290}])] {
            let body = answer(details);
            let usage = decode(body.as_bytes()).unwrap().usage.unwrap();
            assert_eq!((usage.prompt, usage.completion, usage.image_completion), (5, 1290, Some(1290)));
        }
    }
}
