//! A Messages request as a chat request.
//!
//! The translation depends on the body alone, so the messages of a conversation are the same bytes in each of its requests.

pub(in crate::dialects) mod assistant;
mod counts;
mod documents;
mod history;
mod options;
pub(in crate::dialects) mod parts;
mod results;
mod system;
mod tools;
mod user;
mod warnings;

use std::borrow::Cow;

use bytes::Bytes;

use self::warnings::Losses;
use super::context::MessagesContext;
use super::errors::{THREAD_NOT_FOUND, THREAD_UNSUPPORTED};
use super::faults::{MessagesPath, boolean, integer, missing, required_name};
use crate::dialects::{ClientDialect, ClientRequest, NativeBody, NativeNeed};
use crate::json::{ObjectWriter, View};
use crate::request::native_policy::survey_messages;
use crate::request::{Body, Invalid, RequestLimits};

/// A Messages request, translated.
#[derive(Clone, Debug)]
pub struct MessagesRequest {
    /// The request as a chat completion body: a JSON object.
    pub chat: Vec<u8>,
    /// Entries of `gateway.warnings`.
    pub warnings: Vec<Cow<'static, str>>,
    /// The parts that the answer needs.
    pub context: MessagesContext,
    /// The client's own body.
    pub native: NativeBody,
    /// Whether the request needs an upstream of this dialect.
    pub need: NativeNeed,
}

impl MessagesRequest {
    /// Leaves out the gateway's own members of the answer.
    #[must_use]
    pub fn with_plain(self, plain: bool) -> Self {
        Self { context: self.context.with_plain(plain), ..self }
    }

    /// The chat body, and the parts of the request that it does not hold.
    #[must_use]
    pub fn into_parts(self) -> (Vec<u8>, ClientRequest) {
        let Self { chat, warnings, context, native, need } = self;
        let form = std::sync::Arc::new(context);
        (chat, ClientRequest { form, native, need, warnings, headers: Vec::new() })
    }
}

/// Translates the body of `POST /v1/messages`.
///
/// # Errors
/// The first fault, in the words of the Messages API.
pub fn translate(bytes: Bytes, limits: &RequestLimits) -> Result<MessagesRequest, Invalid> {
    convert(bytes, limits, Purpose::Answer)
}

/// Translates the body of `POST /v1/messages/count_tokens`, which has no `max_tokens`.
///
/// # Errors
/// As [`translate`].
pub fn translate_count(bytes: Bytes, limits: &RequestLimits) -> Result<MessagesRequest, Invalid> {
    convert(bytes, limits, Purpose::Count)
}

/// The answer of `POST /v1/messages/count_tokens`.
#[must_use]
pub fn count_tokens_body(tokens: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(32);
    let mut object = ObjectWriter::begin(&mut out);
    object.integer("input_tokens", tokens);
    object.finish();
    out
}

/// The purpose of a body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Answer,
    Count,
}

/// Members that only an upstream of this dialect understands, and whether an answer without them differs.
const NATIVE_MEMBERS: [(&str, bool); 8] = [
    ("thread", true),
    ("container", true),
    ("mcp_servers", true),
    ("context_management", true),
    ("fallback_credit_token", false),
    ("inference_geo", false),
    ("speed", false),
    ("diagnostics", false),
];

fn convert(bytes: Bytes, limits: &RequestLimits, purpose: Purpose) -> Result<MessagesRequest, Invalid> {
    let body = Body::parse(bytes.clone(), limits)?;
    let mut losses = Losses::default();
    let mut context = MessagesContext::default();
    let mut chat = Vec::with_capacity(bytes.len() + bytes.len() / 8 + 512);
    let mut object = ObjectWriter::begin(&mut chat);
    let model = MessagesPath::Top("model");
    required_name(&model, body.view("model"))?;
    object.raw("model", body.get("model").unwrap_or("null"));
    let max_tokens = max_tokens(&body, purpose)?;
    context.warms_cache = max_tokens == Some(0);
    write_messages(&body, limits, &mut object, &mut losses)?;
    if let Some(max_tokens) = max_tokens {
        object.integer("max_completion_tokens", max_tokens);
    }
    if boolean(&MessagesPath::Top("stream"), body.view("stream"))? {
        object.raw("stream", "true");
        object.raw("stream_options", r#"{"include_usage":true}"#);
    }
    options::sampling(&body, &mut object)?;
    options::stops(&body, &mut object, &mut context, &mut losses)?;
    tools::write(&body, limits, &mut object, &mut losses)?;
    options::thinking(&body, &mut object, &mut context, &mut losses)?;
    options::metadata(&body, &mut object, &mut context)?;
    for own in ["routing", "cache", "models"] {
        if let Some(value) = body.get(own) {
            object.raw(own, value);
        }
    }
    options::fallbacks(&body, &mut object, &mut losses)?;
    object.finish();
    for (name, changes_answer) in NATIVE_MEMBERS {
        if body.get(name).is_some() {
            losses.parameter(name, changes_answer);
        }
    }
    let policy = survey_messages(std::str::from_utf8(&bytes).unwrap_or("{}"));
    let native = NativeBody {
        bytes,
        dialect: ClientDialect::Messages,
        only_native: losses.changes_answer(),
        is_kept_here: false,
        policy: policy.into(),
    };
    let need = if purpose == Purpose::Answer { need(&body, &context) } else { NativeNeed::None };
    Ok(MessagesRequest { chat, warnings: losses.into_warnings(), context, native, need })
}

/// Whether the request needs an upstream of this dialect: for the message thread that the upstream keeps, or to fill the
/// upstream's prompt cache.
fn need(body: &Body, context: &MessagesContext) -> NativeNeed {
    match body.view("thread").filter(|thread| thread.text() != "null") {
        Some(_) => {
            let code = if continues_thread(body) { THREAD_NOT_FOUND } else { THREAD_UNSUPPORTED };
            let message =
                "thread: this model's provider keeps no message threads. Send the whole conversation.";
            NativeNeed::Required(Invalid { code, message: message.to_owned() })
        }
        None if context.warms_cache => NativeNeed::Preferred,
        None => NativeNeed::None,
    }
}

/// Whether the messages continue a thread: the upstream holds those before them.
fn continues_thread(body: &Body) -> bool {
    let [kind] = body.view("thread").map_or([None], |thread| thread.pick(["type"]));
    kind.and_then(View::string).is_some_and(|kind| kind == "continue")
}

fn max_tokens(body: &Body, purpose: Purpose) -> Result<Option<u64>, Invalid> {
    let path = MessagesPath::Top("max_tokens");
    match body.view("max_tokens") {
        Some(value) => integer(&path, value, 0).map(Some),
        None if purpose == Purpose::Count => Ok(None),
        None => Err(missing(&path)),
    }
}

/// Writes `messages`: the system message, then the history.
fn write_messages(
    body: &Body,
    limits: &RequestLimits,
    object: &mut ObjectWriter<'_>,
    losses: &mut Losses,
) -> Result<(), Invalid> {
    let messages = body.view("messages").ok_or_else(|| missing(&MessagesPath::Top("messages")))?;
    let mut history = history::History::new(object.member("messages"), limits, continues_thread(body));
    if let Some(system) = body.view("system") {
        history.system(&MessagesPath::Top("system"), system)?;
    }
    history.messages(messages, losses)?;
    history.finish();
    Ok(())
}
