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

#[cfg(test)]
mod tests {
    use gw_providers::adapter::{Capabilities, ChoiceRange};

    use super::{SubRequest, calls, parts};

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
