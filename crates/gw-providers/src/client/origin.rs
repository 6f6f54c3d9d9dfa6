//! The origin of a provider: its `base_url`, parsed when the configuration is built.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::OnceLock;

use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Uri};
use rustls_pki_types::ServerName;

use super::address::{Reach, reach};
use super::error::ClientError;

/// The paths that are remembered: nearly all calls of a provider have one of them.
const USUAL_PATHS: usize = 3;

/// A provider's origin, and the path that precedes the path of every call.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// The scheme is `https`.
    pub(crate) is_https: bool,
    /// The host to connect to.
    pub(crate) host: OriginHost,
    /// The port to connect to.
    pub(crate) port: u16,
    /// The path of `base_url` without its last slash.
    base_path: String,
    /// The `Host` header, with the port unless it is the default.
    pub(crate) host_header: HeaderValue,
    authority: Authority,
    /// The paths of the first calls, behind the base path.
    usual: [OnceLock<(String, Uri)>; USUAL_PATHS],
}

/// An address, or a name to resolve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OriginHost {
    /// An address.
    Address(IpAddr),
    /// A name in lower case.
    Name(String),
}

impl Origin {
    /// Parses a `base_url`.
    ///
    /// # Errors
    /// The URL is invalid. The message does not show it, because it could hold a password.
    pub(crate) fn parse(base_url: &str) -> Result<Self, ClientError> {
        let (is_https, rest) = if let Some(rest) = strip_scheme(base_url, "https://") {
            (true, rest)
        } else if let Some(rest) = strip_scheme(base_url, "http://") {
            (false, rest)
        } else {
            return Err(ClientError::Scheme);
        };
        if rest.bytes().any(|byte| !byte.is_ascii_graphic() || byte == b'\\') {
            return Err(ClientError::Characters);
        }
        if rest.contains(['?', '#']) {
            return Err(ClientError::QueryOrFragment);
        }
        let (place, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        if place.contains('@') {
            return Err(ClientError::Credentials);
        }
        let (host, port) = split_port(place, if is_https { 443 } else { 80 })?;
        let host = OriginHost::parse(host)?;
        if let OriginHost::Address(address) = host
            && reach(address) == Reach::Forbidden
        {
            return Err(ClientError::ForbiddenAddress);
        }
        let shown = match &host {
            OriginHost::Address(IpAddr::V6(v6)) => format!("[{v6}]"),
            OriginHost::Address(IpAddr::V4(v4)) => v4.to_string(),
            OriginHost::Name(name) => name.clone(),
        };
        let is_default_port = port == if is_https { 443 } else { 80 };
        let place = if is_default_port { shown } else { format!("{shown}:{port}") };
        let authority: Authority = place.parse().map_err(|_| ClientError::Host)?;
        let host_header = HeaderValue::from_str(&place).map_err(|_| ClientError::Host)?;
        let base_path = path.trim_end_matches('/').to_owned();
        let usual = [const { OnceLock::new() }; USUAL_PATHS];
        let origin = Self { is_https, host, port, base_path, host_header, authority, usual };
        origin.checked("/").map_err(|_| ClientError::Path)?;
        Ok(origin)
    }

    /// The complete address of a call.
    pub(crate) fn url(&self, path: &str) -> String {
        let scheme = if self.is_https { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, self.whole(path))
    }

    /// The base path and the path of a call. A call may leave the last segment of the base path (`/../x`).
    fn whole(&self, path: &str) -> String {
        let above = path.strip_prefix("/..").filter(|rest| rest.starts_with('/'));
        let (base, path) = match above {
            Some(rest) => (self.base_path.rsplit_once('/').map_or("", |(base, _)| base), rest),
            None => (&*self.base_path, path),
        };
        let slash = if path.starts_with('/') { "" } else { "/" };
        // A formatter would cost ten times the copies.
        let mut whole = String::with_capacity(base.len() + slash.len() + path.len());
        [base, slash, path].into_iter().for_each(|part| whole.push_str(part));
        whole
    }

    /// The path of a call behind the base path. The result is only a path, so a call cannot leave the origin.
    ///
    /// # Errors
    /// The text is not a valid path.
    pub(crate) fn path(&self, path: &str) -> Result<Uri, http::Error> {
        let known = self.usual.iter().filter_map(OnceLock::get).find(|(known, _)| known == path);
        if let Some((_, uri)) = known {
            return Ok(uri.clone());
        }
        let uri = self.checked(path)?;
        // The first calls have the paths of nearly all later ones.
        if let Some(place) = self.usual.iter().find(|place| place.get().is_none()) {
            let _ = place.set((path.to_owned(), uri.clone()));
        }
        Ok(uri)
    }

    /// The path of a client's own request: the base path and what the client wrote behind it, which is a path or a query.
    ///
    /// # Errors
    /// The text is not a valid path.
    pub(crate) fn passed(&self, path: &str) -> Result<Uri, http::Error> {
        Ok(Uri::from(PathAndQuery::from_maybe_shared(bytes::Bytes::from(self.joined(path)))?))
    }

    /// The complete address of a client's own request.
    pub(crate) fn passed_url(&self, path: &str) -> String {
        let scheme = if self.is_https { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, self.joined(path))
    }

    fn joined(&self, path: &str) -> String {
        let slash = if self.base_path.is_empty() && !path.starts_with('/') { "/" } else { "" };
        [&*self.base_path, slash, path].concat()
    }

    fn checked(&self, path: &str) -> Result<Uri, http::Error> {
        let path = PathAndQuery::from_maybe_shared(bytes::Bytes::from(self.whole(path)))?;
        Ok(Uri::from(path))
    }

    /// The absolute URI of a path, which HTTP/2 needs.
    pub(crate) fn absolute(&self, path: &Uri) -> Result<Uri, http::Error> {
        self.with_scheme(if self.is_https { Scheme::HTTPS } else { Scheme::HTTP }, path)
    }

    /// The absolute URI of a path for the handshake of a WebSocket, which sends the path alone. The connection decides about TLS.
    pub(crate) fn socket_uri(&self, path: &Uri) -> Result<Uri, http::Error> {
        self.with_scheme(Scheme::try_from("ws")?, path)
    }

    fn with_scheme(&self, scheme: Scheme, path: &Uri) -> Result<Uri, http::Error> {
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(scheme);
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = path.path_and_query().cloned();
        Ok(Uri::from_parts(parts)?)
    }

    /// The name that the certificate must match.
    ///
    /// # Errors
    /// The host is not a DNS name.
    pub(crate) fn server_name(&self) -> Result<ServerName<'static>, ClientError> {
        match &self.host {
            OriginHost::Address(address) => Ok(ServerName::IpAddress((*address).into())),
            OriginHost::Name(name) => {
                ServerName::try_from(name.clone()).map_err(|_| ClientError::CertificateName)
            }
        }
    }
}

impl OriginHost {
    fn parse(text: &str) -> Result<Self, ClientError> {
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').unwrap_or_default();
            let address: Ipv6Addr = inner.parse().map_err(|_| ClientError::Ipv6)?;
            return Ok(Self::Address(IpAddr::V6(address)));
        }
        if let Ok(address) = text.parse::<std::net::Ipv4Addr>() {
            return Ok(Self::Address(IpAddr::V4(address)));
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        if text.is_empty() || text.len() > 253 || !text.bytes().all(plain) {
            return Err(ClientError::Host);
        }
        Ok(Self::Name(text.to_ascii_lowercase()))
    }
}

fn strip_scheme<'a>(url: &'a str, scheme: &str) -> Option<&'a str> {
    let head = url.get(..scheme.len())?;
    if head.eq_ignore_ascii_case(scheme) { url.get(scheme.len()..) } else { None }
}

fn split_port(place: &str, default: u16) -> Result<(&str, u16), ClientError> {
    let from = place.rfind(']').unwrap_or(0);
    let Some(colon) = place.get(from..).and_then(|tail| tail.rfind(':')).map(|at| at + from) else {
        return Ok((place, default));
    };
    let (host, port) = place.split_at(colon);
    let port = port.trim_start_matches(':');
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse::<u16>() {
        Ok(port) if digits && port != 0 => Ok((host, port)),
        _ => Err(ClientError::Port),
    }
}

#[cfg(test)]
mod tests {
    use super::{Origin, OriginHost};

    #[test]
    fn a_trailing_slash_does_not_matter_and_the_default_port_is_not_sent() {
        for url in
            ["https://api.example.com/v1", "https://api.example.com:443/v1/", "HTTPS://API.example.com/v1//"]
        {
            let origin = Origin::parse(url).unwrap();
            assert_eq!(origin.path("/chat/completions").unwrap(), "/v1/chat/completions", "{url}");
            assert_eq!(origin.host_header, "api.example.com");
            assert_eq!((origin.is_https, origin.port), (true, 443));
        }
        let origin = Origin::parse("http://host:8000/a/v1").unwrap();
        assert_eq!(origin.path("/../tokenize").unwrap(), "/a/tokenize");
        assert_eq!(origin.url("/../tokenize"), "http://host:8000/a/tokenize");
        assert_eq!(origin.path("/..x").unwrap(), "/a/v1/..x");
        let origin = Origin::parse("http://[::1]:9000").unwrap();
        assert_eq!(origin.path("/../tokenize").unwrap(), "/tokenize");
        assert_eq!(origin.host_header, "[::1]:9000");
        assert_eq!(origin.host, OriginHost::Address("::1".parse().unwrap()));
        for n in 0..super::USUAL_PATHS + 2 {
            let path = format!("/x?y={n}");
            assert_eq!(origin.path(&path).unwrap(), *path);
            assert_eq!(origin.path("/x?y=1").unwrap(), "/x?y=1", "the remembered path is its own");
        }
        assert_eq!(origin.absolute(&origin.path("/x").unwrap()).unwrap(), "http://[::1]:9000/x");
    }

    #[test]
    fn an_address_that_is_no_http_origin_is_refused_without_echoing_it() {
        for url in [
            "ftp://example.com",
            "example.com/v1",
            "https://",
            "https://:443",
            "https://user:sekret@example.com",
            "https://sekret@example.com",
            "https://example.com/?key=sekret",
            "https://example.com/#sekret",
            "https://example.com:0",
            "https://example.com:65536",
            "https://example.com:+4",
            "https://example.com:sekret",
            "https://exa mple.com",
            "https://example.com/a b",
            "https://example.com\\@sekret",
            "https://[::1",
            "https://[fe80::1%25eth0]",
            "https://exämple.com",
            "https://a,b",
            "http://169.254.169.254/latest",
            "http://[fd00:ec2::254]",
            "http://[::ffff:169.254.169.254]",
        ] {
            let message = Origin::parse(url).expect_err(url).to_string();
            assert!(!message.contains("sekret"), "{url}: {message}");
        }
    }

    #[test]
    fn the_path_of_a_client_follows_the_base_path_as_it_is() {
        for (url, path, whole) in [
            ("https://a.example/v1/", "", "/v1"),
            ("https://a.example/v1", "/", "/v1/"),
            ("https://a.example/v1", "?a=b", "/v1?a=b"),
            ("https://a.example", "", "/"),
            ("https://a.example", "?a=b", "/?a=b"),
            ("https://a.example", "/x%2Fy/?a=/b", "/x%2Fy/?a=/b"),
        ] {
            let origin = Origin::parse(url).unwrap();
            assert_eq!(origin.passed(path).unwrap(), whole, "{url} {path}");
            assert_eq!(origin.passed_url(path), format!("https://a.example{whole}"));
        }
    }

    #[test]
    fn no_path_can_leave_the_origin() {
        let origin = Origin::parse("https://example.com/v1").unwrap();
        for path in
            ["//evil.test/x", "@evil.test", "https://evil.test/", "/..//evil.test", "/m%2F..%2F@evil.test"]
        {
            for uri in [origin.path(path), origin.passed(path)].into_iter().flatten() {
                assert!(uri.authority().is_none() && uri.scheme().is_none(), "{path}");
                assert_eq!(origin.absolute(&uri).unwrap().authority().unwrap(), "example.com", "{path}");
            }
        }
        assert!(origin.path("/a\r\nhost: evil.test").is_err());
        assert!(origin.path("/a b").is_err());
    }
}
