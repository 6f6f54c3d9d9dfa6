//! Alerts: a receiver hears of each threshold once, whatever fails in between.

mod budgets;
mod delivery;
mod events;
mod operators;
mod reconcile;
mod state;

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gw_testkit::upstream::Recorded;
use gw_testkit::{Answer, FakeUpstream, eventually};
use serde_json::{Value, json};

use crate::harness::Setup;

/// The secret of the receivers: the one of the example that Standard Webhooks publish.
pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const CHAT: &str = "/v1/chat/completions";

/// A receiver that takes everything.
async fn receiver() -> FakeUpstream {
    let receiver = FakeUpstream::start().await;
    receiver.respond_with(|_| Answer::full(204, &[], ""));
    receiver
}

/// The URL of a receiver, with a path and a query that nothing may show.
fn url_of(receiver: &FakeUpstream) -> String {
    format!("http://{}/hooks/path-canary?token=query-canary", receiver.addr)
}

/// An alert in the format `json`.
fn alert(name: &str, on: &str, receiver: &FakeUpstream) -> String {
    let url = url_of(receiver);
    format!("[[alerts]]\nname = \"{name}\"\non = [{on}]\nurl = \"{url}\"\nsecret = \"{SECRET}\"\n")
}

/// A gateway with the key `sk-by`, which has a budget, and with these alerts. A request costs 0.00002 USD.
fn limited(budget: &str, alerts: &str) -> Setup {
    let extra = format!(
        "[[keys]]\nname = \"limited-by\"\nkey = \"sk-by\"\nbudget_usd = {budget}\nbudget_period = \"month\"\n{alerts}"
    );
    Setup { extra, ..Setup::default() }
}

/// A request of 0.00002 USD.
fn ask() -> Value {
    json!({ "model": "acme/plain", "max_tokens": 5, "messages": [{ "role": "user", "content": "Hello!" }] })
}

/// The messages of a receiver so far: the ids in the order of their first message, and the messages of each.
fn by_id(receiver: &FakeUpstream) -> BTreeMap<String, Vec<Arc<Recorded>>> {
    let mut all: BTreeMap<String, Vec<Arc<Recorded>>> = BTreeMap::new();
    for request in receiver.requests() {
        let id = request.header("webhook-id").expect("an id").to_owned();
        all.entry(id).or_default().push(request);
    }
    all
}

/// Waits for messages with so many ids.
async fn heard(receiver: &FakeUpstream, count: usize) -> Vec<Arc<Recorded>> {
    let what = format!("{count} alerts");
    let all = eventually(&what, || Some(by_id(receiver)).filter(|all| all.len() >= count)).await;
    assert_eq!(all.len(), count, "{all:?}");
    all.into_values().filter_map(|mut of| of.pop()).collect()
}

/// Checks the signature of a message, and returns its body.
fn verified(message: &Recorded) -> Value {
    let header =
        |name: &str| message.header(name).unwrap_or_else(|| panic!("{name}: {message:?}")).to_owned();
    let (id, at, signature) =
        (header("webhook-id"), header("webhook-timestamp"), header("webhook-signature"));
    let key = STANDARD.decode(SECRET.trim_start_matches("whsec_")).expect("base64");
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
    let signed = [format!("{id}.{at}.").as_bytes(), &message.body].concat();
    let tag = STANDARD.decode(signature.trim_start_matches("v1,")).expect("base64");
    hmac::verify(&key, &signed, &tag).expect("the signature");
    assert_eq!(header("content-type"), "application/json");
    message.json()
}
