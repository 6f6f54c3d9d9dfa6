//! A one-shot request: one JSON request, one JSON answer and no generated text. A surface may have a stream, too. A surface of this kind implements
//! [`OneShot`], and everything else treats all of them alike.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use gw_providers::adapter::{HttpCall, StreamDecoder, Target};
use gw_providers::multipart::FileSource;
use gw_providers::provider::Provider;
use gw_providers::surfaces::{CallForm, CallForms};
use gw_wire::dialects::AnswerForm;
use gw_wire::event::Event;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::money::Money;
use gw_wire::operation::PlainOperation;
use gw_wire::request::{Body, EmbeddingsRequest, GuardedMember, References, Routing};
use gw_wire::usage::{Units, Usage};

use crate::catalog::Model;
use crate::error::Error;

/// Tokens of the role, the separators and the chat template around a message, a prompt or an input.
pub(crate) const FRAME_TOKENS: u64 = 8;

/// The facts that every one-shot request has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OneShotFacts<'a> {
    /// The received body.
    pub(crate) body: &'a Body,
    /// The model as the client wrote it.
    pub(crate) model: &'a str,
    /// The bytes of the prompt.
    pub(crate) prompt_bytes: u64,
    /// The references to data that is stored at a provider.
    pub(crate) references: &'a References,
    /// The members that choose a model, an upstream or a price.
    pub(crate) guarded: &'a [GuardedMember],
    /// The client's routing options, if the surface has them.
    pub(crate) routing: Option<&'a Routing>,
}

/// Implements [`OneShot::facts`] for a request with a member of each fact's name.
macro_rules! facts_of_members {
    () => {
        fn facts(&self) -> $crate::request::one_shot::OneShotFacts<'_> {
            $crate::request::one_shot::OneShotFacts {
                body: &self.body,
                model: &self.model,
                prompt_bytes: self.prompt_bytes,
                references: &self.references,
                guarded: &self.guarded,
                routing: Some(&self.routing),
            }
        }
    };
}

pub(crate) use facts_of_members;

/// The size of one upstream call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OneShotSize {
    /// The estimated tokens of its inputs.
    pub(crate) prompt_tokens: u64,
    /// Those of them that are sound.
    pub(crate) audio_tokens: u64,
    /// Those of them that are images.
    pub(crate) image_tokens: u64,
    /// How many inputs it has.
    pub(crate) inputs: u64,
    /// How many answers with tokens of their own it has.
    pub(crate) answers: u64,
    /// Its units other than tokens.
    pub(crate) units: Units,
    /// The most units that its provider may count. Budgets set them aside.
    pub(crate) most: Option<Units>,
}

/// Tells the size of a call whose upload is complete.
pub(crate) type SizeOfUpload = Box<dyn Fn() -> OneShotSize + Send + Sync>;

/// The answers of a request's upstream calls, in the order of the parts that they answer.
pub(crate) trait OneShotAnswers {
    /// The id of the client's answer.
    fn id(&self) -> &str;

    /// The number of answers.
    fn len(&self) -> usize;

    /// An answer, and the number of parts that it is for.
    fn get(&self, place: usize) -> Option<(&Bytes, usize)>;

    /// Takes an answer. Its bytes may be reused for the client's answer.
    fn take(&mut self, place: usize) -> Bytes;

    /// Notes what an answer reports of its usage, or why it cannot be read.
    fn note(&self, place: usize, reported: Result<Option<Usage>, &Failure>);

    /// The usage of all answers, which the client is told.
    fn usage(&self) -> Usage;

    /// The cost of all answers; None = a price is unknown.
    fn cost(&self) -> Option<Money>;
}

/// A validated one-shot request.
pub(crate) trait OneShot: fmt::Debug + Send + Sync {
    /// The operation.
    fn operation(&self) -> PlainOperation;

    /// The facts that every such request has.
    fn facts(&self) -> OneShotFacts<'_>;

    /// Names the model of a request whose client named none. Only a surface on which the model is optional has such a request.
    fn name_model(&mut self, _: &str) {}

    /// The number of its parts, which may go to the provider in several calls.
    fn parts(&self) -> usize {
        1
    }

    /// The most parts of one call to the provider.
    fn batch(&self, _: &Provider) -> usize {
        usize::MAX
    }

    /// The size of the call for these parts.
    fn size(&self, parts: Range<usize>) -> OneShotSize;

    /// The size of the only call, to be asked when the upstream has the whole upload. None: the size is known before.
    fn size_of_upload(&self) -> Option<SizeOfUpload> {
        None
    }

    /// The most tokens of one answer.
    fn answer_tokens(&self) -> u64 {
        0
    }

    /// Checks the capabilities that a model of its category may lack.
    ///
    /// # Errors
    /// The missing capability.
    fn check(&self, model: &Model, provider: &Provider) -> Result<(), Error>;

    /// The file of the request, while the client still sends it.
    fn coming_file(&self) -> Option<Arc<dyn FileSource>> {
        None
    }

    /// Whether a slow call may be followed by a second one at another provider. The cost of the slower call must be known without its
    /// answer.
    fn may_be_hedged(&self) -> bool {
        true
    }

    /// The forms of its calls to this provider, if servers of the provider's dialect differ.
    fn forms<'a>(&self, _: &'a Provider) -> Option<&'a dyn CallForms> {
        None
    }

    /// Encodes the call for these parts.
    ///
    /// # Errors
    /// The provider's dialect cannot express it.
    fn encode(
        &self,
        provider: &Provider,
        parts: Range<usize>,
        form: CallForm,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure>;

    /// The bytes of a usual answer for so many parts.
    fn answer_bytes(&self, parts: usize) -> usize;

    /// The usage that an answer for so many parts reports.
    ///
    /// # Errors
    /// The answer cannot be read.
    fn meter(&self, provider: &Provider, body: &[u8], parts: usize) -> Result<Option<Usage>, Failure>;

    /// Reads the answers, notes the usage of each, and writes the client's answer.
    ///
    /// # Errors
    /// An answer cannot be read.
    fn write(&self, provider: &Provider, answers: &mut dyn OneShotAnswers) -> Result<Bytes, Failure>;

    /// The media type of an answer that is no JSON, as the client asked for it. The upstream's own stands before it.
    fn media_type(&self) -> Option<&'static str> {
        None
    }

    /// Whether the client wants a stream.
    fn wants_stream(&self) -> bool {
        false
    }

    /// Writes the stream that the client gets.
    fn form(&self) -> Option<Arc<dyn AnswerForm>> {
        None
    }

    /// The decoder of the provider's stream, which has this media type.
    fn decoder(&self, _: &Provider, _: &str) -> Option<Box<dyn StreamDecoder>> {
        None
    }

    /// Plays a complete answer as the events of a stream.
    ///
    /// # Errors
    /// The answer cannot be read.
    fn replay(&self, _: &Provider, _: &[u8], _: &mut dyn FnMut(Event<'_>)) -> Result<(), Failure> {
        Err(Failure::new(FailureKind::InvalidResponse, "The upstream's answer is not a stream."))
    }

    /// The request, if it asks for embeddings. The response cache keeps each of its vectors by itself.
    fn embeddings(&self) -> Option<&EmbeddingsRequest> {
        None
    }
}
