//! Rerank at servers of OpenAI's dialect. OpenAI has no rerank, so servers agree on the answer but not on the URL: Jina,
//! Voyage and vLLM have it below `/v1`, and others beside it. TEI (huggingface.github.io/text-embeddings-inference) takes
//! `texts` and answers with the bare list.

use std::sync::atomic::{AtomicU8, Ordering};

use gw_wire::failure::{Failure, FailureKind};
use gw_wire::json::{ObjectWriter, write_array};
use gw_wire::request::rerank::{RankedDocument, RerankReply, RerankRequest};
use gw_wire::usage::{Unit, Units, Usage};
use serde_json::Value;
use serde_json::value::RawValue;

use super::lenient::{LenientNumber, LenientText, RawText, lenient_members};
use super::usage;
use crate::adapter::{HttpCall, Target};
use crate::adapters::counts::count;
use crate::adapters::failure::{body_text, invalid, invalid_json, reported};
use crate::adapters::http_call::{JSON, post_json};
use crate::missing_model::names_model;
use crate::surfaces::{CallForm, CallForms, Rerank};

/// The URL stands beside `/v1`, and not below it.
pub(super) const AT_ROOT: CallForm = 1;
/// The documents are called `texts`.
const TEXTS: CallForm = 2;

/// The rerank of one provider.
#[derive(Debug)]
pub(in crate::adapters) struct OpenAiRerank {
    /// The provider's name for `top_n`.
    top_n: &'static str,
    urls: SurfaceUrls,
    /// The form that the provider answered last.
    learned: AtomicU8,
}

impl OpenAiRerank {
    /// The rerank of a provider with this name for `top_n`.
    pub(in crate::adapters) fn new(top_n: &'static str, urls: SurfaceUrls) -> Self {
        Self { top_n, urls, learned: AtomicU8::default() }
    }
}

impl CallForms for OpenAiRerank {
    fn form(&self) -> CallForm {
        self.learned.load(Ordering::Relaxed)
    }

    fn next_form(
        &self,
        (first, last): (CallForm, CallForm),
        failure: &Failure,
        target: &Target<'_>,
    ) -> Option<CallForm> {
        match failure.status {
            // TEI's "missing field `texts`". A message may quote the client's words, so the name is changed once.
            Some(400 | 422) => {
                let wanted = if last & TEXTS == 0 { "texts" } else { "documents" };
                ((first ^ last) & TEXTS == 0 && misses(failure, wanted)).then_some(last ^ TEXTS)
            }
            _ => self.urls.other((first, last), failure, target),
        }
    }

    fn learn_form(&self, form: CallForm) {
        self.learned.store(form, Ordering::Relaxed);
    }

    fn forget_learned(&self) {
        self.learned.store(CallForm::default(), Ordering::Relaxed);
    }
}

impl Rerank for OpenAiRerank {
    fn encode(
        &self,
        request: &RerankRequest,
        form: CallForm,
        target: &Target<'_>,
    ) -> Result<HttpCall, Failure> {
        let mut out = Vec::with_capacity(request.body.bytes().len() + 128);
        let mut body = ObjectWriter::begin(&mut out);
        body.string("model", target.upstream_model);
        if form & TEXTS == 0 {
            write_rerank(&mut body, request, self.top_n);
            // The gateway has the documents.
            body.boolean("return_documents", false);
        } else {
            body.raw("query", request.query());
            write_documents(&mut body, "texts", request);
        }
        body.finish();
        Ok(post_json(if form & AT_ROOT == 0 { "/rerank" } else { "/../rerank" }, out, JSON))
    }

    fn decode(&self, body: &[u8], documents: usize) -> Result<RerankReply, Failure> {
        decode(body, documents)
    }
}

/// The URLs at which a provider may have a surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::adapters) enum SurfaceUrls {
    /// Below the base URL, whose last segment is `v1`, or beside `v1`.
    BelowOrBesideV1,
    /// Below the base URL.
    Below,
}

impl SurfaceUrls {
    /// The URLs of a provider with this base URL. None: the usual one, which ends in `/v1`.
    pub(super) fn of(base_url: Option<&str>) -> Self {
        match base_url {
            Some(url) if !url.trim_end_matches('/').ends_with("/v1") => Self::Below,
            _ => Self::BelowOrBesideV1,
        }
    }

    /// The form with the other URL, if the provider does not know the URL. Both URLs are tried once.
    pub(super) fn other(
        self,
        (first, last): (CallForm, CallForm),
        failure: &Failure,
        target: &Target<'_>,
    ) -> Option<CallForm> {
        let is_unknown =
            matches!(failure.status, Some(404 | 405 | 501)) && !names_model(failure, target.upstream_model);
        let is_new = (first ^ last) & AT_ROOT == 0;
        (is_unknown && is_new && self == Self::BelowOrBesideV1).then_some(last ^ AT_ROOT)
    }
}

/// Whether the upstream's message names the member, which it misses.
fn misses(failure: &Failure, member: &str) -> bool {
    let texts = [failure.reason.as_deref(), Some(&*failure.message)];
    texts.into_iter().flatten().any(|text| text.contains("missing") && text.contains(member))
}

/// Writes the members that rerank APIs share.
pub(in crate::adapters) fn write_rerank(
    body: &mut ObjectWriter<'_>,
    request: &RerankRequest,
    top_n: &'static str,
) {
    body.raw("query", request.query());
    write_documents(body, "documents", request);
    if let Some(most) = request.top_n {
        // A server may refuse more results than there are documents.
        body.integer(top_n, most.min(request.document_count()) as u64);
    }
    if let Some(tokens) = request.max_tokens_per_doc {
        body.integer("max_tokens_per_doc", tokens);
    }
}

fn write_documents(body: &mut ObjectWriter<'_>, name: &'static str, request: &RerankRequest) {
    write_array(body.member(name), request.documents(), |out, text| out.extend_from_slice(text.as_bytes()));
}

lenient_members! {
    /// The complete answer. Cohere and Jina call the list `results`, and Voyage calls it `data`.
    RerankAnswer<'de> {
        object: LenientText<'de> = "object",
        model: LenientText<'de> = "model",
        results: Vec<RerankEntry<'de>> = "results",
        data: Vec<RerankEntry<'de>> = "data",
        usage: RawText<'de> = "usage",
        meta: RerankMeta<'de> = "meta",
        error: &'de RawValue = "error",
        message: &'de RawValue = "message",
    }
}

lenient_members! {
    /// One document with its score. TEI calls it `score`.
    RerankEntry<'de> {
        index: LenientNumber = "index",
        relevance_score: &'de RawValue = "relevance_score",
        score: &'de RawValue = "score",
    }
}

lenient_members! {
    /// The usage as Cohere reports it.
    RerankMeta<'de> {
        billed_units: RerankCounts<'de> = "billed_units",
        tokens: RerankCounts<'de> = "tokens",
    }
}

lenient_members! {
    /// Counts of tokens or of search units.
    RerankCounts<'de> {
        input_tokens: &'de RawValue = "input_tokens",
        search_units: &'de RawValue = "search_units",
    }
}

/// Reads a ranking of so many documents.
pub(in crate::adapters) fn decode(body: &[u8], documents: usize) -> Result<RerankReply, Failure> {
    let text = body_text(body)?;
    if text.trim_start().starts_with('[') {
        let entries = serde_json::from_str(text).map_err(|fault| invalid_json(&fault))?;
        return ranking(entries, documents);
    }
    let answer: RerankAnswer<'_> = serde_json::from_str(text).map_err(|fault| invalid_json(&fault))?;
    let is_error = answer.object.is_some_and(|object| object.0 == "error");
    let Some(entries) = answer
        .results
        .filter(|results| !results.is_empty())
        .or(answer.data)
        .filter(|_| answer.error.is_none() && !is_error)
    else {
        if answer.error.is_none() && answer.message.is_none() && !is_error {
            return Err(invalid("the body has no results"));
        }
        let error = serde_json::from_str(text).unwrap_or(Value::Null);
        return Err(reported(&error, FailureKind::Server));
    };
    let mut reply = ranking(entries, documents)?;
    reply.model = answer.model.map(|model| model.0.into_owned()).filter(|model| !model.is_empty());
    reply.usage = used(answer.usage, answer.meta.as_ref());
    Ok(reply)
}

fn ranking(entries: Vec<RerankEntry<'_>>, documents: usize) -> Result<RerankReply, Failure> {
    let ranked = |entry: RerankEntry<'_>| {
        let index = entry.index.and_then(|index| index.0).ok_or_else(|| invalid("a result has no index"))?;
        let score = entry.relevance_score.or(entry.score).map(RawValue::get);
        let score =
            score.and_then(|score| score.parse().ok()).ok_or_else(|| invalid("a score is no number"))?;
        Ok::<_, Failure>(RankedDocument { index: index as usize, score })
    };
    let results = entries.into_iter().map(ranked).collect::<Result<_, _>>()?;
    let reply = RerankReply::of(results, documents).map_err(invalid)?;
    if reply.results().is_empty() { Err(invalid("the ranking is empty")) } else { Ok(reply) }
}

/// The usage that an answer reports: tokens, search units, or both.
fn used(usage: Option<RawText<'_>>, meta: Option<&RerankMeta<'_>>) -> Option<Usage> {
    let mut is_odd = false;
    let billed = meta.and_then(|meta| meta.billed_units.as_ref());
    let read = meta.and_then(|meta| meta.tokens.as_ref());
    let units = count(billed.and_then(|counts| counts.search_units), &mut is_odd);
    // The tokens that the provider bills come first, and those that it read come last.
    let mut tokens = |counts: Option<&RerankCounts<'_>>| {
        let prompt = count(counts.and_then(|counts| counts.input_tokens), &mut is_odd)?;
        Some(Usage { prompt, ..Usage::default() })
    };
    let used = tokens(billed).or_else(|| usage.and_then(usage::read_total)).or_else(|| tokens(read));
    if used.is_none() && units.is_none() {
        return None;
    }
    let used = used.unwrap_or_default();
    let units = Units::new(Unit::Search, units.unwrap_or(0));
    Some(Usage { estimated: used.estimated || is_odd, units, ..used })
}

#[cfg(test)]
mod tests;
