//! The bounds of the items that one request brings in from the store, and the memory that the request holds for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::FutureExt;
use serde_json::{Value, json};

use super::*;
use crate::stored_responses::{
    Kept, ResponseFacts, ResponsePlace, ResponseTable, ResponseWrite, StoredResponse, StoredResponseSettings,
    TableFuture, TurnFacts,
};

/// The id of the n-th response.
fn id(n: u64) -> String {
    format!("resp_{n:032x}")
}

/// The id of the only item in the answer of the n-th response.
fn item_id(n: u64) -> String {
    format!("msg_{n:032x}_0")
}

fn message(role: &str, id: &str, text: &str) -> Value {
    json!({"type": "message", "role": role, "id": id, "content": text})
}

/// The n-th response: a short question and this answer.
fn turn(n: u64, answer: &str) -> StoredResponse {
    let document = json!({"id": id(n), "output": [message("assistant", &item_id(n), answer)]}).to_string();
    let input = json!([message("user", &format!("msg_q{n}"), "?")]).to_string();
    let texts = [Bytes::from(document), input.into(), Bytes::new()];
    StoredResponse::new(texts, TurnFacts::default(), u64::MAX)
}

fn refer(items: &[String]) -> WantedItems {
    WantedItems { items: items.to_vec(), store: true, ..WantedItems::default() }
}

async fn ask(
    stored: &StoredResponses,
    wanted: &WantedItems,
    limits: &RequestLimits,
) -> Result<StoredConversation> {
    stored.conversation("key", wanted, ConversationBounds { body_bytes: 1000, limits }).await
}

async fn saved(stored: &StoredResponses, n: u64, answer: &str, before: &StoredConversation) {
    let kept = stored.save("key", &id(n), turn(n, answer), before).await;
    assert_eq!(kept.unwrap(), Kept::Stored);
}

#[tokio::test]
async fn an_item_counts_as_often_as_references_name_it() {
    let (stored, limits) = (StoredResponses::default(), RequestLimits::default());
    saved(&stored, 1, &"x".repeat(1 << 20), &StoredConversation::default()).await;
    // Once it fits, and its copies are counted for as long as the request has them.
    let once = ask(&stored, &refer(&[item_id(1)]), &limits).await.unwrap();
    assert_eq!(once.texts().len(), 1, "the question was not asked for");
    assert!(stored.reading.gauge().get() >= 3 << 20, "{}", stored.reading.gauge().get());
    drop(once);
    let often = ask(&stored, &refer(&vec![item_id(1); 20]), &limits).await.unwrap();
    assert!(often.is_heavy() && stored.reading.gauge().get() >= 40 << 20);
    drop(often);
    for count in [32, 400] {
        let refused = ask(&stored, &refer(&vec![item_id(1); count]), &limits).await.unwrap_err();
        assert_eq!(refused.kind, Kind::RequestTooLarge, "{count}: {}", refused.message);
    }
    assert_eq!(stored.reading.gauge().get(), 0);
    // So do its JSON values, and an item of the conversation that is continued.
    let few = RequestLimits { max_values: 100, ..limits };
    ask(&stored, &refer(&vec![item_id(1); 10]), &few).await.unwrap();
    let refused = ask(&stored, &refer(&vec![item_id(1); 30]), &few).await.unwrap_err();
    assert!(refused.message.contains("max_values"), "{}", refused.message);
    let again = WantedItems { previous_response_id: Some(id(1)), ..refer(&vec![item_id(1); 40]) };
    let refused = ask(&stored, &again, &limits).await.unwrap_err();
    assert_eq!(refused.kind, Kind::RequestTooLarge, "{}", refused.message);
}

#[tokio::test]
async fn too_many_references_are_refused_before_they_are_looked_up() {
    let limits = RequestLimits { max_messages: 10, ..RequestLimits::default() };
    let table = Arc::new(LargeTable::default());
    let stored = table_of(&table);
    let unknown: Vec<String> = (0..11).map(|at| format!("msg_other{at}")).collect();
    let refused = ask(&stored, &refer(&unknown), &limits).await.unwrap_err();
    assert!(refused.message.contains("max_messages"), "{}", refused.message);
    assert_eq!(table.asked.load(Ordering::Relaxed), 0);
    ask(&stored, &refer(&unknown[1..]), &limits).await.unwrap();
    assert_eq!(table.asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_continuation_refers_to_items_outside_its_conversation() {
    let (stored, limits) = (StoredResponses::default(), RequestLimits::default());
    saved(&stored, 1, "one", &StoredConversation::default()).await;
    saved(&stored, 2, "two", &StoredConversation::default()).await;
    let wanted = WantedItems { previous_response_id: Some(id(2)), ..refer(&[item_id(1), item_id(2)]) };
    let found = ask(&stored, &wanted, &limits).await.unwrap();
    let holds = |text: &str, part: &str| text.contains(&format!("\"{part}\""));
    let texts = found.texts();
    assert_eq!((texts.len(), found.candidates()), (3, 1));
    assert!(holds(texts[0], "one") && holds(texts[1], "?") && holds(texts[2], "two"));
    assert_eq!(found.size.turns, 1, "the candidate is no turn");
    let joined: Vec<Value> = serde_json::from_slice(&found.joined()).unwrap();
    assert_eq!(joined.len(), 2, "nor does it become one");
}

#[tokio::test]
async fn a_call_that_broke_off_is_left_out_unless_something_answers_it() {
    const NONE: &[&str] = &[];
    const ONE: &[&str] = &["c"];
    let (stored, limits) = (StoredResponses::default(), RequestLimits::default());
    let words = json!([message("user", "msg_x", "Hello")]);
    let call = |id: &str, status: &str| json!({"type": "function_call", "id": id, "call_id": "c", "name": "f", "arguments": "{", "status": status});
    let cut = json!([call("fc_cut", "incomplete")]);
    let output =
        json!([{"type": "function_call_output", "id": "fco_x", "call_id": "c", "output": "no JSON"}]);
    let save = async |n: u64, input: &Value, output: &Value, before: &StoredConversation| {
        let document = json!({"id": id(n), "output": output}).to_string();
        let texts = [Bytes::from(document), input.to_string().into(), Bytes::new()];
        let response = StoredResponse::new(texts, TurnFacts::default(), u64::MAX);
        assert_eq!(stored.save("key", &id(n), response, before).await.unwrap(), Kept::Stored);
    };
    let continued = async |n: u64, answered: &[&str]| {
        let answered_calls = answered.iter().map(|id| (*id).to_owned()).collect();
        let previous_response_id = Some(id(n));
        let wanted = WantedItems { previous_response_id, answered_calls, ..WantedItems::default() };
        ask(&stored, &wanted, &limits).await.unwrap()
    };
    let holds = |found: &StoredConversation, part: &str| {
        let conversation = found.texts().split_off(found.candidates());
        conversation.iter().any(|text| text.contains(part))
    };
    save(1, &words, &cut, &StoredConversation::default()).await;
    for (answered, stays) in [(NONE, false), (&["other"], false), (ONE, true), (&["other", "c"], true)] {
        let found = continued(1, answered).await;
        assert_eq!(holds(&found, "fc_cut"), stays, "{answered:?}");
        assert!(found.texts().concat().contains("fc_cut"), "a reference finds it: {answered:?}");
        assert_eq!(found.texts().len(), 2, "{answered:?}");
    }
    // The next turn answers it, so that all later ones hold both.
    save(2, &output, &words, &continued(1, ONE).await).await;
    assert!(holds(&continued(2, NONE).await, "fc_cut"));
    // The next turn does not answer it, and a later one may.
    save(3, &words, &words, &continued(1, NONE).await).await;
    assert!(!holds(&continued(3, NONE).await, "fc_cut") && holds(&continued(3, ONE).await, "fc_cut"));
    let joined = String::from_utf8(continued(3, NONE).await.joined()).unwrap();
    assert!(joined.contains("fc_cut"), "also if the turns before it are deleted meanwhile");
    // The model repeats it with the same id: the output belongs to the later call.
    save(4, &words, &json!([call("fc_whole", "completed")]), &continued(1, NONE).await).await;
    let found = continued(4, ONE).await;
    assert!(holds(&found, "fc_whole") && !holds(&found, "fc_cut"));
}

/// A database of turns whose documents say that they are large.
#[derive(Debug, Default)]
struct LargeTable {
    bytes: u64,
    turns: u64,
    /// The number of questions for items.
    asked: AtomicU64,
    /// The number of turns that were opened.
    opened: AtomicU64,
    /// The turns that were stored after the first ones.
    added: AtomicU64,
    /// Added to the version of each row.
    written_anew: AtomicI64,
    /// The turn that another replica deleted.
    deleted: AtomicU64,
    /// The moment until which the turns run; 0 = they have ended.
    runs_until: AtomicU64,
    /// Deletions wait while it is held.
    deleting: tokio::sync::Mutex<()>,
}

fn table_of(table: &Arc<LargeTable>) -> StoredResponses {
    let place = ResponsePlace::Database;
    let settings = StoredResponseSettings { place, max_conversation_bytes: 64 << 20, ..Default::default() };
    StoredResponses::new(settings, Some(Arc::clone(table) as Arc<dyn ResponseTable>))
}

impl LargeTable {
    fn facts(&self, n: u64) -> ResponseFacts {
        let size = ConversationSize { bytes: 100 * n, items: 2 * n, values: 10 * n, turns: n };
        let version = self.written_anew.load(Ordering::Relaxed);
        let running_until = Some(self.runs_until.load(Ordering::Relaxed)).filter(|until| *until > 0);
        ResponseFacts {
            is_running: running_until.is_some(),
            running_until,
            id: id(n),
            version,
            bytes: self.bytes,
            size,
            expires_at: u64::MAX,
        }
    }

    fn all(&self) -> u64 {
        self.turns + self.added.load(Ordering::Relaxed)
    }
}

impl ResponseTable for LargeTable {
    fn find<'a>(&'a self, _: &'a str, asked: &'a str) -> TableFuture<'a, Option<ResponseFacts>> {
        Box::pin(async move { Ok((1..=self.all()).find(|n| id(*n) == asked).map(|n| self.facts(n))) })
    }

    fn chain<'a>(&'a self, _: &'a str, _: &'a str, _: u32) -> TableFuture<'a, Vec<ResponseFacts>> {
        let is_there = |n: &u64| *n != self.deleted.load(Ordering::Relaxed);
        Box::pin(
            async move { Ok((1..=self.all()).rev().take_while(is_there).map(|n| self.facts(n)).collect()) },
        )
    }

    fn open<'a>(&'a self, _: &'a str, asked: &'a str) -> TableFuture<'a, Option<StoredResponse>> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move { Ok((1..=self.all()).find(|n| id(*n) == asked).map(|n| turn(n, "a"))) })
    }

    fn responses_of_items<'a>(&'a self, _: &'a str, _: &'a [String]) -> TableFuture<'a, Vec<String>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Ok(Vec::new()) })
    }

    fn stored_bytes<'a>(&'a self, _: &'a str) -> TableFuture<'a, u64> {
        Box::pin(async { Ok(0) })
    }

    fn write<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: ResponseWrite,
        _: &'a StoredResponse,
        _: &'a [String],
    ) -> TableFuture<'a, Kept> {
        Box::pin(async { Ok(Kept::Stored) })
    }

    fn renew<'a>(&'a self, _: &'a str, _: &'a str, _: u64) -> TableFuture<'a, bool> {
        Box::pin(async { Ok(false) })
    }

    fn delete<'a>(&'a self, _: &'a str, _: &'a str) -> TableFuture<'a, bool> {
        Box::pin(async {
            let _turn = self.deleting.lock().await;
            Ok(true)
        })
    }
}

#[tokio::test]
async fn a_long_conversation_holds_one_opened_turn_at_a_time() {
    let limits = RequestLimits::default();
    // Together the documents are larger than the memory for reading; the items are small.
    let stored = table_of(&Arc::new(LargeTable { bytes: 60 << 20, turns: 900, ..LargeTable::default() }));
    let wanted = WantedItems { previous_response_id: Some(id(900)), ..WantedItems::default() };
    let found = ask(&stored, &wanted, &limits).await.unwrap();
    assert_eq!(found.texts().len(), 1800);
    assert!(stored.reading.gauge().get() < 1 << 20, "{}", stored.reading.gauge().get());
    // Others of the key leave no room for a turn: this may be tried again.
    let other = stored.reading.hold("key", 100 << 20).unwrap();
    let refused = ask(&stored, &wanted, &limits).await.unwrap_err();
    assert_eq!(refused.kind, Kind::RateLimitExceeded);
    drop((found, other));
    assert_eq!(stored.reading.gauge().get(), 0);
}

#[tokio::test]
async fn the_next_turn_of_a_conversation_opens_only_what_is_new() {
    let limits = RequestLimits::default();
    let table = Arc::new(LargeTable { bytes: 300, turns: 50, ..LargeTable::default() });
    let stored = table_of(&table);
    let continued = |n: u64| {
        let (stored, limits, table) = (&stored, &limits, &table);
        async move {
            let before = table.opened.load(Ordering::Relaxed);
            let wanted = WantedItems { previous_response_id: Some(id(n)), ..WantedItems::default() };
            let found = ask(stored, &wanted, limits).await;
            let texts = found.map(|found| found.texts().concat());
            (texts, table.opened.load(Ordering::Relaxed) - before)
        }
    };
    let (first, opens) = continued(50).await;
    assert_eq!(opens, 50);
    let (again, opens) = continued(50).await;
    assert_eq!((again.unwrap(), opens), (first.unwrap(), 0), "the same items, and nothing is opened");
    table.added.store(1, Ordering::Relaxed);
    let (longer, opens) = continued(51).await;
    assert!(longer.unwrap().contains(&item_id(51)));
    assert_eq!(opens, 1, "the new turn");
    // A request that continues a turn while it is deleted does not bring its copy back.
    let held = table.deleting.lock().await;
    let last = id(51);
    let mut deletion = Box::pin(stored.delete("key", &last));
    assert!((&mut deletion).now_or_never().is_none());
    assert_eq!(continued(51).await.1, 1);
    drop(held);
    assert!(deletion.await.unwrap());
    assert_eq!(continued(51).await.1, 1, "no copy is left");
    // Another key's conversation is not known.
    let wanted = WantedItems { previous_response_id: Some(id(51)), ..WantedItems::default() };
    let bounds = ConversationBounds { body_bytes: 1000, limits: &limits };
    let before = table.opened.load(Ordering::Relaxed);
    stored.conversation("other", &wanted, bounds).await.unwrap();
    assert_eq!(table.opened.load(Ordering::Relaxed) - before, 51);
    // Rows that were written anew are opened anew, and a turn that another replica deleted is not there.
    table.written_anew.store(1, Ordering::Relaxed);
    assert_eq!(continued(51).await.1, 51);
    table.deleted.store(20, Ordering::Relaxed);
    let (refused, opens) = continued(51).await;
    assert_eq!((refused.unwrap_err().code.as_deref(), opens), (Some("previous_response_not_found"), 0));
}

#[tokio::test]
async fn whether_a_response_runs_is_known_without_opening_it() {
    let table = Arc::new(LargeTable { bytes: 8 << 20, turns: 1, ..LargeTable::default() });
    let stored = table_of(&table);
    let runs = async |id: &str| stored.is_running("key", id).await.unwrap();
    assert!(!runs(&id(1)).await && !runs(&id(2)).await);
    table.runs_until.store(crate::clock::unix_seconds() + 60, Ordering::Relaxed);
    assert!(runs(&id(1)).await);
    table.runs_until.store(1, Ordering::Relaxed);
    assert!(!runs(&id(1)).await, "its process reports nothing any more");
    assert_eq!(table.opened.load(Ordering::Relaxed), 0);
}
