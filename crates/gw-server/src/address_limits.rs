//! Limits for each client address: open connections, and requests with a wrong key.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Wrong keys are counted for this long.
const WINDOW: Duration = Duration::from_secs(60);
/// The most addresses whose wrong keys are counted in a window. Further addresses are not counted, so memory is bounded.
const MAX_ADDRESSES: usize = 65_536;

/// The network that one client controls: its IPv4 address, or the first 64 bits of its IPv6 address.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address @ IpAddr::V4(_) => address,
    }
}

/// Counts open connections by address.
#[derive(Debug)]
pub(crate) struct ConnectionLimit {
    /// None: no limit, and nothing is counted.
    most: Option<u32>,
    /// Only addresses with open connections are here, so `max_connections` bounds the map.
    open: Mutex<HashMap<IpAddr, u32>>,
}

/// An open connection. Dropping it ends its count.
#[derive(Debug, Default)]
pub(crate) struct AddressPermit(Option<(Arc<ConnectionLimit>, IpAddr)>);

/// An address has as many connections as it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

impl ConnectionLimit {
    pub(crate) fn new(most: Option<u32>) -> Self {
        Self { most, open: Mutex::default() }
    }

    /// Counts a new connection.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Result<AddressPermit, TooMany> {
        let Some(most) = self.most else { return Ok(AddressPermit(None)) };
        let address = network(address);
        let mut open = self.open.lock();
        let count = open.entry(address).or_insert(0);
        if *count >= most {
            return Err(TooMany);
        }
        *count += 1;
        Ok(AddressPermit(Some((Arc::clone(self), address))))
    }
}

impl Drop for AddressPermit {
    fn drop(&mut self) {
        let Some((limit, address)) = self.0.take() else { return };
        let mut open = limit.open.lock();
        if let Some(count) = open.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&address);
            }
        }
    }
}

/// Counts requests with a wrong key by address. Correct keys are never refused here: other people may share the address of
/// an attacker, and the lookup of a key in memory costs less than a refusal.
#[derive(Debug)]
pub(crate) struct BadKeyLimit {
    /// None: nothing is counted.
    most: Option<u32>,
    window: Mutex<Window>,
}

#[derive(Debug)]
struct Window {
    begun: Instant,
    counts: HashMap<IpAddr, u32>,
}

impl BadKeyLimit {
    /// At most this many wrong keys a minute.
    pub(crate) fn new(most: Option<u32>) -> Self {
        Self { most, window: Mutex::new(Window { begun: Instant::now(), counts: HashMap::new() }) }
    }

    /// Counts a wrong key. Returns the time until the next window when the address has sent too many.
    pub(crate) fn count(&self, address: IpAddr, now: Instant) -> Option<Duration> {
        let most = self.most?;
        let mut window = self.window.lock();
        if now.saturating_duration_since(window.begun) >= WINDOW {
            *window = Window { begun: now, counts: HashMap::new() };
        }
        let left = WINDOW.saturating_sub(now.saturating_duration_since(window.begun));
        let address = network(address);
        if window.counts.len() >= MAX_ADDRESSES && !window.counts.contains_key(&address) {
            return None;
        }
        let count = window.counts.entry(address).or_insert(0);
        *count = count.saturating_add(1);
        (*count > most).then(|| left.max(Duration::from_secs(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_has_so_many_connections_and_gets_closed_ones_back() {
        let limit = Arc::new(ConnectionLimit::new(Some(2)));
        let held: Vec<_> = (0..2).map(|_| limit.admit(ip("192.0.2.1")).unwrap()).collect();
        assert_eq!(limit.admit(ip("::ffff:192.0.2.1")).map(drop), Err(TooMany));
        assert!(limit.admit(ip("192.0.2.2")).is_ok());
        drop(held);
        assert!(limit.open.lock().is_empty());
        let _six = [limit.admit(ip("2001:db8::1")).unwrap(), limit.admit(ip("2001:db8::2")).unwrap()];
        assert_eq!(limit.admit(ip("2001:db8::3")).map(drop), Err(TooMany), "one client has the 64 bits");
        assert!(limit.admit(ip("2001:db8:0:1::3")).is_ok());
    }

    #[test]
    fn c24_wrong_keys_are_counted_for_a_minute_and_memory_is_bounded() {
        let limit = BadKeyLimit::new(Some(3));
        let start = Instant::now();
        let count = |address: &str, after: u64| limit.count(ip(address), start + Duration::from_secs(after));
        for _ in 0..3 {
            assert_eq!(count("192.0.2.1", 10), None);
        }
        assert!(count("192.0.2.1", 30).is_some_and(|wait| wait <= Duration::from_secs(31)));
        assert_eq!(count("192.0.2.2", 30), None);
        assert_eq!(count("192.0.2.1", 61), None, "a new window");
        for number in 0..200_000_u32 {
            limit.count(IpAddr::from(number.to_be_bytes()), start + Duration::from_secs(62));
        }
        assert_eq!(limit.window.lock().counts.len(), MAX_ADDRESSES);
    }
}
