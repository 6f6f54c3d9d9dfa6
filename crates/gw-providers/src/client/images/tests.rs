//! Tests of the addresses of images, their redirects and their media types.

use super::*;

fn parse(url: &str) -> Result<(bool, String, String), ImageFault> {
    WebAddress::parse(url).map(|address| (address.is_https, address.authority, address.path))
}

#[test]
fn an_address_is_split_and_one_that_readers_disagree_about_is_refused() {
    for (url, is_https, authority, path) in [
        ("https://a.example/x.png", true, "a.example", "/x.png"),
        ("HTTP://a.example:8080?x=/y#z", false, "a.example:8080", "/?x=/y"),
        ("https://a.example", true, "a.example", "/"),
        ("https://a.example/ü.png?q=é", true, "a.example", "/%C3%BC.png?q=%C3%A9"),
        ("https://a.example/p?next=http://b@c/", true, "a.example", "/p?next=http://b@c/"),
    ] {
        assert_eq!(parse(url), Ok((is_https, authority.to_owned(), path.to_owned())), "{url}");
    }
    for url in [
        "ftp://a.example/x",
        "a.example/x",
        "https://user@a.example/x",
        "https://user:word@a.example/x",
        "https://a.example\\@b.example/x",
        "https://a.example/a b",
        "https://a.example/\tb",
        "https://a.example/\u{7f}",
    ] {
        assert_eq!(parse(url), Err(ImageFault::Address), "{url}");
    }
}

#[test]
fn a_redirect_is_relative_to_its_address_and_never_leaves_tls() {
    let to = |from: &str, location: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(LOCATION, HeaderValue::from_bytes(location.as_bytes()).unwrap());
        WebAddress::parse(from).unwrap().redirected(&headers)
    };
    for (from, location, next) in [
        ("https://a.example/b/c?d", "https://e.example/f", "https://e.example/f"),
        ("https://a.example/b/c?d", "//e.example/f", "https://e.example/f"),
        ("https://a.example/b/c?d", "/f", "https://a.example/f"),
        ("https://a.example/b/c?d", "f", "https://a.example/b/f"),
        ("https://a.example/b/c?d", "?f", "https://a.example/b/c?f"),
        ("http://a.example/b", "https://a.example/b", "https://a.example/b"),
        ("http://a.example/b", "http://e.example/b:c", "http://e.example/b:c"),
    ] {
        assert_eq!(to(from, location).as_deref(), Ok(next), "{from} {location}");
    }
    for (from, location) in [
        ("https://a.example/b", "http://a.example/b"),
        ("https://a.example/b", "//user@b.example/"),
        ("https://a.example/b", "file:///etc/passwd"),
        ("https://a.example/b", "data:image/png;base64,AAAA"),
        ("https://a.example/b", ""),
    ] {
        assert_eq!(to(from, location), Err(ImageFault::Redirect), "{from} {location}");
    }
    assert_eq!(
        WebAddress::parse("http://a/").unwrap().redirected(&HeaderMap::new()),
        Err(ImageFault::Redirect)
    );
}

#[test]
fn the_bytes_show_the_media_type() {
    for (bytes, media_type) in [
        (&b"\x89PNG\r\n\x1a\n..."[..], Some("image/png")),
        (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
        (b"GIF89a", Some("image/gif")),
        (b"GIF87a", Some("image/gif")),
        (b"RIFF\0\0\0\0WEBPVP8 ", Some("image/webp")),
        (b"RIFF\0\0\0\0WAVE", None),
        (b"<svg xmlns=", None),
        (b"", None),
    ] {
        assert_eq!(super::media_type(bytes), media_type);
    }
}

#[test]
fn only_public_addresses_and_named_networks_are_called_and_never_link_local_ones() {
    let fetcher = |networks: &[&str]| ImageFetcher {
        networks: networks.iter().map(|network| network.parse().unwrap()).collect(),
        max_bytes: 1,
    };
    let permits = |networks: &[&str], address: &str| fetcher(networks).permits(address.parse().unwrap());
    assert!(permits(&[], "8.8.8.8") && permits(&[], "2606:4700::1111"));
    for address in
        ["127.0.0.1", "10.1.2.3", "::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "fd00::1", "0.0.0.0"]
    {
        assert!(!permits(&[], address), "{address}");
    }
    assert!(permits(&["10.0.0.0/8"], "10.1.2.3") && !permits(&["10.0.0.0/8"], "172.16.0.1"));
    assert!(!permits(&["0.0.0.0/0", "::/0"], "169.254.169.254"));
    assert!(!permits(&["0.0.0.0/0", "::/0"], "fe80::1"));
}
