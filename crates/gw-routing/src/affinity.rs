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
