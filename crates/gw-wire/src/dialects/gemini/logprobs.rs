//! `logprobsResult`, from the log probabilities of a chat answer.

use crate::dialects::messages::MessagesContext;
use crate::json::{Kind, ObjectWriter, View, write_array};

/// The log probabilities of a candidate.
#[derive(Clone, Debug, Default)]
pub(super) struct CandidateLogprobs {
    /// `chosenCandidates`: the elements of an array.
    chosen: Vec<u8>,
    /// `topCandidates`: the elements of an array.
    top: Vec<u8>,
    /// The ends of the tokens, if the gateway may cut the answer at a stop sequence.
    ends: Option<Vec<TokenEnd>>,
}

/// The bytes up to the end of a token.
#[derive(Clone, Copy, Debug, Default)]
struct TokenEnd {
    /// Bytes of the answer's text.
    text: usize,
    /// Bytes of [`CandidateLogprobs::chosen`].
    chosen: usize,
    /// Bytes of [`CandidateLogprobs::top`].
    top: usize,
}

impl CandidateLogprobs {
    /// The log probabilities of an answer to this request.
    pub(super) fn new(context: &MessagesContext) -> Self {
        let ends = (!context.extra_stops.is_empty()).then(Vec::new);
        Self { ends, ..Self::default() }
    }

    /// Bytes that are kept.
    pub(super) fn held_bytes(&self) -> usize {
        let ends = size_of_val(self.ends.as_deref().unwrap_or_default());
        self.chosen.len() + self.top.len() + ends
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
            if let Some(ends) = &mut self.ends {
                let before = ends.last().map_or(0, |end| end.text);
                let text = before + token_bytes(entry);
                ends.push(TokenEnd { text, chosen: self.chosen.len(), top: self.top.len() });
            }
        }
    }

    /// Writes `logprobsResult`, unless it has no tokens. `most` is the length of the text of an answer that was cut. A token
    /// that ends behind it is left out, because it would show text behind the cut.
    pub(super) fn write(&self, candidate: &mut ObjectWriter<'_>, most: Option<usize>) {
        let (chosen, top) = self.within(most);
        if chosen.is_empty() {
            return;
        }
        candidate.object("logprobsResult", |result| {
            for (name, elements) in [("topCandidates", top), ("chosenCandidates", chosen)] {
                let out = result.member(name);
                out.push(b'[');
                out.extend_from_slice(elements);
                out.push(b']');
            }
        });
    }

    /// The elements of `chosenCandidates` and `topCandidates` for the tokens within the first `most` bytes of the text.
    fn within(&self, most: Option<usize>) -> (&[u8], &[u8]) {
        let (Some(most), Some(ends)) = (most, &self.ends) else { return (&*self.chosen, &*self.top) };
        let last = ends.iter().take_while(|end| end.text <= most).last();
        let TokenEnd { chosen, top, .. } = last.copied().unwrap_or_default();
        (self.chosen.get(..chosen).unwrap_or_default(), self.top.get(..top).unwrap_or_default())
    }
}

/// The bytes of a token's text. `bytes` is exact: a token may end inside a character, which `token` cannot show.
fn token_bytes(entry: View<'_>) -> usize {
    let [token, bytes] = entry.pick(["token", "bytes"]);
    match bytes.map_or(0, |bytes| bytes.elements().count()) {
        0 => token.map_or(0, View::string_len),
        count => count,
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
