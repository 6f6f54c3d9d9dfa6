//! Clients who name the address of an image: the gateway fetches it for providers that take only bytes, and calls nothing inside.

use gw_testkit::upstream::Step;
use gw_testkit::{Answer, FakeUpstream, Signal, compressed};
use std::time::Duration;

use crate::harness::images::{BEDROCK, ImageWorld, OLLAMA, ON, PNG, picture, question};

/// Addresses of this machine and of metadata services, in every spelling.
fn inside(port: u16) -> Vec<String> {
    let hosts = [
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "0x7f000001",
        "2130706433",
        "017700000001",
        "0.0.0.0",
        "0",
        "localhost",
        "LOCALHOST.",
        "ip6-localhost",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[fe80::1]",
        "169.254.169.254",
        "[::ffff:169.254.169.254]",
        "[fd00:ec2::254]",
        "100.100.100.200",
        "10.0.0.1",
        "192.168.0.1",
        "metadata.google.internal",
    ];
    hosts.iter().map(|host| format!("http://{host}:{port}/x.png")).collect()
}

#[tokio::test]
async fn no_spelling_of_a_private_address_is_called() {
    let world = ImageWorld::start("fetch_images = true\nfetch_images_timeout_ms = 3000", "").await;
    let target = FakeUpstream::start().await;
    target.always(picture(PNG));
    let port = target.addr.port();
    let own = format!("http://{}/healthz", world.gateway.addr);
    for url in inside(port).iter().chain([&own]) {
        for model in [OLLAMA, BEDROCK] {
            let answer = world.ask(model, &[url]).await;
            assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_image_url"), "{url}");
            assert_eq!(
                answer.message(),
                "Invalid 'messages[0].content[1].image_url.url': the image cannot be downloaded, because its address is not a public http(s) address that answers."
            );
        }
    }
    assert_eq!((target.hits(), target.connections(), world.ollama.hits()), (0, 0, 0));
}

#[tokio::test]
async fn odd_addresses_are_refused_before_anything_is_called() {
    let world = ImageWorld::start(ON, "").await;
    let place = world.images.addr;
    for url in [
        format!("http://user:word@{place}/x"),
        format!("http://user@{place}/x"),
        format!("http://a.example\\@{place}/x"),
        format!("http://{place}/a b"),
        format!("http://{place}/a\tb"),
        format!("http://{place}/a\r\nhost: b"),
        "http://127.0.0.1:0/x".to_owned(),
        "http://127.0.0.1:65536/x".to_owned(),
        "http://127.0.0.1:22/x".to_owned(),
        "http://127.0.0.1:+80/x".to_owned(),
        "http:///x".to_owned(),
        "http://[127.0.0.1]/x".to_owned(),
        format!("http://{place}/{}", "x".repeat(9_000)),
    ] {
        let answer = world.ask(OLLAMA, &[&url]).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_image_url"), "{url}");
        assert!(!answer.text().contains("word"), "{url}");
    }
    assert_eq!((world.images.connections(), world.ollama.hits()), (0, 0));
}

#[tokio::test]
async fn a_redirect_leads_to_no_private_address_and_to_no_other_scheme() {
    let world =
        ImageWorld::start("fetch_images = true\nfetch_images_networks = [\"127.0.0.1/32\"]", "").await;
    for location in [
        format!("http://127.0.0.2:{}/x", world.images.addr.port()),
        format!("http://[::1]:{}/x", world.images.addr.port()),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://10.0.0.1/x".to_owned(),
        format!("http://user:word@{}/x", world.images.addr),
        "file:///etc/passwd".to_owned(),
        "gopher://127.0.0.1/x".to_owned(),
        "data:image/png;base64,iVBORw0KGgo=".to_owned(),
        String::new(),
    ] {
        let redirect = Answer::full(302, &[("location", &location)], PNG);
        world.images.respond_with(
            move |request| {
                if request.path == "/start" { redirect.clone() } else { picture(PNG) }
            },
        );
        let before = world.images.hits();
        let answer = world.ask(OLLAMA, &[&world.url("/start")]).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_image_url"), "{location}");
        assert_eq!(world.images.hits(), before + 1, "{location}");
    }
    assert_eq!(world.ollama.hits(), 0);
}

#[tokio::test]
async fn endless_slow_lying_and_compressed_bodies_end_in_time_while_others_are_served() {
    let settings = "fetch_images_max_mib = 1\nfetch_images_timeout_ms = 1500";
    let world = ImageWorld::start(&format!("{ON}\n{settings}"), "").await;
    let bomb = compressed("gzip", &vec![0; 64 << 20]);
    world.images.respond_with(move |request| {
        let chunked =
            Answer::raw("HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ntransfer-encoding: chunked\r\n\r\n");
        match &*request.path {
            "/endless" => chunked.chunk(PNG).then(Step::Endless(vec![b'x'; 4096], Duration::ZERO)),
            "/drip" => chunked.chunk(PNG).then(Step::Endless(vec![b'x'], Duration::from_millis(20))),
            "/head" => Answer::raw("HTTP/1.1 200 OK\r\nx: ").then(Step::Hang),
            "/lie" => {
                Answer::raw("HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n").bytes(PNG).then(Step::Close)
            }
            "/twice" => Answer::raw("HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 900000\r\n\r\n")
                .bytes(PNG)
                .then(Step::Hang),
            "/bomb" => Answer::full(200, &[("content-encoding", "gzip")], &bomb),
            _ => Answer::raw("no http at all\r\n\r\n").then(Step::Hang),
        }
    });
    let paths = ["/endless", "/drip", "/head", "/lie", "/twice", "/bomb", "/junk"];
    let asks = &world;
    let asked = paths.map(|path| async move { (path, asks.ask(OLLAMA, &[&asks.url(path)]).await) });
    let neighbour = async {
        for _ in 0..50 {
            assert_eq!(world.gateway.client().get("/healthz").await.status, 200);
        }
    };
    let (answers, ()) = tokio::join!(futures_util::future::join_all(asked), neighbour);
    for (path, answer) in answers {
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, "invalid_image_url"),
            "{path}: {}",
            answer.text()
        );
    }
    assert_eq!(world.ollama.hits(), 0);
    // On a busy machine more of them than the drip and the head without an end may be late.
    assert!(world.fetches("timeout").await >= 2);
}

#[tokio::test]
async fn a_key_leaves_fetches_to_others_and_waits_for_its_share() {
    // The fetches of the greedy key end when the other key has its answer, and not by a clock.
    let world = ImageWorld::start(&format!("{ON}\nfetch_images_timeout_ms = 60000"), "").await;
    let signals: Vec<_> = (0..40).map(|_| Signal::new()).collect();
    let waiting = signals.clone();
    world.images.respond_with(move |request| {
        let place = request.path.trim_start_matches('/').parse::<usize>();
        let Some(signal) = place.ok().and_then(|place| waiting.get(place)) else { return picture(PNG) };
        Answer::full(404, &[], "").after(Step::Wait(signal.clone()))
    });
    let slow: Vec<_> = (0..40).map(|n| world.url(&format!("/{n}"))).collect();
    let greedy = slow.iter().map(|url| async { world.ask(OLLAMA, &[url]).await });
    let other = async {
        world.images.request(31).await;
        let client = world.gateway.client().with_key(crate::harness::ADMIN);
        let answer = client.post_json("/v1/chat/completions", &question(OLLAMA, &[&world.url("/cat")])).await;
        assert_eq!(world.images.hits(), 33, "half of 64 places, and the other key's image");
        signals.iter().for_each(Signal::fire);
        answer.ok()
    };
    let (answers, answer) = tokio::join!(futures_util::future::join_all(greedy), other);
    assert_eq!(answer.status, 200);
    let codes: Vec<_> = answers.iter().map(|answer| answer.code()).collect();
    assert_eq!(codes, ["invalid_image_url"; 40]);
    assert_eq!(world.images.hits(), 41, "those that waited for a place were fetched, too");
    assert_eq!(world.ollama.hits(), 1);
}
