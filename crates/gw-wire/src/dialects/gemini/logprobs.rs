//! `logprobsResult`, from the log probabilities of a chat answer.

use crate::json::{Kind, ObjectWriter, View, write_array};

/// The log probabilities of a candidate.
#[derive(Clone, Debug, Default)]
pub(super) struct CandidateLogprobs {
    /// `chosenCandidates`: the elements of an array.
    chosen: Vec<u8>,
    /// `topCandidates`: the elements of an array.
    top: Vec<u8>,
}

impl CandidateLogprobs {
    /// Bytes that are kept.
    pub(super) fn held_bytes(&self) -> usize {
        self.chosen.len() + self.top.len()
    }

    /// Adds the tokens of a `logprobs` member in OpenAI's shape.
    pub(super) fn add(&mut self, logprobs: View<'_>) {
        let [content] = logprobs.pick(["content"]);
        for entry in content.into_iter().flat_map(View::elements) {
            separate(&mut self.chosen);
            write_token(&mut self.chosen, entry);
            separate(&mut self.top);
            let [alternatives] = entry.pick(["top_logprobs"]);
            let mut position = ObjectWriter::begin(&mut self.top);
            let alternatives = alternatives.into_iter().flat_map(View::elements);
            write_array(position.member("candidates"), alternatives, write_token);
            position.finish();
        }
    }

    /// Writes `logprobsResult`, unless there is none.
    pub(super) fn write(&self, candidate: &mut ObjectWriter<'_>) {
        if self.chosen.is_empty() {
            return;
        }
        candidate.object("logprobsResult", |result| {
            for (name, elements) in [("topCandidates", &self.top), ("chosenCandidates", &self.chosen)] {
                let out = result.member(name);
                out.push(b'[');
                out.extend_from_slice(elements);
                out.push(b']');
            }
        });
    }
}

fn separate(out: &mut Vec<u8>) {
    if !out.is_empty() {
        out.push(b',');
    }
}

fn write_token(out: &mut Vec<u8>, entry: View<'_>) {
    let [token, logprob] = entry.pick(["token", "logprob"]);
    let mut object = ObjectWriter::begin(out);
    object.string("token", &token.and_then(View::string).unwrap_or_default());
    if let Some(logprob) = logprob.filter(|value| matches!(value.kind(), Kind::Integer | Kind::Decimal)) {
        object.raw("logProbability", logprob.text());
    }
    object.finish();
}
