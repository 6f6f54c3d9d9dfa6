//! LiteLLM's providers: the prefix of a model, and the provider of the gateway that serves it.

use serde_json::json;

use super::super::draft::{Members, variable_or};
use super::super::known_provider::{KnownProvider, SourceGateway};
use super::super::yaml::SourceNode;
use super::Import;

/// Divides a model of LiteLLM into its provider and the provider's name of the model. Without a prefix the name decides, as in
/// LiteLLM. None: the gateway does not know the provider.
pub(super) fn divide(model: &str, custom: Option<&str>) -> Option<(KnownProvider, String)> {
    let find = |prefix: &str| SourceGateway::LiteLlm.provider(prefix);
    if let Some(custom) = custom {
        let rest = model.strip_prefix(custom).and_then(|rest| rest.strip_prefix('/')).unwrap_or(model);
        return Some((find(custom)?, rest.to_owned()));
    }
    if let Some((prefix, rest)) = model.split_once('/') {
        return Some((find(prefix)?, rest.to_owned()));
    }
    let starts = |words: &[&str]| words.iter().any(|word| model.starts_with(word));
    let prefix = if starts(&["claude"]) {
        "anthropic"
    } else if starts(&["gpt", "chatgpt", "o1", "o3", "o4", "text-", "davinci", "babbage", "ft:gpt"]) {
        "openai"
    } else if starts(&["command", "embed-"]) {
        "cohere"
    } else {
        return None;
    };
    Some((find(prefix)?, model.to_owned()))
}

/// The keys of `litellm_params` that belong to the provider.
pub(super) const PROVIDER_KEYS: [&str; 18] = [
    "api_base",
    "base_url",
    "api_key",
    "api_version",
    "organization",
    "headers",
    "extra_headers",
    "aws_region_name",
    "region_name",
    "aws_profile_name",
    "aws_access_key_id",
    "aws_secret_access_key",
    "aws_session_token",
    "aws_bedrock_runtime_endpoint",
    "vertex_project",
    "vertex_location",
    "vertex_credentials",
    "custom_llm_provider",
];

impl Import {
    /// The name of the provider of an entry. `path` is the path of its `litellm_params`. None: the entry has no address.
    pub(super) fn provider(
        &mut self,
        known: KnownProvider,
        params: &SourceNode,
        path: &str,
    ) -> Option<String> {
        let mut members = Members::new();
        self.address(known, params, path, &mut members);
        let has_address = members.contains_key("base_url");
        let name = known.name_at(has_address);
        if !has_address && !known.has_address() {
            return None;
        }
        members.insert("api".to_owned(), known.api.into());
        self.credentials(known, params, path, &mut members);
        self.cloud(known, params, path, &mut members);
        let headers = self.headers(params, path);
        if !headers.is_empty() {
            members.insert("headers".to_owned(), headers.into());
        }
        Some(self.draft.provider(&name, members))
    }

    fn address(&mut self, known: KnownProvider, params: &SourceNode, path: &str, members: &mut Members) {
        for key in ["api_base", "base_url", "aws_bedrock_runtime_endpoint"] {
            let Some(node) = params.get(key) else { continue };
            let Some(text) = node.text().filter(|text| !text.is_empty()) else { continue };
            let url = self.reference(text.trim_end_matches('/'));
            // LiteLLM takes the address of OpenAI's endpoints with or without `/v1`, exactly as it is written.
            self.report.exact(format!("{path}.{key}"), node, "providers.base_url");
            members.insert("base_url".to_owned(), url.into());
        }
        if known.api == "azure" && !members.contains_key("base_url") {
            let url = self.draft.variable("AZURE_API_BASE");
            members.insert("base_url".to_owned(), url.into());
        }
        if let Some(node) = params.get("api_version") {
            match (known.api, node.text()) {
                ("azure", Some(text)) => {
                    let version = self.reference(&text);
                    members.insert("api_version".to_owned(), version.into());
                    self.report.exact(format!("{path}.api_version"), node, "providers.api_version");
                }
                _ => self.report.ignored(format!("{path}.api_version"), node, "only Azure has API versions"),
            }
        }
    }

    fn credentials(&mut self, known: KnownProvider, params: &SourceNode, path: &str, members: &mut Members) {
        let node = params.get("api_key");
        let key = match (node, node.and_then(SourceNode::text)) {
            (Some(node), Some(text)) if !text.trim().is_empty() => {
                self.report.exact(format!("{path}.api_key"), node, "providers.api_key");
                Some(self.reference(text.trim()))
            }
            (Some(node), _) => {
                self.report.ignored(format!("{path}.api_key"), node, "it is empty, so no key is sent");
                None
            }
            (None, _) => known.variable.map(|name| self.draft.variable(name)),
        };
        if let Some(key) = key {
            members.insert("api_key".to_owned(), key.into());
        }
    }

    /// The regions, projects and accounts of clouds.
    fn cloud(&mut self, known: KnownProvider, params: &SourceNode, path: &str, members: &mut Members) {
        let placed: &[(&str, &str, &str)] = &[
            ("bedrock", "aws_region_name", "region"),
            ("bedrock", "region_name", "region"),
            ("bedrock", "aws_profile_name", "profile"),
            ("vertex", "vertex_location", "region"),
            ("vertex", "region_name", "region"),
            ("vertex", "vertex_project", "project"),
        ];
        for &(api, key, member) in placed {
            let Some(node) = params.get(key).filter(|_| known.api == api) else { continue };
            let Some(text) = node.text() else { continue };
            let value = self.reference(&text);
            members.entry(member).or_insert_with(|| value.into());
            self.report.exact(format!("{path}.{key}"), node, format!("providers.{member}"));
        }
        for key in ["aws_access_key_id", "aws_secret_access_key", "aws_session_token"] {
            if let Some(node) = params.get(key) {
                let note = "the gateway reads AWS keys from the environment or from a profile of the shared credentials file";
                self.report.ignored(format!("{path}.{key}"), node, note);
            }
        }
        if let Some(node) = params.get("region_name").filter(|_| !["bedrock", "vertex"].contains(&known.api))
        {
            self.report.ignored(format!("{path}.region_name"), node, "this provider has no regions");
        }
        if let Some(node) = params.get("vertex_credentials") {
            let note =
                "write the file of the credentials to providers.credentials_file, or use the metadata server";
            self.report.ignored(format!("{path}.vertex_credentials"), node, note);
        }
        if known.api == "bedrock" && !members.contains_key("region") && !members.contains_key("api_key") {
            // LiteLLM's own default.
            members.insert("region".to_owned(), variable_or("AWS_REGION_NAME", "us-west-2").into());
        }
        if known.api == "bedrock" && !members.contains_key("profile") && !members.contains_key("api_key") {
            self.draft.needs_aws_keys();
        }
        if known.api == "vertex" && !members.contains_key("project") {
            let project = self.draft.variable("VERTEXAI_PROJECT");
            members.insert("project".to_owned(), project.into());
        }
    }

    fn headers(&mut self, params: &SourceNode, path: &str) -> Members {
        let mut headers = Members::new();
        for key in ["headers", "extra_headers"] {
            let Some(node) = params.get(key) else { continue };
            for (name, value) in node.pairs() {
                let Some(text) = value.text() else { continue };
                let text = self.reference(&text);
                headers.insert(name.clone(), text.into());
            }
            self.report.exact(format!("{path}.{key}"), node, "providers.headers");
        }
        if let Some((node, text)) = params.get("organization").and_then(|node| Some((node, node.text()?))) {
            let text = self.reference(&text);
            headers.insert("OpenAI-Organization".to_owned(), json!(text));
            self.report.exact(format!("{path}.organization"), node, "a header in providers.headers");
        }
        headers
    }
}
