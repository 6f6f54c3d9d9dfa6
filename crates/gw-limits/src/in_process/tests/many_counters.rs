//! Many counters of rules: beyond the bound the unused ones leave. What was charged is learnt again, and what is reserved stays.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{figures, total};
use crate::doubles::{NOW, TestClock};
use crate::{Limiter, Spending, SpendingFuture, SpendingLedger, SpendingQuestion, Subject, SubjectKind};

/// The most unused counters, as the documentation says.
const BOUND: usize = 50_000;
/// The most new counters between two looks at the bound.
const LOOK_EVERY: usize = 1_024;
const NANO: i128 = 1_000_000;

/// The ledger's costs by counter.
#[derive(Debug, Default)]
struct CostsByCounter(Mutex<BTreeMap<String, i128>>);

impl SpendingLedger for CostsByCounter {
    fn spending<'a>(
        &'a self,
        _: SubjectKind,
        id: &'a str,
        question: SpendingQuestion<'a>,
    ) -> SpendingFuture<'a> {
        let spent = self.0.lock().get(id).copied().unwrap_or_default();
        let steps = vec![(question.time.from, spent)];
        Box::pin(std::future::ready(Ok(Spending { steps, ..Spending::default() })))
    }
}

#[tokio::test]
async fn counters_beyond_the_bound_leave_and_neither_their_spending_nor_a_reservation_is_lost() {
    let ledger = Arc::new(CostsByCounter::default());
    let limiter = Limiter::in_process_with_clock(Arc::new(TestClock::at(NOW)), ledger.clone());
    let counter = |n: usize| -> [Arc<Subject>; 1] {
        [limiter.subject(SubjectKind::Rule, &format!("c{n}"), total(100))]
    };
    for n in 0..100 {
        let cost = 30 * NANO + i128::try_from(n).unwrap();
        let mut reservation = limiter.reserve("r", &counter(n), 0, 40 * NANO).await.unwrap();
        reservation.settle("r", 0, cost);
        ledger.0.lock().insert(format!("c{n}"), cost);
    }
    let mut open = limiter.reserve("r", &counter(100), 0, 40 * NANO).await.unwrap();
    (101..=BOUND + 2 * LOOK_EVERY).for_each(|n| drop(counter(n)));
    let known = limiter.rule_counters();
    let is_known = |id: &str| known.iter().any(|known| **known == *id);
    assert!(known.len() < BOUND, "{}", known.len());
    assert!(is_known("c100") && (0..100).all(|n| !is_known(&format!("c{n}"))), "only unused ones leave");
    for n in 0..100 {
        let refused = limiter.reserve("r", &counter(n), 0, 70 * NANO + 1).await;
        assert!(refused.is_err(), "{n}: 30 nano-USD were spent");
        assert_eq!(figures(&counter(n)[0]), (30 * NANO + i128::try_from(n).unwrap(), 0), "{n}");
        drop(limiter.reserve("r", &counter(n), 0, 60 * NANO).await.unwrap());
    }
    assert_eq!(figures(&counter(100)[0]), (0, 40 * NANO), "the reservation stays");
    assert!(limiter.reserve("r", &counter(100), 0, 60 * NANO + 1).await.is_err());
    open.settle("r", 0, 35 * NANO);
    assert_eq!(figures(&counter(100)[0]), (35 * NANO, 0));
}
