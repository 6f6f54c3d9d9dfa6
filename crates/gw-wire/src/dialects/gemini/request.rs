//! A Gemini request as a chat request.
//!
//! The translation depends on the URL and the body alone, so the messages of a conversation are the same bytes in each of
//! its requests.

mod calls;
mod config;
mod history;
mod media;
mod schema;
mod tools;
mod turns;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use super::context::GeminiContext;
use super::members::{Losses, is_named};
use crate::dialects::messages::ThinkingDisplay;
use crate::dialects::{ClientDialect, ClientRequest, NativeBody, NativeNeed};
use crate::json::{Kind, ObjectWriter, View};
use crate::request::fields::{Path, empty_string, map, missing};
use crate::request::native_policy::NativePolicy;
use crate::request::{Body, Invalid, RequestLimits};

/// A Gemini request, translated.
#[derive(Clone, Debug)]
pub struct GeminiRequest {
    /// The request as a chat completion body: a JSON object.
    pub chat: Vec<u8>,
    /// Entries of `gateway.warnings`.
    pub warnings: Vec<Cow<'static, str>>,
    /// The parts that the answer needs.
    pub context: GeminiContext,
    /// The client's own body.
    pub bytes: Bytes,
}

impl GeminiRequest {
    /// The chat body, and the parts of the request that it does not hold.
    #[must_use]
    pub fn into_parts(self) -> (Vec<u8>, ClientRequest) {
        let native = NativeBody {
            bytes: self.bytes,
            dialect: ClientDialect::Gemini,
            only_native: false,
            is_kept_here: false,
            policy: Arc::new(NativePolicy::default()),
        };
        let client = ClientRequest {
            form: Arc::new(self.context),
            native,
            need: NativeNeed::None,
            warnings: self.warnings,
            headers: Vec::new(),
        };
        (self.chat, client)
    }
}

/// The members of a request that are read.
#[derive(Default)]
struct RequestMembers<'a> {
    contents: Option<View<'a>>,
    system: Option<View<'a>>,
    tools: Option<View<'a>>,
    tool_config: Option<View<'a>>,
    config: Option<View<'a>>,
    /// The gateway's own members.
    own: Vec<(&'static str, View<'a>)>,
}

/// The gateway's own members, which a chat has, too.
const OWN: [&str; 6] = ["routing", "cache", "models", "fallbacks", "fallback_model", "user"];

/// Translates the body of `generateContent` and `streamGenerateContent`. `model` is the name in the URL.
///
/// # Errors
/// The first fault.
pub fn translate(
    bytes: Bytes,
    model: &str,
    is_stream: bool,
    limits: &RequestLimits,
) -> Result<GeminiRequest, Invalid> {
    let body = Body::parse(bytes.clone(), limits)?;
    let mut losses = Losses::default();
    let members = RequestMembers::read(body.members(), &mut losses)?;
    convert(&members, bytes, model, is_stream, limits, losses)
}

/// Translates the body of `countTokens`, which has `contents` or a whole request in `generateContentRequest`.
///
/// # Errors
/// As [`translate`].
pub fn translate_count(bytes: Bytes, model: &str, limits: &RequestLimits) -> Result<GeminiRequest, Invalid> {
    let body = Body::parse(bytes.clone(), limits)?;
    let mut losses = Losses::default();
    let whole = body.members().find(|(name, _)| is_named(name, "generateContentRequest"));
    let members = match whole {
        Some((_, text)) => {
            let value = View::new(text);
            map(&Path::Top("generateContentRequest"), value, |_, _| Ok(()))?;
            let members = value.members().filter_map(|(name, value)| Some((name.string()?, value.text())));
            RequestMembers::read(members, &mut losses)?
        }
        None => RequestMembers::read(body.members(), &mut losses)?,
    };
    convert(&members, bytes, model, false, limits, losses)
}

/// The answer of `countTokens`.
#[must_use]
pub fn count_tokens_body(tokens: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(32);
    let mut object = ObjectWriter::begin(&mut out);
    object.integer("totalTokens", tokens);
    object.finish();
    out
}

impl<'a> RequestMembers<'a> {
    fn read<N: AsRef<str>>(
        members: impl Iterator<Item = (N, &'a str)>,
        losses: &mut Losses,
    ) -> Result<Self, Invalid> {
        let mut read = Self::default();
        for (name, text) in members {
            let (name, value) = (name.as_ref(), View::new(text));
            if value.kind() == Kind::Null {
                continue;
            }
            if let Some(own) = OWN.into_iter().find(|own| *own == name) {
                read.own.push((own, value));
                continue;
            }
            let slots = [
                ("contents", &mut read.contents),
                ("systemInstruction", &mut read.system),
                ("tools", &mut read.tools),
                ("toolConfig", &mut read.tool_config),
                ("generationConfig", &mut read.config),
            ];
            match slots.into_iter().find(|(known, _)| is_named(name, known)) {
                Some((known, slot)) => {
                    if slot.replace(value).is_some() {
                        let message = format!("Invalid '{known}': the member is given more than once.");
                        return Err(Invalid { code: "invalid_json", message });
                    }
                }
                None => other(name, losses)?,
            }
        }
        Ok(read)
    }
}

/// Judges a member that a chat has no place for.
fn other(name: &str, losses: &mut Losses) -> Result<(), Invalid> {
    if is_named(name, "cachedContent") {
        let message = "Unsupported parameter: 'cachedContent'. The gateway keeps no cached contents: send the whole \
                       conversation.";
        return Err(Invalid { code: "unsupported_parameter", message: message.to_owned() });
    }
    // The URL names the model.
    if name != "model" {
        losses.parameter(name);
    }
    Ok(())
}

fn convert(
    members: &RequestMembers<'_>,
    bytes: Bytes,
    model: &str,
    is_stream: bool,
    limits: &RequestLimits,
    mut losses: Losses,
) -> Result<GeminiRequest, Invalid> {
    if model.is_empty() {
        return Err(empty_string(&Path::Top("model")));
    }
    let mut context = GeminiContext::default();
    // Thoughts are shown to those who ask for them. Their signatures come back either way.
    context.content.thinking = ThinkingDisplay::Omitted;
    let mut chat = Vec::with_capacity(bytes.len() + bytes.len() / 8 + 512);
    let mut object = ObjectWriter::begin(&mut chat);
    object.string("model", model);
    let contents = members.contents.ok_or_else(|| missing(&Path::Top("contents")))?;
    let mut history = history::ContentsHistory::new(object.member("messages"), limits);
    if let Some(system) = members.system {
        history.system(system, &mut losses)?;
    }
    history.contents(contents, &mut losses)?;
    history.finish();
    if is_stream {
        object.raw("stream", "true");
        object.raw("stream_options", r#"{"include_usage":true}"#);
    }
    tools::write(members.tools, members.tool_config, limits, &mut object, &mut losses)?;
    if let Some(config) = members.config {
        config::write(config, &mut object, &mut context, &mut losses)?;
    }
    for (name, value) in &members.own {
        object.raw(name, value.text());
    }
    object.finish();
    Ok(GeminiRequest { chat, warnings: losses.into_warnings(), context, bytes })
}
