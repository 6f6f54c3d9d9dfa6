//! Remembers which key got which message of a message thread.
//!
//! A provider keeps threads for the operator's account, so the gateway decides which key may continue one. A message that
//! it no longer remembers is not found, and Anthropic's SDKs then send the whole conversation.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use gw_limits::fair_share;
use parking_lot::Mutex;

/// Messages of all keys.
const MAX_MESSAGES: usize = 32_768;
/// The longest id that is remembered.
const MAX_ID_BYTES: usize = 128;

/// The messages of threads, by key and id. Each key has a share of them, and forgets its own oldest ones first.
#[derive(Debug, Default)]
pub(crate) struct MessageThreads(Mutex<ThreadsByKey>);

#[derive(Debug, Default)]
struct ThreadsByKey {
    keys: HashMap<Arc<str>, KeyMessages>,
    /// The messages of all keys.
    count: usize,
}

/// The messages of one key.
#[derive(Debug, Default)]
struct KeyMessages {
    /// How often each id stands in `order`.
    known: HashMap<Arc<str>, u32>,
    /// The oldest one first.
    order: VecDeque<Arc<str>>,
}

impl MessageThreads {
    /// Remembers that a key got this message.
    pub(crate) fn note(&self, key: &Arc<str>, id: &str) {
        if id.len() > MAX_ID_BYTES {
            return;
        }
        let mut threads = self.0.lock();
        let held = threads.keys.get(key).map_or(0, |own| own.order.len());
        let share = fair_share(MAX_MESSAGES as u64, threads.count.saturating_sub(held) as u64);
        if held > 0 && held as u64 >= share {
            threads.forget_oldest_of(&Arc::clone(key));
        } else if threads.count >= MAX_MESSAGES {
            threads.forget_oldest_of_largest();
        }
        threads.keys.entry(Arc::clone(key)).or_default().add(id.into());
        threads.count += 1;
    }

    /// Whether the key got this message.
    pub(crate) fn has(&self, key: &str, id: &str) -> bool {
        self.0.lock().keys.get(key).is_some_and(|own| own.known.contains_key(id))
    }
}

impl ThreadsByKey {
    fn forget_oldest_of(&mut self, key: &Arc<str>) {
        let Some(own) = self.keys.get_mut(key) else { return };
        self.count = self.count.saturating_sub(usize::from(own.forget_oldest()));
        if own.order.is_empty() {
            self.keys.remove(key);
        }
    }

    fn forget_oldest_of_largest(&mut self) {
        let largest = self.keys.iter().max_by_key(|(_, own)| own.order.len());
        if let Some(key) = largest.map(|(key, _)| Arc::clone(key)) {
            self.forget_oldest_of(&key);
        }
    }
}

impl KeyMessages {
    fn add(&mut self, id: Arc<str>) {
        *self.known.entry(Arc::clone(&id)).or_default() += 1;
        self.order.push_back(id);
    }

    /// Forgets one place of an id. False: there is none.
    fn forget_oldest(&mut self) -> bool {
        let Some(id) = self.order.pop_front() else { return false };
        if let Some(places) = self.known.get_mut(&id) {
            *places -= 1;
            if *places == 0 {
                self.known.remove(&id);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_belongs_to_the_key_that_got_it() {
        let (threads, key) = (MessageThreads::default(), Arc::from("a"));
        threads.note(&key, "msg_1");
        assert!(threads.has("a", "msg_1"));
        assert!(!threads.has("b", "msg_1") && !threads.has("a", "msg_2") && !threads.has("a", ""));
        threads.note(&key, &"m".repeat(MAX_ID_BYTES + 1));
        assert!(!threads.has("a", &"m".repeat(MAX_ID_BYTES + 1)));
    }

    #[test]
    fn c36_the_messages_of_one_key_never_push_out_those_of_another() {
        let (threads, loud, quiet) = (MessageThreads::default(), Arc::from("loud"), Arc::from("quiet"));
        threads.note(&quiet, "msg_1");
        for number in 0..2 * MAX_MESSAGES {
            threads.note(&loud, &number.to_string());
        }
        assert!(threads.has("quiet", "msg_1"));
        // The loud key keeps half of what the quiet one leaves, and loses its own oldest ones.
        let kept = MAX_MESSAGES / 2;
        let first = 2 * MAX_MESSAGES - kept;
        assert!(threads.has("loud", &first.to_string()) && !threads.has("loud", &(first - 1).to_string()));
        assert_eq!(threads.0.lock().count, kept + 1);
    }

    #[test]
    fn a_new_key_finds_room_among_many() {
        let threads = MessageThreads::default();
        for number in 0..MAX_MESSAGES + 10 {
            threads.note(&Arc::from(number.to_string()), "msg_1");
        }
        let threads = threads.0.lock();
        assert_eq!((threads.count, threads.keys.len()), (MAX_MESSAGES, MAX_MESSAGES));
    }

    #[test]
    fn a_message_that_comes_twice_is_forgotten_with_its_last_place() {
        let (threads, key) = (MessageThreads::default(), Arc::from("a"));
        threads.note(&key, "msg_1");
        threads.note(&key, "msg_1");
        threads.0.lock().forget_oldest_of(&key);
        assert!(threads.has("a", "msg_1"));
        threads.0.lock().forget_oldest_of(&key);
        assert!(!threads.has("a", "msg_1") && threads.0.lock().keys.is_empty());
    }
}
