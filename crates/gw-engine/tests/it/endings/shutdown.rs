//! The end of a graceful shutdown: streams that are still open are cut.

use std::time::Duration;

use futures_util::future::join;

use crate::harness::{Client, Ended, Head, Piece, Setup, Step, World, answer, chat_stream, paused, wait};

/// Reads a stream, and cuts all streams after so many milliseconds.
async fn cut_after(world: &World, millis: u64) -> Ended {
    let client = Client::default();
    let (body, keepalive) = (world.chat(true), Some(Duration::from_secs(15)));
    let reading = client.read(world.send(&body, keepalive));
    let cutting = async {
        tokio::time::sleep(Duration::from_millis(millis)).await;
        world.engine.cut_streams();
    };
    let (ended, ()) = join(reading, cutting).await;
    world.settled().await;
    ended
}

#[test]
fn a_stream_that_is_cut_ends_with_an_error_event_and_its_text_is_billed() {
    paused(async {
        let steps = vec![Step::Piece(Piece::Text("The sea".to_owned())), Step::Silence];
        let world = Setup::new(vec![("a", vec![answer(Head::Stream(steps))]), ("b", vec![])]).build();
        let ended = cut_after(&world, 2_000).await;
        assert_eq!(ended.error_event().as_deref(), Some("upstream_stream_error"));
        let row = world.row();
        assert_eq!((&*row.status, row.latency_ms, row.tokens.completion), ("gateway_shutdown", 2_000, 3));
        world.check().await;
    });
}

#[test]
fn a_stream_that_waits_for_its_first_token_behind_its_head_is_cut() {
    paused(async {
        let late = answer(Head::Stream(chat_stream(&["Late."], None))).after(60_000);
        let world = Setup::new(vec![("a", vec![late])]).build();
        let ended = cut_after(&world, 20_000).await;
        assert_eq!(ended.error_event().as_deref(), Some("upstream_stream_error"));
        let row = world.row();
        assert_eq!((&*row.status, row.latency_ms), ("gateway_shutdown", 20_000));
        world.check().await;
    });
}

#[test]
fn a_stream_that_is_being_continued_is_cut() {
    paused(async {
        let broken = vec![Step::Piece(Piece::Text("The sea".to_owned())), wait(1_000), Step::Break];
        let mut setup =
            Setup::new(vec![("a", vec![answer(Head::Stream(broken))]), ("b", vec![answer(Head::Silent)])]);
        setup.routing.continue_mid_stream = true;
        let world = setup.build();
        let ended = cut_after(&world, 5_000).await;
        assert_eq!(ended.error_event().as_deref(), Some("upstream_stream_error"));
        assert_eq!((world.called(), &*world.row().status), (vec!["a", "b"], "gateway_shutdown"));
        world.check().await;
    });
}

#[test]
fn a_stream_that_has_ended_before_the_cut_is_not_cut() {
    paused(async {
        let whole = answer(Head::Stream(chat_stream(&["The sea is deep."], Some((10, 5)))));
        let world = Setup::new(vec![("a", vec![whole.after(1_000)])]).build();
        assert!(cut_after(&world, 2_000).await.is_complete());
        assert_eq!(world.row().status, "ok");
        world.check().await;
    });
}

#[test]
fn a_request_that_comes_while_the_gateway_drains_is_refused_and_has_a_row() {
    paused(async {
        let world = Setup::new(vec![("a", vec![])]).build();
        world.engine.start_draining();
        assert_eq!(world.ask(&world.chat(true)).await.refused_with(), "no_available_provider");
        assert_eq!((world.called(), &*world.row().status), (vec![], "no_available_provider"));
        world.check().await;
    });
}
