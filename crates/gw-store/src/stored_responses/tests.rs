//! Stored responses on both databases.

use super::{KeptResponse, ResponseRow, SealedResponse};
use crate::sql::Sql;
use crate::testing::on_both;

fn response(owner: &str, id: &str, expires_at: i64, sealed: &str) -> SealedResponse {
    let row = ResponseRow { owner: owner.into(), id: id.into(), expires_at, ..ResponseRow::default() };
    SealedResponse { row, sealed: sealed.into(), items: Vec::new() }
}

fn continuing(parent: &str, response: SealedResponse) -> SealedResponse {
    let row = ResponseRow { parent: Some(parent.into()), ..response.row };
    SealedResponse { row, ..response }
}

#[tokio::test]
async fn a_response_belongs_to_its_key_and_ends_in_time() {
    on_both(async |place| {
        let store = place.open().await;
        let first = response("key_a", "resp_1", 100, "sealed 1");
        store.keep_response(first.clone()).await.unwrap();
        assert_eq!(store.response("key_a", "resp_1", 99).await.unwrap(), Some(first.row));
        assert_eq!(store.response("key_a", "resp_1", 100).await.unwrap(), None);
        assert_eq!(store.response("key_b", "resp_1", 0).await.unwrap(), None);
        assert_eq!(store.response_content("key_b", "resp_1").await.unwrap(), None);
        let second = response("key_a", "resp_1", 200, "sealed 2");
        store.keep_response(second.clone()).await.unwrap();
        assert_eq!(store.response("key_a", "resp_1", 150).await.unwrap(), Some(second.row.clone()));
        assert_eq!(store.response_content("key_a", "resp_1").await.unwrap().unwrap(), "sealed 2");
        assert!(!format!("{second:?}").contains("sealed 2"));
    })
    .await;
}

#[tokio::test]
async fn a_deleted_or_purged_response_is_gone() {
    on_both(async |place| {
        let store = place.open().await;
        for (id, expires_at) in [("resp_1", 100), ("resp_2", 100), ("resp_3", 300)] {
            store.keep_response(response("key_a", id, expires_at, "x")).await.unwrap();
        }
        assert!(store.delete_response("key_a", "resp_1", 0).await.unwrap());
        assert!(!store.delete_response("key_a", "resp_1", 0).await.unwrap());
        assert!(!store.delete_response("key_b", "resp_2", 0).await.unwrap());
        assert_eq!(store.purge_responses(100, 10, 1000).await.unwrap(), 1);
        assert!(store.response("key_a", "resp_2", 0).await.unwrap().is_none());
        assert!(store.response_content("key_a", "resp_2").await.unwrap().is_none());
        assert!(store.response("key_a", "resp_3", 100).await.unwrap().is_some());
    })
    .await;
}

#[tokio::test]
async fn the_bytes_of_a_key_are_those_of_its_rows_after_every_change() {
    on_both(async |place| {
        let store = place.open().await;
        let sum = async |owner: &str| store.response_bytes(owner).await.unwrap();
        let turn = |owner: &str, id: &str, expires_at: i64, bytes: i64| {
            let mut turn = response(owner, id, expires_at, "x");
            turn.row.bytes = bytes;
            turn
        };
        assert_eq!(sum("key_a").await, 0);
        for (id, expires_at, bytes) in [("resp_1", 100, 1), ("resp_2", 100, 2), ("resp_3", 300, 4)] {
            store.keep_response(turn("key_a", id, expires_at, bytes)).await.unwrap();
        }
        store.keep_response(turn("key_b", "resp_1", 100, 64)).await.unwrap();
        assert_eq!((sum("key_a").await, sum("key_b").await), (7, 64));
        // A row that is written anew counts once.
        store.keep_response(turn("key_a", "resp_1", 100, 16)).await.unwrap();
        assert_eq!(sum("key_a").await, 22);
        let mut running = turn("key_a", "resp_4", 300, 0);
        running.row.runs_for = Some(50);
        store.keep_response(running.clone()).await.unwrap();
        store.renew_response("key_a", "resp_4", 60, 60).await.unwrap();
        store.finish_response(turn("key_a", "resp_4", 300, 32)).await.unwrap();
        assert_eq!(sum("key_a").await, 54);
        assert_eq!(
            store.finish_response(turn("key_a", "resp_4", 300, 99)).await.unwrap(),
            KeptResponse::Ended
        );
        assert!(!store.delete_response("key_a", "resp_9", 0).await.unwrap());
        let orphan = continuing("resp_9", turn("key_a", "resp_5", 300, 99));
        assert_eq!(store.keep_response(orphan.clone()).await.unwrap(), KeptResponse::ParentGone);
        assert_eq!(sum("key_a").await, 54);
        // A deleted turn counts for as long as another one continues it.
        let next = continuing("resp_3", turn("key_a", "resp_6", 300, 128));
        store.keep_response(next.clone()).await.unwrap();
        store.delete_response("key_a", "resp_3", 0).await.unwrap();
        assert_eq!(sum("key_a").await, 182);
        store.delete_response("key_a", "resp_6", 0).await.unwrap();
        assert_eq!(sum("key_a").await, 50);
        // Ended ones count until they are purged.
        assert_eq!(store.purge_responses(200, 10, 1000).await.unwrap(), 3);
        assert_eq!((sum("key_a").await, sum("key_b").await), (32, 0));
    })
    .await;
}

#[tokio::test]
async fn a_purge_deletes_a_bounded_number_of_rows_and_of_bytes() {
    on_both(async |place| {
        let store = place.open().await;
        for at in 0..10 {
            let mut turn = response("key_a", &format!("resp_{at}"), 100, "x");
            turn.row.bytes = 10;
            store.keep_response(turn.clone()).await.unwrap();
        }
        let purge = async |rows, bytes| store.purge_responses(100, rows, bytes).await.unwrap();
        assert_eq!(purge(2, 1000).await, 2);
        // It ends with the row that reaches the bound.
        assert_eq!(purge(100, 25).await, 3);
        assert_eq!(purge(100, 1).await, 1, "a row of any size goes");
        assert_eq!(purge(100, 1000).await, 4);
        assert_eq!(purge(100, 1000).await, 0);
    })
    .await;
}

/// Many times, a response is deleted while another one begins to continue it.
#[tokio::test]
async fn a_response_never_continues_one_that_is_deleted() {
    on_both(async |place| {
        let store = place.open().await;
        for at in 0..40 {
            let (parent, child) = (format!("resp_p{at}"), format!("resp_c{at}"));
            store.keep_response(response("key_a", &parent, 100, "x")).await.unwrap();
            let next = continuing(&parent, response("key_a", &child, 100, "y"));
            let (kept, deleted) =
                tokio::join!(store.keep_response(next.clone()), store.delete_response("key_a", &parent, 0));
            assert!(deleted.unwrap());
            let content = store.response_content("key_a", &parent).await.unwrap();
            match kept.unwrap() {
                KeptResponse::Stored => assert!(content.is_some(), "the child has lost its parent"),
                kept => assert_eq!((kept, content), (KeptResponse::ParentGone, None)),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_response_that_runs_ends_once() {
    on_both(async |place| {
        let store = place.open().await;
        let mut running = response("key_a", "resp_1", 100, "running");
        running.row.runs_for = Some(50);
        store.keep_response(running.clone()).await.unwrap();
        assert!(store.renew_response("key_a", "resp_1", 600, 150).await.unwrap());
        assert!(!store.renew_response("key_b", "resp_1", 600, 150).await.unwrap());
        let found = store.response("key_a", "resp_1", 0).await.unwrap().unwrap();
        assert!(found.runs_for.is_some_and(|left| (590..=600).contains(&left)), "{:?}", found.runs_for);
        assert_eq!(found.expires_at, 150);
        assert_eq!(store.response_content("key_a", "resp_1").await.unwrap().unwrap(), "running");
        assert!(store.renew_response("key_a", "resp_1", -5, 120).await.unwrap());
        let late = store.response("key_a", "resp_1", 0).await.unwrap().unwrap();
        assert!(late.runs_for.is_some_and(|left| left <= -5), "{:?}", late.runs_for);
        assert_eq!(late.expires_at, 150);
        let ended = response("key_a", "resp_1", 200, "ended");
        assert_eq!(store.finish_response(ended.clone()).await.unwrap(), KeptResponse::Stored);
        let again = response("key_a", "resp_1", 300, "again");
        assert_eq!(store.finish_response(again.clone()).await.unwrap(), KeptResponse::Ended);
        assert!(!store.renew_response("key_a", "resp_1", 70, 70).await.unwrap());
        assert_eq!(store.response("key_a", "resp_1", 0).await.unwrap(), Some(ended.row));
        assert_eq!(store.response_content("key_a", "resp_1").await.unwrap().unwrap(), "ended");
        let deleted = response("key_a", "resp_2", 300, "deleted");
        assert_eq!(store.finish_response(deleted.clone()).await.unwrap(), KeptResponse::Ended);
    })
    .await;
}

#[tokio::test]
async fn a_turn_is_kept_for_those_that_continue_it_and_no_longer() {
    on_both(async |place| {
        let store = place.open().await;
        store.keep_response(response("key_a", "resp_1", 100, "one")).await.unwrap();
        for (parent, id, end) in
            [("resp_1", "resp_2", 200), ("resp_2", "resp_3", 300), ("resp_1", "resp_4", 150)]
        {
            let turn = continuing(parent, response("key_a", id, end, id));
            assert_eq!(store.keep_response(turn.clone()).await.unwrap(), KeptResponse::Stored);
        }
        let ids = async |id: &str| -> Vec<String> {
            let chain = store.response_chain("key_a", id, 10).await.unwrap();
            chain.into_iter().map(|row| row.id).collect()
        };
        assert_eq!(ids("resp_3").await, ["resp_3", "resp_2", "resp_1"]);
        assert_eq!(store.response_chain("key_a", "resp_3", 2).await.unwrap().len(), 2);
        assert!(store.response_chain("key_b", "resp_3", 10).await.unwrap().is_empty());
        // A deleted turn and one that has expired are not retrieved, and are read by those that continue them.
        assert!(store.delete_response("key_a", "resp_2", 0).await.unwrap());
        assert!(store.response("key_a", "resp_2", 0).await.unwrap().is_none());
        assert_eq!(store.purge_responses(120, 10, 1000).await.unwrap(), 0);
        assert_eq!(ids("resp_3").await, ["resp_3", "resp_2", "resp_1"]);
        // The last one of them takes the others along.
        assert!(store.delete_response("key_a", "resp_3", 120).await.unwrap());
        assert_eq!(ids("resp_2").await, Vec::<String>::new());
        assert_eq!(ids("resp_1").await, ["resp_1"], "resp_4 continues it");
        assert_eq!(store.purge_responses(150, 10, 1000).await.unwrap(), 1);
        assert_eq!(store.purge_responses(150, 10, 1000).await.unwrap(), 1);
        assert_eq!(ids("resp_1").await, Vec::<String>::new());
        let orphan = continuing("resp_1", response("key_a", "resp_5", 300, "x"));
        assert_eq!(store.keep_response(orphan.clone()).await.unwrap(), KeptResponse::ParentGone);
        assert!(store.response("key_a", "resp_5", 0).await.unwrap().is_none());
    })
    .await;
}

#[tokio::test]
async fn items_are_found_by_their_ids_and_bytes_are_summed_by_key() {
    on_both(async |place| {
        let store = place.open().await;
        let many: Vec<String> = (0..150).map(|at| format!("msg_{at}")).collect();
        for (owner, id, bytes) in [("key_a", "resp_1", 7), ("key_a", "resp_2", 5), ("key_b", "resp_3", 3)] {
            let mut turn = response(owner, id, 100, "x");
            turn.row.bytes = bytes;
            turn.items = if id == "resp_1" { many.clone() } else { vec![format!("fc_{id}")] };
            store.keep_response(turn.clone()).await.unwrap();
        }
        let found = store.responses_of_items("key_a", &many, 0).await.unwrap();
        assert_eq!((found.len(), &*found[149].1), (150, "resp_1"));
        let asked = ["fc_resp_2".to_owned(), "fc_resp_3".to_owned()];
        let found = store.responses_of_items("key_a", &asked, 0).await.unwrap();
        assert_eq!(found, [("fc_resp_2".to_owned(), "resp_2".to_owned())]);
        assert!(store.responses_of_items("key_a", &asked, 100).await.unwrap().is_empty());
        assert_eq!(store.response_bytes("key_a").await.unwrap(), 12);
        assert_eq!(store.response_bytes("key_c").await.unwrap(), 0);
        store.delete_response("key_a", "resp_1", 0).await.unwrap();
        assert!(store.responses_of_items("key_a", &many, 0).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn items_with_the_same_ids_are_found_in_the_last_response_alone() {
    on_both(async |place| {
        let store = place.open().await;
        let items: Vec<String> = (0..250).map(|at| format!("fc_{at}")).collect();
        for at in 0..5 {
            for owner in ["key_a", "key_b"] {
                let mut turn = response(owner, &format!("resp_{at}"), 100 - at, "x");
                turn.items = items.clone();
                store.keep_response(turn.clone()).await.unwrap();
            }
        }
        let found = store.responses_of_items("key_a", &items, 0).await.unwrap();
        assert_eq!(found.len(), 250);
        assert!(found.iter().all(|(_, response)| response == "resp_4"));
        store.delete_response("key_a", "resp_4", 0).await.unwrap();
        assert!(store.responses_of_items("key_a", &items, 0).await.unwrap().is_empty());
        assert_eq!(store.responses_of_items("key_b", &items, 0).await.unwrap().len(), 250);
    })
    .await;
}

#[tokio::test]
async fn an_upstream_that_repeats_its_ids_makes_no_circle() {
    on_both(async |place| {
        let store = place.open().await;
        let keep = async |id: &str, parent: Option<&str>| {
            let mut turn = response("key_a", id, 100, "x");
            turn.row.parent = parent.map(str::to_owned);
            store.keep_response(turn.clone()).await.unwrap()
        };
        for (id, parent) in [("resp_a", None), ("resp_b", Some("resp_a")), ("resp_c", Some("resp_b"))] {
            assert_eq!(keep(id, parent).await, KeptResponse::Stored);
        }
        for parent in ["resp_a", "resp_b", "resp_c"] {
            assert_eq!(keep("resp_a", Some(parent)).await, KeptResponse::ParentGone);
        }
        assert_eq!(keep("resp_a", None).await, KeptResponse::Stored, "with its history");
        // The id of another conversation's response is none of this one.
        assert_eq!(keep("resp_d", None).await, KeptResponse::Stored);
        assert_eq!(keep("resp_d", Some("resp_c")).await, KeptResponse::Stored);
        for _ in 0..4 {
            assert_eq!(store.purge_responses(100, 10, 1000).await.unwrap(), 1);
        }
    })
    .await;
}

#[tokio::test]
async fn a_row_from_before_the_chains_is_read() {
    on_both(async |place| {
        let store = place.open().await;
        let insert = "INSERT INTO responses (owner, id, expires_at, sealed) VALUES ('key_a', 'resp_1', 100, 'old one')";
        store.run(Sql::new(insert)).await.unwrap();
        let row = store.response("key_a", "resp_1", 0).await.unwrap().unwrap();
        assert_eq!((row.parent, row.bytes, row.conversation), (None, 7, [7, 0, 0, 1]));
        assert!(row.is_streamed, "its numbers are not known");
        assert_eq!(store.response_content("key_a", "resp_1").await.unwrap().unwrap(), "old one");
        let next = continuing("resp_1", response("key_a", "resp_2", 100, "new"));
        assert_eq!(store.keep_response(next.clone()).await.unwrap(), KeptResponse::Stored);
        assert_eq!(store.response_chain("key_a", "resp_2", 9).await.unwrap().len(), 2);
    })
    .await;
}
