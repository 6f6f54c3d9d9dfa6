//! The addresses that may be called. The check uses the resolved address, not the configured name.

use std::net::IpAddr;

pub(crate) use gw_wire::reach::{Reach, reach};

/// The kinds of addresses to which connections may be opened. Link-local addresses are never allowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressPolicy {
    /// Private and loopback addresses.
    pub(crate) allow_private: bool,
    /// All other addresses.
    pub(crate) allow_public: bool,
}

impl AddressPolicy {
    /// Whether a connection to `address` may be opened.
    pub(crate) fn permits(self, address: IpAddr) -> bool {
        match reach(address) {
            Reach::Public => self.allow_public,
            Reach::Private => self.allow_private,
            Reach::Forbidden => false,
        }
    }
}

#[cfg(test)]
mod tests;
