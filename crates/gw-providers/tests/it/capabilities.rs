//! Generates docs/providers.md. Each cell is the result of encoding a request for one feature.
//! `UPDATE_DOCS=1 cargo test -p gw-providers --test it capabilities` writes the page.

use std::fmt::Write as _;
use std::path::Path;

use bytes::Bytes;
use gw_providers::adapter::{Adapter, ChoiceRange, Encoded, Scheme, Target};
use gw_providers::presets::{self, Preset};
use gw_providers::registry;
use gw_providers::settings::{Api, ProviderSettings};
use gw_wire::failure::Failure;
use gw_wire::request::member_policy::{RULES, STEERING_PREFIXES};
use gw_wire::request::{RequestLimits, Rule, parse_chat, parse_completion, parse_embeddings};
use serde_json::{Value, json};

pub(crate) const PNG: &str = "data:image/png;base64,iVBORw0KGgo=";
pub(crate) const PDF: &str = "data:application/pdf;base64,JVBERi0=";

/// A model of each API with all features of the API.
pub(crate) fn model(api: Api) -> &'static str {
    match api.name {
        "anthropic" => "claude-sonnet-4-5",
        "gemini" | "vertex" => "gemini-2.5-pro",
        "bedrock" => "anthropic.claude-sonnet-4-5-20250929-v1:0",
        "cohere" => "command-a-plus-05-2026",
        "mistral" => "mistral-large-latest",
        "ollama" => "qwen3",
        _ => "gpt-4o",
    }
}

/// The model for requests with reasoning.
pub(crate) fn thinker(api: Api) -> &'static str {
    match api.name {
        "openai" | "azure" | "demo" => "gpt-5.4",
        _ => model(api),
    }
}

/// The API of a known provider.
fn api(preset: &Preset) -> Api {
    Api::named(preset.api).unwrap()
}

fn embedding_model(api: Api) -> &'static str {
    match api.name {
        "gemini" => "gemini-embedding-001",
        "vertex" => "text-embedding-005",
        "bedrock" => "amazon.titan-embed-text-v2:0",
        "cohere" => "embed-v4.0",
        "mistral" => "mistral-embed",
        _ => "text-embedding-3-small",
    }
}

pub(crate) fn settings(name: &str, api: Api) -> ProviderSettings {
    let options: &[(&str, &str)] = match api.name {
        "bedrock" => &[("region", "eu-west-1")],
        "vertex" => &[("region", "europe-west4"), ("project", "p")],
        _ => &[],
    };
    let has_address = presets::find(name).is_some_and(|preset| preset.base_url.is_some());
    ProviderSettings {
        base_url: (!has_address && options.is_empty()).then(|| "https://upstream.example".to_owned()),
        api_keys: vec![("key-for-the-docs".into(), 1)],
        options: options
            .iter()
            .map(|(name, value)| ((*name).to_owned(), toml::Value::String((*value).to_owned())))
            .collect(),
        ..ProviderSettings::plain(name, api)
    }
}

pub(crate) struct Asked {
    pub(crate) adapter: Box<dyn Adapter>,
    /// Whether the provider ranks documents.
    pub(crate) has_rerank: bool,
    pub(crate) api: Api,
    /// A model in place of [`model`]'s.
    pub(crate) other: Option<&'static str>,
}

/// Claude on Vertex AI, which has another dialect than Gemini there.
const CLAUDE_ON_VERTEX: &str = "claude-sonnet-4-5@20250929";

/// Every dialect. Vertex AI has two, which its models decide.
pub(crate) fn dialects() -> Vec<Asked> {
    let asked = |api: Api, other| {
        let name = if api == Api::OPENAI { "openai" } else { "any" };
        let built = registry::build(&settings(name, api)).unwrap();
        Asked { adapter: built.adapter, has_rerank: built.surfaces.rerank.is_some(), api, other }
    };
    let apis = Api::ALL.into_iter().filter(|api| !api.is_demo);
    let of = |api| {
        let second = (api == Api::VERTEX).then(|| asked(api, Some(CLAUDE_ON_VERTEX)));
        std::iter::once(asked(api, None)).chain(second)
    };
    apis.flat_map(of).collect()
}

impl Asked {
    /// The name of the dialect on the page.
    pub(crate) fn name(&self) -> String {
        let api = self.api.as_str();
        if self.other.is_some() { format!("`{api}` (Claude)") } else { format!("`{api}`") }
    }

    /// The model for requests without reasoning and embeddings.
    pub(crate) fn model(&self) -> &'static str {
        self.other.unwrap_or_else(|| model(self.api))
    }

    /// The model for requests with reasoning.
    pub(crate) fn thinker(&self) -> &'static str {
        self.other.unwrap_or_else(|| thinker(self.api))
    }

    pub(crate) fn chat(&self, more: Value) -> Result<Encoded, Failure> {
        let mut body =
            json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4096});
        let Value::Object(more) = more else { unreachable!() };
        body.as_object_mut().unwrap().extend(more);
        let model = if body.get("reasoning_effort").is_some() { self.thinker() } else { self.model() };
        let request = parse_chat(Bytes::from(body.to_string()), &RequestLimits::default()).unwrap();
        self.adapter.chat(
            &request,
            &ChoiceRange { n: request.n, prompts: 0..1, from: 0 },
            &self.target(model),
        )
    }

    fn target<'a>(&self, upstream_model: &'a str) -> Target<'a> {
        Target {
            upstream_model,
            id: "p/m",
            clamp_max_tokens: None,
            most_tokens: None,
            max_output_tokens: Some(8192),
            context_length: Some(128_000),
            rules: gw_providers::model_rules::ModelRules::of(self.api.rules, upstream_model, "p/m"),
            issuer: None,
            breakpoints: None,
        }
    }

    fn part(&self, part: &Value) -> &'static str {
        let parts = json!([{"type": "text", "text": "look"}, part]);
        match self.chat(json!({"messages": [{"role": "user", "content": parts}]})) {
            Ok(_) => "yes",
            Err(_) => "–",
        }
    }

    /// Whether a member is sent, dropped with a warning, or refused.
    fn member(&self, name: &str, more: Value) -> &'static str {
        let Ok(encoded) = self.chat(more) else { return "–" };
        let dropped = format!("parameter_dropped:{name}");
        if encoded.warnings.iter().any(|warning| *warning == dropped) { "dropped" } else { "yes" }
    }

    fn json(&self, format: &Value) -> &'static str {
        match self.chat(json!({"response_format": format})) {
            Ok(encoded) if encoded.reading.json_tool.is_some() => "by a tool",
            Ok(encoded) if encoded.reading.fenced => "by instruction",
            Ok(_) => "native",
            Err(_) => "–",
        }
    }

    fn embeddings(&self) -> bool {
        let body = json!({"model": "m", "input": ["a"]});
        let request = parse_embeddings(Bytes::from(body.to_string()), &RequestLimits::default()).unwrap();
        self.adapter
            .embeddings(&request, 0..1, &self.target(self.other.unwrap_or_else(|| embedding_model(self.api))))
            .is_ok()
    }

    fn completion(&self) -> bool {
        let request = parse_completion(
            Bytes::from(json!({"model": "m", "prompt": "a"}).to_string()),
            &RequestLimits::default(),
        )
        .unwrap();
        self.adapter
            .completion(&request, &ChoiceRange { n: 1, prompts: 0..1, from: 0 }, &self.target(self.model()))
            .is_ok()
    }
}

/// Behaviour that a single encoded request does not show. The tests `replayed` and `custom_tools` of the gateway prove it.
const SENT_BACK: &str = "
## What is sent back

Clients return an answer with its `reasoning_details`. Clients of OpenAI's dialect do this automatically if they keep the message
unchanged. Each entry has an `origin`, the id of the model that made it, and the gateway sends it to no other model. The text of the
reasoning, `reasoning_content`, goes with its entries: if one of them is left out, only the text of the others is sent. Reasoning that
its provider did not sign is plain text, and stays: some models ask for it in a loop of tools. The last entry may
have the type `gateway.order`. It holds the lengths of the texts and reasoning and the positions of the calls, so the provider gets the
blocks in their original order. A message without these entries, or an edited message, is valid. It is sent in the usual order:
reasoning, text, calls. Items of the Responses API and blocks of the Messages API hold their order themselves. If they were translated,
two things have no place there: the border between two texts in a row, and Cohere's plan, which is text. If the gateway leaves reasoning
out, `gateway.warnings` has `reasoning_dropped`. Claude gets its reasoning back while it reasons. It
refuses reasoning at the end of a turn and blank text, so the gateway leaves these out.

In dialects without custom tools, a custom tool becomes a function with one parameter, `input`. Its grammar becomes a part of the
description. Tool names that a provider refuses are changed in the request and restored in the answer. For `tool_choice` `allowed_tools`
Gemini gets the names (`ANY`, or `VALIDATED` for `auto`). Gemini on Vertex AI gets them only if a call is required (`ANY`), because its
API v1 has no `VALIDATED`. Other models are offered only the allowed tools, and `gateway.warnings` has
`parameter_simplified:tool_choice`.
";

/// The sentences about Vertex AI's two dialects.
const VERTEX: &str = "
A provider with `api = \"vertex\"` serves both Claude and Gemini. The names `claude-…`, `anthropic/claude-…` and
`publishers/anthropic/models/claude-…` mean Claude: the request has Anthropic's format and goes to `:rawPredict` or
`:streamRawPredict`. All other names, such as `publishers/…` of other publishers and `endpoints/…`, get a request in Gemini's format.
Claude on Vertex AI takes images and files as data only. It takes structured outputs only if the organisation's policy
`constraints/vertexai.allowedPartnerModelFeatures` allows them.
";

const COLUMNS: [&str; 20] = [
    "images",
    "image URLs",
    "PDF",
    "audio",
    "tools",
    "most tools",
    "json_object",
    "json_schema",
    "reasoning_effort",
    "seed",
    "penalties",
    "logit_bias",
    "logprobs",
    "n",
    "text completion",
    "suffix",
    "embeddings",
    "rerank",
    "model list",
    "key",
];

fn row(asked: &Asked) -> [String; COLUMNS.len()] {
    let yes = |yes: bool| if yes { "yes" } else { "–" };
    let tool = json!([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]);
    let schema = json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false}, "strict": true}});
    let can = asked.adapter.traits().capabilities;
    let most_tools = can.max_tools.map(|most| most.to_string());
    let max_tools = most_tools.as_deref().unwrap_or("–");
    let key = match asked.adapter.traits().scheme {
        Scheme::Bearer => "bearer",
        Scheme::Header(name) => name,
    };
    [
        asked.part(&json!({"type": "image_url", "image_url": {"url": PNG}})),
        asked.part(&json!({"type": "image_url", "image_url": {"url": "https://x.example/y.png"}})),
        asked.part(&json!({"type": "file", "file": {"file_data": PDF, "filename": "a.pdf"}})),
        asked.part(&json!({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}})),
        yes(asked.chat(json!({"tools": tool})).is_ok()),
        max_tools,
        asked.json(&json!({"type": "json_object"})),
        asked.json(&schema),
        asked.member("reasoning_effort", json!({"reasoning_effort": "high"})),
        asked.member("seed", json!({"seed": 7})),
        asked.member("presence_penalty", json!({"presence_penalty": 0.5})),
        asked.member("logit_bias", json!({"logit_bias": {"1": 1}})),
        asked.member("logprobs", json!({"logprobs": true})),
        if can.choices > 1 { "native" } else { "several calls" },
        yes(asked.completion()),
        yes(can.suffix),
        yes(asked.embeddings()),
        yes(asked.has_rerank),
        yes(asked.adapter.traits().models.is_some()),
        key,
    ]
    .map(str::to_owned)
}

fn asked(preset: &Preset) -> Asked {
    let built = registry::build(&settings(preset.name, api(preset))).unwrap();
    let has_rerank = built.surfaces.rerank.is_some();
    Asked { adapter: built.adapter, has_rerank, api: api(preset), other: None }
}

fn page() -> String {
    let mut page = String::from(
        "# Providers\n\n\
         This page lists the features of each dialect. A test encodes a request for each feature and records the result. **dropped**: the\n\
         member is left out, and `gateway.warnings` names it. **–**: the gateway answers 400 before it sends anything, or tries another\n\
         candidate. The tables at the end list the rules of each *model*. All dialects support streaming.\n\n\
         This page is generated: `UPDATE_DOCS=1 cargo test -p gw-providers --test it capabilities`.\n\n## Dialects\n\n",
    );
    let _ = writeln!(page, "| `api` | {} |", COLUMNS.join(" | "));
    let _ = writeln!(page, "|---|{}", "---|".repeat(COLUMNS.len()));
    for asked in dialects() {
        let _ = writeln!(page, "| {} | {} |", asked.name(), row(&asked).join(" | "));
    }
    page.push_str(VERTEX);
    page.push_str("\n## Providers known by name\n\n| provider | `api` | address | key variable | embeddings per call | differs from its dialect in |\n|---|---|---|---|---|---|\n");
    for preset in presets::ALL {
        let plain = registry::build(&settings("any", api(preset))).unwrap();
        let has_rerank = plain.surfaces.rerank.is_some();
        let plain = row(&Asked { adapter: plain.adapter, has_rerank, api: api(preset), other: None });
        let own = row(&asked(preset));
        let differs: Vec<String> = COLUMNS
            .iter()
            .zip(own.iter().zip(&plain))
            .filter(|(_, (own, plain))| own != plain)
            .map(|(column, (own, _))| format!("{column}: {own}"))
            .collect();
        let _ = writeln!(
            page,
            "| `{}` | `{}` | {} | {} | {} | {} |",
            preset.name,
            preset.api,
            preset.base_url.unwrap_or("by region, project or account"),
            preset.key_variable.map_or_else(|| "–".to_owned(), |name| format!("`{name}`")),
            preset.embedding_batch,
            if differs.is_empty() { "–".to_owned() } else { differs.join(", ") },
        );
    }
    page.push_str(&crate::model_tables::translations());
    page.push_str(SENT_BACK);
    page.push_str(include_str!("images_by_address.md"));
    page.push_str(&closed());
    page.push_str(&crate::model_tables::rules());
    page
}

/// The names of the members with one of these rules.
fn ruled(rules: &[Rule]) -> String {
    let names = RULES.iter().filter(|(_, rule)| rules.contains(rule)).map(|(name, _)| format!("`{name}`"));
    names.collect::<Vec<_>>().join(", ")
}

/// The resources and members that clients may not use unless the operator allows them.
fn closed() -> String {
    let families: Vec<String> = STEERING_PREFIXES.iter().map(|prefix| format!("`{prefix}…`")).collect();
    let takes: Vec<String> = presets::ALL
        .iter()
        .filter(|preset| !preset.quirks.takes.is_empty())
        .map(|preset| format!("`{}` takes `{}`", preset.name, preset.quirks.takes.join("`, `")))
        .collect();
    format!(
        "\n## What clients may not reach\n\n\
         **Stored files and the provider's network.** These are read with *your* credentials:\n\n\
         - a `file_id`, and the name of a stored file (`files/…`, `file-…`; `fileid://…` in a system message),\n\
         - an address of a storage service (`gs://`, `s3://`, `azureml://`, …),\n\
         - an address of a vendor's API host, of the provider's own host or of a private network,\n\
         - an http(s) address with a blank, a backslash or a control character, because URL parsers disagree about it,\n\
         - `audio.id` of an earlier answer,\n\
         - ids of vector stores, containers and libraries.\n\n\
         The gateway refuses a request with one of them with 400 `unsupported_value`, or a fallback that allows it serves the request.\n\
         `file_ids = true` in `[[providers]]` allows them at one provider, for every client. `openai`, `azure`, `gemini`, `vertex` and\n\
         `mistral` can read some of them. The other dialects still refuse.\n\n\
         The gateway checks an address as it is written and does not resolve names. It cannot know that a public name resolves to a\n\
         private address, or that a public address redirects to one. If the provider is a server in your own network (vLLM, SGLang, …),\n\
         limit the addresses that this server can reach.\n\n\
         With `server.fetch_images` this holds for no image that goes to a provider that takes only bytes: the gateway itself fetches it, and\n\
         [resolves and checks its address](#images-by-address).\n\n\
         **Members that choose a model, an upstream or a price.** `openai` and `azure` get the other members of a request unchanged. The\n\
         gateway holds back the members below, in any case and with or without `_` and `-`. The values `false`, `\"\"`, `[]` and `{{}}` pass,\n\
         except `{{}}` for a search, which would switch it on. `extra_body` is held back if it holds one of these members, or a member that\n\
         the gateway checks itself. `allow_members = [\"…\"]` in `[[providers]]` allows members at one provider. The gateway forwards an\n\
         allowed member. `cost_usd` does not include its extra price. Of the other dialects, `mistral` gets `guardrails` and `ollama` gets\n\
         `keep_alive` if `allow_members` names it. [What clients may send](what-clients-may-send.md) has every name, also of requests\n\
         that are forwarded in the client's own dialect.\n\n\
         | effect of the member | members | action of the gateway |\n|---|---|---|\n\
         | chooses a model, an upstream or credentials | {}, {}; similar members as lists or objects in `metadata` | 400 `unsupported_value` |\n\
         | tells another gateway how to route, tag or retry | {}; `tags` in `metadata` | left out by every provider, `parameter_dropped:…` in `gateway.warnings` |\n\
         | has an extra price | {} (`web_search_options` is charged, if the model has `pricing.tools.web_search_per_call`; `tools`: tools that the provider runs, such as `web_search`, `file_search`, `code_interpreter`, `mcp`) | 400 `unsupported_value`; other dialects leave it out with a warning |\n\
         | changes the content of the answer | {} | 400 `unsupported_value`, in every dialect |\n\
         | changes only the price | {} (`service_tier`: `auto`, `default`, `standard`, `standard_only` and `on_demand` pass) | left out, `parameter_dropped:…` in `gateway.warnings` |\n\
         | uses the operator's account or memory | {} | left out, `parameter_dropped:…` in `gateway.warnings` |\n\
         | means `routing.fallback` | {} | never sent to an upstream |\n{}",
        ruled(&[Rule::Steers]),
        families.join(", "),
        ruled(&[Rule::Hint]),
        ruled(&[Rule::Search]),
        ruled(&[Rule::Context]),
        ruled(&[Rule::Price]),
        ruled(&[Rule::Account]),
        ruled(&[Rule::Fallback]),
        if takes.is_empty() {
            String::new()
        } else {
            format!("\nThese members change neither the model nor the price there: {}.\n", takes.join(", "))
        },
    )
}

#[test]
fn the_page_of_providers_matches_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/providers.md");
    let made = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == made, "docs/providers.md is out of date: run with UPDATE_DOCS=1");
}
