//! A validated request of any operation, and how it is said to a candidate.

use std::borrow::Cow;

use gw_providers::adapter::{Encoded, Target};
use gw_wire::failure::Failure;
use gw_wire::request::{
    Body, ChatRequest, CompletionRequest, EmbeddingsRequest, GuardedMember, Inputs, Prompt, PromptExtras,
    References, Routing,
};

use crate::capability::Wanted;
use crate::plan::Candidate;
use crate::share::{self, Part};

/// A validated request of any operation.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    Chat(Box<ChatRequest>),
    Completion(Box<CompletionRequest>),
    Embeddings(Box<EmbeddingsRequest>),
}

impl Ask {
    pub(crate) fn wants_stream(&self) -> bool {
        match self {
            Self::Chat(request) => request.stream,
            Self::Completion(request) => request.stream,
            Self::Embeddings(_) => false,
        }
    }

    pub(crate) fn prompt_bytes(&self) -> u64 {
        match self {
            Self::Chat(request) => request.prompt_bytes,
            Self::Completion(request) => request.prompt_bytes,
            Self::Embeddings(request) => request.prompt_bytes,
        }
    }

    /// How the client wants it routed. Embeddings have no such wish.
    pub(crate) fn routing(&self) -> Option<&Routing> {
        match self {
            Self::Chat(request) => Some(&request.routing),
            Self::Completion(request) => Some(&request.routing),
            Self::Embeddings(_) => None,
        }
    }

    /// What a model must be able to do for it.
    pub(crate) fn wanted(&self) -> Wanted<'_> {
        match self {
            Self::Chat(request) => Wanted::Chat { needs: &request.needs, n: request.n },
            Self::Completion(request) => Wanted::Completion {
                suffix: request.suffix,
                tokens: request.prompts.iter().any(|prompt| matches!(prompt, Prompt::Tokens(_))),
                n: request.n,
                prompts: request.prompts.len(),
            },
            Self::Embeddings(request) => Wanted::Embeddings {
                dimensions: request.dimensions,
                tokens: matches!(request.inputs, Inputs::Tokens(_)),
                inputs: request.inputs.len(),
                repeated: request.fixed_members(),
            },
        }
    }

    /// The request's references to what lies at a provider.
    pub(crate) fn references(&self) -> &References {
        match self {
            Self::Chat(request) => &request.references,
            Self::Completion(request) => &request.references,
            Self::Embeddings(request) => &request.references,
        }
    }

    /// Its members that choose a model, an upstream or a price.
    pub(crate) fn guarded(&self) -> &[GuardedMember] {
        match self {
            Self::Chat(request) => &request.guarded,
            Self::Completion(request) => &request.guarded,
            Self::Embeddings(request) => &request.guarded,
        }
    }

    /// The model as the client wrote it.
    pub(crate) fn model(&self) -> &str {
        match self {
            Self::Chat(request) => &request.model,
            Self::Completion(request) => &request.model,
            Self::Embeddings(request) => &request.model,
        }
    }

    /// The request's `user`.
    pub(crate) fn user(&self) -> Option<Cow<'_, str>> {
        self.body().view("user")?.string()
    }

    /// The members that hold the client's words, as JSON.
    pub(crate) fn prompts(&self) -> impl Iterator<Item = &[u8]> {
        let members = ["messages", "prompt", "input", "suffix"];
        members.into_iter().filter_map(|name| Some(self.body().view(name)?.text().as_bytes()))
    }

    fn body(&self) -> &Body {
        match self {
            Self::Chat(request) => &request.body,
            Self::Completion(request) => &request.body,
            Self::Embeddings(request) => &request.body,
        }
    }

    /// What is in the prompt beside its text.
    pub(crate) fn beside(&self) -> Cow<'_, PromptExtras> {
        match self {
            Self::Chat(request) => Cow::Borrowed(&request.extras),
            Self::Completion(request) => Cow::Borrowed(&request.extras),
            Self::Embeddings(request) => {
                Cow::Owned(PromptExtras { frames: request.inputs.len() as u64, ..PromptExtras::default() })
            }
        }
    }

    /// How many answers it may get, those included that are made only to choose from.
    pub(crate) fn answers(&self) -> u64 {
        match self {
            Self::Chat(request) => u64::from(request.n),
            Self::Completion(request) => {
                u64::from(request.n.max(request.best_of)).saturating_mul(request.prompts.len() as u64)
            }
            Self::Embeddings(_) => 0,
        }
    }

    /// The client's bound on the tokens of an answer.
    pub(crate) fn max_tokens(&self) -> Option<u64> {
        match self {
            Self::Chat(request) => request.max_tokens,
            Self::Completion(request) => request.max_tokens,
            Self::Embeddings(_) => Some(0),
        }
    }

    /// The upstream calls it becomes at a candidate. Embeddings are split otherwise, see `embed.rs`.
    pub(crate) fn parts(&self, candidate: &Candidate) -> Vec<Part> {
        let can = candidate.provider.adapter().capabilities();
        match self {
            Self::Chat(request) => share::parts(&can, request.n, 1),
            Self::Completion(request) => share::parts(&can, request.n, request.prompts.len()),
            Self::Embeddings(_) => Vec::new(),
        }
    }

    /// How many upstream calls it becomes at a candidate.
    pub(crate) fn calls(&self, candidate: &Candidate) -> usize {
        match self {
            Self::Embeddings(request) => {
                request.inputs.len().div_ceil(candidate.provider.embedding_batch().max(1))
            }
            _ => self.parts(candidate).len(),
        }
    }

    /// A part of the request in the provider's dialect.
    pub(crate) fn encode(
        &self,
        candidate: &Candidate,
        part: &Part,
        most_tokens: Option<u64>,
    ) -> Result<Encoded, Failure> {
        let target = Target { most_tokens, ..target(candidate) };
        let adapter = candidate.provider.adapter();
        match self {
            Self::Chat(request) => adapter.chat(request, &part.share, &target),
            Self::Completion(request) => adapter.completion(request, &part.share, &target),
            Self::Embeddings(request) => {
                adapter.embeddings(request, 0..request.inputs.len(), &target).map(Encoded::plain)
            }
        }
    }
}

/// How a candidate is named to its adapter. A fallback must not fail on a limit that the client could not know.
pub(crate) fn target(candidate: &Candidate) -> Target<'_> {
    let model = &candidate.model;
    Target {
        upstream_model: &model.upstream_model,
        id: &model.id,
        most_tokens: None,
        clamp_max_tokens: candidate.is_fallback.then_some(model.max_output_tokens).flatten(),
        max_output_tokens: model.max_output_tokens,
        context_length: model.context_length,
        rules: model.rules,
    }
}
