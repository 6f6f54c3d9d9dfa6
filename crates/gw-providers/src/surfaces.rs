//! The one-shot surfaces beside embeddings that a provider may offer. The constructor of its adapter puts in what it has.

/// The form of a call, where servers of one dialect differ in the URL or in the names of members. Only the surface knows its
/// meaning; the usual form is 0.
pub type CallForm = u8;

/// The one-shot surfaces of one provider; None: it does not offer the surface.
#[derive(Debug, Default)]
pub struct Surfaces {}

impl Surfaces {
    /// Forgets what the provider's answers taught, because the configuration is read again.
    pub fn forget_learned(&self) {}
}
