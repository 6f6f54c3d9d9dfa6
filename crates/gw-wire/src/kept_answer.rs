//! A kept answer written for one request without reading it: the members of the request are put between the bytes that were kept.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use memchr::memmem;

use crate::render::{DocumentPlaces, Envelope, finish_of, gateway, put, put_int, put_word, usage};
use crate::reply::{ChatChoice, ChatReply, Finish};
use crate::stream::Shape;
use crate::usage::Usage;

/// The members before the model, which a kept document does not have.
const KEPT_START: &[u8] = b"{\"model\":";

/// Where the members of a request are put into a kept document, once it is known.
///
/// The answers to the first two hits are read and written whole. The second one shows that the entry stays in memory, so that it is worth
/// learning the places: an entry out of Redis is made anew for each hit. The places are kept only if putting its members there gives the same
/// bytes, so an answer never depends on whether the places are known. They belong to one document: a clone knows nothing.
#[derive(Debug, Default)]
pub struct KeptPlaces {
    place: OnceLock<Option<Place>>,
    is_written: AtomicBool,
}

/// The place behind the counts of the usage, where the cost is put.
#[derive(Clone, Copy, Debug)]
struct Place {
    counts_end: usize,
}

impl Clone for KeptPlaces {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for KeptPlaces {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for KeptPlaces {}

impl KeptPlaces {
    /// The answer to a request; None if the places are not known, or the document needs to be read.
    #[must_use]
    pub fn fill(&self, shape: Shape, kept: &[u8], envelope: &Envelope<'_>) -> Option<Vec<u8>> {
        filled((*self.place.get()?)?, shape, kept, envelope)
    }

    /// Notes that an answer was written whole. The second one from the same document teaches the places.
    pub fn note(&self, shape: Shape, kept: &[u8], envelope: &Envelope<'_>, written: &[u8]) {
        if !self.is_written.swap(true, Ordering::Relaxed) {
            return;
        }
        self.place.get_or_init(|| {
            let mut counts = b"\"usage\":".to_vec();
            usage(&mut counts, &envelope.usage, None);
            let end = memmem::rfind(kept, &counts)?.checked_add(counts.len())?;
            // Without the closing brace.
            let place = Place { counts_end: end.checked_sub(1)? };
            filled(place, shape, kept, envelope).filter(|filled| *filled == written).map(|_| place)
        });
    }
}

fn filled(place: Place, shape: Shape, kept: &[u8], envelope: &Envelope<'_>) -> Option<Vec<u8>> {
    let (before, after) = kept.split_at_checked(place.counts_end)?;
    let before = before.strip_prefix(KEPT_START)?;
    let after = after.strip_suffix(b"}")?;
    let mut out = Vec::with_capacity(kept.len() + 768);
    put(&mut out, "{\"id\":");
    put_word(&mut out, envelope.id);
    let object = match shape {
        Shape::Chat => ",\"object\":\"chat.completion\",\"created\":",
        Shape::Text => ",\"object\":\"text_completion\",\"created\":",
    };
    put(&mut out, object);
    put_int(&mut out, envelope.created);
    put(&mut out, ",\"model\":");
    out.extend_from_slice(before);
    put(&mut out, ",\"cost_usd\":");
    envelope.cost.unwrap_or_default().write(&mut out);
    out.extend_from_slice(after);
    put(&mut out, ",\"gateway\":");
    gateway(&mut out, envelope.gateway);
    out.push(b'}');
    Some(out)
}

/// A chat answer for the response cache.
#[derive(Debug)]
pub struct KeptChat {
    /// The document.
    pub body: Vec<u8>,
    /// The finish reason of each choice, in the order of the document.
    pub finishes: Vec<Finish>,
}

impl KeptChat {
    /// The answer for the response cache, cut out of the complete document; None if the answer has parts beside texts and calls
    /// of tools, or a call whose arguments are not JSON. Only a document that was read again shows how a reader sees those.
    #[must_use]
    pub fn cut_out(
        places: &DocumentPlaces,
        reply: &ChatReply<'_>,
        document: &[u8],
        counted: &Usage,
    ) -> Option<Self> {
        let is_plain = |text: &Option<Cow<'_, str>>| text.as_deref() != Some("");
        let is_simple = |choice: &ChatChoice<'_>| {
            choice.function_call.is_none()
                && choice.images.is_empty()
                && choice.extras.is_empty()
                && choice.logprobs.is_none()
                && !choice.has_broken_call()
                && is_plain(&choice.refusal)
        };
        let has_choices = !reply.choices.is_empty() && reply.choices.iter().all(is_simple);
        if !has_choices || !reply.members.is_empty() || !is_plain(&reply.fingerprint) {
            return None;
        }
        let before = document.get(places.model..places.usage.start)?;
        let after = document.get(places.usage.end..places.gateway)?;
        let mut body = Vec::with_capacity(KEPT_START.len() + before.len() + after.len() + 192);
        body.extend_from_slice(KEPT_START);
        body.extend_from_slice(before);
        usage(&mut body, counted, None);
        body.extend_from_slice(after);
        body.push(b'}');
        // The text stays in the cache, so the buffer's spare capacity is returned.
        body.shrink_to_fit();
        let mut order: Vec<&ChatChoice<'_>> = reply.choices.iter().collect();
        order.sort_by_key(|choice| choice.index);
        Some(Self { body, finishes: order.into_iter().map(finish_of).collect() })
    }
}
