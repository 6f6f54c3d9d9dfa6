//! The provider of a target: its name, its account and its key.

use serde_json::json;

use super::super::draft::Members;
use super::super::known_provider::{KnownProvider, SourceGateway};
use super::super::report::NO_SUCH_SETTING;
use super::super::yaml::SourceNode;
use super::{PortkeyImport, at, member, snake, text, written};

/// The members of a target that name its provider or its account.
const ACCOUNT: [&str; 12] = [
    "provider",
    "api_key",
    "virtual_key",
    "custom_host",
    "resource_name",
    "deployment_id",
    "api_version",
    "aws_region",
    "vertex_region",
    "vertex_project_id",
    "openai_organization",
    "openai_project",
];

/// The provider of a target, and the model that it always calls.
#[derive(Debug)]
pub(super) struct FoundProvider {
    pub(super) provider: String,
    pub(super) model: Option<String>,
}

/// The provider that a name in Portkey's vault begins with: `openai-key-1`, `@anthropic-prod`.
fn by_slug(slug: &str) -> Option<KnownProvider> {
    let slug = slug.trim_start_matches('@').to_ascii_lowercase();
    let begins = |provider: &KnownProvider| {
        slug.strip_prefix(provider.source)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
    };
    SourceGateway::Portkey.providers().filter(begins).max_by_key(|provider| provider.source.len())
}

/// The provider of a model by the beginning of its name.
fn by_model(model: &str) -> Option<KnownProvider> {
    let starts = |words: &[&str]| words.iter().any(|word| model.starts_with(word));
    let source = if starts(&["gpt", "o1", "o3", "o4", "text-embedding"]) {
        "openai"
    } else if starts(&["claude"]) {
        "anthropic"
    } else if starts(&["gemini"]) {
        "google"
    } else {
        return None;
    };
    SourceGateway::Portkey.provider(source)
}

impl PortkeyImport {
    /// The provider of a target. None: it is reported as ignored.
    pub(super) fn provider(
        &mut self,
        node: &SourceNode,
        path: &str,
        model: Option<&str>,
    ) -> Option<FoundProvider> {
        let written = text(node, "provider");
        // `@slug/model` names a provider of the workspace together with the model.
        let (slug, model) = match model.and_then(|model| model.strip_prefix('@')?.split_once('/')) {
            Some((slug, model)) => (Some(slug.to_owned()), Some(model.to_owned())),
            None => (None, model.map(str::to_owned)),
        };
        let exact = written.as_deref().and_then(|name| SourceGateway::Portkey.provider(name));
        let vault = slug.or_else(|| written.clone().filter(|name| name.starts_with('@')));
        let vault = vault.or_else(|| text(node, "virtual_key"));
        let guessed = || vault.as_deref().and_then(by_slug).or_else(|| by_model(model.as_deref()?));
        let Some(known) = exact.or_else(guessed) else {
            let note = match (&written, &vault) {
                (Some(name), _) => format!("the gateway has no provider '{name}'"),
                (None, Some(name)) => format!("the provider behind '{name}' is in Portkey's vault only"),
                (None, None) => "it names no provider".to_owned(),
            };
            let key = if path.is_empty() { "provider" } else { path };
            self.report.ignored(key, node, note);
            return None;
        };
        let mut members = Members::from_iter([("api".to_owned(), known.api.into())]);
        let mut upstream = model;
        self.account(node, path, known, &mut members, &mut upstream);
        self.api_key(node, path, known, vault.as_deref(), &mut members);
        if known.api == "azure" && !members.contains_key("base_url") {
            let url = self.draft.variable("AZURE_API_BASE");
            members.insert("base_url".to_owned(), url.into());
        }
        if known.api == "vertex" && !members.contains_key("project") {
            let project = self.draft.variable("VERTEX_PROJECT");
            members.insert("project".to_owned(), project.into());
        }
        if known.api == "bedrock" && !members.contains_key("region") {
            let region = self.draft.variable("AWS_REGION");
            members.insert("region".to_owned(), region.into());
        }
        if upstream.is_none()
            && let Some(ms) = member(node, "request_timeout").and_then(|node| node.whole(1, 86_400_000))
        {
            members.insert("timeouts".to_owned(), json!({ "first_token_ms": ms }));
        }
        let has_address = members.contains_key("base_url") && known.api != "azure";
        let provider = self.draft.provider(&known.name_at(has_address), members);
        if upstream.is_none() && known.has_list {
            self.draft.discover(&provider);
        }
        Some(FoundProvider { provider, model: upstream })
    }

    /// The key of the provider, which is never written itself.
    fn api_key(
        &mut self,
        node: &SourceNode,
        path: &str,
        known: KnownProvider,
        vault: Option<&str>,
        members: &mut Members,
    ) {
        let wanted = known.key_variable();
        let reference = match (written(node, "api_key"), vault) {
            (Some((name, value)), _) if value.text().is_some_and(|text| !text.trim().is_empty()) => {
                let reference = self.draft.secret(value.text().unwrap_or_default().trim(), &wanted);
                let note = format!("providers.api_key: {reference}; the key itself is not written");
                self.report.approximate(at(path, name), value, note);
                reference
            }
            (_, Some(name)) => {
                let reference = self.draft.secret(&format!("@{}", name.trim_start_matches('@')), &wanted);
                if let Some((key, node)) = written(node, "virtual_key") {
                    let note =
                        format!("providers.api_key: {reference} is the provider's own key behind '{name}'");
                    self.report.approximate(at(path, key), node, note);
                }
                reference
            }
            // Bedrock and Vertex AI have credentials of their machine.
            (_, None) if known.api == "bedrock" => return self.draft.needs_aws_keys(),
            (_, None) if ["vertex", "ollama"].contains(&known.api) => return,
            (_, None) => self.draft.variable(&wanted),
        };
        members.insert("api_key".to_owned(), reference.into());
    }

    /// The address and the account of the provider.
    fn account(
        &mut self,
        node: &SourceNode,
        path: &str,
        known: KnownProvider,
        members: &mut Members,
        upstream: &mut Option<String>,
    ) {
        for (name, value) in node.pairs() {
            let (key, name) = (at(path, name), snake(name));
            let Some(text) = value.text().map(|text| text.trim().to_owned()) else { continue };
            let place = match (known.api, name.as_str()) {
                (_, "provider") => {
                    match SourceGateway::Portkey.provider(&text).is_some() {
                        true => self.report.exact(key, value, "the provider"),
                        false => {
                            self.report.approximate(key, value, format!("the provider '{}'", known.name))
                        }
                    }
                    continue;
                }
                (_, "api_key" | "virtual_key") => continue,
                (_, "custom_host") => {
                    members.insert("base_url".to_owned(), text.trim_end_matches('/').into());
                    "providers.base_url"
                }
                ("azure", "resource_name") => {
                    members.insert("base_url".to_owned(), format!("https://{text}.openai.azure.com").into());
                    "providers.base_url"
                }
                ("azure", "deployment_id") => {
                    let model = upstream.get_or_insert_with(|| text.clone());
                    members.insert("deployments".to_owned(), json!({ model.as_str(): text }));
                    "providers.deployments"
                }
                ("azure", "api_version") => {
                    members.insert("api_version".to_owned(), text.into());
                    "providers.api_version"
                }
                ("bedrock", "aws_region") | ("vertex", "vertex_region") => {
                    members.insert("region".to_owned(), text.into());
                    "providers.region"
                }
                ("vertex", "vertex_project_id") => {
                    members.insert("project".to_owned(), text.into());
                    "providers.project"
                }
                ("openai", "openai_organization" | "openai_project") => {
                    let header =
                        if name == "openai_project" { "OpenAI-Project" } else { "OpenAI-Organization" };
                    let headers = members.entry("headers").or_insert_with(|| json!({}));
                    if let Some(headers) = headers.as_object_mut() {
                        headers.insert(header.to_owned(), text.into());
                    }
                    "a header in providers.headers"
                }
                (_, name) if name.starts_with("aws_") => {
                    let note = "the gateway reads AWS keys from the environment or from a profile of the shared credentials file";
                    self.report.ignored(key, value, note);
                    continue;
                }
                (_, name) if ACCOUNT.contains(&name) => {
                    self.report.ignored(key, value, "this provider does not have it");
                    continue;
                }
                _ => {
                    self.unknown(&key, &name, value);
                    continue;
                }
            };
            self.report.exact(key, value, place);
        }
    }

    /// Reports a text that no other part of the import knows.
    fn unknown(&mut self, key: &str, name: &str, node: &SourceNode) {
        const ELSEWHERE: [&str; 9] = [
            "weight",
            "cache",
            "request_timeout",
            "name",
            "id",
            "prompt_id",
            "metadata",
            "strategy",
            "retry",
        ];
        if !ELSEWHERE.contains(&name) {
            self.report.ignored(key, node, NO_SUCH_SETTING);
        }
    }
}
