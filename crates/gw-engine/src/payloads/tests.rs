//! The way from the edge into the store: masked, bounded, and never in anybody's way.

use super::*;

fn payloads() -> Arc<Payloads> {
    Payloads::new(&PayloadSettings { most: 1_000, ..PayloadSettings::default() }).unwrap()
}

fn say(payloads: &Arc<Payloads>, id: &str, request: &str, answer: &str) {
    say_as(payloads, "key", id, request, answer);
}

fn say_as(payloads: &Arc<Payloads>, key: &str, id: &str, request: &str, answer: &str) {
    let mut capture = payloads.hear(&key.into(), &id.into(), &Bytes::copy_from_slice(request.as_bytes()));
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
    let large = "x".repeat(MAX_WAITING_BYTES as usize + 1);
    say(&payloads, "req_1", &large, "");
    say(&payloads, "req_2", "{}", "");
    assert_eq!((payloads.waiting(), payloads.dropped()), (1, 1));
    payloads.close();
    payloads.run(&store).await;
    assert!(store.payload("req_1").await.unwrap().is_some());
    // There is place again: half of it for one key.
    for n in 0..MAX_WAITING / 2 + 5 {
        say(&payloads, &format!("req_{n:09}"), "", "");
    }
    assert_eq!((payloads.waiting(), payloads.dropped()), (MAX_WAITING / 2, 6));
}

#[tokio::test]
async fn c36_one_keys_flood_drops_no_payload_of_another_key() {
    let (store, payloads) = (Store::in_memory().await.unwrap(), payloads());
    for n in 0..2 * MAX_WAITING {
        say_as(&payloads, "loud", &format!("loud_{n}"), "{}", "{}");
    }
    let (kept, lost) = (payloads.waiting(), payloads.dropped());
    assert_eq!((kept, lost), (MAX_WAITING / 2, 2 * MAX_WAITING - MAX_WAITING / 2));
    for n in 0..100 {
        say_as(&payloads, "quiet", &format!("quiet_{n}"), "{}", "{}");
    }
    // Large bodies take memory, of which the flood has half, too.
    let megabyte = "x".repeat(1 << 20);
    for n in 0..100 {
        say_as(&payloads, "large", &format!("large_{n}"), &megabyte, "");
    }
    let after_large = payloads.dropped();
    assert!(after_large > lost, "one key's bodies have a share of the memory");
    for n in 100..110 {
        say_as(&payloads, "quiet", &format!("quiet_{n}"), &megabyte, "");
    }
    assert_eq!(payloads.dropped(), after_large);
    payloads.close();
    payloads.run(&store).await;
    assert_eq!(payloads.waiting(), 0);
    for n in 0..110 {
        assert!(store.payload(&format!("quiet_{n}")).await.unwrap().is_some(), "quiet_{n}");
    }
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
