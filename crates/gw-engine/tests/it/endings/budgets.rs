//! Budgets: what is set aside before a call, and answers that are cut where the money ends.

use gw_store::limits::OnBudget;

use crate::harness::{Head, Piece, Setup, Step, answer, chat_stream, document, paused, wait};

/// Holds the prompt and some 140 tokens of an answer of provider `a`.
const SMALL_NANO: u64 = 300_000;

#[test]
fn a_request_whose_worst_case_the_budget_does_not_hold_calls_nobody() {
    paused(async {
        let setup = Setup::new(vec![("a", vec![])]);
        let world = Setup { budget_nano: SMALL_NANO, ..setup }.build();
        assert_eq!(world.ask(&world.chat(false)).await.refused_with(), "insufficient_quota");
        assert_eq!((world.called(), &*world.row().status), (vec![], "insufficient_quota"));
        world.check().await;
    });
}

#[test]
fn a_stream_is_cut_where_its_budget_ends_and_its_upstream_is_dropped() {
    paused(async {
        let mut steps = Vec::new();
        for _ in 0..1_000 {
            steps.extend([Step::Piece(Piece::Text("sea".to_owned())), wait(1)]);
        }
        let setup = Setup::new(vec![("a", vec![answer(Head::Stream(steps))])]);
        let setup = Setup { budget_nano: SMALL_NANO, on_budget: OnBudget::Cut, ..setup };
        let world = setup.build();
        let ended = world.ask(&world.chat(true)).await;
        assert_eq!(ended.error_event().as_deref(), Some("insufficient_quota"));
        let row = world.row();
        assert_eq!(row.status, "insufficient_quota");
        assert!(row.cost <= i128::from(SMALL_NANO) * 1_000_000, "{row:#?}");
        assert!((64..143).contains(&row.tokens.completion), "{row:#?}");
        world.check().await;
    });
}

#[test]
fn a_stream_that_its_budget_holds_is_not_cut() {
    paused(async {
        let steps = chat_stream(&["The sea ", "is deep."], Some((10, 5)));
        let setup = Setup::new(vec![("a", vec![answer(Head::Stream(steps))])]);
        let setup = Setup { budget_nano: SMALL_NANO, on_budget: OnBudget::Cut, ..setup };
        let world = setup.build();
        let ended = world.ask(&world.chat(true)).await;
        assert_eq!((ended.text(), ended.is_complete()), ("The sea is deep.".to_owned(), true));
        world.check().await;
    });
}

#[test]
fn a_plain_answer_is_asked_for_only_as_long_as_the_budget_can_pay() {
    paused(async {
        let whole = answer(Head::Document(document("The sea is deep.", Some((10, 5))), Vec::new()));
        let setup = Setup::new(vec![("a", vec![whole])]);
        let setup = Setup { budget_nano: SMALL_NANO, on_budget: OnBudget::Cut, ..setup };
        let world = setup.build();
        assert!(world.ask(&world.chat(false)).await.is_complete());
        let body = &world.seen()[0].body;
        let most = body["max_tokens"].as_u64().or(body["max_completion_tokens"].as_u64()).unwrap();
        assert!((64..150).contains(&most), "{body}");
        world.check().await;
    });
}
