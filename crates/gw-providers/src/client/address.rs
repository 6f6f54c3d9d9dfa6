//! The addresses that may be called. The check uses the resolved address, not the configured name.

use std::net::IpAddr;

pub(crate) use gw_wire::reach::{Reach, reach};

/// Whether a connection to `address` may be opened.
pub(crate) fn permitted(address: IpAddr, allow_private_network: bool) -> bool {
    match reach(address) {
        Reach::Public => true,
        Reach::Private => allow_private_network,
        Reach::Forbidden => false,
    }
}

#[cfg(test)]
mod tests;
