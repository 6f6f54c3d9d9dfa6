//! Remembers which model served the last turn of a conversation and so holds its prompt cache.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long a turn is remembered: the shortest time for which providers keep an unused prompt cache (Anthropic: 5
/// minutes, OpenAI: 5 to 10). After it the cache is probably gone, so there is nothing to prefer the provider for.
const CACHE_LIFETIME: Duration = Duration::from_secs(5 * 60);

/// Independent parts of the map, so that threads rarely wait for each other.
const SHARDS: usize = 16;

/// The models that hold prompt caches, by conversation. Bounded: the oldest entries are dropped first.
#[derive(Debug)]
pub struct Affinity {
    shards: [Mutex<Shard>; SHARDS],
    /// Maximum number of conversations in one generation of a shard.
    generation_capacity: usize,
}

/// A map in two generations: when the young one is full it becomes the old one, and the previous old one is dropped.
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
    /// Remembers at most `max_conversations` conversations, rounded to a multiple of 32. At least half of that number, the most
    /// recent ones, are always kept.
    #[must_use]
    pub fn new(max_conversations: usize) -> Self {
        let generation_capacity = (max_conversations / SHARDS / 2).max(1);
        Self { shards: Default::default(), generation_capacity }
    }

    /// The id of the model that served the conversation's last turn, and the number of tokens of its prompt. None when
    /// the provider has probably dropped the prompt cache.
    #[must_use]
    pub fn holder(&self, conversation: u64, now: Instant) -> Option<(Arc<str>, u64)> {
        let shard = self.shard(conversation).lock();
        let turn = shard.young.get(&conversation).or_else(|| shard.old.get(&conversation))?;
        let fresh = now.saturating_duration_since(turn.at) < CACHE_LIFETIME;
        fresh.then(|| (Arc::clone(&turn.model), turn.prompt_tokens))
    }

    /// Records that a model has served a turn of this conversation.
    pub fn note(&self, conversation: u64, model: &Arc<str>, prompt_tokens: u64, now: Instant) {
        let turn = Turn { model: Arc::clone(model), prompt_tokens, at: now };
        let mut shard = self.shard(conversation).lock();
        if shard.young.len() >= self.generation_capacity && !shard.young.contains_key(&conversation) {
            shard.old = std::mem::take(&mut shard.young);
        }
        shard.young.insert(conversation, turn);
    }

    /// The shard of a conversation. The conversation's number is already a hash, so its upper bits select the shard.
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
        assert_eq!(affinity.holder(7, now + CACHE_LIFETIME), None);
    }

    #[test]
    fn the_latest_conversations_stay_and_the_map_stays_bounded() {
        let most = 1_024;
        let affinity = Affinity::new(most);
        let now = Instant::now();
        let model: Arc<str> = "a/x".into();
        // A multiplier that spreads over the upper bits, as a hash does.
        let conversation = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for number in 0..20_000 {
            affinity.note(conversation(number), &model, number, now);
            // A conversation with a new turn in every round.
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
    fn the_smallest_map_remembers_one_conversation() {
        let affinity = Affinity::new(0);
        let now = Instant::now();
        affinity.note(u64::MAX, &"a/x".into(), 1, now);
        assert!(affinity.holder(u64::MAX, now).is_some());
    }
}
