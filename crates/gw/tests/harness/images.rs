//! A gateway that fetches images for providers that take only bytes, and a server with images.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gw_testkit::{Answer, FakeUpstream, Gateway, Recorded};
use serde_json::{Value, json};

use super::dialects::{self, Say};
use super::{ADMIN, KEY, serve};

pub(crate) const PNG: &[u8] = b"\x89PNG\r\n\x1a\nnot the pixels of a cat";
pub(crate) const JPEG: &[u8] = b"\xff\xd8\xff\xe0not the pixels of a dog";
pub(crate) const OLLAMA: &str = "pics/llava";
pub(crate) const SECOND: &str = "more/llava";
pub(crate) const BEDROCK: &str = "aws/anthropic.claude-sonnet-4-5-20250929-v1:0";
pub(crate) const VERTEX: &str = "gcp/claude-opus-4-5@20251101";
pub(crate) const BY_URL: &str = "urls/gpt-4o";

/// Settings of `[server]` that allow images of this machine.
pub(crate) const ON: &str = "fetch_images = true\nfetch_images_networks = [\"127.0.0.0/8\"]";

/// The gateway, its providers and the server with images.
pub(crate) struct ImageWorld {
    pub(crate) gateway: Gateway,
    /// `OLLAMA`.
    pub(crate) ollama: FakeUpstream,
    /// `SECOND`.
    pub(crate) second: FakeUpstream,
    /// `BEDROCK`.
    pub(crate) bedrock: FakeUpstream,
    /// `VERTEX`.
    pub(crate) vertex: FakeUpstream,
    /// `BY_URL`.
    pub(crate) by_url: FakeUpstream,
    /// Answers each GET with [`PNG`].
    pub(crate) images: FakeUpstream,
}

/// An image of the server with images.
pub(crate) fn picture(bytes: &[u8]) -> Answer {
    Answer::full(200, &[("content-type", "image/png")], bytes)
}

fn streams(request: &Recorded) -> bool {
    request.json()["stream"] == true
}

impl ImageWorld {
    /// Starts a gateway with these settings of `[server]`, and more text at the end of its configuration.
    pub(crate) async fn start(server: &str, more: &str) -> Self {
        let [ollama, second, bedrock, vertex, by_url, images] = [
            FakeUpstream::start().await,
            FakeUpstream::start().await,
            FakeUpstream::start().await,
            FakeUpstream::start().await,
            FakeUpstream::start().await,
            FakeUpstream::start().await,
        ];
        for upstream in [&ollama, &second] {
            upstream.respond_with(|request| dialects::ollama(Say::Words, streams(request)));
        }
        bedrock.respond_with(|request| dialects::bedrock(Say::Words, request.path.contains("stream")));
        vertex.respond_with(|request| dialects::anthropic(Say::Words, request.path.contains("stream")));
        by_url.respond_with(|request| dialects::openai(Say::Words, streams(request)));
        images.respond_with(|_| picture(PNG));
        let provider = |name: &str, api: &str, upstream: &FakeUpstream, lines: &str| {
            format!(
                "[[providers]]\nname = \"{name}\"\napi = \"{api}\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n{lines}\n",
                upstream.addr
            )
        };
        let model = |id: &str| {
            format!(
                "[[models]]\nid = \"{id}\"\ncategory = [\"chat\"]\nmodalities = {{ input = [\"text\", \"image\"], output = [\"text\"] }}\n\
                 pricing = {{ official_input_per_m = 1.0, official_output_per_m = 2.0, currency = \"USD\" }}\n"
            )
        };
        let config = [
            format!("[server]\nlisten = \"127.0.0.1:0\"\nshed_after_ms = 60000\n{server}\n[routing]\nretries = 0\n"),
            format!("[[keys]]\nname = \"k\"\nkey = \"{KEY}\"\n[[keys]]\nname = \"a\"\nkey = \"{ADMIN}\"\nrole = \"admin\"\n"),
            provider("pics", "ollama", &ollama, ""),
            provider("more", "ollama", &second, ""),
            provider("aws", "bedrock", &bedrock, "region = \"eu-west-1\""),
            provider("gcp", "vertex", &vertex, "project = \"p\"\nregion = \"europe-west4\"\nfile_ids = true"),
            provider("urls", "openai", &by_url, "file_ids = true"),
            [OLLAMA, SECOND, BEDROCK, VERTEX, BY_URL].map(model).concat(),
            more.to_owned(),
        ]
        .concat();
        let gateway = serve(&config).await;
        Self { gateway, ollama, second, bedrock, vertex, by_url, images }
    }

    /// The address of an image.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.images.addr)
    }

    /// The answer to a chat with images at these addresses.
    pub(crate) async fn ask(&self, model: &str, urls: &[&str]) -> gw_testkit::Response {
        self.send(&question(model, urls)).await
    }

    /// The answer to this chat.
    pub(crate) async fn send(&self, body: &Value) -> gw_testkit::Response {
        self.gateway.client().with_key(KEY).post_json("/v1/chat/completions", body).await
    }

    /// The value of a line of the metrics; 0 if there is none.
    pub(crate) async fn fetches(&self, outcome: &str) -> u64 {
        let text = self.gateway.client().with_key(ADMIN).get("/metrics").await.text();
        let start = format!("gateway_image_fetches_total{{outcome=\"{outcome}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&start)?.parse().ok()).unwrap_or(0)
    }
}

/// A chat with images at these addresses.
pub(crate) fn question(model: &str, urls: &[&str]) -> Value {
    let images = urls.iter().map(|url| json!({ "type": "image_url", "image_url": { "url": url } }));
    let text = json!({ "type": "text", "text": "What is this?" });
    let parts: Vec<Value> = std::iter::once(text).chain(images).collect();
    json!({ "model": model, "max_tokens": 50, "messages": [{ "role": "user", "content": parts }] })
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}
