//! Classifies IP addresses: the public Internet, a private network, or forbidden. The gateway's own connections and the
//! addresses in requests use the same table.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Cloud metadata services outside the link-local ranges. They hand out credentials.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(192, 0, 0, 192)];
const METADATA_V6: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254),
    Ipv6Addr::new(0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254),
];

/// The class of an IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// A public address.
    Public,
    /// Loopback, private, reserved or embedded in another address: allowed only if the operator configured it.
    Private,
    /// Link-local and cloud metadata: never allowed.
    Forbidden,
}

/// Classifies an address.
#[must_use]
pub fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(v4) => reach_v4(v4),
        IpAddr::V6(v6) => reach_v6(v6),
    }
}

fn reach_v4(address: Ipv4Addr) -> Reach {
    if address.is_link_local() || METADATA_V4.contains(&address) {
        return Reach::Forbidden;
    }
    let [a, b, c, _] = address.octets();
    let reserved = match a {
        0 | 10 | 127 => true,
        100 => (64..128).contains(&b),
        172 => (16..32).contains(&b),
        192 => matches!((b, c), (0, 0 | 2) | (88, 99) | (168, _)),
        198 => matches!((b, c), (18 | 19, _) | (51, 100)),
        203 => (b, c) == (0, 113),
        _ => a >= 224,
    };
    if reserved { Reach::Private } else { Reach::Public }
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    let segments = address.segments();
    let [first, second, ..] = segments;
    if first & 0xffc0 == 0xfe80 || METADATA_V6.contains(&address) {
        return Reach::Forbidden;
    }
    // An embedded v4 address that is forbidden stays forbidden. A public one counts as private, because no real service uses this form.
    if let Some(inner) = embedded_v4(segments) {
        return if reach_v4(inner) == Reach::Forbidden { Reach::Forbidden } else { Reach::Private };
    }
    let global = first & 0xe000 == 0x2000;
    let special = match first {
        0x2001 => second < 0x0200 || second == 0x0db8,
        0x3fff => second < 0x1000,
        _ => false,
    };
    if global && !special { Reach::Public } else { Reach::Private }
}

/// The v4 address that a v6 address embeds in a well-known way.
fn embedded_v4(segments: [u16; 8]) -> Option<Ipv4Addr> {
    match segments {
        // compatible, mapped, translated (SIIT)
        [0, 0, 0, 0, 0, 0, high, low] | [0, 0, 0, 0, 0, 0xffff, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low]
            // NAT64: the well-known prefix and the local one
            | [0x0064, 0xff9b, 0, 0, 0, 0, high, low]
            | [0x0064, 0xff9b, 1, _, _, _, high, low]
            // 6to4
            | [0x2002, high, low, _, _, _, _, _]
            // ISATAP
            | [_, _, _, _, 0 | 0x0200, 0x5efe, high, low] => Some(join(high, low)),
        // Teredo: the client's address is inverted
        [0x2001, 0, _, _, _, _, high, low] => Some(join(!high, !low)),
        _ => None,
    }
}

fn join(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))
}
