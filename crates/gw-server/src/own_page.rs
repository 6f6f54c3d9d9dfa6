//! The pages that may use a session: those of the gateway itself, at an address that is its own.
//!
//! Other sites cannot send the cookie of a session (`SameSite=Strict`), but other programs on this machine can: they are the same site
//! at another port. So the `Origin` of a request must be its `Host`, and the `Host` must be one that no stranger's DNS can lead here
//! (DNS rebinding): a loopback name, the address that the gateway listens at, or an origin of the configuration.

use std::net::IpAddr;

use gw_engine::error::{Error, Kind, Result};
use http::header::{CONTENT_TYPE, HOST, HeaderName, ORIGIN};
use http::request::Parts;
use http::{HeaderValue, Method, Uri};

use crate::settings::ServerSettings;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The addresses of the gateway's own pages.
#[derive(Debug)]
pub(crate) struct OwnPages {
    /// `scheme://host[:port]`: `identity.public_url` and `server.console_origins`.
    origins: Vec<String>,
    /// The hosts of the listeners, without ports.
    listening: Vec<String>,
    /// A listener has every address of this machine.
    has_every_address: bool,
    is_encrypted: bool,
}

impl OwnPages {
    pub(crate) fn new(settings: &ServerSettings) -> Self {
        let origins = settings.public_url.iter().chain(&settings.console_origins);
        let listeners = std::iter::once(&settings.listen).chain(&settings.admin_listen);
        let listening: Vec<String> = listeners.map(|listen| name_of(listen).to_ascii_lowercase()).collect();
        let is_unspecified =
            |host: &String| host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified());
        Self {
            origins: origins.map(|origin| origin.trim_end_matches('/').to_ascii_lowercase()).collect(),
            has_every_address: listening.iter().any(is_unspecified),
            listening,
            is_encrypted: settings.tls.is_some(),
        }
    }

    /// Whether a host is the gateway's own. Nobody can lead a browser here under an address, so every address of a listener counts.
    pub(crate) fn knows(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let name = name_of(&host);
        let is_address = match name.parse::<IpAddr>() {
            Ok(address) => address.to_canonical().is_loopback() || self.has_every_address,
            Err(_) => false,
        };
        is_address
            || is_loopback_name(name)
            || self.listening.iter().any(|own| own == name)
            || self.origins.iter().any(|origin| has_host(origin, &host))
    }

    /// Checks that a page of the gateway itself sent the request. A request that changes something must name its origin and be JSON,
    /// because other sites can send forms.
    ///
    /// # Errors
    /// `cross_site_request`, `unsupported_media_type`.
    pub(crate) fn check(&self, parts: &Parts) -> Result<()> {
        let is_read = [Method::GET, Method::HEAD].contains(&parts.method);
        let header = |name: &HeaderName| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let sent_origin = parts.headers.contains_key(ORIGIN);
        let origin = header(&ORIGIN).filter(|_| parts.headers.get_all(ORIGIN).iter().count() == 1);
        let is_named = origin.is_some_and(|origin| self.names(origin));
        let host = host_of(parts);
        if !is_named && !host.is_some_and(|host| self.knows(host)) {
            return Err(unknown_host(host));
        }
        let is_own_site = match header(&FETCH_SITE) {
            Some("same-origin") => true,
            // The person typed the address.
            Some("none") => is_read,
            Some(_) => false,
            None => !parts.headers.contains_key(FETCH_SITE),
        };
        let is_own_origin = match origin {
            Some(origin) => is_named || host.is_some_and(|host| self.is_page_of(origin, host)),
            None => is_read && !sent_origin,
        };
        if !is_own_site || !is_own_origin {
            let message = "A session can be used only by the gateway's own pages. Send an API key instead.";
            return Err(Error::new(Kind::CrossSiteRequest, message));
        }
        let media_type = header(&CONTENT_TYPE).unwrap_or_default();
        let media_type = media_type.split(';').next().unwrap_or_default().trim();
        if !is_read && !media_type.eq_ignore_ascii_case("application/json") {
            let message = "A session's request that changes something needs the header 'content-type: application/json'.";
            return Err(Error::new(Kind::UnsupportedMediaType, message));
        }
        Ok(())
    }

    /// The advice for a browser that cannot sign in at this address. None: it can.
    pub(crate) fn advice(&self, parts: &Parts) -> Option<String> {
        let host = host_of(parts);
        if !host.is_some_and(|host| self.knows(host)) {
            return Some(unknown_host(host).message.into_owned());
        }
        (!self.can_keep_cookie(parts)).then(|| {
            "This connection is not encrypted, so the browser does not keep the cookie of a session. Use HTTPS, or reach the \
             gateway through a tunnel: ssh -L 4000:127.0.0.1:4000 HOST, then http://127.0.0.1:4000/ui/."
                .to_owned()
        })
    }

    /// Whether the host of a request is the gateway's own.
    pub(crate) fn knows_host(&self, parts: &Parts) -> bool {
        host_of(parts).is_some_and(|host| self.knows(host))
    }

    /// Whether a browser keeps a `__Host-` cookie of this connection: it is encrypted, or it never leaves this machine.
    pub(crate) fn can_keep_cookie(&self, parts: &Parts) -> bool {
        let name = host_of(parts).map(name_of).unwrap_or_default().to_ascii_lowercase();
        let is_local =
            is_loopback_name(&name) || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        let text = |name: &HeaderName| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let host = host_of(parts).unwrap_or_default();
        // What a proxy says is for this advice alone.
        self.is_encrypted
            || is_local
            || text(&FORWARDED_PROTO).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"))
            || text(&ORIGIN).is_some_and(|origin| origin.starts_with("https://"))
            || self.origins.iter().any(|origin| origin.starts_with("https://") && has_host(origin, host))
    }

    /// Whether the configuration names this origin.
    fn names(&self, origin: &str) -> bool {
        self.origins.iter().any(|own| own.eq_ignore_ascii_case(origin))
    }

    /// Whether an origin is the page of this host.
    fn is_page_of(&self, origin: &str, host: &str) -> bool {
        let schemes: &[&str] = if self.is_encrypted { &["https"] } else { &["http", "https"] };
        let Some((scheme, authority)) = origin.split_once("://") else { return false };
        schemes.contains(&scheme) && authority.eq_ignore_ascii_case(host)
    }
}

/// The host of a request, with its port. None: it has none, or two that differ.
pub(crate) fn host_of(parts: &Parts) -> Option<&str> {
    let mut headers = parts.headers.get_all(HOST).iter();
    let first = headers.next().map(HeaderValue::to_str);
    let named = match (first, headers.next()) {
        (None, _) => None,
        (Some(Ok(host)), None) => Some(host),
        _ => return None,
    };
    let authority = parts.uri.authority().map(|authority| authority.as_str());
    match (authority, named) {
        (Some(one), Some(other)) if !one.eq_ignore_ascii_case(other) => None,
        (one, other) => one.or(other).filter(|host| !host.contains(['@', '/', '\\', ',', ' '])),
    }
}

/// The name or the address of `name[:port]`, without the brackets of IPv6.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split(':').next().unwrap_or_default(),
    }
}

/// Browsers resolve these names themselves.
fn is_loopback_name(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

/// Whether an origin has this host. The usual port of its scheme may be left out.
fn has_host(origin: &str, host: &str) -> bool {
    let Ok(uri) = origin.parse::<Uri>() else { return false };
    let port =
        |port: Option<u16>| port.or(if uri.scheme_str() == Some("https") { Some(443) } else { Some(80) });
    let Ok(other) = host.parse::<http::uri::Authority>() else { return false };
    uri.host().is_some_and(|name| name.eq_ignore_ascii_case(other.host()))
        && port(uri.port_u16()) == port(other.port_u16())
}

fn unknown_host(host: Option<&str>) -> Error {
    let host: String = host.unwrap_or_default().chars().take(100).collect();
    let message = format!(
        "Browsers cannot sign in here under the host '{host}'. If it is this gateway's, name its origin in \
         'server.console_origins' or 'identity.public_url'."
    );
    Error::new(Kind::CrossSiteRequest, message)
}

#[cfg(test)]
mod tests;
