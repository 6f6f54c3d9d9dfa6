//! A client that leaves a stream: the connection closes, and the endpoint answers the next call.

use serde_json::json;

use super::ProbeRun;
use crate::endpoint::ReadUntil;
use crate::finding::{Finding, failure_text};

impl ProbeRun<'_> {
    pub(super) async fn cancel(&mut self) {
        let prompt = "Count from 1 to 300, separated by commas.";
        let request = self.request(prompt, json!({ "stream": true }));
        let finding = match self.endpoint.stream("cancel", &request, ReadUntil::FirstContent).await {
            Err(failure) => Finding::of_refusal(&failure),
            Ok(facts) if !facts.is_cancelled => {
                Finding::Skipped("the whole stream came at once, so nothing could be cancelled".to_owned())
            }
            Ok(_) => self.call_after_cancel().await,
        };
        self.findings.add("cancel", finding);
    }

    async fn call_after_cancel(&mut self) -> Finding {
        let request = self.request("Reply with this single word: ready", json!({}));
        let exchange = self.endpoint.chat("cancel", &request).await;
        match (exchange.reply, exchange.raw) {
            (Ok(_), Some(raw)) => {
                Finding::Passed(format!("the next call is answered after {} ms", raw.took.as_millis()))
            }
            (Err(failure), _) => {
                Finding::failed("an answer to the call after a cancelled stream", failure_text(&failure))
            }
            (Ok(_), None) => Finding::failed("an answer to the call after a cancelled stream", "none"),
        }
    }
}
