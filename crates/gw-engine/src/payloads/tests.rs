//! The way from the edge into the store: masked, bounded, and never in anybody's way.

use super::*;

fn payloads() -> Arc<Payloads> {
    Payloads::new(&PayloadSettings { most: 1_000, ..PayloadSettings::default() }).unwrap()
}

fn say(payloads: &Arc<Payloads>, id: &str, request: &str, answer: &str) {
    let mut capture = payloads.hear(&id.into(), &Bytes::copy_from_slice(request.as_bytes()));
    if answer.starts_with("data:") {
        capture.streams();
    }
    capture.sent(&Bytes::copy_from_slice(answer.as_bytes()));
}

#[tokio::test]
async fn what_was_heard_is_in_the_store_masked_when_everything_is_closed() {
    let (store, payloads) = (Store::in_memory().await.unwrap(), payloads());
    say(&payloads, "req_1", r#"{"user":"alice@example.com"}"#, r#"{"n":"+49 171 2345678"}"#);
    say(
        &payloads,
        "req_2",
        "not json",
        &[
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"al\"}}]}\n\n",
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ice@example.com\"}}]}\n\n",
        ]
        .concat(),
    );
    say(&payloads, "req_3", &"x".repeat(5_000), "");
    assert_eq!(payloads.waiting(), 3);
    payloads.close();
    payloads.run(&store).await;
    assert_eq!((payloads.waiting(), payloads.dropped()), (0, 0));
    let find = async |id: &str| store.payload(id).await.unwrap().expect("it is there");
    let first = find("req_1").await;
    assert_eq!(
        (&*first.request.text, &*first.response.text),
        (r#"{"user":"[email]"}"#, r#"{"n":"[phone]"}"#)
    );
    assert!(first.at > 1_700_000_000_000 && !first.request.is_cut && !first.response.is_cut);
    let second = find("req_2").await;
    assert_eq!(second.response.text, r#"{"choices":[{"index":0,"message":{"content":"[email]"}}]}"#);
    let third = find("req_3").await;
    assert!(third.request.is_cut && third.request.text.len() <= 1_000 && third.response.text.is_empty());
}

#[tokio::test]
async fn beyond_its_bounds_it_drops_and_counts() {
    let (store, payloads) = (Store::in_memory().await.unwrap(), payloads());
    let large = "x".repeat(MAX_WAITING_BYTES + 1);
    say(&payloads, "req_1", &large, "");
    say(&payloads, "req_2", "{}", "");
    assert_eq!((payloads.waiting(), payloads.dropped()), (1, 1));
    payloads.close();
    payloads.run(&store).await;
    assert!(store.payload("req_1").await.unwrap().is_some());
    // There is place again.
    for n in 0..MAX_WAITING + 5 {
        say(&payloads, &format!("req_{n:09}"), "", "");
    }
    assert_eq!((payloads.waiting(), payloads.dropped()), (MAX_WAITING as u64, 6));
}

#[tokio::test]
async fn a_store_that_is_closed_costs_the_payloads_and_nothing_else() {
    let (store, payloads) = (Store::in_memory().await.unwrap(), payloads());
    store.close().await;
    say(&payloads, "req_1", "{}", "{}");
    payloads.close();
    payloads.run(&store).await;
    assert_eq!((payloads.waiting(), payloads.dropped()), (0, 1));
}
