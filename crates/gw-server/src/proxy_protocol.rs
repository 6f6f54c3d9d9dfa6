//! The PROXY protocol, versions 1 and 2: a load balancer that passes TCP on says first whose connection it is.
//! <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::{AsyncRead, AsyncReadExt};

/// The first bytes of version 2.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// The length of the fixed part of version 2.
const FIXED_BYTES: usize = 16;
/// The most bytes of addresses and attributes of version 2 that are read.
const MAX_REST_BYTES: usize = 4096;
/// The longest header of version 1, with its line end.
const MAX_LINE_BYTES: usize = 107;
/// The shortest header of version 1, which tells the versions apart.
const MIN_LINE_BYTES: usize = b"PROXY UNKNOWN\r\n".len();

/// Reads the header of a connection, and no byte after it. None: the proxy speaks for itself, for example to check the
/// gateway's health.
///
/// # Errors
/// When the connection does not begin with a header.
pub(crate) async fn read<T: AsyncRead + Unpin>(io: &mut T) -> io::Result<Option<SocketAddr>> {
    let mut head = vec![0; MIN_LINE_BYTES];
    io.read_exact(&mut head).await?;
    if head.starts_with(&SIGNATURE) {
        head.push(io.read_u8().await?);
        let length = rest_length(&head).ok_or_else(bad)?;
        let mut rest = vec![0; length];
        io.read_exact(&mut rest).await?;
        return binary(&head, &rest).ok_or_else(bad);
    }
    if !head.starts_with(b"PROXY ") {
        return Err(bad());
    }
    // A line is read byte by byte, because the bytes after it belong to the client.
    while !head.ends_with(b"\r\n") {
        if head.len() >= MAX_LINE_BYTES {
            return Err(bad());
        }
        head.push(io.read_u8().await?);
    }
    text(&head).ok_or_else(bad)
}

fn bad() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not a header of the PROXY protocol")
}

/// Reads a line of version 1. The outer None: the line is wrong.
fn text(line: &[u8]) -> Option<Option<SocketAddr>> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix("\r\n")?;
    let mut words = line.split(' ');
    if words.next() != Some("PROXY") {
        return None;
    }
    let family = words.next()?;
    if family == "UNKNOWN" {
        return Some(None);
    }
    let (source, target) = (words.next()?, words.next()?);
    let ports = [words.next()?, words.next()?].map(port);
    let [Some(port), Some(_)] = ports else { return None };
    let address: IpAddr = match family {
        "TCP4" => {
            target.parse::<Ipv4Addr>().ok()?;
            source.parse::<Ipv4Addr>().ok()?.into()
        }
        "TCP6" => {
            target.parse::<Ipv6Addr>().ok()?;
            source.parse::<Ipv6Addr>().ok()?.into()
        }
        _ => return None,
    };
    words.next().is_none().then(|| Some(SocketAddr::new(address.to_canonical(), port)))
}

fn port(word: &str) -> Option<u16> {
    word.bytes().all(|byte| byte.is_ascii_digit()).then(|| word.parse().ok()).flatten()
}

/// The number of bytes after the fixed part of version 2.
fn rest_length(fixed: &[u8]) -> Option<usize> {
    let [.., high, low] = fixed else { return None };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    (fixed.len() == FIXED_BYTES && length <= MAX_REST_BYTES).then_some(length)
}

/// Reads version 2. The outer None: the header is wrong.
fn binary(fixed: &[u8], rest: &[u8]) -> Option<Option<SocketAddr>> {
    let [command, family] = fixed.get(12..14)? else { return None };
    match command {
        0x20 => return Some(None),
        0x21 => {}
        _ => return None,
    }
    match family {
        // TCP over IPv4: two addresses, two ports.
        0x11 => {
            let source: [u8; 4] = rest.get(..4)?.try_into().ok()?;
            let port: [u8; 2] = rest.get(8..10)?.try_into().ok()?;
            rest.get(10..12)?;
            Some(Some(SocketAddr::new(Ipv4Addr::from(source).into(), u16::from_be_bytes(port))))
        }
        0x21 => {
            let source: [u8; 16] = rest.get(..16)?.try_into().ok()?;
            let port: [u8; 2] = rest.get(32..34)?.try_into().ok()?;
            rest.get(34..36)?;
            let address = IpAddr::from(Ipv6Addr::from(source)).to_canonical();
            Some(Some(SocketAddr::new(address, u16::from_be_bytes(port))))
        }
        // The specification wants that other families count as no address.
        0x00 | 0x12 | 0x22 | 0x31 | 0x32 => Some(None),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(bytes: &[u8]) -> (Result<Option<String>, io::ErrorKind>, usize) {
        let mut left = bytes;
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let found = runtime.block_on(read(&mut left));
        (found.map(|address| address.map(|a| a.to_string())).map_err(|e| e.kind()), left.len())
    }

    fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, rest].concat()
    }

    #[test]
    fn both_versions_tell_the_address_and_leave_the_bytes_of_the_client() {
        let v4 = [203, 0, 113, 1, 10, 0, 0, 1, 0xc3, 0x50, 0x01, 0xbb];
        let mut v6 = [0; 39];
        v6[..4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
        v6[15] = 1;
        v6[32..34].copy_from_slice(&[0, 80]);
        for (header, expected) in [
            (b"PROXY TCP4 203.0.113.1 10.0.0.1 50000 443\r\n".to_vec(), Some("203.0.113.1:50000")),
            (b"PROXY TCP6 2001:db8::1 ::1 80 443\r\n".to_vec(), Some("[2001:db8::1]:80")),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN ff:: ff:: 1 2\r\n".to_vec(), None),
            (v2(0x21, 0x11, &v4), Some("203.0.113.1:50000")),
            (v2(0x21, 0x21, &v6), Some("[2001:db8::1]:80")),
            (v2(0x20, 0x00, &[]), None),
            (v2(0x21, 0x31, &[0; 216]), None),
        ] {
            let all = [&header[..], b"GET / HTTP/1.1\r\n"].concat();
            assert_eq!(run(&all), (Ok(expected.map(str::to_owned)), 16), "{header:?}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for header in [
            b"GET /v1/models HTTP/1.1\r\n".to_vec(),
            b"PROXY TCP4 203.0.113.1 10.0.0.1 50000\r\n".to_vec(),
            b"PROXY TCP4 ::1 10.0.0.1 50000 443\r\n".to_vec(),
            b"PROXY TCP4 203.0.113.1 10.0.0.1 +1 443\r\n".to_vec(),
            b"PROXY TCP4 203.0.113.1 10.0.0.1 1 443 9\r\n".to_vec(),
            b"PROXY TCP4 203.0.113.1  10.0.0.1 1 443\r\n".to_vec(),
            [b"PROXY UNKNOWN ".to_vec(), vec![b'x'; 200]].concat(),
            v2(0x22, 0x11, &[0; 12]),
            v2(0x11, 0x11, &[0; 12]),
            v2(0x21, 0x11, &[0; 11]),
            v2(0x21, 0x13, &[0; 12]),
            v2(0x21, 0x11, &[0; MAX_REST_BYTES + 1]),
        ] {
            assert_eq!(run(&header).0, Err(io::ErrorKind::InvalidData), "{header:?}");
        }
        assert_eq!(run(b"PROXY TCP4 203.0.113.1 10").0, Err(io::ErrorKind::UnexpectedEof));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_read_too_much(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            for start in [&b""[..], b"PROXY ", b"PROXY TCP4 ", &SIGNATURE] {
                let all = [start, &bytes].concat();
                let (_, left) = run(&all);
                prop_assert!(left <= all.len());
            }
        }

        #[test]
        fn every_address_comes_through(source: [u8; 16], port: u16) {
            let address = IpAddr::from(Ipv6Addr::from(source));
            let expected = SocketAddr::new(address.to_canonical(), port).to_string();
            let line = format!("PROXY TCP6 {address} ::1 {port} 1\r\n");
            prop_assert_eq!(run(line.as_bytes()), (Ok(Some(expected.clone())), 0));
            let rest = [&source[..], &[0; 16], &port.to_be_bytes(), &[0, 1]].concat();
            prop_assert_eq!(run(&v2(0x21, 0x21, &rest)), (Ok(Some(expected)), 0));
        }
    }
}
