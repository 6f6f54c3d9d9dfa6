//! Equal requests at one time share the call of the first: its leader, its followers, and what becomes of both.

use std::time::Duration;

use futures_util::future::{join, join_all};
use serde_json::{Value, json};

use crate::harness::{
    Client, Ended, Head, Leaving, Piece, Script, Setup, Step, World, answer, chat_stream, document, paused,
    refused, wait,
};

fn slow_stream() -> Script {
    let mut steps = Vec::new();
    for step in chat_stream(&["The sea ", "is ", "deep."], Some((10, 5))) {
        steps.extend([wait(50), step]);
    }
    answer(Head::Stream(steps)).after(100)
}

fn slow_document() -> Script {
    answer(Head::Document(document("The sea is deep.", Some((10, 5))), vec![wait(100)])).after(100)
}

fn cached(scripts: Vec<Script>) -> Setup {
    Setup { has_cache: true, ..Setup::new(vec![("a", scripts)]) }
}

fn question(world: &World, stream: bool) -> Value {
    let mut body = world.chat(stream);
    body["cache"] = json!({"enabled": true});
    body
}

/// The leader's request, and a follower's 120 ms later.
async fn two(world: &World, body: &Value, leader: &Client, follower: &Client) -> (Ended, Ended) {
    let following = async {
        tokio::time::sleep(Duration::from_millis(120)).await;
        world.run(body, follower).await
    };
    // In this order: a leader that leaves when it is woken by the join has its follower by then.
    let (followed, led) = join(following, world.run(body, leader)).await;
    world.settled().await;
    (led, followed)
}

fn statuses(world: &World) -> Vec<String> {
    let mut statuses: Vec<_> = world.rows().into_iter().map(|row| row.status.into_owned()).collect();
    statuses.sort();
    statuses
}

#[test]
fn equal_requests_at_one_time_cost_one_call_and_each_has_a_row() {
    for stream in [false, true] {
        paused(async move {
            let world = cached(vec![if stream { slow_stream() } else { slow_document() }]).build();
            let (body, client) = (question(&world, stream), Client::default());
            let all = join_all((0..5).map(|_| world.run(&body, &client))).await;
            world.settled().await;
            assert!(
                all.iter().all(|ended| ended.is_complete() && ended.text() == "The sea is deep."),
                "{all:?}"
            );
            assert_eq!(world.called(), ["a"]);
            let rows = world.rows();
            assert_eq!(rows.iter().filter(|row| row.cache_hit && row.cost == 0).count(), 4, "{rows:#?}");
            world.check_money(5).await;
            // Later on the answer is kept.
            assert!(world.ask(&body).await.is_complete());
            assert_eq!(world.called(), ["a"]);
            world.check_money(6).await;
        });
    }
}

#[test]
fn a_follower_reads_on_when_the_leader_leaves() {
    for polls in 1..6 {
        for drains in [false, true] {
            paused(async move {
                let mut setup = cached(vec![slow_stream()]);
                setup.routing.drain_on_disconnect = drains;
                let world = setup.build();
                let (body, leader) = (question(&world, true), Client::leaving(polls, Leaving::WhenWoken));
                let (left, read) = two(&world, &body, &leader, &Client::default()).await;
                assert!(matches!(left, Ended::Left(_)), "after {polls} polls: {left:?}");
                assert!(
                    read.is_complete() && read.text() == "The sea is deep.",
                    "after {polls} polls: {read:?}"
                );
                assert_eq!(
                    (world.called(), statuses(&world)),
                    (vec!["a"], vec!["client_closed_request".to_owned(), "ok".to_owned()])
                );
                world.check_money(2).await;
            });
        }
    }
}

#[test]
fn a_leader_reads_on_when_its_follower_leaves() {
    for polls in 1..4 {
        paused(async move {
            let world = cached(vec![slow_stream()]).build();
            let (body, follower) = (question(&world, true), Client::leaving(polls, Leaving::AtOnce));
            let (read, left) = two(&world, &body, &Client::default(), &follower).await;
            assert!(read.is_complete() && matches!(left, Ended::Left(_)), "after {polls} polls: {left:?}");
            assert_eq!(statuses(&world), ["client_closed_request", "ok"]);
            world.check_money(2).await;
        });
    }
}

#[test]
fn a_shared_call_is_dropped_when_all_have_left_and_billed_once() {
    for stream in [false, true] {
        paused(async move {
            let world = cached(vec![if stream { slow_stream() } else { slow_document() }]).build();
            let (body, client) = (question(&world, stream), Client::leaving(1, Leaving::AtOnce));
            let _both = two(&world, &body, &client, &client).await;
            let seen = world.seen();
            assert!(seen.len() <= 2 && seen.iter().all(|call| !call.is_over), "{seen:#?}");
            assert_eq!(statuses(&world), ["client_closed_request", "client_closed_request"]);
            world.check_money(2).await;
        });
    }
}

#[test]
fn a_shared_call_that_fails_fails_for_all_and_is_not_made_again() {
    for stream in [false, true] {
        paused(async move {
            let world = cached(vec![refused(500).after(1_000)]).build();
            let body = question(&world, stream);
            let (leader, follower) = two(&world, &body, &Client::default(), &Client::default()).await;
            assert_eq!(
                (leader.refused_with(), follower.refused_with()),
                ("upstream_error", "upstream_error")
            );
            assert_eq!(world.called(), ["a"]);
            world.check_money(2).await;
        });
    }
}

#[test]
fn a_shared_stream_that_breaks_off_breaks_off_for_all_and_is_not_kept() {
    paused(async {
        let text = Step::Piece(Piece::Text("The sea".to_owned()));
        let broken = answer(Head::Stream(vec![wait(200), text, wait(200), Step::Break]));
        let world = cached(vec![broken, slow_stream()]).build();
        let body = question(&world, true);
        let (leader, follower) = two(&world, &body, &Client::default(), &Client::default()).await;
        for ended in [&leader, &follower] {
            assert_eq!(ended.error_event().as_deref(), Some("upstream_stream_error"), "{ended:?}");
        }
        world.check_money(2).await;
        assert!(world.ask(&body).await.is_complete());
        assert_eq!(world.called(), ["a", "a"]);
        world.check_money(3).await;
    });
}

#[test]
fn a_shared_stream_is_cut_for_all_at_the_end_of_a_shutdown() {
    paused(async {
        let text = Step::Piece(Piece::Text("The sea".to_owned()));
        let world = cached(vec![answer(Head::Stream(vec![wait(200), text, Step::Silence]))]).build();
        let (body, client) = (question(&world, true), Client::default());
        let cutting = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            world.engine.cut_streams();
        };
        let both = two(&world, &body, &client, &client);
        let ((leader, follower), ()) = join(both, cutting).await;
        for ended in [&leader, &follower] {
            assert_eq!(ended.error_event().as_deref(), Some("upstream_stream_error"), "{ended:?}");
        }
        assert_eq!(statuses(&world), ["gateway_shutdown", "gateway_shutdown"]);
        world.check_money(2).await;
    });
}

#[test]
fn a_leader_that_is_cut_has_its_end_in_the_ledger_although_its_call_goes_on_and_fails() {
    paused(async {
        let world = cached(vec![refused(500).after(20_000)]).build();
        let body = question(&world, true);
        let cutting = async {
            tokio::time::sleep(Duration::from_secs(15)).await;
            world.engine.cut_streams();
        };
        let follower = async {
            tokio::time::sleep(Duration::from_secs(14)).await;
            world.run(&body, &Client::default()).await
        };
        let (leader, (follower, ())) =
            join(world.run(&body, &Client::default()), join(follower, cutting)).await;
        world.settled().await;
        assert_eq!(leader.error_event().as_deref(), Some("upstream_stream_error"), "{leader:?}");
        assert_eq!(follower.refused_with(), "upstream_error");
        assert_eq!(statuses(&world), ["gateway_shutdown", "upstream_error"]);
        world.check_money(2).await;
    });
}
