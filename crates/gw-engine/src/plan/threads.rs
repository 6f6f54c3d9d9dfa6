//! Remembers which key got which message of a message thread.
//!
//! A provider keeps threads for the operator's account, so the gateway decides which key may continue one. A message that
//! it no longer remembers is not found, and Anthropic's SDKs then send the whole conversation.

use std::collections::HashSet;

use parking_lot::Mutex;

/// Messages in one generation.
const GENERATION: usize = 16_384;
/// The longest id that is remembered.
const MAX_ID_BYTES: usize = 128;

/// The messages of threads, by key and id. Bounded: the oldest are dropped first.
#[derive(Debug, Default)]
pub(crate) struct MessageThreads {
    generations: Mutex<Generations>,
}

/// When the young generation is full it becomes the old one, and the previous old one is dropped.
#[derive(Debug, Default)]
struct Generations {
    young: HashSet<Box<str>>,
    old: HashSet<Box<str>>,
}

impl MessageThreads {
    /// Remembers that a key got this message.
    pub(crate) fn note(&self, key: &str, id: &str) {
        if id.len() > MAX_ID_BYTES {
            return;
        }
        let mut generations = self.generations.lock();
        if generations.young.len() >= GENERATION {
            generations.old = std::mem::take(&mut generations.young);
        }
        generations.young.insert(entry(key, id));
    }

    /// Whether the key got this message.
    pub(crate) fn has(&self, key: &str, id: &str) -> bool {
        let entry = entry(key, id);
        let generations = self.generations.lock();
        generations.young.contains(&entry) || generations.old.contains(&entry)
    }
}

/// The ids of keys have no line break.
fn entry(key: &str, id: &str) -> Box<str> {
    format!("{key}\n{id}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_belongs_to_the_key_that_got_it() {
        let threads = MessageThreads::default();
        threads.note("a", "msg_1");
        assert!(threads.has("a", "msg_1"));
        assert!(!threads.has("b", "msg_1") && !threads.has("a", "msg_2") && !threads.has("a", ""));
        threads.note("a", &"m".repeat(MAX_ID_BYTES + 1));
        assert!(!threads.has("a", &"m".repeat(MAX_ID_BYTES + 1)));
    }

    #[test]
    fn the_oldest_messages_are_dropped() {
        let threads = MessageThreads::default();
        (0..=2 * GENERATION).for_each(|number| threads.note("a", &number.to_string()));
        assert!(!threads.has("a", "0") && threads.has("a", &GENERATION.to_string()));
        let generations = threads.generations.lock();
        assert!(generations.young.len() + generations.old.len() <= 2 * GENERATION);
    }
}
