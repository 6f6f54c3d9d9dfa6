//! Divides a request into several upstream calls, for providers that give one choice or accept one prompt a call.

use gw_providers::adapter::{Capabilities, ChoiceRange};

/// Upstream calls that one request may become.
pub(crate) const MAX_CALLS: usize = 64;

/// The part of a request that one upstream call asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SubRequest {
    pub(crate) share: ChoiceRange,
    /// The position of its first choice in the answer: prompt × n + choice.
    pub(crate) first: u32,
}

/// How many upstream calls a request needs.
pub(crate) fn calls(can: &Capabilities, n: u32, prompts: usize) -> usize {
    if n <= can.choices && prompts <= can.prompts {
        return 1;
    }
    // Choices of several prompts can only be told apart if each prompt has its own calls.
    prompts.saturating_mul(n.div_ceil(can.choices.max(1)) as usize)
}

/// The only sub-request of a request that one call can ask for.
pub(crate) fn whole(can: &Capabilities, n: u32, prompts: usize) -> Option<SubRequest> {
    let fits = n <= can.choices && prompts <= can.prompts;
    fits.then_some(SubRequest { share: ChoiceRange { n, prompts: 0..prompts, from: 0 }, first: 0 })
}

/// The sub-requests, in the order of their choices.
pub(crate) fn parts(can: &Capabilities, n: u32, prompts: usize) -> Vec<SubRequest> {
    if let Some(whole) = whole(can, n, prompts) {
        return vec![whole];
    }
    let most = can.choices.max(1);
    let mut parts = Vec::new();
    for prompt in 0..prompts {
        let mut from = 0;
        while from < n {
            let share = ChoiceRange { n: most.min(n - from), prompts: prompt..prompt + 1, from };
            let before = u32::try_from(prompt).unwrap_or(u32::MAX).saturating_mul(n);
            let first = before.saturating_add(from);
            from += share.n;
            parts.push(SubRequest { share, first });
        }
    }
    parts
}

/// The most bytes of the encodings of a request that differ only in their seeds. Many choices of a large request would fill the memory.
const MAX_SEEDED_BYTES: usize = 8 << 20;

/// Decides which sub-requests that differ only in their position have an encoding of their own. Their seeds differ, too.
#[derive(Debug)]
pub(crate) struct SeededEncodings {
    has_seeds: bool,
    /// The bytes of those that are not the first of their kind.
    bytes: usize,
}

impl SeededEncodings {
    pub(crate) fn new(has_seed: bool) -> Self {
        Self { has_seeds: has_seed, bytes: 0 }
    }

    /// Whether the next one takes the encoding of the last one, which has so many bytes, and with it the seed.
    pub(crate) fn are_shared(&self, last_bytes: usize) -> bool {
        !self.has_seeds || self.bytes.saturating_add(last_bytes) > MAX_SEEDED_BYTES
    }

    /// Counts the encoding that follows the last one. Returns whether both are equal: then the dialect has no seed, and all others share
    /// the encoding.
    pub(crate) fn are_equal(&mut self, last: &[u8], next: &[u8]) -> bool {
        if last == next {
            self.has_seeds = false;
            return true;
        }
        self.bytes = self.bytes.saturating_add(next.len());
        false
    }
}

#[cfg(test)]
mod tests {
    use gw_providers::adapter::{Capabilities, ChoiceRange};

    use super::{SeededEncodings, SubRequest, calls, parts};

    fn can(choices: u32, prompts: usize) -> Capabilities {
        Capabilities {
            openai_fields: false,
            suffix: false,
            token_prompts: false,
            stream_usage: true,
            image_urls: true,
            choices,
            prompts,
            max_tools: None,
        }
    }

    #[test]
    fn seeds_have_encodings_of_their_own_up_to_a_bound() {
        assert!(SeededEncodings::new(false).are_shared(1), "there is no seed");
        let mut seeds = SeededEncodings::new(true);
        let (last, next) = (vec![1_u8; 3 << 20], vec![2_u8; 3 << 20]);
        for _ in 0..2 {
            assert!(!seeds.are_shared(last.len()) && !seeds.are_equal(&last, &next));
        }
        assert!(seeds.are_shared(last.len()), "a third one would be the ninth mebibyte");
        let mut without = SeededEncodings::new(true);
        assert!(!without.are_shared(last.len()) && without.are_equal(&last, &last));
        assert!(without.are_shared(1), "the dialect has no seed");
    }

    #[test]
    fn what_fits_is_one_call() {
        let whole = SubRequest { share: ChoiceRange { n: 3, prompts: 0..5, from: 0 }, first: 0 };
        assert_eq!(parts(&can(128, 2048), 3, 5), [whole]);
        assert_eq!(calls(&can(128, 2048), 3, 5), 1);
    }

    #[test]
    fn choices_and_prompts_are_counted_in_the_order_of_the_answer() {
        let firsts = |parts: Vec<SubRequest>| {
            parts
                .into_iter()
                .map(|part| (part.share.prompts.start, part.first, part.share.from, part.share.n))
                .collect::<Vec<_>>()
        };
        let one = firsts(parts(&can(1, 1), 2, 2));
        assert_eq!(one, [(0, 0, 0, 1), (0, 1, 1, 1), (1, 2, 0, 1), (1, 3, 1, 1)]);
        let eight = firsts(parts(&can(8, 1), 10, 1));
        assert_eq!(eight, [(0, 0, 0, 8), (0, 8, 8, 2)]);
        assert_eq!(calls(&can(8, 1), 10, 3), 6);
    }
}
