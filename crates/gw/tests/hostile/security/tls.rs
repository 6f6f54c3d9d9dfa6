//! The TLS listener: its versions, certificates of clients, and certificates that are renewed while the gateway serves.

use std::process::Command;

use gw_testkit::certificate::Certificate;
use gw_testkit::wire::RawClient;
use gw_testkit::{FakeUpstream, Gateway, Launch, eventually};

use crate::harness::curl::curl;
use crate::harness::{ADMIN, Setup, binary, chat};

/// A gateway with this `[server.tls]`, and an upstream that must live as long.
async fn start(server: &'static str, files: &[(&str, &str)]) -> (Gateway, FakeUpstream) {
    let upstream = FakeUpstream::start().await;
    let config = Setup { server, ..Setup::default() }.config(&upstream.base_url(), &upstream.base_url());
    let launch = Launch::new(binary()).file("gateway.toml", config);
    let launch = files.iter().fold(launch, |launch, (name, text)| launch.file(name, text));
    (launch.start().await, upstream)
}

/// The status of a chat over TLS. `000`: the handshake failed.
async fn status(gateway: &Gateway, args: &[&str]) -> String {
    let files = args.iter().map(|arg| match arg.strip_suffix(".pem") {
        Some(_) => gateway.dir().join(arg).to_string_lossy().into_owned(),
        None => (*arg).to_owned(),
    });
    let args: Vec<_> = files.collect();
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    curl(&format!("https://{}/v1/chat/completions", gateway.addr), &args, &chat("acme/fast")).await.1
}

/// The first message of a client that offers at most this version, in the bytes of the protocol. Everything else in it suits
/// the gateway.
fn hello(version: [u8; 2]) -> Vec<u8> {
    let mut body = version.to_vec();
    body.extend([7; 32]);
    // No session, the suites ECDHE-ECDSA with AES-128-GCM and with AES-128-CBC, no compression.
    body.extend([0, 0, 4, 0xc0, 0x2b, 0xc0, 0x09, 1, 0]);
    // The extensions: ECDSA with SHA-256, the curve P-256, uncompressed points.
    body.extend([0, 22, 0, 13, 0, 4, 0, 2, 4, 3, 0, 10, 0, 4, 0, 2, 0, 23, 0, 11, 0, 2, 1, 0]);
    let length = u8::try_from(body.len()).expect("a short message");
    let mut record = vec![0x16, 3, 1, 0, length + 4, 1, 0, 0, length];
    record.extend(body);
    record
}

#[tokio::test]
async fn k12_versions_before_tls_1_2_are_refused() {
    let made = Certificate::of(&["127.0.0.1"]);
    let files = [("cert.pem", made.pem.as_str()), ("key.pem", &made.key_pem)];
    let server = "head_timeout_ms = 1000\ntls = { cert = \"cert.pem\", key = \"key.pem\" }";
    let (gateway, _upstream) = start(server, &files).await;
    // A fatal alert ends the handshake, and its first message begins with 22.
    for (version, first_byte) in [([3, 0], 21), ([3, 1], 21), ([3, 2], 21), ([3, 3], 22)] {
        let mut wire = RawClient::connect(gateway.addr).await;
        wire.send(hello(version)).await;
        let said = wire.until_closed().await;
        assert_eq!(said.first(), Some(&first_byte), "{version:?}: {said:?}");
        assert!(first_byte == 22 || said.len() == 7, "nothing but the alert: {said:?}");
    }
    let only = |version| ["--cacert", "cert.pem", "--tlsv1.2", "--tls-max", version];
    assert_eq!(status(&gateway, &only("1.2")).await, "200");
    assert_eq!(status(&gateway, &["--cacert", "cert.pem", "--tlsv1.3"]).await, "200");
}

#[tokio::test]
async fn a_command_trusts_the_certificate_that_it_is_told_to_trust() {
    let made = Certificate::of(&["127.0.0.1"]);
    let files = [("cert.pem", made.pem.as_str()), ("key.pem", &made.key_pem)];
    let (gateway, _upstream) = start("tls = { cert = \"cert.pem\", key = \"key.pem\" }", &files).await;
    let url = format!("https://{}", gateway.addr);
    let reload =
        || Launch::new(binary()).env("MODEL_GATEWAY_ADMIN_KEY", ADMIN).arg("reload").arg("--url").arg(&url);
    let refused = reload().run();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(
        said.contains(&format!("the certificate of the gateway at {url} is not trusted (tls: ")),
        "{said}"
    );
    assert!(said.contains("in SSL_CERT_FILE"), "{said}");
    let roots = gateway.dir().join("cert.pem").to_string_lossy().into_owned();
    let done = reload().env("SSL_CERT_FILE", &roots).run();
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
}

/// The report of sslscan without the certificate, whose dates change.
const SCAN: &str = r#"<protocol type="ssl" version="2" enabled="0" />
<protocol type="ssl" version="3" enabled="0" />
<protocol type="tls" version="1.0" enabled="0" />
<protocol type="tls" version="1.1" enabled="0" />
<protocol type="tls" version="1.2" enabled="1" />
<protocol type="tls" version="1.3" enabled="1" />
<renegotiation supported="0" secure="0" />
<heartbleed sslversion="TLSv1.3" vulnerable="0" />
<heartbleed sslversion="TLSv1.2" vulnerable="0" />
TLSv1.2 ECDHE-ECDSA-AES128-GCM-SHA256
TLSv1.2 ECDHE-ECDSA-AES256-GCM-SHA384
TLSv1.2 ECDHE-ECDSA-CHACHA20-POLY1305
TLSv1.3 TLS_AES_128_GCM_SHA256
TLSv1.3 TLS_AES_256_GCM_SHA384
TLSv1.3 TLS_CHACHA20_POLY1305_SHA256
<group sslversion="TLSv1.3" bits="128" name="secp256r1 (NIST P-256)" id="0x0017" />
<group sslversion="TLSv1.3" bits="192" name="secp384r1 (NIST P-384)" id="0x0018" />
<group sslversion="TLSv1.3" bits="128" name="x25519" id="0x001d" />"#;

#[tokio::test]
async fn k12_a_scanner_finds_current_protocols_and_ciphers_and_no_others() {
    let made = Certificate::of(&["127.0.0.1"]);
    let files = [("cert.pem", made.pem.as_str()), ("key.pem", &made.key_pem)];
    let (gateway, _upstream) = start("tls = { cert = \"cert.pem\", key = \"key.pem\" }", &files).await;
    let mut scan = tokio::process::Command::new("sslscan");
    scan.args(["--no-colour", "--xml=-", &gateway.addr.to_string()]);
    let done = scan.output().await.expect("sslscan is installed");
    let report = String::from_utf8(done.stdout).expect("text");
    let attribute = |line: &str, name: &str| {
        let value = line.split_once(&format!(" {name}=\"")).and_then(|(_, rest)| rest.split_once('"'));
        value.map(|(value, _)| value.to_owned()).unwrap_or_default()
    };
    let found = |starts: &[&str]| -> Vec<String> {
        let lines = report.lines().map(str::trim);
        lines.filter(|line| starts.iter().any(|start| line.starts_with(start))).map(str::to_owned).collect()
    };
    let mut ciphers: Vec<_> = found(&["<cipher "])
        .iter()
        .map(|line| format!("{} {}", attribute(line, "sslversion"), attribute(line, "cipher")))
        .collect();
    ciphers.sort();
    let first = found(&["<protocol ", "<renegotiation ", "<compression ", "<heartbleed "]);
    assert_eq!([first, ciphers, found(&["<group "])].concat().join("\n"), SCAN, "{report}");
}

#[tokio::test]
async fn k12_clients_need_a_certificate_of_the_named_authority() {
    let (made, known) = (Certificate::of(&["127.0.0.1"]), Certificate::of(&["client"]));
    let stranger = Certificate::of(&["client"]);
    let files = [
        ("cert.pem", made.pem.as_str()),
        ("key.pem", &made.key_pem),
        ("known.pem", &known.pem),
        ("known-key.pem", &known.key_pem),
        ("stranger.pem", &stranger.pem),
        ("stranger-key.pem", &stranger.key_pem),
    ];
    let required = "tls = { cert = \"cert.pem\", key = \"key.pem\", client_ca = \"known.pem\" }";
    let optional = "tls = { cert = \"cert.pem\", key = \"key.pem\", client_ca = \"known.pem\", client_certificate = \"optional\" }";
    for (server, without) in [(required, "000"), (optional, "200")] {
        let (gateway, upstream) = start(server, &files).await;
        let trust = ["--cacert", "cert.pem"];
        assert_eq!(status(&gateway, &trust).await, without, "without a certificate: {server}");
        let asked = upstream.hits();
        let wrong = ["--cacert", "cert.pem", "--cert", "stranger.pem", "--key", "stranger-key.pem"];
        assert_eq!(status(&gateway, &wrong).await, "000", "a stranger's certificate: {server}");
        assert_eq!(upstream.hits(), asked, "the stranger's request went nowhere");
        let right = ["--cacert", "cert.pem", "--cert", "known.pem", "--key", "known-key.pem"];
        assert_eq!(status(&gateway, &right).await, "200", "a known client: {server}");
    }
}

/// Replaces a file at once, as the programs that renew certificates do.
fn replace(gateway: &Gateway, name: &str, text: &str) {
    let (new, file) = (gateway.dir().join("new"), gateway.dir().join(name));
    std::fs::write(&new, text).expect("the test's directory is writable");
    std::fs::rename(new, file).expect("the test's directory is writable");
}

/// The lines of the log with this text.
fn count_lines(gateway: &Gateway, text: &str) -> usize {
    let lines = [gateway.stdout(), gateway.stderr()].concat();
    lines.iter().filter(|line| line.contains(text)).count()
}

/// Sends SIGHUP, and waits for more than `before` lines with this text.
async fn reload(gateway: &Gateway, text: &str, before: usize) {
    let sent = Command::new("kill").args(["-HUP", &gateway.pid().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
    eventually(text, || (count_lines(gateway, text) > before).then_some(())).await;
}

#[tokio::test]
async fn k12_renewed_certificates_are_used_without_a_failed_request() {
    let certificates = [Certificate::of(&["127.0.0.1"]), Certificate::of(&["127.0.0.1"])];
    let [first, second] = &certificates;
    let both = format!("{}{}", first.pem, second.pem);
    let files = [
        ("cert.pem", first.pem.as_str()),
        ("key.pem", &first.key_pem),
        ("first.pem", &first.pem),
        ("second.pem", &second.pem),
        ("both.pem", &both),
    ];
    let (gateway, _upstream) = start("tls = { cert = \"cert.pem\", key = \"key.pem\" }", &files).await;
    assert_eq!(status(&gateway, &["--cacert", "first.pem"]).await, "200");
    let asking = async {
        for _ in 0..30 {
            assert_eq!(status(&gateway, &["--cacert", "both.pem"]).await, "200");
        }
    };
    let renewing = async {
        let renewed = "new connections use the changed certificates";
        for next in certificates.iter().rev().cycle().take(9) {
            // The watcher of files may be faster than the signal.
            let before = count_lines(&gateway, renewed);
            replace(&gateway, "key.pem", &next.key_pem);
            replace(&gateway, "cert.pem", &next.pem);
            reload(&gateway, renewed, before).await;
        }
    };
    tokio::join!(asking, renewing);
    assert_eq!(status(&gateway, &["--cacert", "second.pem"]).await, "200");
    assert_eq!(status(&gateway, &["--cacert", "first.pem"]).await, "000", "the old one is not used");

    replace(&gateway, "key.pem", &first.key_pem);
    let before = count_lines(&gateway, "the one before stays in force");
    reload(&gateway, "the one before stays in force", before).await;
    assert_eq!(status(&gateway, &["--cacert", "second.pem"]).await, "200");
}

#[tokio::test]
async fn an_expired_certificate_is_used_with_a_warning() {
    let (good, expired) = (Certificate::of(&["127.0.0.1"]), Certificate::expired(&["127.0.0.1"]));
    let files = [("cert.pem", good.pem.as_str()), ("key.pem", &good.key_pem)];
    let (gateway, _upstream) = start("tls = { cert = \"cert.pem\", key = \"key.pem\" }", &files).await;
    let warning = "it expired at 2001-01-01T00:00:00.000Z";
    assert_eq!(count_lines(&gateway, warning), 0);
    replace(&gateway, "key.pem", &expired.key_pem);
    replace(&gateway, "cert.pem", &expired.pem);
    reload(&gateway, warning, 0).await;
    assert_eq!(status(&gateway, &["--insecure"]).await, "200");
    assert_eq!(status(&gateway, &["--cacert", "cert.pem"]).await, "000");
}
