//! `[[providers]]`.

use gw_providers::settings::{Api, ProviderSettings};

use super::super::binding::{Form, field};
use super::super::formats::{BASE_URL, CREDENTIAL, HEADER, HEADER_VALUE, PROVIDER as PROVIDER_NAME, WORD};
use super::super::schema::{Kind, Section, Word, key, required, setting, setting_or};
use super::kinds::TOKENS;
use super::timeouts::TIMEOUTS;

const MEMBERS: Kind = Kind::List { of: &Kind::Text(&WORD), min: 0 };
const UPSTREAM_KEYS: Kind =
    Kind::List { of: &Kind::Either(&Kind::Secret(&CREDENTIAL), &Kind::Table(&UPSTREAM_KEY)), min: 1 };

/// The dialects.
pub(crate) static APIS: [Word; Api::ALL.len()] = {
    let mut words: [Word; Api::ALL.len()] = [("", &[]); Api::ALL.len()];
    let (mut left, mut apis): (&mut [Word], &[Api]) = (&mut words, &Api::ALL);
    while let ([word, words_after @ ..], [api, apis_after @ ..]) = (left, apis) {
        word.0 = api.as_str();
        (left, apis) = (words_after, apis_after);
    }
    words
};

pub(super) static PROVIDER: Section = Section {
    doc: "A provider that the gateway can call.",
    keys: &[
        required("name", Kind::Text(&PROVIDER_NAME), "The part of its model ids before the first slash."),
        key(
            "api",
            Kind::Choice(&APIS),
            "the dialect of a provider that is known by its name",
            "The dialect of the provider. `docs/providers.md` lists the known providers and the abilities of each dialect.",
        ),
        setting_or(
            "base_url",
            Kind::Text(&BASE_URL),
            field!(ProviderSettings, base_url, Form::OPTIONAL_TEXT),
            "the address of a provider that is known by its name",
            "The address of the provider with its version, such as `https://api.openai.com/v1`, without user, query or fragment.",
        ),
        key("api_key", Kind::Secret(&CREDENTIAL), "no key is sent", "The provider's key."),
        key("api_keys", UPSTREAM_KEYS, "", "Several keys that are used in turn, instead of `api_key`."),
        key(
            "headers",
            Kind::Map { key: &HEADER, of: &Kind::Secret(&HEADER_VALUE) },
            "",
            "Headers of every call to the provider.",
        ),
        setting(
            "price_multiplier",
            Kind::Price,
            field!(ProviderSettings, price_multiplier, Form::PRICE),
            "The gateway's price is the official price multiplied by this number.",
        ),
        setting(
            "discover",
            Kind::Bool,
            field!(ProviderSettings, discover, Form::BOOL),
            "Whether the models come from the provider's own list.",
        ),
        key("timeouts", Kind::Table(&TIMEOUTS), "`[timeouts]`", "The provider's own timeouts."),
        setting_or(
            "embedding_batch",
            Kind::Int { min: 1, max: 2048 },
            field!(ProviderSettings, embedding_batch, Form::OPTIONAL_INT),
            "as the provider allows",
            "The most inputs of one embeddings call.",
        ),
        setting(
            "allow_private_network",
            Kind::Bool,
            field!(ProviderSettings, allow_private_network, Form::BOOL),
            "Whether `base_url` may lead to private and loopback addresses. Link-local addresses are always refused. false for a \
             provider that is made over the API, unless its entry says true.",
        ),
        setting(
            "allow_plain_http",
            Kind::Bool,
            field!(ProviderSettings, allow_plain_http, Form::BOOL),
            "Whether an `http://` address may lead to public addresses. Keys and prompts then cross the network unencrypted. \
             Private and loopback addresses need no permission.",
        ),
        setting(
            "file_ids",
            Kind::Bool,
            field!(ProviderSettings, file_ids, Form::BOOL),
            "Whether clients may name data that is stored at the provider or in its network: file ids, `gs://` and similar URLs, \
             and addresses of its file host. The provider reads this data with your credentials for every client.",
        ),
        key(
            "allow_members",
            MEMBERS,
            "",
            "`openai`, `azure`: request members that are forwarded although they choose a model, an upstream or a price, such as \
             `[\"plugins\"]`. `docs/what-clients-may-send.md` lists them. `mistral` takes `guardrails` here, `ollama` takes \
             `keep_alive`. `openai` with `/responses`, `anthropic`, `bedrock` and `vertex`: also types of tools (`mcp`; \
             `tools` stands for all) and of content, and headers, in requests that are forwarded as the client wrote them.",
        ),
        setting_or(
            "deny_betas",
            MEMBERS,
            field!(ProviderSettings, deny_betas, Form::TEXTS),
            "",
            "`anthropic`, `bedrock`, `vertex`: beta features that are removed from the header `anthropic-beta` of clients.",
        ),
        key(
            "responses",
            Kind::Either(&Kind::Bool, &Kind::Choice(&[("auto", &[])])),
            "true for `openai`, false for other providers that are known by their name, else \"auto\"",
            "`openai`: whether the provider has `/responses` itself, so that requests of the Responses API go there unchanged. \
             \"auto\" asks once: after a 404 or 405 that does not name the model they are sent as chats, until the \
             configuration is read again or an hour has passed.",
        ),
        key(
            "token_arrays",
            Kind::Bool,
            "true for `openai`, else false",
            "`openai`: whether token arrays as prompts and as inputs of embeddings (LangChain's `OpenAIEmbeddings` sends them by \
             default) go to the provider as they are, because its models use OpenAI's tokens. Otherwise they get 400.",
        ),
        key(
            "text_parts",
            Kind::Bool,
            "true for `openai` and `openrouter`, else false",
            "`openai`: whether a message may be a list of texts. Otherwise several texts of a message of the Messages or the \
             Responses API are joined to one string, because DeepSeek and others refuse a list.",
        ),
        key("num_ctx_max", TOKENS, "", "`ollama`: the largest `num_ctx`."),
        key(
            "region",
            Kind::Text(&WORD),
            "",
            "`bedrock`, `vertex`: the region. `vertex` uses `global` without one.",
        ),
        key("project", Kind::Text(&WORD), "the project of the credentials file", "`vertex`: the project."),
        key(
            "credentials_file",
            Kind::Path,
            "`$GOOGLE_APPLICATION_CREDENTIALS`, else the metadata server",
            "`vertex`: the key file of a service account, or the file of `gcloud auth application-default login`.",
        ),
        key("api_version", Kind::Text(&WORD), "", "`azure`: the version of the API."),
        key(
            "deployments",
            Kind::Map { key: &WORD, of: &Kind::Text(&WORD) },
            "",
            "`azure`: the deployment of each model, as `model = \"deployment\"`.",
        ),
        key(
            "auth",
            Kind::Choice(&[("bearer", &[])]),
            "the key in the header `api-key`",
            "`azure`: `bearer` sends `api_key` as an Entra token.",
        ),
        key(
            "tenant_id",
            Kind::Text(&WORD),
            "",
            "`azure`: fetches tokens from Entra with this tenant, `client_id`, and the client's secret as `api_key`.",
        ),
        key("client_id", Kind::Text(&WORD), "", "`azure`: the application in `tenant_id`."),
        key(
            "authority",
            Kind::Text(&BASE_URL),
            "`https://login.microsoftonline.com`",
            "`azure`: the address of Entra in other clouds.",
        ),
        key(
            "profile",
            Kind::Text(&WORD),
            "`$AWS_PROFILE`, else `default`",
            "`bedrock`: the profile of the shared credentials file, used without an `api_key`.",
        ),
    ],
};

static UPSTREAM_KEY: Section = Section {
    doc: "One of several keys.",
    keys: &[
        required("key", Kind::Secret(&CREDENTIAL), "The key."),
        key("weight", Kind::Int { min: 1, max: 1000 }, "1", "The key's share of the calls."),
    ],
};
