//! Budgets that are added to subjects in use. Redis has not counted everything that such a subject has spent.

use std::sync::Arc;

use super::amount::nano_usd;
use super::message::{Message, MessageKind, Settlement};
use super::outbox::SendOnDrop;
use super::replica::{AskError, Replica};
use crate::refusal::Refusal;
use crate::subject::{Subject, UnreportedBudget};

/// Tells Redis of budgets that were added since its last answer, and of those that this process uses for the first time, so that
/// it asks the ledger for their spending.
///
/// # Errors
/// Redis does not answer.
pub(crate) async fn report_added_budgets(
    replica: &Replica,
    subjects: &[Arc<Subject>],
) -> Result<(), Refusal> {
    for subject in subjects.iter().filter(|subject| subject.has_budget()) {
        let changes = &subject.state().budget_changes;
        // The single-flight may belong to a question to the ledger, after which this one is still open.
        while let Some(UnreportedBudget { count, age }) = changes.unreported() {
            let question = async {
                if changes.unreported().is_some_and(|unreported| unreported.count == count) {
                    let age = age.map(|age| age.as_micros().to_string()).unwrap_or_default();
                    let call = replica.call("").arg(&age).subject(&replica.settings.prefix, subject);
                    // If the script refuses, Redis has lost its memory and knows no budget at all.
                    replica.ask(&replica.scripts.forget_spending, &call).await?;
                    changes.mark_reported(count);
                }
                Ok::<_, AskError>(())
            };
            let reported = subject.state().budget.lookup.run(question).await;
            reported.map_err(|_| Refusal::StoreUnavailable)?;
        }
    }
    Ok(())
}

/// A request whose subjects had no budget in Redis when it began. Those that have one when it ends are charged.
#[derive(Debug)]
pub(crate) struct UnbudgetedRequest {
    replica: Arc<Replica>,
    request_id: Box<str>,
    subjects: Vec<Arc<Subject>>,
    /// When the request began, in microseconds of [`Replica::now`].
    begun: f64,
}

impl UnbudgetedRequest {
    /// None if there are no such subjects.
    pub(crate) fn new(
        replica: &Arc<Replica>,
        request_id: &str,
        subjects: Vec<Arc<Subject>>,
    ) -> Option<Box<Self>> {
        if subjects.is_empty() {
            return None;
        }
        let begun = replica.now();
        Some(Box::new(Self { replica: Arc::clone(replica), request_id: request_id.into(), subjects, begun }))
    }

    /// Sets when the request began, in unix seconds.
    pub(crate) fn set_begin_unix(&mut self, unix: i64) {
        self.begun = self.replica.moment(unix);
    }

    /// Sends the cost to the subjects that have a budget now. A budget with unknown spending hears of the cost from the
    /// ledger.
    pub(crate) fn settle(mut self, cost_femtos: i128) {
        self.subjects.retain(|subject| subject.state().budget_changes.has_budget());
        if cost_femtos > 0 && !self.subjects.is_empty() {
            // An epoch that no state has: nothing was reserved in any of them.
            let no_epoch = format!("{}/", self.replica.holdings.generation());
            let settlement = Settlement {
                reserved_nano: Some(0),
                cost_nano: nano_usd(cost_femtos),
                epochs: vec![no_epoch; self.subjects.len()].join(","),
                ..Settlement::default()
            };
            let kind = MessageKind::Settle(settlement);
            let mut message =
                SendOnDrop::new(&self.replica, Message::new(&self.request_id, self.subjects, kind));
            message.set_begin(self.begun);
        }
    }
}
