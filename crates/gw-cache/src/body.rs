//! Which answers may be kept.

use gw_wire::reply::Finish;

/// Whether an answer that ended so may be kept (CONTRACT 1.9): what a filter cut is no answer.
#[must_use]
pub fn may_be_kept(finishes: &[Finish]) -> bool {
    let is_whole = |finish: &Finish| matches!(finish, Finish::Stop | Finish::Length | Finish::ToolCalls);
    !finishes.is_empty() && finishes.iter().all(is_whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t02_what_was_cut_by_a_filter_or_did_not_end_is_not_kept() {
        use Finish::{ContentFilter, FunctionCall, Length, Stop, ToolCalls};
        for kept in [&[Stop][..], &[Length], &[ToolCalls], &[Stop, Length]] {
            assert!(may_be_kept(kept), "{kept:?}");
        }
        for other in [&[][..], &[ContentFilter], &[FunctionCall], &[Stop, ContentFilter]] {
            assert!(!may_be_kept(other), "{other:?}");
        }
    }
}
