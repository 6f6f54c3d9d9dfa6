//! Ports for servers that a test stops and starts again.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::TcpListener;

/// Ports below the range from which the kernel takes the ports of outgoing connections and of listeners on port 0.
const RANGE: std::ops::Range<u16> = 12_000..32_000;

/// A free port of the loopback that no other program gets by chance while its server is stopped.
pub(crate) fn lasting_port() -> u16 {
    let size = u64::from(RANGE.end - RANGE.start);
    let ports = std::iter::repeat_with(|| {
        let offset = RandomState::new().build_hasher().finish() % size;
        RANGE.start + u16::try_from(offset).unwrap_or_default()
    });
    ports.take(1_000).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a free port")
}
