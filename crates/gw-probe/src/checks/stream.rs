//! The streamed chat: framing, ids, end, usage, flushing and speed.

use std::time::Duration;

use gw_providers::settings::Api;
use serde_json::json;

use super::wire::WireEvents;
use super::{ProbeRun, head, usage};
use crate::answer::StreamFacts;
use crate::endpoint::ReadUntil;
use crate::finding::{Finding, failure_text};

/// A prompt with an answer of about 50 tokens.
const PROMPT: &str = "Count from 1 to 20, separated by commas. Write only the numbers.";
/// A stream with fewer pieces does not show whether it is buffered.
const MIN_PIECES: usize = 6;
/// A faster stream does not show whether it is buffered.
const MIN_DURATION: Duration = Duration::from_millis(200);
/// Pieces that arrive within this time arrive at once.
const AT_ONCE: Duration = Duration::from_millis(5);
/// The least part of a stream's time in which the pieces of a stream arrive, if few reads deliver them.
const MIN_SHARE: u32 = 20;

impl ProbeRun<'_> {
    pub(super) async fn streamed_chat(&mut self) {
        let request =
            self.request(PROMPT, json!({ "stream": true, "stream_options": { "include_usage": true } }));
        let facts = match self.endpoint.stream("stream", &request, ReadUntil::End).await {
            Ok(facts) => facts,
            Err(failure) => {
                self.findings.add("stream.answer", Finding::failed("a stream", failure_text(&failure)));
                return;
            }
        };
        let first = facts.reply.first();
        let answer = match &facts.failure {
            Some(failure) => Finding::failed("a complete stream", failure_text(failure)),
            None if first.finish.is_none() && !facts.has_ended => {
                Finding::failed("a complete stream", "a stream without a finish reason and without an end")
            }
            None if first.text.is_empty() && first.reasoning.is_empty() => {
                Finding::failed("a text", "a stream without content")
            }
            None => Finding::Passed(format!("{} characters", first.text.chars().count())),
        };
        self.findings.add("stream.answer", answer);
        let api = self.endpoint.provider().api();
        self.findings.add("stream.content_type", head::stream_type(&facts.headers, api));
        self.findings.add("stream.encoding", head::encoding(&facts.headers));
        let mut counts = None;
        if self.endpoint.is_openai() {
            let events = WireEvents::read(&facts.raw);
            self.findings.add("stream.framing", events.framing());
            self.findings.add("stream.done", events.done());
            self.findings.add("stream.ids", events.ids());
            self.findings.add("stream.finish_reason", events.finish_reason());
            counts = events.usage();
        } else {
            let finding = first.finish.map_or_else(
                || Finding::failed("a finish reason", "none in the stream"),
                |reason| Finding::Passed(reason.as_str().to_owned()),
            );
            self.findings.add("stream.finish_reason", finding);
        }
        let finding = usage::plausible(&facts.reply, counts.as_ref(), PROMPT.len() as u64, self.max_tokens);
        self.findings.add("stream.usage", finding);
        self.findings.add("stream.flush", flush(&facts, api));
        self.findings.add("stream.speed", speed(&facts));
    }
}

/// A stream whose pieces all arrive at its end is buffered on its way.
fn flush(facts: &StreamFacts, api: Api) -> Finding {
    let pieces = facts.content_at.len();
    let (Some(first), Some(last)) = (facts.content_at.first(), facts.content_at.last()) else {
        return Finding::Skipped("the stream has no content".to_owned());
    };
    let span = last.saturating_sub(*first);
    let seen = format!(
        "{pieces} pieces in {} reads, over {} of {} ms",
        facts.reads,
        span.as_millis(),
        facts.took.as_millis()
    );
    if pieces < MIN_PIECES || facts.took < MIN_DURATION {
        return Finding::Skipped(format!("the stream is too short to judge: {seen}"));
    }
    let is_lumped = facts.reads <= pieces / 4 && span < facts.took / MIN_SHARE;
    if span > AT_ONCE && !is_lumped {
        return Finding::Passed(seen);
    }
    if api.is_demo {
        return Finding::Skipped(format!("the demo makes its answers at once: {seen}"));
    }
    Finding::failed("pieces that arrive while the answer is made", format!("a buffered stream: {seen}"))
}

fn speed(facts: &StreamFacts) -> Finding {
    let (Some(first), Some(last)) = (facts.content_at.first(), facts.content_at.last()) else {
        return Finding::Skipped("the stream has no content".to_owned());
    };
    let ttft = format!("first token after {} ms", first.as_millis());
    let seconds = last.saturating_sub(*first).as_secs_f64();
    let tokens = facts.reply.usage.map(|usage| usage.completion).filter(|tokens| *tokens > 1);
    match tokens {
        #[expect(clippy::cast_precision_loss, reason = "a count of tokens is small")]
        Some(tokens) if seconds > 0.02 => {
            Finding::Passed(format!("{ttft}, {:.0} tokens/s", (tokens - 1) as f64 / seconds))
        }
        _ => Finding::Passed(ttft),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::answer::ReplyFacts;

    fn facts(times_ms: &[u64], took_ms: u64) -> StreamFacts {
        StreamFacts {
            headers: HeaderMap::new(),
            reply: ReplyFacts::default(),
            failure: None,
            raw: Vec::new(),
            reads: times_ms.len(),
            content_at: times_ms.iter().copied().map(Duration::from_millis).collect(),
            took: Duration::from_millis(took_ms),
            is_cancelled: false,
            has_ended: true,
        }
    }

    #[test]
    fn a_buffered_stream_is_recognised_by_the_times_of_its_pieces() {
        for (times, took, result) in [
            (&[100, 150, 200, 250, 300, 350][..], 350, "passed"),
            (&[400, 400, 400, 401, 401, 402], 402, "failed"),
            // A fast model behind a long queue.
            (&[5000, 5004, 5008, 5012, 5016, 5020], 5020, "passed"),
            (&[5, 5, 5, 6, 6, 6], 6, "skipped"),
            (&[400, 400], 400, "skipped"),
            (&[], 400, "skipped"),
        ] {
            assert_eq!(flush(&facts(times, took), Api::OPENAI).as_str(), result, "{times:?}");
        }
    }

    #[test]
    fn the_speed_counts_the_tokens_after_the_first() {
        let mut facts = facts(&[100, 1100], 1100);
        facts.reply.usage = Some(gw_wire::usage::Usage { completion: 51, ..Default::default() });
        assert_eq!(speed(&facts), Finding::Passed("first token after 100 ms, 50 tokens/s".to_owned()));
    }
}
