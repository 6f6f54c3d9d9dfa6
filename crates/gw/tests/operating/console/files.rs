//! The files of the console, as a browser gets them.

use gw_testkit::Client;

use crate::harness::signs::admin_address;
use crate::harness::{Setup, world};

const ICON: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

#[tokio::test]
async fn a_browser_is_led_from_the_bare_address_to_the_console_and_a_program_is_not() {
    let world = world().await;
    let client = world.gateway.client();
    let browser = client.with_header("accept", ICON);
    let led = browser.get("/").await;
    assert_eq!((led.status, led.header("location"), led.header("vary")), (303, Some("ui/"), Some("accept")));
    let links = client.get("/").await.ok().json();
    assert_eq!((&links["console"], &links["object"]), (&"/ui/".into(), &"gateway".into()));
    let folder = client.get("/ui").await;
    assert_eq!((folder.status, folder.header("location")), (308, Some("ui/")), "below any path prefix");
}

#[tokio::test]
async fn every_url_without_a_file_is_the_page_without_inline_code() {
    let world = world().await;
    let client = world.gateway.client();
    for url in ["/ui/", "/ui/requests/req_1", "/ui/models/acme%2Ffast?compare=x", "/ui/a/b/c/"] {
        let page = client.get(url).await.ok();
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"), "{url}");
        assert_eq!(page.header("cache-control"), Some("no-cache"), "{url}");
        let text = page.text();
        assert!(
            !text.contains("<style") && !text.contains("<base") && !text.contains(" style="),
            "{url}: {text}"
        );
        assert!(text.matches("<script").count() == text.matches(" src=").count(), "{url}: {text}");
        let tag = page.header("etag").expect("a tag").to_owned();
        assert_eq!(client.with_header("if-none-match", &tag).get(url).await.status, 304, "{url}");
        let head = client.send("HEAD", url, None, None).await;
        assert_eq!((head.status, head.text().as_str()), (200, ""), "{url}");
    }
    assert_eq!(client.get("/ui/assets/none.js").await.code(), "unknown_url");
    assert_eq!(client.post_json("/ui/", &"x".into()).await.status, 405);
}

#[tokio::test]
async fn with_two_listeners_the_console_is_where_the_management_api_is() {
    let world = Setup { server: "admin_listen = \"127.0.0.1:0\"", ..Setup::default() }.start().await;
    let public = world.gateway.client().with_header("accept", ICON);
    assert_eq!((public.get("/ui/").await.status, public.get("/").await.status), (404, 200));
    let inside = Client::new(admin_address(&world.gateway).await).with_header("accept", ICON);
    assert_eq!((inside.get("/ui/").await.status, inside.get("/").await.status), (200, 303));
    let page = world.gateway.client();
    assert_eq!(page.post_json("/auth/key", &"x".into()).await.status, 404, "nobody signs in there");
}
