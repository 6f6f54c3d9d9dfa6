//! The requests that may use a session, by their origin, host, site and media type.

use super::*;
use crate::tls::TlsSettings;

const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");

fn pages(listen: &str, origins: &[&str]) -> OwnPages {
    let console_origins = origins.iter().map(|origin| (*origin).to_owned()).collect();
    OwnPages::new(&ServerSettings { listen: listen.to_owned(), console_origins, ..ServerSettings::default() })
}

fn parts(method: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = http::Request::builder().method(method).uri("/admin/v1/keys");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn code(pages: &OwnPages, method: &str, headers: &[(&str, &str)]) -> Option<String> {
    pages.check(&parts(method, headers)).err().map(|error| error.code().to_owned())
}

#[test]
fn i18_only_hosts_that_no_dns_of_a_stranger_can_name_are_known() {
    let local = pages("127.0.0.1:4000", &["https://gw.example", "http://inner:4000"]);
    for host in [
        "127.0.0.1:4000",
        "127.0.0.1:9",
        "127.9.9.9",
        "localhost",
        "LOCALHOST:1",
        "gw.localhost:4000",
        "[::1]:4000",
        "[::ffff:127.0.0.1]",
        "gw.example",
        "GW.example:443",
        "inner:4000",
    ] {
        assert!(local.knows(host), "{host}");
    }
    let strange = [
        "",
        "evil.example",
        "evil.example:4000",
        "localhost.evil.example",
        "xlocalhost",
        "127.0.0.1.evil.example",
        "192.0.2.7:4000",
        "gw.example:444",
        "gw.example.evil",
        "inner",
        "inner:80",
        "127.1",
        "2130706433",
    ];
    for host in strange {
        assert!(!local.knows(host), "{host}");
    }
    let every = pages("0.0.0.0:4000", &[]);
    assert!(every.knows("192.0.2.7:8080") && every.knows("[2001:db8::1]:80") && !every.knows("gw.example"));
    let named = pages("gw.lan:4000", &[]);
    assert!(named.knows("gw.lan:8080") && !named.knows("192.0.2.7"));
}

#[test]
fn k08_only_own_pages_may_use_a_session_and_changes_are_json() {
    let pages = pages("127.0.0.1:4000", &["https://gw.example"]);
    let site = |site: &'static str| ("sec-fetch-site", site);
    let origin = |origin: &'static str| ("origin", origin);
    let (local, own) = (("host", "127.0.0.1:4000"), origin("http://127.0.0.1:4000"));
    let (proxied, public) = (("host", "gw.example"), origin("https://gw.example"));
    const CROSS: Option<&str> = Some("cross_site_request");
    const MEDIA: Option<&str> = Some("unsupported_media_type");
    for (method, headers, expected) in [
        ("GET", vec![local], None),
        ("GET", vec![local, site("same-origin")], None),
        ("GET", vec![local, site("none")], None),
        ("GET", vec![local, site("cross-site")], CROSS),
        ("GET", vec![local, site("same-site")], CROSS),
        ("GET", vec![local, own, site("same-origin")], None),
        ("GET", vec![local, origin("http://127.0.0.1:9")], CROSS),
        ("GET", vec![local, origin("https://evil.example")], CROSS),
        ("GET", vec![("host", "evil.example")], CROSS),
        ("GET", vec![("host", "evil.example"), origin("http://evil.example"), site("same-origin")], CROSS),
        ("GET", vec![], CROSS),
        ("GET", vec![local, local], CROSS),
        ("POST", vec![local, own, site("same-origin"), JSON], None),
        ("POST", vec![local, own, JSON], None),
        ("POST", vec![proxied, public, JSON], None),
        ("POST", vec![local, public, JSON], None),
        ("POST", vec![("host", "upstream:1"), public, JSON], None),
        ("POST", vec![("host", "localhost:4000"), own, JSON], CROSS),
        ("POST", vec![local, JSON], CROSS),
        ("POST", vec![local, site("same-origin"), JSON], CROSS),
        ("POST", vec![local, own, site("none"), JSON], CROSS),
        ("POST", vec![local, own, site("cross-site"), JSON], CROSS),
        ("POST", vec![local, origin("null"), site("same-origin"), JSON], CROSS),
        ("POST", vec![local, own, own, JSON], CROSS),
        ("POST", vec![local, origin("https://gw.example.evil"), JSON], CROSS),
        ("POST", vec![local, origin("http://127.0.0.1:4000.evil"), JSON], CROSS),
        ("POST", vec![local, own], MEDIA),
        ("DELETE", vec![local, own], MEDIA),
        ("POST", vec![local, own, ("content-type", "text/plain")], MEDIA),
        ("POST", vec![local, own, ("content-type", "application/x-www-form-urlencoded")], MEDIA),
    ] {
        assert_eq!(code(&pages, method, &headers).as_deref(), expected, "{method} {headers:?}");
    }
}

#[test]
fn an_encrypted_gateway_has_only_encrypted_pages() {
    let tls = Some(TlsSettings {
        cert: "a".into(),
        key: "b".into(),
        client_ca: None,
        is_client_certificate_optional: false,
    });
    let pages = OwnPages::new(&ServerSettings { tls, ..ServerSettings::default() });
    let post = |origin| code(&pages, "POST", &[("host", "127.0.0.1:4000"), ("origin", origin), JSON]);
    assert_eq!(post("https://127.0.0.1:4000"), None);
    assert_eq!(post("http://127.0.0.1:4000").as_deref(), Some("cross_site_request"));
}

#[test]
fn a_browser_is_told_when_it_cannot_keep_the_cookie() {
    let pages = pages("0.0.0.0:4000", &["https://gw.example"]);
    let advice = |headers: &[(&str, &str)]| pages.advice(&parts("GET", headers));
    for headers in [
        &[("host", "127.0.0.1:4000")][..],
        &[("host", "localhost:1")],
        &[("host", "gw.example")],
        &[("host", "192.0.2.7"), ("x-forwarded-proto", "https")],
        &[("host", "192.0.2.7"), ("origin", "https://192.0.2.7")],
    ] {
        assert_eq!(advice(headers), None, "{headers:?}");
    }
    assert!(advice(&[("host", "192.0.2.7:4000")]).unwrap().contains("not encrypted"));
    let unknown = advice(&[("host", "other.example")]).unwrap();
    assert!(unknown.contains("other.example") && unknown.contains("server.console_origins"), "{unknown}");
}

#[test]
fn two_hosts_that_differ_are_none() {
    let host = |uri: &str, host: &str| {
        let request = http::Request::get(uri).header("host", host).body(()).unwrap();
        host_of(&request.into_parts().0).map(str::to_owned)
    };
    assert_eq!(host("/x", "a:1").as_deref(), Some("a:1"));
    assert_eq!(host("http://a:1/x", "A:1").as_deref(), Some("a:1"));
    for (uri, header) in [("http://a:1/x", "b:1"), ("/x", "a@b"), ("/x", "a, b"), ("/x", "a/b")] {
        assert_eq!(host(uri, header), None, "{uri} {header}");
    }
}
