//! The one-shot surfaces beside embeddings that a provider may offer. The constructor of its adapter puts in what it has.

use std::borrow::Cow;
use std::fmt;

use gw_wire::failure::{Failure, FailureKind};
use gw_wire::request::images::{ImagesReply, ImagesRequest};
use gw_wire::request::moderation::{ModerationReply, ModerationRequest};
use gw_wire::request::rerank::{RerankReply, RerankRequest};
use gw_wire::request::score::ScoreRequest;
use gw_wire::request::speech::SpeechRequest;
use gw_wire::request::transcription::{Transcript, TranscriptionRequest};
use gw_wire::usage::Usage;

use crate::adapter::{HttpCall, StreamDecoder, Target};
use crate::multipart::FormFile;

/// The form of a call, where servers of one dialect differ in the URL or in the names of members. Only the surface knows its
/// meaning; the usual form is 0.
pub type CallForm = u8;

/// The one-shot surfaces of one provider; None: it does not offer the surface.
#[derive(Debug, Default)]
pub struct Surfaces {
    /// The ranking of documents.
    pub rerank: Option<Box<dyn Rerank>>,
    /// The relevance of pairs of texts.
    pub score: Option<Box<dyn Score>>,
    /// The judgement of texts and images.
    pub moderation: Option<Box<dyn Moderation>>,
    /// The generation of images.
    pub images: Option<Box<dyn Images>>,
    /// The speech of texts.
    pub speech: Option<Box<dyn Speech>>,
    /// The texts of recordings.
    pub transcription: Option<Box<dyn Transcription>>,
    /// Sessions of speech and text over a WebSocket.
    pub realtime: Option<Box<dyn Realtime>>,
}

/// The forms in which the servers of a surface get calls. A surface whose servers all get one form leaves out the methods.
pub trait CallForms: Send + Sync {
    /// The form in which the provider gets the call.
    fn form(&self) -> CallForm {
        CallForm::default()
    }

    /// The form in which the call is sent again after a failure that says that the provider does not know the last form. The first
    /// form comes first, then the last one.
    fn next_form(&self, _: (CallForm, CallForm), _: &Failure, _: &Target<'_>) -> Option<CallForm> {
        None
    }

    /// Notes that the provider answered a call in another form than the first.
    fn learn_form(&self, _: CallForm) {}

    /// Forgets what the provider's answers taught.
    fn forget_learned(&self) {}
}

/// The ranking of documents by a query.
pub trait Rerank: CallForms + Send + Sync + fmt::Debug {
    /// Encodes the call.
    ///
    /// # Errors
    /// The dialect cannot express the request.
    fn encode(
        &self,
        request: &RerankRequest,
        form: CallForm,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure>;

    /// Reads a ranking of so many documents.
    ///
    /// # Errors
    /// `InvalidResponse`, or the failure that an error object inside a 200 describes.
    fn decode(&self, body: &[u8], documents: usize) -> Result<RerankReply, Failure>;
}

/// The relevance of pairs of texts.
pub trait Score: CallForms + Send + Sync + fmt::Debug {
    /// Encodes the call.
    fn encode(&self, request: &ScoreRequest, form: CallForm, target: &Target<'_>) -> HttpCall;

    /// Reads a score for each of so many pairs.
    ///
    /// # Errors
    /// `InvalidResponse`, or the failure that an error object inside a 200 describes.
    fn decode(&self, body: &[u8], pairs: usize) -> Result<RerankReply, Failure>;
}

/// The judgement of texts and images by categories.
pub trait Moderation: Send + Sync + fmt::Debug {
    /// Encodes the call.
    fn encode(&self, request: &ModerationRequest, target: &Target<'_>) -> HttpCall;

    /// Reads a result for each of so many inputs.
    ///
    /// # Errors
    /// `InvalidResponse`, or the failure that an error object inside a 200 describes.
    fn decode<'a>(&self, body: &'a [u8], inputs: usize) -> Result<ModerationReply<'a>, Failure>;
}

/// The generation of images.
pub trait Images: Send + Sync + fmt::Debug {
    /// The most images of one call.
    fn most_images(&self) -> usize {
        usize::MAX
    }

    /// Checks whether the provider can do all that the request asks for.
    ///
    /// # Errors
    /// The missing ability, as the end of a sentence about the model.
    fn check(&self, _: &ImagesRequest) -> Result<(), &'static str> {
        Ok(())
    }

    /// Whether it makes images from images.
    fn takes_images(&self) -> bool {
        false
    }

    /// Encodes the call for so many images that are made from these files.
    ///
    /// # Errors
    /// The dialect cannot express the request.
    fn encode_form(
        &self,
        _: &ImagesRequest,
        _: usize,
        _: &[FormFile],
        _: &Target<'_>,
    ) -> Result<HttpCall, Failure> {
        Err(Failure::new(FailureKind::Unsupported, "This provider makes no images from images."))
    }

    /// Encodes the call for so many images.
    ///
    /// # Errors
    /// The dialect cannot express the request.
    fn encode(
        &self,
        request: &ImagesRequest,
        images: usize,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure>;

    /// Reads an answer.
    ///
    /// # Errors
    /// `InvalidResponse`, or the failure that an error object inside a 200 describes.
    fn decode<'a>(&self, body: &'a [u8]) -> Result<ImagesReply<'a>, Failure>;

    /// The decoder of a stream. A provider without streams answers with a document, which becomes a stream.
    fn stream(&self, request: &ImagesRequest) -> Box<dyn StreamDecoder>;
}

/// A sound that came in one JSON document.
#[derive(Debug)]
pub struct WholeSound<'a> {
    /// The file.
    pub sound: Cow<'a, [u8]>,
    /// The usage, if it is reported.
    pub usage: Option<Usage>,
}

/// The speech of texts.
pub trait Speech: Send + Sync + fmt::Debug {
    /// Checks whether the provider can do all that the request asks for.
    ///
    /// # Errors
    /// The missing ability, as the end of a sentence about the model.
    fn check(&self, _: &SpeechRequest) -> Result<(), &'static str> {
        Ok(())
    }

    /// Encodes the call.
    ///
    /// # Errors
    /// The dialect cannot express the request.
    fn encode(&self, request: &SpeechRequest, target: &Target<'_>) -> Result<HttpCall, Failure>;

    /// Reads an answer that is one JSON document.
    ///
    /// # Errors
    /// The failure that it describes, or `InvalidResponse`.
    fn decode<'a>(&self, body: &'a [u8], request: &SpeechRequest) -> Result<WholeSound<'a>, Failure>;

    /// The decoder of an answer of this media type.
    fn stream(&self, request: &SpeechRequest, media_type: &str) -> Box<dyn StreamDecoder>;
}

/// The texts of recordings.
pub trait Transcription: Send + Sync + fmt::Debug {
    /// Checks whether the provider can do all that the request asks for.
    ///
    /// # Errors
    /// The missing ability, as the end of a sentence about the model.
    fn check(&self, _: &TranscriptionRequest) -> Result<(), &'static str> {
        Ok(())
    }

    /// The most bytes of a recording.
    fn most_file_bytes(&self) -> u64 {
        u64::MAX
    }

    /// Encodes the call.
    ///
    /// # Errors
    /// The dialect cannot express the request.
    fn encode(
        &self,
        request: &TranscriptionRequest,
        file: &FormFile,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure>;

    /// Reads an answer.
    ///
    /// # Errors
    /// `InvalidResponse`, or the failure that an error object inside a 200 describes.
    fn decode<'a>(&self, body: &'a [u8], request: &TranscriptionRequest) -> Result<Transcript<'a>, Failure>;

    /// The decoder of a stream. A provider without streams answers with a document, which becomes a stream.
    fn stream(&self) -> Box<dyn StreamDecoder>;
}

/// Sessions of speech and text over a WebSocket.
pub trait Realtime: Send + Sync + fmt::Debug {
    /// The handshake, without the headers that every WebSocket has. `is_beta`: the client speaks the protocol before the general one.
    fn encode(&self, is_beta: bool, target: &Target<'_>) -> HttpCall;

    /// The usage of a response, from the JSON of its `usage`. None: it is none.
    fn usage(&self, usage: &str) -> Option<Usage>;

    /// The usage of the transcript of what a client said. None: it is none.
    fn transcript_usage(&self, usage: &str) -> Option<Usage>;
}

impl Surfaces {
    /// Forgets what the provider's answers taught, because the configuration is read again.
    pub fn forget_learned(&self) {
        if let Some(rerank) = &self.rerank {
            rerank.forget_learned();
        }
        if let Some(score) = &self.score {
            score.forget_learned();
        }
    }
}
