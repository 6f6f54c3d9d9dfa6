//! The choices of a complete answer: those that the client asked for, and no others.

use std::collections::HashSet;

use gw_providers::adapter::ChoiceRange;
use gw_wire::failure::{Failure, FailureKind};

use crate::request::ValidatedRequest;

/// The choices that a request asks for: the choices of a prompt, and the prompts. None: its answer has no choices.
pub(crate) fn asked_for(request: &ValidatedRequest) -> Option<ChoiceRange> {
    match request {
        ValidatedRequest::Chat(chat) => Some(ChoiceRange { n: chat.n, prompts: 0..1, from: 0 }),
        ValidatedRequest::Completion(text) => {
            Some(ChoiceRange { n: text.n, prompts: 0..text.prompts.len(), from: 0 })
        }
        ValidatedRequest::OneShot(_) => None,
    }
}

/// The number of choices in a range.
pub(crate) fn count(range: &ChoiceRange) -> usize {
    range.prompts.len().saturating_mul(range.n as usize)
}

/// Checks the indexes of the choices that one upstream call has brought.
///
/// # Errors
/// An index is out of range or repeated, so nobody knows which choice it is.
pub(crate) fn check_part(
    indexes: impl ExactSizeIterator<Item = u32> + Clone,
    range: &ChoiceRange,
) -> Result<(), Failure> {
    let most = count(range);
    if indexes.clone().any(|index| index as usize >= most) {
        return Err(invalid("The upstream sent a choice that was not asked for."));
    }
    let is_in_order = indexes.clone().zip(0..).all(|(index, place)| index == place);
    let mut seen = HashSet::new();
    if !is_in_order && !indexes.into_iter().all(|index| seen.insert(index)) {
        return Err(invalid("The upstream sent two choices with one index."));
    }
    Ok(())
}

/// Checks the indexes of a whole answer, whose parts have passed [`check_part`]. Returns whether choices are missing.
///
/// # Errors
/// One of several prompts has no choice.
pub(crate) fn check_whole(
    indexes: impl ExactSizeIterator<Item = u32>,
    range: &ChoiceRange,
) -> Result<bool, Failure> {
    if indexes.len() >= count(range) {
        return Ok(false);
    }
    let prompts = range.prompts.len();
    let answered: HashSet<u32> = indexes.filter_map(|index| index.checked_div(range.n)).collect();
    if prompts > 1 && answered.len() < prompts {
        return Err(invalid("The upstream sent no choice for one of the prompts."));
    }
    Ok(true)
}

/// Refuses an answer that says nothing: no content, no finish reason, no usage. Otherwise the body of something that is not a
/// model (`{"content": []}`) would be an empty success.
pub(crate) fn check_said(is_blank: bool) -> Result<(), Failure> {
    if is_blank { Err(invalid("The upstream's answer has no content and no end.")) } else { Ok(()) }
}

fn invalid(message: &'static str) -> Failure {
    Failure::new(FailureKind::InvalidResponse, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(n: u32, prompts: usize) -> ChoiceRange {
        ChoiceRange { n, prompts: 0..prompts, from: 0 }
    }

    fn is_part(indexes: &[u32], range: &ChoiceRange) -> bool {
        check_part(indexes.iter().copied(), range).is_ok()
    }

    /// Whether choices are missing; None: the answer is invalid.
    fn lacks(indexes: &[u32], range: &ChoiceRange) -> Option<bool> {
        check_whole(indexes.iter().copied(), range).ok()
    }

    #[test]
    fn an_index_is_in_range_and_not_repeated() {
        for (indexes, n, prompts, is_valid) in [
            (&[][..], 1, 1, true),
            (&[0], 1, 1, true),
            (&[1], 1, 1, false),
            (&[3, 1, 2, 0], 2, 2, true),
            (&[4], 2, 2, false),
            (&[u32::MAX], 2, 2, false),
            (&[1, 1], 2, 1, false),
            (&[0, 0], 2, 1, false),
        ] {
            assert_eq!(is_part(indexes, &range(n, prompts)), is_valid, "{indexes:?} {n} {prompts}");
        }
    }

    #[test]
    fn each_of_several_prompts_has_a_choice() {
        for (indexes, n, prompts, lacking) in [
            (&[][..], 1, 1, Some(true)),
            (&[0], 1, 1, Some(false)),
            (&[1], 2, 1, Some(true)),
            (&[0], 1, 2, None),
            (&[1, 0], 1, 2, Some(false)),
            (&[0, 1], 2, 2, None),
            (&[1, 2], 2, 2, Some(true)),
        ] {
            assert_eq!(lacks(indexes, &range(n, prompts)), lacking, "{indexes:?} {n} {prompts}");
        }
    }
}
