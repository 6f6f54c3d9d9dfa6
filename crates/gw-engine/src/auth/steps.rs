//! The steps of a check of a key. Tests record them, to compare the work of two refusals; the program records nothing.

/// A step whose work depends on the number of keys or on the length of the key that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckStep {
    /// The digest of the key that was sent.
    Digest,
    /// The first half of a known digest against that of the key.
    Head,
    /// A whole known digest against that of the key.
    Compare,
    /// A time at which a key ends against the present.
    End,
    /// Whether the text has the form of an issuer's token.
    TokenForm,
    /// The checksum in the text.
    Checksum,
}

#[cfg(not(test))]
#[inline]
pub(super) fn note(_: CheckStep) {}

#[cfg(test)]
pub(super) use recorded::{note, of};

#[cfg(test)]
mod recorded {
    use std::cell::RefCell;

    use super::CheckStep;

    thread_local! {
        static STEPS: RefCell<Vec<CheckStep>> = const { RefCell::new(Vec::new()) };
    }

    pub(in crate::auth) fn note(step: CheckStep) {
        STEPS.with_borrow_mut(|steps| steps.push(step));
    }

    /// The steps of this work, in their order.
    pub(in crate::auth) fn of(work: impl FnOnce()) -> Vec<CheckStep> {
        STEPS.with_borrow_mut(Vec::clear);
        work();
        STEPS.with_borrow_mut(std::mem::take)
    }
}
