//! Bodies in both directions: forms and bytes stream, sizes and paces are bounded, timeouts hold.

use gw_testkit::upstream::Step;
use gw_testkit::{Answer, FakeUpstream, Signal};
use serde_json::json;

use super::{ROUTES, admin, row, world_with};
use crate::harness::management;
use crate::harness::{KEY, Setup, assert_error, logged};

#[tokio::test]
async fn a_body_is_sent_as_it_comes_with_its_length_or_in_chunks() {
    let world = world_with("").await;
    world.upstream.always(Answer::json(200, &json!({})));
    let form = b"--x\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nm\r\n--x--\r\n";
    let media = Some("multipart/form-data; boundary=x");
    world.client.send("POST", "/fee/files", media, Some(form)).await.ok();
    let sent = world.upstream.last();
    assert_eq!((&sent.body[..], sent.header("content-type")), (&form[..], media));
    assert_eq!(sent.header("content-length"), Some(&*form.len().to_string()));
    let chunked = world.client.with_header("transfer-encoding", "chunked");
    let mut wire = chunked.open("POST", "/fee/files", Some("audio/mpeg"), None).await;
    wire.send("3\r\nabc\r\n").await;
    wire.send("4\r\ndefg\r\n0\r\n\r\n").await;
    assert_eq!(wire.response().await.expect("an answer").status, 200);
    let sent = world.upstream.last();
    assert_eq!((&sent.body[..], sent.header("transfer-encoding")), (&b"abcdefg"[..], Some("chunked")));
    assert_eq!(sent.header("content-length"), None);
    // Bytes come back as they are.
    let audio: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    world.upstream.enqueue(Answer::full(200, &[("content-type", "audio/mpeg")], &audio));
    let answer = world.client.get("/fee/audio").await.ok();
    assert!(answer.body == audio);
    assert_eq!(answer.header("content-length"), Some("300000"));
    assert_eq!(row(&world, &answer).await["status"], "ok");
    // A body of the client's own compression passes as it is.
    let packed = gw_testkit::compressed("gzip", b"{\"model\":\"m\"}");
    let client = world.client.with_header("content-encoding", "gzip");
    client.send("POST", "/fee/x", Some("application/json"), Some(&packed)).await.ok();
    let sent = world.upstream.last();
    assert!(sent.body == packed && sent.header("content-encoding") == Some("gzip"));
}

#[tokio::test]
async fn sizes_are_bounded_before_and_while_a_body_comes() {
    let server = "body_limit_mib = 1\nupload_limit_mib = 2\n";
    let world = Setup { server, extra: ROUTES.to_owned(), ..Setup::default() }.start().await;
    world.upstream.always(Answer::json(200, &json!({})));
    for (path, media, mib, status) in [
        ("/acme/x", "application/json", 2, 413),
        ("/fee/x", "application/json", 2, 413),
        ("/fee/x", "audio/mpeg", 2, 200),
        ("/fee/x", "audio/mpeg", 3, 413),
    ] {
        let body = vec![b' '; mib << 20];
        let answer = world.client.send("POST", path, Some(media), Some(&body)).await;
        assert_eq!(answer.status, status, "{path} {media} {mib}");
    }
    let hits = world.upstream.hits();
    let head = world.client.head("POST", "/fee/x", Some("audio/mpeg"), Some(3 << 20));
    let mut wire = gw_testkit::wire::RawClient::connect(world.client.addr).await;
    wire.send(head).await;
    assert_eq!(wire.response().await.expect("an answer").status, 413, "before the body");
    assert_eq!(world.upstream.hits(), hits);
    let chunked = world.client.with_header("transfer-encoding", "chunked");
    let mut wire = chunked.open("POST", "/fee/x", Some("audio/mpeg"), None).await;
    let piece = [b"100000\r\n".as_slice(), &vec![b'x'; 1 << 20], b"\r\n"].concat();
    for _ in 0..3 {
        wire.send(&piece).await;
    }
    let answer = wire.response().await.expect("an answer");
    assert_error("a body without a length", &answer, 413, "invalid_request_error", "request_too_large");
    let torn = row(&world, &answer).await;
    assert_eq!((&torn["cost_usd"], &torn["status"]), (&json!(0), &json!("request_too_large")), "{torn}");
}

#[tokio::test]
async fn an_answer_that_was_compressed_unasked_is_bounded_when_it_is_unpacked() {
    let world = world_with("").await;
    let packed = |mib: usize| {
        let bytes = gw_testkit::compressed("gzip", &vec![b' '; mib << 20]);
        Answer::full(200, &[("content-type", "application/json"), ("content-encoding", "gzip")], &bytes)
    };
    world.upstream.enqueue(packed(8));
    let answer = world.client.get("/fee/x").await.ok();
    assert_eq!((answer.body.len(), answer.header("content-encoding")), (8 << 20, None));
    world.upstream.enqueue(packed(64));
    let answer = world.client.get("/fee/x").await;
    assert!(answer.broken && answer.body.len() <= 32 << 20, "{}", answer.body.len());
    assert_eq!(row(&world, &answer).await["status"], "upstream_invalid_response");
}

#[tokio::test]
async fn a_refusal_that_is_too_long_to_read_is_an_error_of_the_gateway() {
    let world = world_with("").await;
    let own = world.client.without_key().with_header("x-gateway-key", KEY);
    for (client, path) in [(&world.client, "/fee/x"), (&own, "/own/x")] {
        let long = vec![b'a'; 300_000];
        world.upstream.enqueue(Answer::full(400, &[("content-type", "text/plain")], &long));
        let answer = client.get(path).await;
        assert_error(path, &answer, 502, "upstream_error", "upstream_invalid_response");
        let row = row(&world, &answer).await;
        assert_eq!(
            (&row["status"], &row["cost_usd"]),
            (&json!("upstream_invalid_response"), &json!(0)),
            "{row}"
        );
        // One that fits passes as it came.
        let short = &long[..200_000];
        world.upstream.enqueue(Answer::full(400, &[("content-type", "text/plain")], short));
        let answer = client.get(path).await;
        assert!(answer.status == 400 && answer.body == short, "{path}: {}", answer.status);
    }
}

#[tokio::test]
async fn slow_and_torn_uploads_end_and_cost_nothing() {
    let server = "body_timeout_ms = 300\n";
    let world = Setup { server, extra: ROUTES.to_owned(), ..Setup::default() }.start().await;
    world.upstream.always(Answer::json(200, &json!({})));
    let mut wire = gw_testkit::wire::RawClient::connect(world.client.addr).await;
    wire.send(world.client.head("POST", "/fee/x", Some("audio/mpeg"), Some(1000))).await;
    wire.send("abc").await;
    let answer = wire.response().await.expect("an answer");
    assert_error("a slow upload", &answer, 408, "invalid_request_error", "request_timeout");
    let slow = row(&world, &answer).await;
    assert_eq!((&slow["cost_usd"], &slow["status"]), (&json!(0), &json!("request_timeout")), "{slow}");
}

#[tokio::test]
async fn timeouts_of_the_route_and_of_the_upstream_hold() {
    let route = "[[passthrough]]\npath = \"/quick\"\ntarget = \"<acme_url>\"\ncost_per_request = 0.25\n\
        timeouts = { first_token_ms = 300 }\n\
        [[passthrough]]\npath = \"/steady\"\ntarget = \"<acme_url>\"\ncost_per_request = 0.25\n\
        timeouts = { idle_ms = 300 }\n";
    let world = world_with(route).await;
    world.upstream.enqueue(Answer::steps(vec![Step::Hang]));
    let answer = world.client.post_json("/quick/x", &json!({})).await;
    assert_error("silence", &answer, 504, "upstream_error", "upstream_timeout");
    assert_eq!(row(&world, &answer).await["cost_usd"], json!(0.25), "it may have been served");
    world.upstream.enqueue(Answer::sse().chunk("data: 1\n\n").then(Step::Hang));
    let answer = world.client.post_json("/steady/x", &json!({})).await;
    assert!(answer.broken);
    assert_eq!(row(&world, &answer).await["status"], "upstream_timeout");
    let gone =
        "[[passthrough]]\npath = \"/gone\"\ntarget = \"http://127.0.0.1:1\"\ncost_per_request = 0.25\n";
    let world = world_with(gone).await;
    let answer = world.client.get("/gone").await;
    assert_error("nobody there", &answer, 502, "upstream_error", "upstream_unreachable");
    assert_eq!(row(&world, &answer).await["cost_usd"], json!(0));
}

#[tokio::test]
async fn a_stream_is_not_held_back_and_a_drain_waits_for_it() {
    let world = world_with("").await;
    let more = Signal::new();
    world.upstream.enqueue(
        Answer::sse()
            .chunk("data: 1\n\n")
            .then(Step::Wait(more.clone()))
            .chunk("data: 2\n\n")
            .then(Step::EndChunks),
    );
    let mut stream = world.client.stream("/fee/x", &json!({})).await;
    assert_eq!(stream.frame().await.expect("an event"), "data: 1\n\n");
    world.gateway.sigterm();
    more.fire();
    assert_eq!(stream.frame().await.expect("an event"), "data: 2\n\n");
}

#[tokio::test]
async fn a_route_leads_to_no_forbidden_address_and_reloads() {
    let other = FakeUpstream::start().await;
    other.always(Answer::json(200, &json!({"other": true})));
    let world = world_with("").await;
    world.upstream.always(Answer::json(200, &json!({})));
    let file = world.gateway.dir().join("gateway.toml");
    let text = std::fs::read_to_string(&file).expect("a file");
    let replace = |target: &str, more: &str| {
        let route = format!("\n[[passthrough]]\npath = \"/more\"\ntarget = \"{target}\"\n{more}");
        std::fs::write(&file, format!("{text}{route}")).expect("written");
    };
    let reload = || async { admin(&world).send("POST", "/admin/v1/reload", None, None).await };
    assert_eq!(world.client.get("/more").await.status, 404);
    replace(&other.base_url(), "");
    reload().await.ok();
    assert_eq!(world.client.get("/more/x").await.ok().json(), json!({"other": true}));
    for (target, more) in [
        ("http://169.254.169.254", ""),
        ("http://127.0.0.1:1", "allow_private_network = false\n"),
        ("http://8.8.8.8", ""),
        ("http://user:pass@127.0.0.1:1", ""),
    ] {
        replace(target, more);
        let answer = reload().await;
        assert_eq!(answer.status, 400, "{target}: {}", answer.text());
    }
    assert_eq!(
        world.client.get("/more/x").await.ok().json(),
        json!({"other": true}),
        "the last good one holds"
    );
    // A name is looked up when it is called.
    replace("http://localhost:1", "allow_private_network = false\n");
    reload().await.ok();
    let answer = world.client.get("/more/x").await;
    assert_error("a private address", &answer, 502, "upstream_error", "upstream_unreachable");
    let logged = logged(&admin(&world), answer.header("x-request-id").expect("an id")).await;
    assert!(!logged.to_string().contains(KEY));
}

#[tokio::test]
async fn an_upload_reserves_its_declared_length_before_its_first_byte() {
    let keys = "[[keys]]\nname = \"poor\"\nkey = \"sk-test-poor\"\nbudget_usd = 1.0\n\
        [[keys]]\nname = \"ruled\"\nkey = \"sk-test-ruled\"\n\
        [[budgets]]\nname = \"small-rule\"\nmatch = { key = \"ruled\" }\nbudget_usd = 1.0\n";
    let server = "upload_limit_mib = 1\n";
    let extra = format!("{ROUTES}{keys}");
    let world = Setup { server, extra, ..Setup::default() }.start().await;
    world.upstream.always(Answer::json(200, &super::told()));
    let admin = admin(&world);
    assert_eq!(
        management::ask(&admin, "PUT", "/admin/v1/teams/small", &json!({"budget_usd": 1.0})).await.status,
        201
    );
    let made = admin.post_json("/admin/v1/keys", &json!({"name": "member", "team": "small"})).await;
    let member = made.json()["key"].as_str().expect("a key").to_owned();
    let media = Some("audio/mpeg");
    for key in ["sk-test-poor", &*member, "sk-test-ruled"] {
        let client = world.gateway.client().with_key(key);
        let hits = world.upstream.hits();
        // 30,000 bytes are at most 10,000 tokens at 100 USD per million: 1 USD, and 4,096 tokens of the answer.
        let mut wire = gw_testkit::wire::RawClient::connect(client.addr).await;
        wire.send(client.head("POST", "/v1/videos", media, Some(30_000))).await;
        let refused = wire.response().await.expect("an answer before the body");
        assert_eq!((refused.status, refused.code().as_str()), (429, "insufficient_quota"), "{key}");
        // Without a length, it may have a mebibyte.
        let mut wire =
            client.with_header("transfer-encoding", "chunked").open("POST", "/v1/videos", media, None).await;
        let refused = wire.response().await.expect("an answer before the body");
        assert_eq!((refused.status, refused.code().as_str()), (429, "insufficient_quota"), "{key}");
        assert_eq!(world.upstream.hits(), hits, "{key}: nothing went up");
        // 300 bytes fit, and cost what the answer reports: 100 × 100 + 10 × 200 per million. So do 12 of them.
        for _ in 0..12 {
            let answer = client.send("POST", "/v1/videos", media, Some(&[7; 300])).await.ok();
            assert_eq!(row(&world, &answer).await["cost_usd"], json!(0.012), "{key}");
        }
    }
}
