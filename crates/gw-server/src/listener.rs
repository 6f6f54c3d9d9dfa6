//! The listener that a connection was accepted on.

/// The listener that a connection was accepted on. It decides which URLs exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listener {
    /// The only listener. It serves every URL.
    Single,
    /// `server.listen` beside an admin listener. It serves `/v1` and the probes.
    Public,
    /// `server.admin_listen`. It serves everything except `/v1`.
    Admin,
}
