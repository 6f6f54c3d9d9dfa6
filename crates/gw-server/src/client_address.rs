//! The address of the client behind proxies. Only a proxy that the configuration trusts may tell it.

use std::net::{IpAddr, SocketAddr};

pub use gw_wire::address_range::{AddressRange, BadRange};
use http::HeaderMap;
use http::header::{FORWARDED, HeaderName};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// The most addresses of a header that are read, from its end.
const MAX_HOPS: usize = 32;

/// The header in which proxies tell the address of their client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

/// The proxies whose word about the client's address counts.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies {
    /// Their addresses.
    pub ranges: Vec<AddressRange>,
    /// Their header. Other headers are ignored, because a proxy passes them on as its client wrote them.
    pub header: ForwardedHeader,
}

impl TrustedProxies {
    /// Whether this peer is a trusted proxy.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(address))
    }

    /// The address of the client of a request: the last one in the header that is no trusted proxy. The port is 0 when no
    /// proxy told it. Only the last line of a repeated header counts.
    pub(crate) fn client(&self, peer: SocketAddr, headers: &HeaderMap) -> SocketAddr {
        if self.ranges.is_empty() || !self.contains(peer.ip()) {
            return peer;
        }
        let name = match self.header {
            ForwardedHeader::XForwardedFor => X_FORWARDED_FOR,
            ForwardedHeader::Forwarded => FORWARDED,
        };
        let Some(line) = headers.get_all(name).iter().next_back() else { return peer };
        let Ok(line) = line.to_str() else { return peer };
        let mut client = peer;
        for hop in line.rsplit(',').take(MAX_HOPS) {
            let hop = match self.header {
                ForwardedHeader::XForwardedFor => Some(hop.trim()),
                ForwardedHeader::Forwarded => forwarded_for(hop),
            };
            // Everything to the left of a word that is no address could be invented.
            let Some(address) = hop.and_then(address) else { break };
            client = address;
            if !self.contains(address.ip()) {
                break;
            }
        }
        client
    }
}

/// The value of `for` in an element of `Forwarded`. An element that names it twice has none.
fn forwarded_for(element: &str) -> Option<&str> {
    let mut values = element.split(';').filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then(|| value.trim())
    });
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    match value.strip_prefix('"') {
        Some(quoted) => quoted.strip_suffix('"'),
        None => Some(value),
    }
}

/// An address with or without a port: `1.2.3.4`, `1.2.3.4:80`, `::1`, `[::1]`, `[::1]:80`.
fn address(text: &str) -> Option<SocketAddr> {
    if let Ok(with_port) = text.parse::<SocketAddr>() {
        return Some(SocketAddr::new(with_port.ip().to_canonical(), with_port.port()));
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip.to_canonical(), 0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn proxies(header: ForwardedHeader) -> TrustedProxies {
        let ranges = ["10.0.0.0/8", "fd00::/8", "192.0.2.7"].map(|text| text.parse().unwrap());
        TrustedProxies { ranges: ranges.to_vec(), header }
    }

    fn client(header: ForwardedHeader, peer: &str, lines: &[(&'static str, &str)]) -> String {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        proxies(header).client(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn ranges_have_their_addresses() {
        for (range, address, expected) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.1.1.1", true),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.4", false),
            ("0.0.0.0/0", "255.255.255.255", true),
            ("0.0.0.0/0", "::1", false),
            ("fd00::/8", "fdff::1", true),
            ("fd00::/8", "fe00::1", false),
            ("::/0", "1.2.3.4", false),
        ] {
            let range: AddressRange = range.parse().unwrap();
            assert_eq!(range.contains(address.parse().unwrap()), expected, "{range} {address}");
        }
        for wrong in ["", "10.0.0.0/33", "fd00::/129", "10.0.0/8", "host", "10.0.0.0/", "10.0.0.0/8/9"] {
            assert_eq!(wrong.parse::<AddressRange>(), Err(BadRange), "{wrong}");
        }
    }

    #[test]
    fn k13_only_a_trusted_peer_tells_the_address_and_only_in_its_own_header() {
        use ForwardedHeader::{Forwarded, XForwardedFor};
        const XFF: &str = "x-forwarded-for";
        for (peer, lines, expected) in [
            ("198.51.100.9:5", &[(XFF, "203.0.113.1")][..], "198.51.100.9:5"),
            ("10.0.0.1:5", &[], "10.0.0.1:5"),
            ("10.0.0.1:5", &[(XFF, "203.0.113.1")], "203.0.113.1:0"),
            ("10.0.0.1:5", &[(XFF, "1.1.1.1, 203.0.113.1:99")], "203.0.113.1:99"),
            ("10.0.0.1:5", &[(XFF, "1.1.1.1, 203.0.113.1, 10.9.9.9,192.0.2.7")], "203.0.113.1:0"),
            ("10.0.0.1:5", &[(XFF, "10.0.0.3, 10.0.0.2")], "10.0.0.3:0"),
            ("10.0.0.1:5", &[(XFF, "1.1.1.1"), (XFF, "203.0.113.1")], "203.0.113.1:0"),
            ("10.0.0.1:5", &[("x_forwarded_for", "1.1.1.1")], "10.0.0.1:5"),
            ("10.0.0.1:5", &[("forwarded", "for=1.1.1.1")], "10.0.0.1:5"),
            ("10.0.0.1:5", &[(XFF, "1.1.1.1, unknown, 10.0.0.2")], "10.0.0.2:0"),
            ("10.0.0.1:5", &[(XFF, "")], "10.0.0.1:5"),
            ("[fd00::1]:5", &[(XFF, "[2001:db8::1]:80")], "[2001:db8::1]:80"),
            ("[::ffff:10.0.0.1]:5", &[(XFF, "2001:db8::1")], "[2001:db8::1]:0"),
        ] {
            assert_eq!(client(XForwardedFor, peer, lines), expected, "{peer} {lines:?}");
        }
        for (value, expected) in [
            ("for=203.0.113.1;proto=https", "203.0.113.1:0"),
            ("for=1.1.1.1, by=10.0.0.2;For=\"203.0.113.1:99\"", "203.0.113.1:99"),
            ("for=203.0.113.1, for=\"[fd00::2]\"", "203.0.113.1:0"),
            ("for=\"[2001:db8::1]:80\"", "[2001:db8::1]:80"),
            ("for=_hidden", "10.0.0.1:5"),
            ("for=1.1.1.1;for=2.2.2.2", "10.0.0.1:5"),
            ("for=\"1.1.1.1", "10.0.0.1:5"),
        ] {
            let lines = [("forwarded", value), ("x-forwarded-for", "9.9.9.9")];
            assert_eq!(client(Forwarded, "10.0.0.1:5", &lines), expected, "{value}");
        }
    }

    proptest! {
        #[test]
        fn k13_no_text_of_a_client_changes_the_address_that_a_proxy_appends(invented in "[ -~]{0,80}") {
            let value = format!("{invented}, 203.0.113.1");
            prop_assert_eq!(client(ForwardedHeader::XForwardedFor, "10.0.0.1:5", &[("x-forwarded-for", &value)]), "203.0.113.1:0");
        }
    }
}
