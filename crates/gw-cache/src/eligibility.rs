//! Which answers may be stored.

use gw_wire::reply::Finish;

/// Whether an answer whose choices ended with these reasons may be stored. An answer that a content filter cut is
/// incomplete, and is not stored.
#[must_use]
pub fn is_cacheable(finishes: &[Finish]) -> bool {
    let is_complete = |finish: &Finish| matches!(finish, Finish::Stop | Finish::Length | Finish::ToolCalls);
    !finishes.is_empty() && finishes.iter().all(is_complete)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t02_what_was_cut_by_a_filter_or_did_not_end_is_not_kept() {
        use Finish::{ContentFilter, FunctionCall, Length, Stop, ToolCalls};
        for cacheable in [&[Stop][..], &[Length], &[ToolCalls], &[Stop, Length]] {
            assert!(is_cacheable(cacheable), "{cacheable:?}");
        }
        for other in [&[][..], &[ContentFilter], &[FunctionCall], &[Stop, ContentFilter]] {
            assert!(!is_cacheable(other), "{other:?}");
        }
    }
}
