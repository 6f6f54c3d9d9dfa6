//! Reads the use of limits from Redis.

use std::sync::Arc;

use gw_store::Limits;

use super::RedisLimiter;
use super::amount::FEMTOS_OF_NANO;
use super::answer::{Answer, ScriptRefusal};
use super::late_budget::report_added_budgets;
use super::retries::Retries;
use crate::limit_state::{RateState, TokenState};
use crate::spending_ledger::SpendingLedger;
use crate::subject::Subject;
use crate::subject_use::{BudgetUse, SubjectUse};

/// The fields of `inspect.lua` for one subject.
const FIELDS: usize = 4;

impl RedisLimiter {
    /// How far the limits of these subjects are used up. Spending that Redis does not know is asked of the ledger: a subject
    /// may have made no request yet. None if Redis does not answer.
    pub(crate) async fn inspect(
        &self,
        ledger: &dyn SpendingLedger,
        subjects: &[Arc<Subject>],
    ) -> Option<Vec<SubjectUse>> {
        let replica = &self.replica;
        report_added_budgets(replica, subjects).await.ok()?;
        // One subject without an answer leaves the questions of the others.
        let mut retries: Vec<Retries> = subjects.iter().map(|_| Retries::new(1)).collect();
        let answer = loop {
            let call = replica.call("").subjects(&replica.settings.prefix, subjects);
            let answer = replica.ask(&replica.scripts.inspect, &call).await.ok()?;
            match answer.refused {
                None => break answer,
                Some((number, ScriptRefusal::Unknown(_))) => {
                    // Without the ledger's answer that spending is shown as unknown.
                    let retries = retries.get_mut(number)?;
                    let retry = replica.prepare_retry(ledger, subjects, &call, answer.refused, retries).await;
                    if !matches!(retry, Ok(true)) {
                        break answer;
                    }
                }
                Some(_) => return None,
            }
        };
        let uses = subjects.iter().enumerate();
        Some(uses.map(|(index, subject)| read(&answer, index * FIELDS, subject)).collect())
    }
}

fn read(answer: &Answer, from: usize, subject: &Subject) -> SubjectUse {
    // The spending is that of the shared period.
    let limits = Limits { budget: subject.shared_budget(), ..*subject.limits() };
    let now = answer.now;
    let requests = limits.rpm.and_then(|limit| match limits.burst {
        Some(burst) => Some(RateState::of_gcra(limit, burst, answer.tat(from)?, now)),
        None => Some(RateState::of_window(limit, answer.window(from)?, now)),
    });
    let tokens = limits.tpm.and_then(|limit| Some(TokenState::new(limit, answer.tat(from + 1)?, now)));
    let in_flight = limits.max_in_flight.and_then(|_| answer.field(from + 2).parse().ok());
    let budget = || {
        let (spent, reserved) = answer.field(from + 3).split_once(' ')?;
        let femtos = |nano: &str| Some(nano.parse::<i128>().ok()?.saturating_mul(FEMTOS_OF_NANO));
        Some(BudgetUse { spent_femtos: femtos(spent)?, reserved_femtos: femtos(reserved)? })
    };
    SubjectUse {
        kind: subject.kind(),
        id: subject.id().to_owned(),
        limits,
        requests,
        tokens,
        in_flight,
        budget: limits.budget.and_then(|_| budget()),
    }
}
