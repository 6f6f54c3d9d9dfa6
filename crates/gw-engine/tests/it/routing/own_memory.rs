//! An answer that waits for the gateway's own memory: its upstream is not at fault.

use std::sync::Arc;

use gw_routing::BreakerSettings;
use tokio::time::Instant;

use crate::harness::{Client, Ended, Head, Setup, answer, document, paused};

/// The default clock of a whole request.
const TOTAL_MS: u128 = 600_000;

#[test]
fn an_answer_without_memory_is_the_gateways_refusal_and_its_upstream_stays_healthy() {
    paused(async {
        let large = || answer(Head::Document(document(&"word ".repeat(40_000), Some((10, 5))), Vec::new()));
        let mut setup = Setup::new(vec![("a", vec![large(), large()]), ("b", vec![large()])]);
        setup.routing.breaker = BreakerSettings { failures: 1, ..setup.routing.breaker };
        let world = setup.build();
        let pool = world.engine.answer_memory();
        let mut others = pool.holding(&Arc::from("others"));
        others.set(pool.capacity()).unwrap();
        let begun = Instant::now();
        let refused = world.run(&world.chat(false), &Client::default()).await;
        assert_eq!(begun.elapsed().as_millis(), TOTAL_MS, "it waits for memory until its deadline");
        let Ended::Refused(error) = &refused else { panic!("an answer: {refused:?}") };
        assert_eq!((error.kind.row().0, error.code()), (503, "no_available_provider"), "{error:?}");
        assert!(error.retry_after.is_some() && error.message.contains("large answers"), "{error:?}");
        drop(others);
        let row = world.row();
        assert_eq!(row.status, "no_available_provider");
        let statuses: Vec<_> = row.attempts.iter().map(|attempt| &*attempt.status).collect();
        assert_eq!(statuses, ["no_available_provider"], "another candidate's answer needs as much memory");
        assert!(row.cost > 0, "the upstream made the answer: {row:?}");
        assert!(world.ask(&world.chat(false)).await.is_complete());
        assert_eq!(world.called(), ["a", "a"], "one failure would have opened the circuit of a");
    });
}

#[test]
fn c36_an_answer_that_waits_for_other_answers_of_its_key_is_told_so() {
    paused(async {
        let large = || answer(Head::Document(document(&"word ".repeat(40_000), Some((10, 5))), Vec::new()));
        let world = Setup::new(vec![("a", vec![large(), large()])]).build();
        let unread = world.send(&world.chat(false), None).await.unwrap();
        let pool = world.engine.answer_memory();
        let mut others = pool.holding(&Arc::from("others"));
        others.set(pool.capacity() - pool.gauge().get().unsigned_abs()).unwrap();
        let refused = world.run(&world.chat(false), &Client::default()).await;
        let Ended::Refused(error) = &refused else { panic!("an answer: {refused:?}") };
        assert_eq!((error.kind.row().0, error.code()), (429, "rate_limit_exceeded"), "{error:?}");
        assert!(error.retry_after.is_some() && error.message.contains("of this key"), "{error:?}");
        drop((unread, others));
        assert_eq!(pool.gauge().get(), 0);
    });
}
