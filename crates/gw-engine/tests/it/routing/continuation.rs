//! A stream that breaks off is continued by the next candidate.

use crate::harness::{Head, Piece, Script, Setup, Step, World, answer, chat_stream, paused, refused, wait};

fn broken(text: &str) -> Script {
    let text = Step::Piece(Piece::Text(text.to_owned()));
    answer(Head::Stream(vec![Step::Piece(Piece::Role), text, wait(200), Step::Break]))
}

fn rest(text: &str) -> Script {
    answer(Head::Stream(chat_stream(&[text], Some((30, 4)))))
}

fn continuing(upstreams: Vec<(&'static str, Vec<Script>)>) -> World {
    let mut setup = Setup::new(upstreams);
    setup.routing.continue_mid_stream = true;
    setup.build()
}

#[test]
fn the_next_candidate_goes_on_where_a_stream_broke_off_and_both_are_billed() {
    paused(async {
        let world = continuing(vec![("a", vec![broken("The sea")]), ("b", vec![rest(" is deep.")])]);
        let ended = world.ask(&world.chat(true)).await;
        assert_eq!((ended.text(), ended.is_complete()), ("The sea is deep.".to_owned(), true));
        assert_eq!(ended.attempts(), ["a upstream_stream_error", "b ok"]);
        let warnings = &ended.gateway().unwrap()["warnings"];
        assert!(warnings.as_array().unwrap().contains(&"continued_mid_stream".into()), "{warnings}");
        let messages = world.seen()[1].body["messages"].clone();
        assert_eq!((&messages[1]["role"], &messages[1]["content"]), (&"assistant".into(), &"The sea".into()));
        world.check().await;
    });
}

#[test]
fn a_continuation_that_breaks_off_is_continued_too() {
    paused(async {
        let world = continuing(vec![
            ("a", vec![broken("The sea")]),
            ("b", vec![broken(" is deep")]),
            ("c", vec![rest(" and wide.")]),
        ]);
        let ended = world.ask(&world.chat(true)).await;
        assert_eq!((ended.text(), ended.is_complete()), ("The sea is deep and wide.".to_owned(), true));
        assert_eq!(world.seen()[2].body["messages"][1]["content"], "The sea is deep");
        world.check().await;
    });
}

#[test]
fn a_stream_that_nobody_goes_on_with_ends_with_an_error_event() {
    paused(async {
        let world = continuing(vec![("a", vec![broken("The sea")]), ("b", vec![refused(500)])]);
        let ended = world.ask(&world.chat(true)).await;
        assert_eq!((ended.text(), ended.is_complete()), ("The sea".to_owned(), false));
        assert_eq!(ended.error_event().as_deref(), Some("upstream_stream_error"));
        let row = world.row();
        assert_eq!((&*row.status, row.attempts.len()), ("upstream_stream_error", 2));
        world.check().await;
    });
}

#[test]
fn a_stream_that_falls_silent_is_continued() {
    paused(async {
        let silent = vec![Step::Piece(Piece::Text("The sea".to_owned())), Step::Silence];
        let world =
            continuing(vec![("a", vec![answer(Head::Stream(silent))]), ("b", vec![rest(" is deep.")])]);
        let ended = world.ask(&world.chat(true)).await;
        assert_eq!(ended.text(), "The sea is deep.");
        assert_eq!(ended.attempts(), ["a upstream_timeout", "b ok"]);
        world.check().await;
    });
}

#[test]
fn a_stream_that_breaks_off_is_not_continued_unless_it_is_configured() {
    paused(async {
        let world = Setup::new(vec![("a", vec![broken("The sea")]), ("b", vec![rest(" is deep.")])]).build();
        let ended = world.ask(&world.chat(true)).await;
        assert_eq!(ended.error_event().as_deref(), Some("upstream_stream_error"));
        assert_eq!(world.called(), ["a"]);
        world.check().await;
    });
}
