//! Stored responses on both databases.

use super::SealedResponse;
use crate::testing::on_both;

fn response(owner: &str, id: &str, expires_at: i64, sealed: &str) -> SealedResponse {
    let (owner, id) = (owner.into(), id.into());
    SealedResponse { owner, id, expires_at, runs_for: None, sealed: sealed.into() }
}

#[tokio::test]
async fn a_response_belongs_to_its_key_and_ends_in_time() {
    on_both(async |place| {
        let store = place.open().await;
        let first = response("key_a", "resp_1", 100, "sealed 1");
        store.keep_response(&first).await.unwrap();
        assert_eq!(store.response("key_a", "resp_1", 99).await.unwrap(), Some(first));
        assert_eq!(store.response("key_a", "resp_1", 100).await.unwrap(), None);
        assert_eq!(store.response("key_b", "resp_1", 0).await.unwrap(), None);
        let second = response("key_a", "resp_1", 200, "sealed 2");
        store.keep_response(&second).await.unwrap();
        assert_eq!(store.response("key_a", "resp_1", 150).await.unwrap(), Some(second.clone()));
        assert!(!format!("{second:?}").contains("sealed 2"));
    })
    .await;
}

#[tokio::test]
async fn a_deleted_or_purged_response_is_gone() {
    on_both(async |place| {
        let store = place.open().await;
        for (id, expires_at) in [("resp_1", 100), ("resp_2", 100), ("resp_3", 300)] {
            store.keep_response(&response("key_a", id, expires_at, "x")).await.unwrap();
        }
        assert!(store.delete_response("key_a", "resp_1", 0).await.unwrap());
        assert!(!store.delete_response("key_a", "resp_1", 0).await.unwrap());
        assert!(!store.delete_response("key_b", "resp_2", 0).await.unwrap());
        assert_eq!(store.purge_responses(100, 10).await.unwrap(), 1);
        assert!(store.response("key_a", "resp_2", 0).await.unwrap().is_none());
        assert!(store.response("key_a", "resp_3", 100).await.unwrap().is_some());
    })
    .await;
}

#[tokio::test]
async fn a_response_that_runs_ends_once() {
    on_both(async |place| {
        let store = place.open().await;
        let running = SealedResponse { runs_for: Some(50), ..response("key_a", "resp_1", 100, "running") };
        store.keep_response(&running).await.unwrap();
        assert!(store.renew_response("key_a", "resp_1", 600, 150).await.unwrap());
        assert!(!store.renew_response("key_b", "resp_1", 600, 150).await.unwrap());
        let found = store.response("key_a", "resp_1", 0).await.unwrap().unwrap();
        assert!(found.runs_for.is_some_and(|left| (590..=600).contains(&left)), "{:?}", found.runs_for);
        assert_eq!((found.expires_at, &*found.sealed), (150, "running"));
        assert!(store.renew_response("key_a", "resp_1", -5, 120).await.unwrap());
        let late = store.response("key_a", "resp_1", 0).await.unwrap().unwrap();
        assert!(late.runs_for.is_some_and(|left| left <= -5), "{:?}", late.runs_for);
        assert_eq!(late.expires_at, 150);
        let ended = response("key_a", "resp_1", 200, "ended");
        assert!(store.finish_response(&ended).await.unwrap());
        assert!(!store.finish_response(&response("key_a", "resp_1", 300, "again")).await.unwrap());
        assert!(!store.renew_response("key_a", "resp_1", 70, 70).await.unwrap());
        assert_eq!(store.response("key_a", "resp_1", 0).await.unwrap(), Some(ended));
        assert!(!store.finish_response(&response("key_a", "resp_2", 300, "deleted")).await.unwrap());
    })
    .await;
}
