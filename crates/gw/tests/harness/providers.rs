//! A gateway with a provider of every dialect, and upstreams that answer in it.

use gw_testkit::{Answer, FakeUpstream, Gateway, Recorded};

use super::dialects::{self, Say};
use super::{KEY, serve};

type Dialect = fn(Say, bool) -> Answer;

pub(crate) struct Provider {
    /// Its API, or a name of its own where one API has two dialects.
    pub(crate) name: &'static str,
    /// More lines of the provider's entry in gateway.toml.
    lines: &'static str,
    pub(crate) model: &'static str,
    dialect: Dialect,
    /// Tells whether a request to the provider asks for a stream.
    streams: fn(&Recorded) -> bool,
}

fn by_body(request: &Recorded) -> bool {
    request.json()["stream"] == true
}

fn by_path(request: &Recorded) -> bool {
    request.path.to_lowercase().contains("stream")
}

/// Claude at a provider of `api = "vertex"`: Anthropic's dialect at Google's addresses.
pub(crate) const CLAUDE_ON_VERTEX: &str = "claude-on-vertex";

/// The API of a provider with this name.
pub(crate) fn api(name: &'static str) -> &'static str {
    if name == CLAUDE_ON_VERTEX { "vertex" } else { name }
}

/// Every dialect.
pub(crate) const PROVIDERS: [Provider; 10] = [
    Provider { name: "openai", lines: "", model: "gpt-4o", dialect: dialects::openai, streams: by_body },
    Provider {
        name: "azure",
        lines: "api_version = \"2024-10-21\"\ndeployments = { \"gpt-4o\" = \"my-gpt\" }",
        model: "gpt-4o",
        dialect: dialects::openai,
        streams: by_body,
    },
    Provider {
        name: "mistral",
        lines: "",
        model: "mistral-large-latest",
        dialect: dialects::openai,
        streams: by_body,
    },
    Provider {
        name: "anthropic",
        lines: "",
        model: "claude-sonnet-4-5",
        dialect: dialects::anthropic,
        streams: by_body,
    },
    Provider {
        name: "gemini",
        lines: "",
        model: "gemini-2.5-pro",
        dialect: dialects::gemini,
        streams: by_path,
    },
    Provider {
        name: "vertex",
        lines: "project = \"p\"\nregion = \"europe-west4\"",
        model: "gemini-2.5-pro",
        dialect: dialects::gemini,
        streams: by_path,
    },
    Provider {
        name: CLAUDE_ON_VERTEX,
        lines: "project = \"p\"\nregion = \"europe-west4\"",
        model: "claude-sonnet-4-5@20250929",
        dialect: dialects::anthropic,
        streams: by_path,
    },
    Provider {
        name: "bedrock",
        lines: "region = \"eu-west-1\"",
        model: "anthropic.claude-sonnet-4-5-20250929-v1:0",
        dialect: dialects::bedrock,
        streams: by_path,
    },
    Provider {
        name: "cohere",
        lines: "",
        model: "command-a-vision-07-2025",
        dialect: dialects::cohere,
        streams: by_body,
    },
    Provider { name: "ollama", lines: "", model: "qwen3", dialect: dialects::ollama, streams: by_body },
];

/// A gateway with one provider of each API. Each upstream plays its part of the conversation.
pub(crate) async fn all() -> (Gateway, Vec<FakeUpstream>) {
    all_with("").await
}

/// The name of each dialect and the id of its model, in the order of the upstreams of [`all_with`].
pub(crate) fn targets() -> impl Iterator<Item = (&'static str, String)> {
    PROVIDERS.iter().map(|provider| (provider.name, format!("my-{}/{}", provider.name, provider.model)))
}

/// As [`all`], with these lines in every provider's entry.
pub(crate) async fn all_with(more: &str) -> (Gateway, Vec<FakeUpstream>) {
    let (config, upstreams) = config_of_all(more).await;
    (serve(&config).await, upstreams)
}

/// The configuration of that gateway, and its upstreams.
pub(crate) async fn config_of_all(more: &str) -> (String, Vec<FakeUpstream>) {
    let mut config = format!("[server]\nlisten = \"127.0.0.1:0\"\n[[keys]]\nname = \"k\"\nkey = \"{KEY}\"\n");
    let mut upstreams = Vec::new();
    for Provider { name, lines, model, dialect, streams } in PROVIDERS {
        let upstream = FakeUpstream::start().await;
        upstream.respond_with(move |request| {
            let text = String::from_utf8_lossy(&request.body);
            let say =
                if text.contains("sunny") || !text.contains("get_weather") { Say::Words } else { Say::Calls };
            let dialect = if request.path.contains("/invoke") { dialects::bedrock_invoke } else { dialect };
            dialect(say, streams(request))
        });
        config.push_str(&format!(
            "[[providers]]\nname = \"my-{name}\"\napi = \"{}\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n{lines}\n{more}\n",
            api(name),
            upstream.addr
        ));
        config.push_str(&format!(
            "[[models]]\nid = \"my-{name}/{model}\"\ncategory = [\"chat\"]\npricing = {{ official_input_per_m = 1.0, official_output_per_m = 2.0, currency = \"USD\" }}\n"
        ));
        config.push_str(&format!("[[models]]\nid = \"my-{name}/unknown\"\n"));
        upstreams.push(upstream);
    }
    (config, upstreams)
}

/// The answers of each API, in the order of [`targets`]: a few words, as a stream where the request asks for one.
pub(crate) fn words() -> impl Iterator<Item = impl Fn(&Recorded) -> Answer + Send + Sync + 'static> {
    PROVIDERS.iter().map(|Provider { dialect, streams, .. }| {
        move |request: &Recorded| dialect(Say::Words, streams(request))
    })
}

/// The answers of each API, in the order of [`targets`]: a few words, never as a stream.
pub(crate) fn plain_words() -> impl Iterator<Item = impl Fn() -> Answer + Send + Sync + 'static> {
    PROVIDERS.iter().map(|Provider { dialect, .. }| || dialect(Say::Words, false))
}
