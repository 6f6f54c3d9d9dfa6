//! Who holds a conversation's prompt cache: the model that served its last turn.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long a turn is remembered: what providers keep a prompt cache that is not used, at the least (Anthropic: 5
/// minutes, OpenAI: 5 to 10). Preferring a provider whose cache is gone would be a preference without a reason.
const KEPT: Duration = Duration::from_secs(5 * 60);

/// Independent parts of the map, so that threads seldom wait for each other.
const SHARDS: usize = 16;

/// The holders of prompt caches, by conversation. Bounded: what was noted longest ago is forgotten first.
#[derive(Debug)]
pub struct Affinity {
    shards: [Mutex<Shard>; SHARDS],
    /// Conversations in one generation of a shard.
    most: usize,
}

/// Two generations: when the young one is full it becomes the old one, and the former old one is dropped whole.
#[derive(Debug, Default)]
struct Shard {
    young: HashMap<u64, Turn>,
    old: HashMap<u64, Turn>,
}

#[derive(Clone, Debug)]
struct Turn {
    model: Arc<str>,
    prompt_tokens: u64,
    at: Instant,
}

impl Affinity {
    /// Remembers at most this many conversations (rounded to 32; at least half as many of the latest are kept).
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { shards: Default::default(), most: (most / SHARDS / 2).max(1) }
    }

    /// The id of the model that served the conversation's last turn, and the tokens of its prompt, when its prompt
    /// cache can be expected to be there still.
    #[must_use]
    pub fn holder(&self, conversation: u64, now: Instant) -> Option<(Arc<str>, u64)> {
        let shard = self.shard(conversation).lock();
        let turn = shard.young.get(&conversation).or_else(|| shard.old.get(&conversation))?;
        let fresh = now.saturating_duration_since(turn.at) < KEPT;
        fresh.then(|| (Arc::clone(&turn.model), turn.prompt_tokens))
    }

    /// A model has served a turn of this conversation.
    pub fn note(&self, conversation: u64, model: &Arc<str>, prompt_tokens: u64, now: Instant) {
        let turn = Turn { model: Arc::clone(model), prompt_tokens, at: now };
        let mut shard = self.shard(conversation).lock();
        if shard.young.len() >= self.most && !shard.young.contains_key(&conversation) {
            shard.old = std::mem::take(&mut shard.young);
        }
        shard.young.insert(conversation, turn);
    }

    /// The shard of a conversation. Its number is a hash already: the upper bits choose.
    #[expect(clippy::indexing_slicing, reason = "four bits are smaller than the length")]
    fn shard(&self, conversation: u64) -> &Mutex<Shard> {
        &self.shards[(conversation >> 60) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_turn_counts_for_five_minutes() {
        let affinity = Affinity::new(1_000);
        let now = Instant::now();
        assert_eq!(affinity.holder(7, now), None);
        affinity.note(7, &"a/x".into(), 100, now);
        affinity.note(7, &"b/x".into(), 200, now);
        affinity.note(8, &"c/x".into(), 300, now);
        let later = now + Duration::from_secs(299);
        assert_eq!(affinity.holder(7, later), Some(("b/x".into(), 200)));
        assert_eq!(affinity.holder(8, later), Some(("c/x".into(), 300)));
        assert_eq!(affinity.holder(7, now + KEPT), None);
    }

    #[test]
    fn the_latest_conversations_stay_and_there_are_never_too_many() {
        let most = 1_024;
        let affinity = Affinity::new(most);
        let now = Instant::now();
        let model: Arc<str> = "a/x".into();
        // A multiplier that spreads over the upper bits, as a hash does.
        let conversation = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for number in 0..20_000 {
            affinity.note(conversation(number), &model, number, now);
            // One that goes on all the time.
            affinity.note(1, &model, number, now);
        }
        let known = (0..20_000).filter(|number| affinity.holder(conversation(*number), now).is_some());
        let known = known.count();
        assert!((most / 3..=most).contains(&known), "{known} of {most}");
        assert!(affinity.holder(conversation(19_999), now).is_some());
        assert_eq!(affinity.holder(1, now).map(|(_, tokens)| tokens), Some(19_999));
        let held = affinity.shards.iter().map(|shard| {
            let shard = shard.lock();
            shard.young.len() + shard.old.len()
        });
        assert!(held.sum::<usize>() <= most);
    }

    #[test]
    fn even_the_smallest_remembers_something() {
        let affinity = Affinity::new(0);
        let now = Instant::now();
        affinity.note(u64::MAX, &"a/x".into(), 1, now);
        assert!(affinity.holder(u64::MAX, now).is_some());
    }
}
