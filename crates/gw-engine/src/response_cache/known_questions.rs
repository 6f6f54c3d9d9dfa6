//! Questions that the cache has answered before. A program that asks the same again mostly sends the same bytes, so its body need not be
//! read and hashed again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use foldhash::quality::RandomState;
use gw_cache::{Key, Scope};
use gw_wire::operation::PlainOperation;
use gw_wire::request::{ChatRequest, RequestLimits};
use parking_lot::Mutex;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::auth::Caller;
use crate::call::Call;
use crate::catalog::Model;
use crate::plan::candidate::Candidate;
use crate::request::ValidatedRequest;
use crate::response_cache::question::CandidateIdentities;

/// The memory of all known questions.
const MAX_BYTES: u64 = 8 << 20;
/// The longest body that is kept.
const MAX_BODY_BYTES: usize = 64 << 10;
/// The most members of a body that is kept.
const MAX_MEMBERS: usize = 64;
/// About what a candidate and its identity take.
const CANDIDATE_BYTES: usize = 256;
/// About how many questions the table has room for.
const USUAL_QUESTIONS: usize = 2_048;
/// Questions that were answered from the cache once. Only a question that is answered so again is kept: its body is copied.
const ASKED_ONCE: usize = 256;

/// A body that was read, with the key of its answer.
#[derive(Debug)]
pub(crate) struct KnownQuestion {
    /// Only this API key finds it: nobody learns from response times what others ask.
    key_id: Arc<str>,
    limits: RequestLimits,
    request: ChatRequest,
    /// The memory that the table counts. It never changes, because the table subtracts it again.
    bytes: u64,
    answer: Mutex<KnownAnswer>,
}

/// The parts of an answer's key that do not stand in the body, and the key.
#[derive(Debug)]
struct KnownAnswer {
    scope: Scope,
    identities: CandidateIdentities,
    /// The candidates that the identities were made of.
    candidates: Vec<KnownCandidate>,
    key: Key,
}

/// A candidate without what changes from call to call.
#[derive(Debug)]
struct KnownCandidate {
    model: Arc<Model>,
    provider_identity: u64,
    group: u32,
    is_upgrade: bool,
}

impl KnownCandidate {
    fn of(candidate: &Candidate) -> Self {
        let Candidate { model, provider, group, is_upgrade, .. } = candidate;
        let model = Arc::clone(model);
        Self { model, provider_identity: provider.identity(), group: *group, is_upgrade: *is_upgrade }
    }

    fn is(&self, candidate: &Candidate) -> bool {
        Arc::ptr_eq(&self.model, &candidate.model)
            && self.provider_identity == candidate.provider.identity()
            && (self.group, self.is_upgrade) == (candidate.group, candidate.is_upgrade)
    }
}

fn known_candidates(call: &Call) -> Vec<KnownCandidate> {
    call.plan.candidates.iter().map(KnownCandidate::of).collect()
}

impl KnownAnswer {
    fn new(scope: Scope, identities: CandidateIdentities, call: &Call, key: Key) -> Self {
        Self { scope, identities, candidates: known_candidates(call), key }
    }

    /// Whether these are the same candidates in the same order, which nearly all calls have.
    fn has(&self, candidates: &[Candidate]) -> bool {
        self.candidates.len() == candidates.len()
            && self.candidates.iter().zip(candidates).all(|(known, candidate)| known.is(candidate))
    }
}

impl KnownQuestion {
    /// The body as it was read. None: it was read within other limits.
    pub(crate) fn request(&self, limits: &RequestLimits) -> Option<ValidatedRequest> {
        (self.limits == *limits).then(|| ValidatedRequest::Chat(Box::new(self.request.clone())))
    }

    /// The key of the answer to this body, if the candidates and their order are those of the last note. This compares pointers. To
    /// write the identities as texts costs more.
    pub(super) fn key_in_order(&self, scope: &Scope, candidates: &[Candidate]) -> Option<Key> {
        let answer = self.answer.lock();
        (answer.scope == *scope && answer.has(candidates)).then_some(answer.key)
    }

    /// The key of the answer to this body, with a note of the candidates for the next call. None: the key is not known for this scope
    /// and these candidates.
    pub(super) fn key(&self, scope: &Scope, identities: &CandidateIdentities, call: &Call) -> Option<Key> {
        let mut answer = self.answer.lock();
        if answer.scope != *scope || answer.identities != *identities {
            return None;
        }
        // The catalogue may have new entries for the models.
        answer.candidates = known_candidates(call);
        Some(answer.key)
    }

    /// Notes the key of the answer for another scope or other candidates.
    pub(super) fn note(&self, scope: Scope, identities: CandidateIdentities, call: &Call, key: Key) {
        *self.answer.lock() = KnownAnswer::new(scope, identities, call, key);
    }
}

#[derive(Clone, Debug)]
struct Weight;

impl Weighter<u64, Arc<KnownQuestion>> for Weight {
    fn weight(&self, _: &u64, question: &Arc<KnownQuestion>) -> u64 {
        question.bytes
    }
}

/// The questions that the cache has answered before.
#[derive(Debug)]
pub(crate) struct KnownQuestions {
    known: Cache<u64, Arc<KnownQuestion>, Weight>,
    /// Whether a question may be known. Otherwise no body is hashed.
    is_any: AtomicBool,
    asked_once: [AtomicU64; ASKED_ONCE],
    hasher: RandomState,
}

impl Default for KnownQuestions {
    fn default() -> Self {
        Self {
            known: Cache::with_weighter(USUAL_QUESTIONS, MAX_BYTES, Weight),
            is_any: AtomicBool::new(false),
            asked_once: std::array::from_fn(|_| AtomicU64::new(0)),
            hasher: RandomState::default(),
        }
    }
}

impl KnownQuestions {
    fn place(&self, caller: &Caller, body: &[u8]) -> u64 {
        use std::hash::{BuildHasher, Hasher};
        let mut hasher = self.hasher.build_hasher();
        hasher.write(caller.key_id().as_bytes());
        hasher.write(body);
        hasher.finish()
    }

    /// The question with this body.
    pub(crate) fn find(
        &self,
        operation: PlainOperation,
        caller: &Caller,
        body: &Bytes,
    ) -> Option<Arc<KnownQuestion>> {
        let is_any = self.is_any.load(Ordering::Relaxed);
        if !is_any || operation != PlainOperation::Chat || body.len() > MAX_BODY_BYTES {
            return None;
        }
        let found = self.known.get(&self.place(caller, body))?;
        (found.key_id == *caller.key_id() && found.request.body.bytes() == body).then_some(found)
    }

    /// Notes that a question was answered from the cache, under this key.
    pub(super) fn note(&self, call: &Call, scope: Scope, key: Key) {
        let (client, snapshot) = (&call.context.client, &call.context.snapshot);
        let ValidatedRequest::Chat(request) = &call.context.request else { return };
        let body = request.body.bytes();
        // A request in another dialect has two bodies, and fetched images are not kept.
        let is_plain = request.client.is_none() && request.images.is_none();
        if !is_plain || body.len() > MAX_BODY_BYTES || request.body.members().count() > MAX_MEMBERS {
            return;
        }
        let place = self.place(&client.caller, body);
        // The shift leaves a place in the list.
        let Some(once) = self.asked_once.get((place >> 56) as usize) else { return };
        if once.swap(place, Ordering::Relaxed) != place {
            return;
        }
        // The body may be a slice of a larger buffer.
        let request = ChatRequest { body: request.body.detached(), ..(**request).clone() };
        // The parts of the request that were read hardly take more than its text.
        let read = 2 * body.len() + request.body.members().count() * 64;
        let candidates = call.plan.candidates.len() * CANDIDATE_BYTES;
        let question = KnownQuestion {
            bytes: (size_of::<KnownQuestion>() + read + candidates) as u64,
            key_id: Arc::clone(client.caller.key_id()),
            limits: snapshot.request_limits,
            request,
            answer: Mutex::new(KnownAnswer::new(scope, CandidateIdentities::of(call), call, key)),
        };
        self.known.insert(place, Arc::new(question));
        self.is_any.store(true, Ordering::Relaxed);
    }

    /// Forgets all questions.
    pub(crate) fn clear(&self) {
        self.is_any.store(false, Ordering::Relaxed);
        self.known.clear();
    }
}
