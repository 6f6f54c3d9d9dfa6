//! `[[providers]]`.

use gw_providers::settings::{Api, ProviderSettings};
use secrecy::SecretString;

use super::super::binding::{Change, Form, field, filled, quoted};
use super::super::formats::{BASE_URL, CREDENTIAL, HEADER, HEADER_VALUE, PROVIDER as PROVIDER_NAME, WORD};
use super::super::schema::{Kind, Section, Word, required_setting, setting, setting_or};
use super::super::settings::WeightedKey;
use super::super::tree::Checked;
use super::kinds::TOKENS;
use super::prompt_cache::{OWN_PROMPT_CACHE, PROMPT_CACHE};
use super::timeouts::{OWN_TIMEOUTS, TIMEOUTS};

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

const API: Form<Api> = Form { read: |value| Api::named(value.text()?), write: |api| quoted(api.as_str()) };

const ONE_KEY: Form<Vec<(SecretString, u32)>> =
    Form { read: |value| Some(vec![weighted(value)?]), write: |_| String::new() };

const WEIGHTED_KEYS: Form<Vec<(SecretString, u32)>> = Form {
    read: |value| match value {
        Checked::List(nodes) => Some(nodes.iter().filter_map(|node| weighted(&node.value)).collect()),
        _ => None,
    },
    write: |_| String::new(),
};

/// A key with its weight: a secret, or a table with both.
fn weighted(value: &Checked) -> Option<(SecretString, u32)> {
    match value {
        Checked::Secret(key) => Some((key.clone(), WeightedKey::default().weight)),
        Checked::Table(entry) => {
            entry.node("key")?;
            let WeightedKey { key, weight } = filled(Some(entry));
            Some((key, weight))
        }
        _ => None,
    }
}

/// The row of a setting that only some dialects have. Their adapters read it.
macro_rules! option {
    ($name:literal, $kind:expr, $default:literal, $doc:literal $(,)?) => {
        setting_or(
            $name,
            $kind,
            &Change {
                form: Form::OPTION,
                apply: |provider: &mut ProviderSettings, value| {
                    provider.options.insert($name.to_owned(), value);
                },
                default: |_| None,
            },
            $default,
            $doc,
        )
    };
}

pub(super) static PROVIDER: Section = Section {
    doc: "A provider that the gateway can call.",
    keys: &[
        required_setting(
            "name",
            Kind::Text(&PROVIDER_NAME),
            field!(ProviderSettings, name, Form::TEXT),
            "The part of its model ids before the first slash.",
        ),
        setting_or(
            "api",
            Kind::Choice(&APIS),
            field!(ProviderSettings, api, API),
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
        setting_or(
            "api_key",
            Kind::Secret(&CREDENTIAL),
            field!(ProviderSettings, api_keys, ONE_KEY),
            "no key is sent",
            "The provider's key.",
        ),
        setting(
            "api_keys",
            UPSTREAM_KEYS,
            field!(ProviderSettings, api_keys, WEIGHTED_KEYS),
            "Several keys that are used in turn, instead of `api_key`.",
        ),
        setting(
            "headers",
            Kind::Map { key: &HEADER, of: &Kind::Secret(&HEADER_VALUE) },
            field!(ProviderSettings, headers, Form::HEADERS),
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
        setting_or(
            "timeouts",
            Kind::Table(&TIMEOUTS),
            field!(ProviderSettings, timeouts, OWN_TIMEOUTS),
            "`[timeouts]`",
            "The provider's own timeouts.",
        ),
        setting_or(
            "prompt_cache",
            PROMPT_CACHE,
            field!(ProviderSettings, prompt_cache, OWN_PROMPT_CACHE),
            "off",
            "Breakpoints of prompt caches: `\"auto\"`, `\"off\"` or a table. The narrowest of alias, model and provider counts ([prompt caches](prompt-caches.md)).",
        ),
        setting_or(
            "embedding_batch",
            Kind::Int { min: 1, max: 2048 },
            field!(ProviderSettings, embedding_batch, Form::OPTIONAL_INT),
            "as the provider allows, and 256 at most",
            "The most inputs of one embeddings call. The gateway reads at most 32 MiB of the answer: 1,000 vectors of 3,072 numbers may be \
             longer.",
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
        setting_or(
            "allow_members",
            MEMBERS,
            field!(ProviderSettings, allow_members, Form::TEXTS),
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
        option!(
            "responses",
            Kind::Either(&Kind::Bool, &Kind::Choice(&[("auto", &[])])),
            "true for `openai`, false for other providers that are known by their name, else \"auto\"",
            "`openai`: whether the provider has `/responses` itself, so that requests of the Responses API go there unchanged. \
             \"auto\" asks once: after a 404 or 405 that does not name the model they are sent as chats, until the \
             configuration is read again or an hour has passed.",
        ),
        option!(
            "token_arrays",
            Kind::Bool,
            "true for `openai`, else false",
            "`openai`: whether token arrays as prompts and as inputs of embeddings (LangChain's `OpenAIEmbeddings` sends them by \
             default) go to the provider as they are, because its models use OpenAI's tokens. Otherwise they get 400.",
        ),
        option!(
            "text_parts",
            Kind::Bool,
            "true for `openai` and `openrouter`, else false",
            "`openai`: whether a message may be a list of texts. Otherwise several texts of a message of the Messages or the \
             Responses API are joined to one string, because DeepSeek and others refuse a list.",
        ),
        option!("num_ctx_max", TOKENS, "", "`ollama`: the largest `num_ctx`."),
        option!(
            "region",
            Kind::Text(&WORD),
            "",
            "`bedrock`, `vertex`: the region. `vertex` uses `global` without one.",
        ),
        option!(
            "project",
            Kind::Text(&WORD),
            "the project of the credentials file",
            "`vertex`: the project."
        ),
        option!(
            "credentials_file",
            Kind::Path,
            "`$GOOGLE_APPLICATION_CREDENTIALS`, else the metadata server",
            "`vertex`: the key file of a service account, or the file of `gcloud auth application-default login`.",
        ),
        option!("api_version", Kind::Text(&WORD), "", "`azure`: the version of the API."),
        option!(
            "deployments",
            Kind::Map { key: &WORD, of: &Kind::Text(&WORD) },
            "",
            "`azure`: the deployment of each model, as `model = \"deployment\"`.",
        ),
        option!(
            "auth",
            Kind::Choice(&[("bearer", &[])]),
            "the key in the header `api-key`",
            "`azure`: `bearer` sends `api_key` as an Entra token.",
        ),
        option!(
            "tenant_id",
            Kind::Text(&WORD),
            "",
            "`azure`: fetches tokens from Entra with this tenant, `client_id`, and the client's secret as `api_key`.",
        ),
        option!("client_id", Kind::Text(&WORD), "", "`azure`: the application in `tenant_id`."),
        option!(
            "authority",
            Kind::Text(&BASE_URL),
            "`https://login.microsoftonline.com`",
            "`azure`: the address of Entra in other clouds.",
        ),
        option!(
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
        required_setting(
            "key",
            Kind::Secret(&CREDENTIAL),
            field!(WeightedKey, key, Form::SECRET),
            "The key.",
        ),
        setting(
            "weight",
            Kind::Int { min: 1, max: 1000 },
            field!(WeightedKey, weight, Form::INT),
            "The key's share of the calls.",
        ),
    ],
};
