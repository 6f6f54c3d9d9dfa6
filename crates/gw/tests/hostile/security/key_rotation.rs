//! Rotations of the encryption key: what the keys before have sealed still opens.

use gw_testkit::{Client, FakeUpstream, Gateway, Launch, Response};
use serde_json::{Value, json};

use crate::harness::{KEY, Setup, binary};

const FIRST: &str = "0101010101010101010101010101010101010101010101010101010101010101";
const SECOND: &str = "0202020202020202020202020202020202020202020202020202020202020202";
const THIRD: &str = "0303030303030303030303030303030303030303030303030303030303030303";

async fn ask(client: &Client, body: &Value) -> Response {
    client.post_json("/v1/responses", body).await
}

#[tokio::test]
async fn k03_stored_responses_and_summaries_outlive_rotations_of_the_encryption_key() {
    let (upstream, data) = (FakeUpstream::start().await, tempfile::tempdir().expect("a directory"));
    let extra = "[responses]\nstore = \"database\"\n".to_owned();
    let config = Setup { extra, ..Setup::default() }.config(&upstream.base_url(), &upstream.base_url());
    let start = async |key: &str, previous: Option<&str>| -> (Gateway, Client) {
        let launch = Launch::new(binary())
            .file("gateway.toml", &config)
            .env("MODEL_GATEWAY_DATA_DIR", data.path().to_str().expect("UTF-8"))
            .env("MODEL_GATEWAY_ENCRYPTION_KEY", key);
        let launch = match previous {
            Some(keys) => launch.env("MODEL_GATEWAY_PREVIOUS_ENCRYPTION_KEY", keys),
            None => launch,
        };
        let gateway = launch.arg("serve").start().await;
        let client = gateway.client().with_key(KEY);
        (gateway, client)
    };

    let (gateway, client) = start(FIRST, None).await;
    let hello = json!({ "model": "acme/fast", "input": "Hello" });
    let id = ask(&client, &hello).await.ok().json()["id"].as_str().expect("an id").to_owned();
    let summary = client.post_json("/v1/responses/compact", &hello).await.ok().json()["output"][0].clone();
    drop(gateway.stop());

    let path = format!("/v1/responses/{id}");
    let more = json!({ "model": "acme/fast", "input": "More", "previous_response_id": id });
    let summed = json!({ "model": "acme/fast", "input": [summary, { "role": "user", "content": "Go on" }] });
    // One rotation, and a second one while texts of the first key are still kept.
    for (key, previous) in [(SECOND, FIRST.to_owned()), (THIRD, format!("{SECOND}, {FIRST}"))] {
        let (gateway, client) = start(key, Some(&previous)).await;
        let object = client.get(&path).await.ok().json();
        assert_eq!(object["output"][0]["content"][0]["text"], "Hello from upstream");
        ask(&client, &more).await.ok();
        assert!(upstream.last().json()["messages"].to_string().contains("Hello from upstream"));
        ask(&client, &summed).await.ok();
        assert!(upstream.last().json()["messages"].to_string().contains("Hello from upstream"));
        drop(gateway.stop());
    }

    // Without the key nothing opens, and nothing of the old texts is told.
    let (_gateway, client) = start(THIRD, Some(SECOND)).await;
    let gone = client.get(&path).await;
    assert_eq!((gone.status, gone.code().as_str()), (404, "not_found"), "{}", gone.text());
    let refused = ask(&client, &more).await;
    assert_eq!((refused.status, refused.code().as_str()), (400, "previous_response_not_found"));
    assert_eq!(ask(&client, &summed).await.status, 400);
}

#[test]
fn k03_at_most_four_previous_keys_are_tried() {
    let launch = |keys: &[&str]| {
        Launch::new(binary())
            .file("gateway.toml", "[[providers]]\nname = \"demo\"\n")
            .env("MODEL_GATEWAY_PREVIOUS_ENCRYPTION_KEY", &keys.join(","))
            .arg("check")
            .run()
    };
    let output = launch(&[FIRST; 4]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let output = launch(&[FIRST; 5]);
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("MODEL_GATEWAY_PREVIOUS_ENCRYPTION_KEY holds 5 keys"), "{said}");
    assert!(!said.contains(FIRST), "{said}");
}
