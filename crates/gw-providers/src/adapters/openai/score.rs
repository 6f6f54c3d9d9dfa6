//! Scores of pairs of texts at servers of OpenAI's dialect: `/v1/score` of vLLM (docs.vllm.ai, "Score API", November 2026),
//! or `/score` beside it.

use std::sync::atomic::{AtomicU8, Ordering};

use gw_wire::failure::Failure;
use gw_wire::json::{ObjectWriter, write_array};
use gw_wire::request::rerank::RerankReply;
use gw_wire::request::score::ScoreRequest;

use super::rerank::{AT_ROOT, SurfaceUrls, decode};
use crate::adapter::{HttpCall, Target};
use crate::adapters::failure::invalid;
use crate::adapters::http_call::{JSON, post_json};
use crate::surfaces::{CallForm, CallForms, Score};

/// The scores of one provider, with the form that it answered last.
#[derive(Debug)]
pub(super) struct OpenAiScore {
    urls: SurfaceUrls,
    learned: AtomicU8,
}

impl OpenAiScore {
    pub(super) fn new(urls: SurfaceUrls) -> Self {
        Self { urls, learned: AtomicU8::default() }
    }
}

impl CallForms for OpenAiScore {
    fn form(&self) -> CallForm {
        self.learned.load(Ordering::Relaxed)
    }

    fn next_form(
        &self,
        tried: (CallForm, CallForm),
        failure: &Failure,
        target: &Target<'_>,
    ) -> Option<CallForm> {
        self.urls.other(tried, failure, target)
    }

    fn learn_form(&self, form: CallForm) {
        self.learned.store(form, Ordering::Relaxed);
    }

    fn forget_learned(&self) {
        self.learn_form(CallForm::default());
    }
}

impl Score for OpenAiScore {
    fn encode(&self, request: &ScoreRequest, form: CallForm, target: &Target<'_>) -> HttpCall {
        let mut out = Vec::with_capacity(request.body.bytes().len() + 128);
        let mut body = ObjectWriter::begin(&mut out);
        body.string("model", target.upstream_model);
        write_texts(body.member("text_1"), request.first_texts());
        write_texts(body.member("text_2"), request.second_texts());
        body.finish();
        post_json(if form & AT_ROOT == 0 { "/score" } else { "/../score" }, out, JSON)
    }

    fn decode(&self, body: &[u8], pairs: usize) -> Result<RerankReply, Failure> {
        let reply = decode(body, pairs)?;
        if reply.results().len() == pairs { Ok(reply) } else { Err(invalid("a pair has no score")) }
    }
}

/// Writes one text as a string, and several as a list.
fn write_texts<'t>(out: &mut Vec<u8>, mut texts: impl ExactSizeIterator<Item = &'t str>) {
    if texts.len() == 1 {
        return out.extend_from_slice(texts.next().unwrap_or_default().as_bytes());
    }
    write_array(out, texts, |out, text| out.extend_from_slice(text.as_bytes()));
}
