//! Images at servers of OpenAI's dialect (platform.openai.com/docs/api-reference/images, November 2026).

use std::borrow::Cow;
use std::fmt;

use gw_wire::failure::{Failure, FailureKind};
use gw_wire::json::ObjectWriter;
use gw_wire::request::images::{GeneratedImage, ImageContent, ImagesReply, ImagesRequest};
use gw_wire::usage::{Usage, small};
use serde_json::Value;
use serde_json::value::RawValue;

use super::images_stream;
use super::lenient::{LenientText, lenient_members};
use crate::adapter::{HttpCall, StreamDecoder, Target};
use crate::adapters::counts::count;
use crate::adapters::failure::{body_text, invalid, invalid_json, reported};
use crate::adapters::http_call::{JSON, post_json, post_streamable};
use crate::multipart::{FormFile, Multipart};
use crate::surfaces::Images;

/// The field of a form with an image.
const IMAGE: &str = "image";

/// The URLs of a provider's images.
pub(in crate::adapters) trait ImageUrls: Send + Sync + fmt::Debug {
    /// The URL of `images/generations`, `images/edits` or `images/variations`, and the model that the body names. None: the URL names it.
    fn call<'t>(&'t self, path: &str, target: &'t Target<'_>) -> (String, Option<&'t str>);
}

/// The URLs below the provider's address.
#[derive(Debug)]
pub(in crate::adapters) struct UsualUrls;

impl ImageUrls for UsualUrls {
    fn call<'t>(&'t self, path: &str, target: &'t Target<'_>) -> (String, Option<&'t str>) {
        (format!("/{path}"), Some(target.upstream_model))
    }
}

/// The images of a provider with OpenAI's dialect.
#[derive(Debug)]
pub(in crate::adapters) struct OpenAiImageGeneration<U>(pub(in crate::adapters) U);

impl<U: ImageUrls> Images for OpenAiImageGeneration<U> {
    fn encode(
        &self,
        request: &ImagesRequest,
        images: usize,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure> {
        let (path, model) = self.0.call("images/generations", target);
        Ok(call(path, model, request, images))
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
        let (path, model) = self.0.call(request.made_from.path(), target);
        Ok(form_call(path, model, request, images, files))
    }

    fn decode<'a>(&self, body: &'a [u8]) -> Result<ImagesReply<'a>, Failure> {
        decode(body)
    }

    fn stream(&self, request: &ImagesRequest) -> Box<dyn StreamDecoder> {
        images_stream::decoder(request.form)
    }
}

/// The call for so many images. None: the URL names the model.
fn call(path: String, model: Option<&str>, request: &ImagesRequest, images: usize) -> HttpCall {
    let mut out = Vec::with_capacity(request.prompt().len() + 256);
    let mut body = ObjectWriter::begin(&mut out);
    if let Some(model) = model {
        body.string("model", model);
    }
    request.write_members(&mut body, images);
    body.finish();
    if request.stream { post_streamable(path, out, true) } else { post_json(path, out, JSON) }
}

/// The call for so many images that are made from these files. None: the URL names the model.
fn form_call(
    path: String,
    model: Option<&str>,
    request: &ImagesRequest,
    images: usize,
    files: &[FormFile],
) -> HttpCall {
    let model = model.map(|model| ("model".to_owned(), model.to_owned()));
    let form = Multipart::of_fields(model.into_iter().chain(request.form_fields(images)));
    let has_several = files.iter().filter(|file| file.field == IMAGE).count() > 1;
    let form = files.iter().fold(form, |form, file| {
        let field =
            if has_several && file.field == IMAGE { "image[]".to_owned() } else { file.field.clone() };
        form.with_file(FormFile { field, ..file.clone() })
    });
    form.into_call(path, if request.stream { "text/event-stream" } else { JSON })
}

/// Reads an answer.
fn decode(body: &[u8]) -> Result<ImagesReply<'_>, Failure> {
    let text = body_text(body)?;
    let answer: ImagesAnswer<'_> = serde_json::from_str(text).map_err(|fault| invalid_json(&fault))?;
    let Some(entries) = answer.data.filter(|_| answer.error.is_none()) else {
        if answer.error.is_none() && answer.message.is_none() {
            return Err(invalid("the body has no images"));
        }
        let error = serde_json::from_str(text).unwrap_or(Value::Null);
        return Err(reported(&error, FailureKind::Server));
    };
    let images = entries.into_iter().map(image).collect::<Result<Vec<_>, _>>()?;
    if images.is_empty() {
        return Err(invalid("the list of images is empty"));
    }
    let mut is_odd = false;
    Ok(ImagesReply {
        created: count(answer.created, &mut is_odd),
        images,
        background: written(answer.background),
        output_format: written(answer.output_format),
        size: written(answer.size),
        quality: written(answer.quality),
        usage: answer.usage.as_ref().and_then(usage),
    })
}

lenient_members! {
    /// The complete answer.
    ImagesAnswer<'de> {
        created: &'de RawValue = "created",
        data: Vec<ImageEntry<'de>> = "data",
        background: LenientText<'de> = "background",
        output_format: LenientText<'de> = "output_format",
        size: LenientText<'de> = "size",
        quality: LenientText<'de> = "quality",
        usage: ImageUsage<'de> = "usage",
        error: &'de RawValue = "error",
        message: &'de RawValue = "message",
    }
}

lenient_members! {
    /// One image.
    ImageEntry<'de> {
        b64_json: LenientText<'de> = "b64_json",
        url: LenientText<'de> = "url",
        revised_prompt: &'de RawValue = "revised_prompt",
    }
}

lenient_members! {
    /// The tokens of an answer.
    ImageUsage<'de> {
        input_tokens: &'de RawValue = "input_tokens",
        output_tokens: &'de RawValue = "output_tokens",
        total_tokens: &'de RawValue = "total_tokens",
        input_tokens_details: UsageDetails<'de> = "input_tokens_details",
        output_tokens_details: UsageDetails<'de> = "output_tokens_details",
    }
}

lenient_members! {
    /// The kinds of tokens.
    UsageDetails<'de> {
        text_tokens: &'de RawValue = "text_tokens",
        image_tokens: &'de RawValue = "image_tokens",
        cached_tokens: &'de RawValue = "cached_tokens",
    }
}

/// A text that is not empty.
pub(super) fn written(text: Option<LenientText<'_>>) -> Option<Cow<'_, str>> {
    text.map(|text| text.0).filter(|text| !text.is_empty())
}

fn image(entry: ImageEntry<'_>) -> Result<GeneratedImage<'_>, Failure> {
    let content = match (written(entry.b64_json), written(entry.url)) {
        (Some(bytes), _) => ImageContent::Base64(bytes),
        (None, Some(url)) => ImageContent::Url(url),
        (None, None) => return Err(invalid("an image has neither bytes nor a URL")),
    };
    let revised_prompt = entry.revised_prompt.filter(|prompt| prompt.get().starts_with('"'));
    Ok(GeneratedImage { content, revised_prompt })
}

/// The tokens of an answer. Output without details is image tokens. None: it reports none.
pub(super) fn usage(counts: &ImageUsage<'_>) -> Option<Usage> {
    let mut is_odd = false;
    let prompt = count(counts.input_tokens, &mut is_odd);
    let completion = count(counts.output_tokens, &mut is_odd);
    let total = count(counts.total_tokens, &mut is_odd);
    if prompt.is_none() && completion.is_none() && total.is_none() {
        return None;
    }
    let prompt = prompt.or_else(|| total?.checked_sub(completion?)).unwrap_or(0);
    let completion = completion.or_else(|| total?.checked_sub(prompt)).unwrap_or(0);
    let read = counts.input_tokens_details.as_ref();
    let drawn = counts.output_tokens_details.as_ref();
    let mut detail = |raw: Option<&RawValue>| count(raw, &mut is_odd);
    let image_prompt = detail(read.and_then(|details| details.image_tokens));
    let cached = detail(read.and_then(|details| details.cached_tokens));
    let text_output = detail(drawn.and_then(|details| details.text_tokens));
    let image_output = detail(drawn.and_then(|details| details.image_tokens));
    let image_output = image_output.unwrap_or_else(|| completion.saturating_sub(text_output.unwrap_or(0)));
    Some(Usage {
        prompt,
        completion,
        cached: cached.map(|cached| cached.min(prompt)),
        image_prompt: image_prompt.map(|tokens| small(tokens.min(prompt))),
        image_completion: Some(small(image_output.min(completion))),
        estimated: is_odd,
        ..Usage::default()
    })
}

#[cfg(test)]
mod tests {
    use gw_wire::failure::FailureKind;
    use serde_json::json;

    use super::*;

    fn used(usage: &Value) -> Option<Usage> {
        let body = json!({"created": 1, "data": [{"b64_json": "QQ=="}], "usage": usage}).to_string();
        decode(body.as_bytes()).unwrap().usage
    }

    #[test]
    fn three_kinds_of_tokens_are_read() {
        let usage = |prompt, image_prompt, completion, image_completion| Usage {
            prompt,
            completion,
            image_prompt,
            image_completion: Some(image_completion),
            ..Usage::default()
        };
        let plain = json!({"input_tokens": 50, "output_tokens": 272, "total_tokens": 322});
        assert_eq!(used(&plain), Some(usage(50, None, 272, 272)));
        let detailed = json!({
            "input_tokens": 50, "output_tokens": 300, "total_tokens": 350,
            "input_tokens_details": {"text_tokens": 10, "image_tokens": 40},
            "output_tokens_details": {"text_tokens": 28, "image_tokens": 272}
        });
        assert_eq!(used(&detailed), Some(usage(50, Some(40), 300, 272)));
        assert_eq!(used(&json!({"total_tokens": 300, "input_tokens": 28})), Some(usage(28, None, 272, 272)));
        assert_eq!(used(&json!(null)), None);
        assert_eq!(used(&json!({})), None);
    }

    #[test]
    fn what_has_no_images_is_refused() {
        for body in [
            json!({}),
            json!({"data": []}),
            json!({"data": [{}]}),
            json!({"data": [{"b64_json": ""}]}),
            json!({"data": "none"}),
        ] {
            let failure = decode(body.to_string().as_bytes()).unwrap_err();
            assert_eq!(failure.kind, FailureKind::InvalidResponse, "{body}");
        }
        let error = json!({"error": {"message": "no", "code": 500}}).to_string();
        assert_eq!(decode(error.as_bytes()).unwrap_err().kind, FailureKind::Server);
    }
}
