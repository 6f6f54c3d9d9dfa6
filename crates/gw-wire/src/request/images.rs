//! `POST /v1/images/generations`, `/edits` and `/variations`: the requests of OpenAI, and the answer.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::body::{Body, ParsedBody};
use super::fields::{Path, invalid_value, not_one_of, required_name, string};
use super::invalid::Invalid;
use super::limits::RequestLimits;
use super::measure::image_size;
use super::member_policy::{GuardedMember, survey};
use super::options::{Fields, Routing};
use super::references::References;
use crate::json::{Kind, ObjectWriter, View, write_str};
use crate::money::Money;
use crate::operation::PlainOperation;
use crate::usage::{ImageForm, ImageSize, Units, Usage};

/// The most images of a request.
pub const MAX_IMAGES: i64 = 10;
/// The most partial images of a streamed image.
const MAX_PARTIAL_IMAGES: i64 = 3;

/// The members that choose words, with the words.
const WORDS: [(&str, &[&str]); 7] = [
    ("quality", &["auto", "low", "medium", "high", "standard", "hd"]),
    ("background", &["auto", "transparent", "opaque"]),
    ("output_format", &["png", "jpeg", "webp"]),
    ("response_format", &["url", "b64_json"]),
    ("moderation", &["auto", "low"]),
    ("style", &["vivid", "natural"]),
    ("input_fidelity", &["high", "low"]),
];

/// The members that providers of OpenAI's dialect get as the client wrote them.
const FORWARDED: [&str; 11] = [
    "input_fidelity",
    "size",
    "quality",
    "background",
    "output_format",
    "output_compression",
    "response_format",
    "moderation",
    "style",
    "user",
    "safety_identifier",
];

/// The kinds of requests for images, by their sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImageUse {
    /// A text.
    #[default]
    Generation,
    /// Images and a text.
    Edit,
    /// An image.
    Variation,
}

impl ImageUse {
    /// The end of the URL.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Generation => "images/generations",
            Self::Edit => "images/edits",
            Self::Variation => "images/variations",
        }
    }
}

/// A validated request for images.
#[derive(Clone, Debug)]
pub struct ImagesRequest {
    /// The source of the images.
    pub made_from: ImageUse,
    /// The received body.
    pub body: Body,
    /// The model name as the client wrote it. It is empty if the client named none, until the gateway names one.
    pub model: String,
    /// The literal of the prompt in the body.
    prompt: Range<usize>,
    /// How many images the client wants.
    pub n: u32,
    /// The size and the quality that the client wants, as far as it says them.
    pub form: ImageForm,
    /// The client's word for the size; None: any.
    pub size: Option<String>,
    /// The file format that the client wants: `png`, `jpeg` or `webp`.
    pub output_format: Option<String>,
    /// The client wants URLs instead of the images.
    pub wants_urls: bool,
    /// Whether the client wants a stream.
    pub stream: bool,
    /// The partial images that the client wants before each image.
    pub partial_images: u32,
    /// The client's routing options.
    pub routing: Routing,
    /// Bytes of the prompt.
    pub prompt_bytes: u64,
    /// References to resources at a provider.
    pub references: References,
    /// Members that choose a model, an upstream or a price.
    pub guarded: Vec<GuardedMember>,
}

/// Reads and checks a request for images. The first fault is reported, in the order of this function.
///
/// # Errors
/// The fault, with its error code.
pub fn parse_images(bytes: Bytes, limits: &RequestLimits) -> Result<ImagesRequest, Invalid> {
    parse_images_from(bytes, ImageUse::Generation, limits)
}

/// As [`parse_images`], for the fields of a form with images.
///
/// # Errors
/// As [`parse_images`].
pub fn parse_images_from(
    bytes: Bytes,
    made_from: ImageUse,
    limits: &RequestLimits,
) -> Result<ImagesRequest, Invalid> {
    let members = ParsedBody::read(&bytes, limits)?;
    let fields = Fields { members: &members };
    let model = fields.model_or_usual()?;
    let prompt = fields.get("prompt");
    if made_from == ImageUse::Variation {
        fields.kinds(&[("prompt", Kind::String)])?;
    } else {
        required_name(&Path::Top("prompt"), prompt)?;
    }
    let (start, length, prompt_bytes) = prompt.map_or((0, 0, 0), |prompt| {
        (members.offset(prompt.text()), prompt.text().len(), prompt.string_len() as u64)
    });
    let n = fields.integer("n", &(1..=MAX_IMAGES))?;
    let size = size(&fields)?;
    let [quality, _, output_format, response_format, ..] = words(&fields)?;
    fields.integer("output_compression", &(0..=100))?;
    let stream = fields.boolean("stream")?;
    if stream && made_from == ImageUse::Variation {
        let message = "Invalid 'stream': variations cannot be streamed.";
        return Err(Invalid { code: "unsupported_value", message: message.to_owned() });
    }
    let partial_images = fields.integer("partial_images", &(0..=MAX_PARTIAL_IMAGES))?;
    fields.kinds(&[("user", Kind::String), ("safety_identifier", Kind::String)])?;
    let routing = fields.routing(&model)?;
    let mut references = References::default();
    let guarded = survey(members.text, &members.members, PlainOperation::Images, false, &mut references);
    fields.cache()?;
    let small = |count: Option<i64>, otherwise| {
        count.and_then(|count| u32::try_from(count).ok()).unwrap_or(otherwise)
    };
    Ok(ImagesRequest {
        made_from,
        model,
        prompt: start..start + length,
        n: small(n, 1),
        form: ImageForm::of(size.as_deref(), quality.as_deref()),
        size,
        output_format,
        wants_urls: response_format.as_deref() == Some("url"),
        stream,
        partial_images: small(partial_images, 0),
        routing,
        prompt_bytes,
        references,
        guarded,
        body: members.without_fallbacks().into_body(bytes),
    })
}

/// The size, unless it is `auto`.
fn size(fields: &Fields<'_, '_>) -> Result<Option<String>, Invalid> {
    let path = Path::Top("size");
    let Some(value) = fields.get("size").filter(|value| value.kind() != Kind::Null) else { return Ok(None) };
    let text = string(&path, value)?;
    if &*text == "auto" {
        return Ok(None);
    }
    if ImageSize::parse(&text).is_none() {
        let what = format!(
            "expected 'auto' or a size such as '1024x1024', but got '{}' instead.",
            super::fields::clip(&text)
        );
        return Err(invalid_value(&path, &what));
    }
    Ok(Some(text.into_owned()))
}

/// The words of the members that choose one.
fn words(fields: &Fields<'_, '_>) -> Result<[Option<String>; WORDS.len()], Invalid> {
    let mut chosen = [const { None }; WORDS.len()];
    for ((name, allowed), chosen) in WORDS.iter().zip(&mut chosen) {
        let Some(value) = fields.get(name).filter(|value| value.kind() != Kind::Null) else { continue };
        let path = Path::Top(name);
        let word = string(&path, value)?;
        if !allowed.contains(&&*word) {
            return Err(not_one_of(&path, allowed, &word));
        }
        *chosen = Some(word.into_owned());
    }
    Ok(chosen)
}

impl ImagesRequest {
    /// The literal of the prompt.
    #[must_use]
    pub fn prompt(&self) -> &str {
        self.body.text(&self.prompt)
    }

    /// The text of the prompt.
    #[must_use]
    pub fn prompt_text(&self) -> Cow<'_, str> {
        View::new(self.prompt()).string().unwrap_or_default()
    }

    /// The fields of a form that servers of OpenAI's dialect take, for so many images.
    #[must_use]
    pub fn form_fields(&self, images: usize) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        if !self.prompt().is_empty() {
            fields.push(("prompt".to_owned(), self.prompt_text().into_owned()));
        }
        if self.body.get("n").is_some() || images > 1 {
            fields.push(("n".to_owned(), images.to_string()));
        }
        let streamed = ["stream", "partial_images"].into_iter().filter(|_| self.stream);
        for name in FORWARDED.into_iter().chain(streamed) {
            if let Some(value) = self.body.view(name).filter(|value| value.kind() != Kind::Null) {
                let text = value.string().unwrap_or(Cow::Borrowed(value.text()));
                fields.push((name.to_owned(), text.into_owned()));
            }
        }
        fields
    }

    /// Writes the members that providers of OpenAI's dialect take, for so many images.
    pub fn write_members(&self, body: &mut ObjectWriter<'_>, images: usize) {
        body.raw("prompt", self.prompt());
        if self.body.get("n").is_some() || images > 1 {
            body.integer("n", images as u64);
        }
        for name in FORWARDED {
            if let Some(value) = self.body.get(name).filter(|value| *value != "null") {
                body.raw(name, value);
            }
        }
        if self.stream {
            body.boolean("stream", true);
            if let Some(count) = self.body.get("partial_images").filter(|value| *value != "null") {
                body.raw("partial_images", count);
            }
        }
    }

    /// Writes the answer from those of all calls. `now` is in unix seconds.
    #[must_use]
    pub fn write(
        &self,
        replies: &[ImagesReply<'_>],
        now: u64,
        usage: &Usage,
        cost: Option<Money>,
    ) -> Vec<u8> {
        let images = || replies.iter().flat_map(|reply| &reply.images);
        let mut out = Vec::with_capacity(images().map(GeneratedImage::bytes).sum::<usize>() + 512);
        let mut answer = ObjectWriter::begin(&mut out);
        let first = replies.first();
        answer.integer("created", first.and_then(|reply| reply.created).unwrap_or(now));
        answer.array("data", images(), |out, image| image.write(out));
        let told = |pick: fn(&ImagesReply<'_>) -> Option<String>| first.and_then(pick);
        answer.optional_string(
            "background",
            told(|reply| reply.background.as_deref().map(str::to_owned)).as_deref(),
        );
        answer.optional_string(
            "output_format",
            told(|reply| reply.output_format.as_deref().map(str::to_owned)).as_deref(),
        );
        answer.optional_string("size", told(|reply| reply.size.as_deref().map(str::to_owned)).as_deref());
        answer
            .optional_string("quality", told(|reply| reply.quality.as_deref().map(str::to_owned)).as_deref());
        answer.object("usage", |object| write_usage(object, usage, cost));
        answer.finish();
        out
    }
}

/// Writes the tokens of images and their cost; None = a price is unknown.
pub fn write_usage(object: &mut ObjectWriter<'_>, usage: &Usage, cost: Option<Money>) {
    object.integer("input_tokens", usage.prompt);
    object.integer("output_tokens", usage.completion);
    object.integer("total_tokens", usage.total());
    let (drawn, read) = (usage.image_completion.unwrap_or(0).into(), usage.image_prompt.unwrap_or(0).into());
    for (name, whole, images) in
        [("input_tokens_details", usage.prompt, read), ("output_tokens_details", usage.completion, drawn)]
    {
        object.object(name, |details| {
            details.integer("text_tokens", whole.saturating_sub(images));
            details.integer("image_tokens", images);
            if let Some(cached) = usage.cached.filter(|_| name == "input_tokens_details") {
                details.integer("cached_tokens", cached);
            }
        });
    }
    object.number_or_null("cost_usd", cost);
}

/// One image of an answer.
#[derive(Clone, Debug)]
pub struct GeneratedImage<'a> {
    /// The image.
    pub content: ImageContent<'a>,
    /// The JSON string of the prompt that the provider used, if it is another one.
    pub revised_prompt: Option<&'a RawValue>,
}

/// Where an image is.
#[derive(Clone, Debug)]
pub enum ImageContent<'a> {
    /// Its bytes in base64.
    Base64(Cow<'a, str>),
    /// Its URL.
    Url(Cow<'a, str>),
}

impl GeneratedImage<'_> {
    fn bytes(&self) -> usize {
        let (ImageContent::Base64(text) | ImageContent::Url(text)) = &self.content;
        text.len() + 64 + self.revised_prompt.map_or(0, |prompt| prompt.get().len())
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut object = ObjectWriter::begin(out);
        self.write_members(&mut object);
        object.finish();
    }

    fn write_members(&self, object: &mut ObjectWriter<'_>) {
        let (name, text) = match &self.content {
            ImageContent::Base64(text) => ("b64_json", text),
            ImageContent::Url(text) => ("url", text),
        };
        write_str(object.member(name), text);
        if let Some(prompt) = self.revised_prompt {
            object.raw("revised_prompt", prompt.get());
        }
    }

    /// The size that its bytes tell.
    fn size(&self) -> Option<ImageSize> {
        let ImageContent::Base64(text) = &self.content else { return None };
        let (width, height) = image_size(text)?;
        Some(ImageSize::Pixels(u16::try_from(width).ok()?, u16::try_from(height).ok()?))
    }
}

/// A complete answer of an upstream.
#[derive(Clone, Debug, Default)]
pub struct ImagesReply<'a> {
    /// When the images were made, in unix seconds.
    pub created: Option<u64>,
    /// The images, at least one.
    pub images: Vec<GeneratedImage<'a>>,
    /// The background of the images.
    pub background: Option<Cow<'a, str>>,
    /// The file format of the images.
    pub output_format: Option<Cow<'a, str>>,
    /// The size of the images.
    pub size: Option<Cow<'a, str>>,
    /// The quality of the images.
    pub quality: Option<Cow<'a, str>>,
    /// Usage in tokens, if reported.
    pub usage: Option<Usage>,
}

impl ImagesReply<'_> {
    /// An image as the event of a stream.
    #[must_use]
    pub fn event(&self, image: &GeneratedImage<'_>) -> Box<RawValue> {
        let mut out = Vec::with_capacity(image.bytes() + 256);
        let mut object = ObjectWriter::begin(&mut out);
        image.write_members(&mut object);
        for (name, told) in [
            ("background", &self.background),
            ("output_format", &self.output_format),
            ("size", &self.size),
            ("quality", &self.quality),
        ] {
            object.optional_string(name, told.as_deref());
        }
        object.finish();
        let text = String::from_utf8(out).unwrap_or_default();
        RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
    }

    /// The usage: the tokens that the upstream reports, and the images with their form. `asked` is the form that the client asked
    /// for: a provider that says nothing made that.
    #[must_use]
    pub fn measured(&self, asked: ImageForm) -> Usage {
        let told = ImageForm::of(self.size.as_deref(), self.quality.as_deref());
        let size = told.size.or_else(|| self.images.first().and_then(GeneratedImage::size));
        let made = ImageForm { size, ..told }.or(asked);
        Usage { units: Units::images(self.images.len() as u64, made), ..self.usage.unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests;
