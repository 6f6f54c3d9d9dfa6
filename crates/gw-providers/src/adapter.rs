//! The trait of a provider's dialect: pure conversions without IO. A new provider implements it in one file.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use gw_wire::dialects::ClientDialect;
use gw_wire::event::Event;
use gw_wire::failure::Failure;
use gw_wire::reply::{ChatReply, EmbeddingsReply, TextReply};
use gw_wire::request::{ChatRequest, CompletionRequest, EmbeddingsRequest};
use gw_wire::usage::Usage;
use http::{HeaderMap, Method};
use memchr::memchr2;

use crate::media_sizes::MediaSizes;
use crate::model_rules::ModelRules;
use crate::multipart::Upload;
use crate::native_responses::NativeResponses;
use crate::seal::{Issuer, ReplayTarget};
use crate::settings::BreakpointTtl;
use crate::surfaces::Surfaces;

/// One HTTP request to an upstream, before origin and credentials are added.
#[derive(Clone, Debug, Default)]
pub struct HttpCall {
    /// Method.
    pub method: Method,
    /// Appended to the provider's base path, begins with `/`. Every variable segment is percent-encoded. A path that begins
    /// with `/../` replaces the last segment of the base path. A path that begins with `//` goes to the provider's second
    /// service ([`Built::second_url`]).
    pub path: String,
    /// Headers of the dialect (`content-type`, `accept`, …), never credentials.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// A form in the place of the body, which is read while it is sent.
    pub upload: Option<Upload>,
}

/// A request that counts the tokens of a prompt.
#[derive(Clone, Debug)]
pub struct CountCall {
    /// The HTTP request. Its answer is a JSON object.
    pub call: HttpCall,
    /// The member of the answer with the number of tokens.
    pub member: &'static str,
}

/// A request in a provider's dialect, with what the decoder needs to read the answer.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// The HTTP request.
    pub call: HttpCall,
    /// How the answer is read.
    pub reading: Reading,
    /// Members of the request that the dialect cannot express and leaves out, as entries of `gateway.warnings`
    /// (`parameter_dropped:seed`). They never change the meaning of the answer.
    pub warnings: Vec<Cow<'static, str>>,
}

impl Encoded {
    /// A call whose answer needs no special reading.
    #[must_use]
    pub fn plain(call: HttpCall) -> Self {
        Self { call, reading: Reading::default(), warnings: Vec::new() }
    }
}

/// How the request was rewritten, so that the answer can be converted back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Name of a tool that stands for structured output. The input of its call becomes the text of the answer.
    pub json_tool: Option<String>,
    /// The prompt asks for JSON in words. A code fence around the answer is removed.
    pub fenced: bool,
    /// The client offered legacy functions. A tool call becomes a `function_call`.
    pub function_call: bool,
    /// Text that is put before a text completion, for a provider without `echo`.
    pub echo: Option<String>,
    /// The target of the call. It seals and marks the parts of the answer that must come back to it.
    pub replay: Option<Arc<ReplayTarget>>,
    /// Reasoning without a signature is sealed as well, as an entry of `reasoning_details` behind its text. It is for
    /// clients whose API has a signature or encrypted content beside each reasoning (Messages, Responses).
    pub seals_plain: bool,
    /// Custom tools that were sent as functions. Their calls become calls of custom tools.
    pub custom_tools: Vec<String>,
    /// Tools that were renamed: the name that was sent, and the client's name.
    pub tool_names: Vec<(String, String)>,
    /// The answer is in the client's own dialect, and the client gets it as it is.
    pub is_native: bool,
    /// The answer is in Anthropic's dialect. Only Vertex AI uses this, because it serves Claude beside Gemini.
    pub is_claude: bool,
    /// The breakpoints of the prompt cache that the request got.
    pub breakpoints: Breakpoints,
    /// The only stop sequence of the request, for a provider that tells that one ended the answer, but not which.
    pub only_stop: Option<String>,
}

/// The part of a request that one call carries. A provider that gives one choice, or takes one prompt, at a time is
/// called several times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChoiceRange {
    /// Number of choices per prompt.
    pub n: u32,
    /// Indexes of the prompts of a text completion; `0..1` for a chat.
    pub prompts: Range<usize>,
    /// The position of the first choice among all choices of its prompt. The seed of the call depends on it
    /// ([`gw_wire::request::seed_of_call`]).
    pub from: u32,
}

/// The upstream model of a call, and its limits.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The model's name at the provider.
    pub upstream_model: &'a str,
    /// The model's catalogue id.
    pub id: &'a str,
    /// Upper bound of `max_tokens` for a fallback candidate; None forwards the client's value.
    pub clamp_max_tokens: Option<u64>,
    /// The largest answer, in tokens, that the request can pay for. It is the limit where the client sets none, and the
    /// upper bound of the client's limit.
    pub most_tokens: Option<u64>,
    /// The largest answer of the model, in tokens, if the catalogue knows it.
    pub max_output_tokens: Option<u64>,
    /// The model's context in tokens, if the catalogue knows it.
    pub context_length: Option<u64>,
    /// The model's rules.
    pub rules: ModelRules,
    /// The provider's account, which seals the signatures of its answers. None: signatures travel as the provider gave
    /// them, and every signature counts as the target's own. The gateway always gives one.
    pub issuer: Option<&'a Issuer>,
    /// Breakpoints of the prompt cache for a request that has none; None: none are added.
    pub breakpoints: Option<BreakpointPlan>,
}

/// The breakpoints that a request without any gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakpointPlan {
    /// The time for which they ask.
    pub ttl: BreakpointTtl,
    /// They are held back now, because the cache costs the key more than it saves.
    pub is_held: bool,
}

/// The breakpoints that the gateway has added to a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Breakpoints {
    /// None: they are not configured, the client has set its own, or the provider takes none.
    #[default]
    None,
    /// One or more.
    Inserted,
    /// None, because the cache costs the key more than it saves.
    Held,
}

impl Target<'_> {
    /// The target as the owner of its reasoning.
    #[must_use]
    pub fn replay_target(&self) -> ReplayTarget {
        match self.issuer {
            Some(issuer) => issuer.target(self.upstream_model),
            None => ReplayTarget::unsealed(self.id),
        }
    }

    /// The client's token limit within the bounds of the target.
    #[must_use]
    pub fn max_tokens(&self, asked: Option<u64>) -> Option<u64> {
        let asked = asked.map(|asked| self.clamp_max_tokens.map_or(asked, |most| asked.min(most)));
        asked.into_iter().chain(self.most_tokens).min()
    }
}

/// The abilities of a dialect. A request that needs another ability is refused with a 400 before any call.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "a set of independent capabilities, not a state")]
pub struct Capabilities {
    /// OpenAI's own extras (custom tools, audio, unknown fields and parts) are forwarded unchanged.
    pub openai_fields: bool,
    /// `suffix` of text completions.
    pub suffix: bool,
    /// Token arrays are allowed as prompts and as inputs of embeddings.
    pub token_prompts: bool,
    /// Streams report usage on request (`stream_options`).
    pub stream_usage: bool,
    /// The provider fetches images by their address. Without this ability only image data can be sent.
    pub image_urls: bool,
    /// The most choices of one call. More choices need several calls.
    pub choices: u32,
    /// The most prompts of a text completion in one call.
    pub prompts: usize,
    /// The most tools of a request; None: the provider names no limit.
    pub max_tools: Option<usize>,
}

/// How a call carries the provider's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `Authorization: Bearer <key>`.
    Bearer,
    /// The bare key in the header with this name, which is in lower case.
    Header(&'static str),
}

/// Credentials that are computed for each call or fetched from time to time, such as signatures and OAuth tokens.
pub trait Signer: Send + Sync + fmt::Debug {
    /// Adds the credentials to a call that is otherwise complete. `url` is the target of the call, with the base path.
    fn sign<'a>(
        &'a self,
        call: &'a mut HttpCall,
        url: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>>;

    /// Whether the credentials depend on the body of the call.
    fn reads_body(&self) -> bool {
        false
    }

    /// The upstream has refused the credentials (401).
    fn refused(&self) {}

    /// The current secrets, so that they can be removed from the upstream's messages.
    fn secrets(&self) -> Vec<String>;
}

/// A provider's own list of models.
#[derive(Clone, Copy, Debug)]
pub struct ModelListing {
    /// The request for the list.
    pub call: fn() -> HttpCall,
    /// Reads the list. A body that is no list is an `InvalidResponse`.
    pub read: fn(&[u8]) -> Result<Vec<ListedModel>, Failure>,
}

/// The parts of a dialect that are the same for every request to a provider.
#[derive(Clone, Copy, Debug)]
pub struct DialectTraits {
    /// The abilities of the dialect.
    pub capabilities: Capabilities,
    /// How keys are sent. A provider with a [`Signer`] does not use this.
    pub scheme: Scheme,
    /// The media sizes of a model whose name is not recognised.
    pub media_sizes: MediaSizes,
    /// The provider's own list of models; None when it has none.
    pub models: Option<ModelListing>,
    /// The failure that a response other than 2xx means.
    pub classify: fn(u16, &HeaderMap, &[u8]) -> Failure,
}

/// A provider's dialect.
pub trait Adapter: Send + Sync + fmt::Debug {
    /// The parts that are the same for every request.
    fn traits(&self) -> &DialectTraits;

    /// Whether requests of this dialect are sent to the target as the client wrote them.
    fn speaks(&self, _: ClientDialect, _: &Target<'_>) -> bool {
        false
    }

    /// The facts that the provider's answers taught about its Responses API. None: nothing is learned, and the provider speaks the
    /// dialects that [`Adapter::speaks`] names, whatever it answers.
    fn native_responses(&self) -> Option<&NativeResponses> {
        None
    }

    /// The request that has the provider count the tokens of a chat's prompt. None: the provider has no counter for it.
    fn count(&self, _: &ChatRequest, _: &Target<'_>) -> Option<CountCall> {
        None
    }

    /// Encodes a chat completion.
    ///
    /// # Errors
    /// An `Unsupported` failure when the dialect cannot express the request.
    fn chat(
        &self,
        request: &ChatRequest,
        range: &ChoiceRange,
        target: &Target<'_>,
    ) -> Result<Encoded, Failure>;

    /// Encodes a text completion.
    ///
    /// # Errors
    /// Like [`Adapter::chat`].
    fn completion(
        &self,
        request: &CompletionRequest,
        range: &ChoiceRange,
        target: &Target<'_>,
    ) -> Result<Encoded, Failure>;

    /// Encodes embeddings of a range of the request's inputs.
    ///
    /// # Errors
    /// Like [`Adapter::chat`].
    fn embeddings(
        &self,
        request: &EmbeddingsRequest,
        inputs: Range<usize>,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure>;

    /// Reads a complete chat answer.
    ///
    /// # Errors
    /// `InvalidResponse`, or the failure that an error object inside a 200 describes.
    fn decode_chat<'a>(&self, body: &'a [u8], reading: &Reading) -> Result<ChatReply<'a>, Failure>;

    /// The usage in a complete answer that says that it failed, or that cannot be used. None: it tells none.
    fn failed_usage(&self, body: &[u8], reading: &Reading) -> Option<Usage>;

    /// Reads a complete text completion.
    ///
    /// # Errors
    /// Like [`Adapter::decode_chat`].
    fn decode_completion<'a>(&self, body: &'a [u8], reading: &Reading) -> Result<TextReply<'a>, Failure>;

    /// Reads embeddings, sorted by index: exactly `expected` vectors of one length.
    ///
    /// # Errors
    /// Like [`Adapter::decode_chat`].
    fn decode_embeddings<'a>(&self, body: &'a [u8], expected: usize) -> Result<EmbeddingsReply<'a>, Failure>;

    /// A new decoder of a stream.
    fn stream(&self, reading: &Reading) -> Box<dyn StreamDecoder>;
}

impl dyn Adapter + '_ {
    /// The abilities of the dialect.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.traits().capabilities
    }

    /// The tokens that a model bills for media, by the model's name at the provider and its catalogue id.
    #[must_use]
    pub fn media_sizes(&self, upstream_model: &str, id: &str) -> MediaSizes {
        MediaSizes::of([upstream_model, id], self.traits().media_sizes)
    }

    /// The failure that a response other than 2xx means.
    #[must_use]
    pub fn classify(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> Failure {
        (self.traits().classify)(status, headers, body)
    }

    /// Whether the provider speaks the dialects that [`Adapter::speaks`] names, whatever it answers.
    #[must_use]
    pub fn is_native_certain(&self) -> bool {
        self.native_responses().is_none_or(NativeResponses::is_certain)
    }

    /// Notes that the provider began to stream an answer in the client's own dialect.
    pub fn answered_native(&self) {
        if let Some(responses) = self.native_responses() {
            responses.note_answer();
        }
    }

    /// Notes a 404 or 405 for a request in the client's own dialect. Returns whether the request can be sent as a chat
    /// instead, because the provider does not know the URL.
    #[must_use]
    pub fn refused_native(&self, failure: &Failure, target: &Target<'_>) -> bool {
        let refused = |responses: &NativeResponses| responses.note_refusal(failure, target.upstream_model);
        self.native_responses().is_some_and(refused)
    }

    /// Forgets what the provider's answers taught, because the configuration is read again.
    pub fn forget_learned(&self) {
        if let Some(responses) = self.native_responses() {
            responses.forget();
        }
    }
}

/// A dialect configured for one provider.
#[derive(Debug)]
pub struct Built {
    /// The dialect.
    pub adapter: Box<dyn Adapter>,
    /// Credentials that need more than a key in a header; None uses the keys of the settings, see [`DialectTraits::scheme`].
    pub signer: Option<Arc<dyn Signer>>,
    /// The address when the settings have no `base_url` and a region or a project decides.
    pub base_url: Option<String>,
    /// The address of a second service of the provider, if it offers some of its surfaces at another host.
    pub second_url: Option<&'static str>,
    /// The one-shot surfaces beside embeddings.
    pub surfaces: Surfaces,
}

impl Built {
    /// A dialect with plain keys and a fixed address.
    #[must_use]
    pub fn new(adapter: Box<dyn Adapter>) -> Self {
        Self { adapter, signer: None, base_url: None, second_url: None, surfaces: Surfaces::default() }
    }
}

/// A model on a provider's own list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedModel {
    /// The name that clients use; never empty, and unique in the list.
    pub name: String,
    /// The provider's name for the model, if it differs.
    pub upstream_name: Option<String>,
    /// The category of a model that writes no text, if the list says so: `embedding`, `rerank`.
    pub only_category: Option<&'static str>,
    /// Tokens of prompt and answer together, if the list gives them.
    pub context_length: Option<u64>,
}

/// Converts the bytes of an upstream's stream into events. The events do not depend on how the network cuts the bytes.
pub trait StreamDecoder: Send {
    /// Takes the next bytes and passes every event that they complete to `sink`. A fault is an [`Event::Error`].
    fn feed(&mut self, chunk: &[u8], sink: &mut dyn FnMut(Event<'_>));

    /// Handles the regular end of the body. A last complete event without its blank line is still passed on.
    fn eof(&mut self, sink: &mut dyn FnMut(Event<'_>));

    /// Bytes that the decoder keeps: an incomplete event, and everything that is remembered until the stream ends. The
    /// decoder of an upstream's stream keeps at most 32 MiB. Beyond that it reports an [`Event::Error`] and keeps
    /// nothing.
    fn held_bytes(&self) -> usize;

    /// Bytes that are parsed when this chunk arrives, or at the end of the body (`None`). Parsing time is proportional
    /// to this number. It is 0 for a chunk that does not complete an event and is only stored.
    fn work_bytes(&self, chunk: Option<&[u8]>) -> usize;
}

impl<D: StreamDecoder + ?Sized> StreamDecoder for Box<D> {
    fn feed(&mut self, chunk: &[u8], sink: &mut dyn FnMut(Event<'_>)) {
        (**self).feed(chunk, sink);
    }

    fn eof(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        (**self).eof(sink);
    }

    fn held_bytes(&self) -> usize {
        (**self).held_bytes()
    }

    fn work_bytes(&self, chunk: Option<&[u8]>) -> usize {
        (**self).work_bytes(chunk)
    }
}

/// [`StreamDecoder::work_bytes`] of a stream whose events end with a line end. `pending` is the size of the incomplete
/// event.
pub(crate) fn work_by_lines(pending: usize, chunk: Option<&[u8]>) -> usize {
    match chunk {
        None => pending,
        Some(chunk) if memchr2(b'\n', b'\r', chunk).is_some() => pending.saturating_add(chunk.len()),
        Some(_) => 0,
    }
}
