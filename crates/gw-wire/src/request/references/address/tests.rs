//! Addresses in ambiguous spellings, and prose that only begins like an address.

use super::*;

fn public(host: &str) -> Address {
    Address::Public(host.to_owned())
}

#[test]
fn addresses_are_classified() {
    for (address, expected) in [
        ("data:image/png;base64,AAAA", Address::Content),
        ("data:image/png;base64,AA\nAA", Address::Content),
        ("iVBORw0KGgoAAAA", Address::Content),
        ("https://example.com/a.png", public("example.com")),
        ("HTTPS://u@Example.COM.:8443/a", public("example.com")),
        ("https://storage.googleapis.com/b/o", public("storage.googleapis.com")),
        ("https://drive.storage.googleapis.com/o", public("drive.storage.googleapis.com")),
        ("https://firebasestorage.googleapis.com/v0/b/x", public("firebasestorage.googleapis.com")),
        ("https://maps.googleapis.com/maps/api/staticmap", public("maps.googleapis.com")),
        ("https://8.8.8.8/a", public("8.8.8.8")),
        ("https://[2606:4700::1]/a", public("2606:4700::1")),
    ] {
        assert_eq!(classify(address), expected, "{address}");
    }
}

#[test]
fn stored_things_and_hosts_that_only_the_provider_reaches_are_internal() {
    for internal in [
        "gs://bucket/object",
        " GS://bucket/object",
        "s3://bucket/key",
        "azureml://datastores/x",
        "file:///etc/passwd",
        "fi\nle:///etc/passwd",
        "weird://x",
        "we\tird:/\n/x",
        "files/abc",
        "file-abc",
        "https://generativelanguage.googleapis.com/v1beta/files/abc",
        "https:\\\\generativelanguage.googleapis.com/v1beta/files/abc",
        "https://x@generativelanguage.googleapis.com/",
        "https://generativelanguage%2egoogleapis.com/",
        "https://generative\tlanguage.googleapis.com/",
        "https://\u{ff47}enerativelanguage.googleapis.com/",
        "https://aiplatform.googleapis.com/v1/x",
        "https://europe-west4-aiplatform.googleapis.com/v1/x",
        "https://aiplatform.eu.rep.googleapis.com/v1/x",
        "https://us-discoveryengine.googleapis.com/v1/x",
        "https://www.googleapis.com/drive/v3/files/x",
        "https://mine.openai.azure.com/openai/files/x",
        "https://api.openai.com/v1/files/x",
        "http://localhost:9000/",
        "http://metadata.google.internal/",
        "http://minio:9000/bucket",
        "http://minio.storage.svc/bucket",
        "http://minio.storage.svc.cluster.local/bucket",
        "http://",
    ] {
        assert_eq!(classify(internal), Address::Internal, "{internal}");
    }
}

#[test]
fn addresses_that_parsers_read_differently_are_internal() {
    for internal in [
        "http://example.com\\@127.0.0.1:8000/x",
        "http://example.com\\x",
        "https://example.com/a\\b",
        "h\tttp://127.0.0.1/",
        "h\tttp://example.com/",
        "ht\r\ntp://example.com/",
        "http://example.com/\u{0}",
        "http://example.com/\u{7f}",
        "http://example.com/a b",
        " http://example.com/a",
        "http://example.com/a\n",
        "http://example.com @127.0.0.1/",
        "http://127.0.0.1@example.com@example.org/",
        "http://example.com,127.0.0.1/",
    ] {
        assert_eq!(classify(internal), Address::Internal, "{internal:?}");
    }
}

#[test]
fn ip_addresses_outside_the_public_internet_are_internal() {
    for host in [
        "169.254.169.254",
        "[::ffff:169.254.169.254]",
        "[fd00:ec2::254]",
        "2852039166",
        "0xa9fea9fe",
        "0xa9.254.169.254",
        "127.1",
        "168.63.129.16",
        "192.0.0.192",
        "192.0.0.8",
        "198.18.0.1",
        "198.19.255.255",
        "224.0.0.1",
        "[ff02::1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b::8.8.8.8]",
        "[2002:7f00:1::1]",
        "[2002:808:808::1]",
        "[::]",
        "[::127.0.0.1]",
    ] {
        assert_eq!(classify(&format!("http://{host}/a")), Address::Internal, "{host}");
        assert_eq!(classify_any(&format!("http://{host}/a")), Address::Internal, "{host}");
    }
}

#[test]
fn prose_that_begins_like_an_address_is_content() {
    for prose in [
        "File: the budget of this year",
        "file:",
        "file:etc",
        "gs:",
        "s3://",
        "S3: the storage",
        "gs://bucket is what we call it",
        "file:// is a scheme",
        "http:",
        "https://",
        "http: a protocol",
        "http:// is how it begins",
        "Note: read this",
        "file-abc",
        "projects/x",
        "",
    ] {
        assert_eq!(classify_any(prose), Address::Content, "{prose}");
    }
    for prose in [
        "https://example.com is where it stands",
        "https://example.com/a - the title: a\\b",
        "https://example.com/a\nThe title\tof it",
        "https://example.com/a",
    ] {
        assert_eq!(classify_any(prose), public("example.com"), "{prose}");
    }
}

#[test]
fn addresses_among_values_without_a_meaning_are_found() {
    for internal in [
        "gs://bucket/object",
        "gs://bucket/my file.pdf",
        "gs://buc\nket/object",
        "file:/etc/passwd",
        "file:///etc/passwd",
        "file:\\\\host\\share",
        "file:\n//host/share",
        "fi\nle:///etc/passwd",
        "weird://x",
        "http:127.0.0.1/",
        "http://127.0.0.1/ and more",
        "http://example.com\\@127.0.0.1/ and more",
        "http://example.com\n@127.0.0.1/",
        "http://example.com @127.0.0.1/",
        "http://example.com \\@127.0.0.1/",
        "http://exam\nple.com/",
        "ht\ntp://127.0.0.1/ and more",
        "http://127.\n0.0.1/",
    ] {
        assert_eq!(classify_any(internal), Address::Internal, "{internal:?}");
    }
}

#[test]
fn instructions_that_name_stored_files_are_known() {
    for text in
        ["fileid://file-fe-1", "fileid://a,fileid://b", "FileId://a", "Read: fileid://a", "x\nfileid://a"]
    {
        assert!(names_stored_file(text), "{text}");
    }
    for text in ["", "fileid:", "file-fe-1", "a profileid://x", "fileid is a name"] {
        assert!(!names_stored_file(text), "{text}");
    }
}
