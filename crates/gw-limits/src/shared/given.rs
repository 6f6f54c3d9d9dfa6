//! Budgets that are given to who had none, or had none for a while.

use std::sync::Arc;

use super::core::Core;
use super::notes::{Note, Owed, Work};
use super::script::nano;
use crate::subject::Subject;
use crate::verdict::Refusal;

/// Tells Redis of budgets that were given since it was told last: it asks the ledger again then.
///
/// # Errors
/// Redis does not answer.
pub(super) async fn tell(core: &Core, subjects: &[Arc<Subject>]) -> Result<(), Refusal> {
    for subject in subjects.iter().filter(|subject| subject.limits().budget.is_some()) {
        let given = &subject.state().given;
        // Whoever waits for an answer of the ledger's has told nobody yet.
        while let Some(count) = given.untold() {
            let question = async {
                if given.untold() == Some(count) {
                    let call = core.call("").subject(&core.settings.prefix, subject);
                    // Refused, Redis has lost its memory, and knows of no budget at all.
                    core.ask(&core.scripts.forget, &call).await.map_err(|_| ())?;
                    given.told(count);
                }
                Ok(())
            };
            subject.state().purse.gate.ask(question).await.map_err(|()| Refusal::StoreAway)?;
        }
    }
    Ok(())
}

/// A request of subjects that Redis counts no money of. Those that have a budget when it ends are charged.
#[derive(Debug)]
pub(crate) struct Meanwhile {
    core: Arc<Core>,
    request_id: Box<str>,
    subjects: Vec<Arc<Subject>>,
    /// When it began, as [`Core::now`] counts.
    begun: f64,
}

impl Meanwhile {
    pub(super) fn new(core: &Arc<Core>, request_id: &str, subjects: Vec<Arc<Subject>>) -> Option<Self> {
        if subjects.is_empty() {
            return None;
        }
        Some(Self { core: Arc::clone(core), request_id: request_id.into(), subjects, begun: core.now() })
    }

    /// It began at this moment of the calendar, unix seconds.
    pub(crate) fn begun_at(&mut self, unix: i64) {
        self.begun = self.core.moment(unix);
    }

    /// Posts what was spent to those who have a budget now. A budget that the ledger was not asked about yet hears of
    /// it from there.
    pub(crate) fn settle(mut self, cost: i128) {
        self.subjects.retain(|subject| subject.state().given.is_there());
        if cost > 0 && !self.subjects.is_empty() {
            // It was set aside in none of their states.
            let none = format!("{}/", self.core.register.generation());
            let epochs = vec![none; self.subjects.len()].join(",");
            let work = Work::Settle { tokens: 0, nano: Some(0), used: 0, spent: nano(cost), epochs };
            let mut owed = Owed::new(&self.core, Note::new(&self.request_id, self.subjects, work));
            owed.begun(self.begun);
        }
    }
}
