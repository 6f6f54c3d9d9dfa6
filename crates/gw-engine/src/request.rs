//! A validated generation request.

pub mod context;
pub(crate) mod fan_out;
pub(crate) mod one_shot;
pub(crate) mod operation;
pub(crate) mod required_capabilities;
pub mod trace;
pub mod uploads;

use std::borrow::Cow;
use std::sync::Arc;

use gw_wire::dialects::{AnswerForm, ClientRequest};
use gw_wire::json::View;
use gw_wire::operation::PlainOperation;
use gw_wire::request::{
    Body, ChatRequest, CompletionRequest, EmbeddingsRequest, GuardedMember, Medium, Prompt, PromptExtras,
    References, Routing,
};
use gw_wire::stream::Shape;

use self::one_shot::OneShot;
use self::required_capabilities::RequiredCapabilities;

/// A validated request of one of the operations.
#[derive(Debug)]
pub(crate) enum ValidatedRequest {
    Chat(Box<ChatRequest>),
    Completion(Box<CompletionRequest>),
    OneShot(Box<dyn OneShot>),
}

impl ValidatedRequest {
    /// The operation. A request of another API is a chat.
    pub(crate) fn operation(&self) -> PlainOperation {
        match self {
            Self::Chat(_) => PlainOperation::Chat,
            Self::Completion(_) => PlainOperation::Completion,
            Self::OneShot(request) => request.operation(),
        }
    }

    /// Whether the model writes a text. Otherwise the tokens of the prompt are all that the request costs.
    pub(crate) fn writes_text(&self) -> bool {
        self.operation().row().writes_text
    }

    /// The request, if it is a one-shot request.
    pub(crate) fn one_shot(&self) -> Option<&dyn OneShot> {
        match self {
            Self::OneShot(request) => Some(&**request),
            Self::Chat(_) | Self::Completion(_) => None,
        }
    }

    /// The request, if it asks for embeddings.
    pub(crate) fn embeddings(&self) -> Option<&EmbeddingsRequest> {
        self.one_shot()?.embeddings()
    }

    /// The form of the answer's stream, the number of its choices, and whether the client wants the usage. Only requests
    /// that can be streamed use it.
    pub(crate) fn stream_form(&self) -> (Shape, u32, bool) {
        match self {
            Self::Chat(request) => (Shape::Chat, request.n, request.include_usage),
            Self::Completion(request) => {
                let prompts = u32::try_from(request.prompts.len()).unwrap_or(1);
                (Shape::Text, request.n.saturating_mul(prompts), request.include_usage)
            }
            Self::OneShot(request) => (Shape::Text, u32::from(request.wants_stream()), false),
        }
    }

    pub(crate) fn wants_stream(&self) -> bool {
        match self {
            Self::Chat(request) => request.stream,
            Self::Completion(request) => request.stream,
            Self::OneShot(request) => request.wants_stream(),
        }
    }

    /// Writes the answer of a client that reads another form than a chat's.
    pub(crate) fn form(&self) -> Option<Arc<dyn AnswerForm>> {
        match self {
            Self::Chat(request) => request.client.as_ref().map(|client| Arc::clone(&client.form)),
            Self::Completion(_) => None,
            Self::OneShot(request) => request.form(),
        }
    }

    pub(crate) fn prompt_bytes(&self) -> u64 {
        match self {
            Self::Chat(request) => request.prompt_bytes,
            Self::Completion(request) => request.prompt_bytes,
            Self::OneShot(request) => request.facts().prompt_bytes,
        }
    }

    /// Whether a model may work for long before its first content. `reasons_unasked` is for a request that says nothing.
    pub(crate) fn may_be_silent(&self, reasons_unasked: bool) -> bool {
        match self {
            Self::Chat(request) => request.may_be_silent(reasons_unasked),
            Self::Completion(_) | Self::OneShot(_) => false,
        }
    }

    /// The client's routing options, if the operation has them.
    pub(crate) fn routing(&self) -> Option<&Routing> {
        match self {
            Self::Chat(request) => Some(&request.routing),
            Self::Completion(request) => Some(&request.routing),
            Self::OneShot(request) => request.facts().routing,
        }
    }

    /// The parts of a request that was translated from another dialect than OpenAI's.
    pub(crate) fn client(&self) -> Option<&ClientRequest> {
        match self {
            Self::Chat(request) => request.client.as_deref(),
            Self::Completion(_) | Self::OneShot(_) => None,
        }
    }

    /// The capabilities that a model needs for the request.
    pub(crate) fn wanted(&self) -> RequiredCapabilities<'_> {
        match self {
            Self::Chat(request) => RequiredCapabilities::Chat { needs: &request.needs, n: request.n },
            Self::Completion(request) => RequiredCapabilities::Completion {
                suffix: request.suffix,
                tokens: request.prompts.iter().any(|prompt| matches!(prompt, Prompt::Tokens(_))),
                n: request.n,
                prompts: request.prompts.len(),
            },
            Self::OneShot(request) => RequiredCapabilities::OneShot(&**request),
        }
    }

    /// The references to data that is stored at a provider.
    pub(crate) fn references(&self) -> &References {
        match self {
            Self::Chat(request) => &request.references,
            Self::Completion(request) => &request.references,
            Self::OneShot(request) => request.facts().references,
        }
    }

    /// The members that choose a model, an upstream or a price.
    pub(crate) fn guarded(&self) -> &[GuardedMember] {
        match self {
            Self::Chat(request) => &request.guarded,
            Self::Completion(request) => &request.guarded,
            Self::OneShot(request) => request.facts().guarded,
        }
    }

    /// The model as the client wrote it.
    pub(crate) fn model(&self) -> &str {
        match self {
            Self::Chat(request) => &request.model,
            Self::Completion(request) => &request.model,
            Self::OneShot(request) => request.facts().model,
        }
    }

    /// The `messages` of a chat.
    pub(crate) fn messages(&self) -> Option<View<'_>> {
        match self {
            Self::Chat(request) => request.body.view("messages"),
            Self::Completion(_) | Self::OneShot(_) => None,
        }
    }

    /// The request's `user`.
    pub(crate) fn user(&self) -> Option<Cow<'_, str>> {
        self.body().view("user")?.string()
    }

    /// Whether the request has a seed.
    pub(crate) fn has_seed(&self) -> bool {
        self.body().get("seed").is_some()
    }

    /// The members with the client's text, as JSON.
    pub(crate) fn prompts(&self) -> impl Iterator<Item = &[u8]> {
        let members = self.operation().row().text_members;
        members.iter().filter_map(|name| Some(self.body().view(name)?.text().as_bytes()))
    }

    /// The received body.
    pub(crate) fn body(&self) -> &Body {
        match self {
            Self::Chat(request) => &request.body,
            Self::Completion(request) => &request.body,
            Self::OneShot(request) => request.facts().body,
        }
    }

    /// The contents of the prompt other than its text.
    pub(crate) fn beside(&self) -> Cow<'_, PromptExtras> {
        match self {
            Self::Chat(request) => Cow::Borrowed(&request.extras),
            Self::Completion(request) => Cow::Borrowed(&request.extras),
            Self::OneShot(_) => Cow::Owned(PromptExtras::default()),
        }
    }

    /// Whether the prompt has audio.
    pub(crate) fn has_audio(&self) -> bool {
        if let Self::OneShot(request) = self {
            return matches!(
                request.operation(),
                PlainOperation::Transcription | PlainOperation::Translation | PlainOperation::Realtime
            );
        }
        self.beside().media.iter().any(|medium| matches!(medium, Medium::Audio { .. }))
    }

    /// Whether the client asks for an answer with audio.
    pub(crate) fn wants_audio(&self) -> bool {
        match self {
            Self::Chat(request) => request.needs.audio_output,
            Self::Completion(_) => false,
            Self::OneShot(request) => {
                matches!(request.operation(), PlainOperation::Speech | PlainOperation::Realtime)
            }
        }
    }

    /// Whether the client asks for an answer with images.
    pub(crate) fn wants_images(&self) -> bool {
        match self {
            Self::Chat(request) => request.needs.image_output,
            Self::Completion(_) => false,
            Self::OneShot(request) => request.operation() == PlainOperation::Images,
        }
    }

    /// Whether a string of the request ends in `1h`, the lifetime of a cache write that costs more than others. A text may
    /// end so by chance.
    pub(crate) fn may_name_an_hour(&self) -> bool {
        // JSON may also write the letter as an escape.
        let is_in = |text: &str| {
            [&b"1h\""[..], b"\\u0068\""]
                .iter()
                .any(|end| memchr::memmem::find(text.as_bytes(), end).is_some())
        };
        // The translation leaves out members that set the lifetime for the whole request.
        let native = self.client().and_then(|client| std::str::from_utf8(&client.native.bytes).ok());
        self.body().members().any(|(_, text)| is_in(text)) || native.is_some_and(is_in)
    }

    /// Whether its answer is a socket, whose use is charged by itself.
    pub(crate) fn is_handshake(&self) -> bool {
        matches!(self, Self::OneShot(request) if request.operation() == PlainOperation::Realtime)
    }

    /// How many answers it asks for, including the candidates of `best_of`.
    pub(crate) fn answers(&self) -> u64 {
        match self {
            Self::Chat(request) => u64::from(request.n),
            Self::Completion(request) => {
                u64::from(request.n.max(request.best_of)).saturating_mul(request.prompts.len() as u64)
            }
            Self::OneShot(request) => request.size(0..request.parts()).answers,
        }
    }

    /// The client's bound on an answer's tokens.
    pub(crate) fn max_tokens(&self) -> Option<u64> {
        match self {
            Self::Chat(request) => request.max_tokens,
            Self::Completion(request) => request.max_tokens,
            Self::OneShot(request) => Some(request.answer_tokens()),
        }
    }
}
