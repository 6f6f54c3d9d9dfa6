//! Checks the addresses on which the gateway listens, and their certificate.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use gw_config::setup::Setup;
use gw_providers::adapter::HttpCall;
use gw_providers::client::Client;
use gw_providers::settings::Timeouts;
use gw_server::{TlsSettings, Validity, certificate_validity};
use gw_wire::calendar;
use http::{HeaderMap, Method};
use tokio::time::Instant;

use super::finding::{DoctorFinding, DoctorReport};
use crate::certificate_times::{fault, in_words};

/// The longest time for the question whether a gateway listens on an address.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The largest answer that is read.
const MAX_ANSWER_BYTES: usize = 64 << 10;
/// A certificate that ends earlier gets a warning, in seconds.
const RENEWAL: u64 = 14 * 86_400;

pub(super) async fn check(setup: &Setup, report: &mut DoctorReport) {
    let server = &setup.config.server;
    for listen in std::iter::once(&server.listen).chain(&server.admin_listen) {
        report.add(port(setup, listen).await);
    }
    if let Some(TlsSettings { cert, key, .. }) = &server.tls {
        report.add(certificate(cert, key));
    }
}

async fn port(setup: &Setup, listen: &str) -> DoctorFinding {
    let remedy = "correct server.listen or server.admin_listen";
    let found = match tokio::net::lookup_host(listen).await {
        Ok(found) => found.collect::<Vec<_>>(),
        Err(error) => {
            return DoctorFinding::failed("port", listen, &format!("has no address: {error}")).remedy(remedy);
        }
    };
    let Some(&address) = found.first() else {
        return DoctorFinding::failed("port", listen, "has no address").remedy(remedy);
    };
    match std::net::TcpListener::bind(address) {
        Ok(_) => DoctorFinding::ok("port", listen, "free"),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let cert = setup.config.server.tls.as_ref().map(|tls| tls.cert.as_path());
            taken(listen, address, cert).await
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            DoctorFinding::failed("port", listen, "this user may not listen on this port")
                .remedy("choose a port above 1023, or give the service CAP_NET_BIND_SERVICE")
        }
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
            DoctorFinding::failed("port", listen, "this machine does not have the address").remedy(remedy)
        }
        Err(error) => DoctorFinding::failed("port", listen, &error.to_string()).remedy(remedy),
    }
}

/// Asks the program that listens on the address whether it is a gateway.
async fn taken(listen: &str, address: SocketAddr, cert: Option<&Path>) -> DoctorFinding {
    let other = "stop the other program, or choose another address";
    match is_gateway(address, cert).await {
        Some(true) => DoctorFinding::ok("port", listen, "a running gateway listens here"),
        Some(false) => {
            DoctorFinding::failed("port", listen, "another program listens here, and it is not a gateway")
                .remedy(other)
        }
        None => DoctorFinding::warning(
            "port",
            listen,
            "another program listens here; it does not say whether it is a gateway",
        )
        .remedy(other),
    }
}

/// None: there is no answer, for example because this machine does not trust the gateway's own certificate.
async fn is_gateway(address: SocketAddr, cert: Option<&Path>) -> Option<bool> {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let scheme = if cert.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}", SocketAddr::new(ip, address.port()));
    let client = Client::new(&url, true, cert).ok()?;
    let timeouts = Timeouts { connect: TIMEOUT, first_token: TIMEOUT, idle: TIMEOUT, total: TIMEOUT };
    let call = HttpCall {
        method: Method::GET,
        path: "/".to_owned(),
        headers: HeaderMap::new(),
        body: Bytes::new(),
        upload: None,
    };
    let answer = client.send(call, &timeouts).await.ok()?;
    let body = answer.body.collect(MAX_ANSWER_BYTES, TIMEOUT, Instant::now() + TIMEOUT).await.ok()?;
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    Some(body.get("object").is_some_and(|object| object == "gateway"))
}

fn certificate(cert: &Path, key: &Path) -> DoctorFinding {
    let name = cert.display().to_string();
    match certificate_validity(cert, key) {
        Err(error) => DoctorFinding::failed("certificate", &name, &error.to_string())
            .remedy("correct server.tls: a PEM certificate chain and its private key"),
        Ok(validity) => validity_finding(&name, validity, calendar::unix_seconds().unsigned_abs()),
    }
}

fn validity_finding(name: &str, validity: Option<Validity>, now: u64) -> DoctorFinding {
    let Some(validity) = validity else {
        return DoctorFinding::warning("certificate", name, "its times cannot be read")
            .remedy("renew the certificate");
    };
    if let Some(fault) = fault(validity, now) {
        let remedy = if now > validity.not_after {
            "renew the certificate"
        } else {
            "wait, correct the clock of this machine, or use another certificate"
        };
        return DoctorFinding::failed("certificate", name, &fault).remedy(remedy);
    }
    let left = validity.not_after.saturating_sub(now);
    let message = format!("valid for {} days, until {}", left / 86_400, in_words(validity.not_after));
    if left < RENEWAL {
        return DoctorFinding::warning("certificate", name, &message).remedy("renew the certificate");
    }
    DoctorFinding::ok("certificate", name, &message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_judged_by_its_times() {
        const DAY: u64 = 86_400;
        let validity = Some(Validity { not_before: 100 * DAY, not_after: 200 * DAY });
        for (now, said) in [
            (99 * DAY, "failed:is not valid before 1970-04-11T00:00:00.000Z"),
            (100 * DAY, "ok:valid for 100 days, until 1970-07-20T00:00:00.000Z"),
            (190 * DAY, "warning:valid for 10 days, until 1970-07-20T00:00:00.000Z"),
            (201 * DAY, "failed:expired at 1970-07-20T00:00:00.000Z"),
        ] {
            let mut report = DoctorReport::default();
            report.add(validity_finding("c", validity, now));
            let value: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
            let finding = &value["findings"][0];
            let found =
                format!("{}:{}", finding["result"].as_str().unwrap(), finding["message"].as_str().unwrap());
            assert_eq!(found, said);
        }
    }
}
