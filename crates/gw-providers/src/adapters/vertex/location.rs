//! Addresses and paths of a project in a region.

use super::gemini::PUBLISHER;
use crate::adapters::gemini::path::{ModelPaths, encoded_path};
use crate::settings::SettingsError;

/// The region without a location of its own.
pub(super) const GLOBAL: &str = "global";

/// The path prefix of a project in a region: `/v1/projects/…/locations/…`.
#[derive(Clone, Debug)]
pub(super) struct ProjectLocation(String);

/// The service address of a region: <https://cloud.google.com/vertex-ai/generative-ai/docs/learn/locations>.
pub(super) fn endpoint(region: &str) -> String {
    match region {
        GLOBAL => "https://aiplatform.googleapis.com".to_owned(),
        "us" | "eu" => format!("https://aiplatform.{region}.rep.googleapis.com"),
        _ => format!("https://{region}-aiplatform.googleapis.com"),
    }
}

impl ProjectLocation {
    /// # Errors
    /// The project or the region has a character that no name has.
    pub(super) fn new(project: &str, region: &str) -> Result<Self, SettingsError> {
        if !is_region(region) {
            return Err(SettingsError::Rule("region is made of small letters, digits and '-'"));
        }
        if !is_project(project) {
            return Err(SettingsError::Rule("project is made of letters, digits, '-', '.' and ':'"));
        }
        Ok(Self(format!("/v1/projects/{}/locations/{region}", encoded_path(project))))
    }

    /// Returns the path of a model's method. `upstream_model` is the bare name of one of the publisher's models, or a
    /// resource name.
    pub(super) fn path(&self, publisher: &str, upstream_model: &str, method: &str) -> String {
        let Self(prefix) = self;
        let name = upstream_model.strip_prefix(publisher).and_then(|name| name.strip_prefix('/'));
        let name = name.unwrap_or(upstream_model);
        let model = encoded_path(name);
        if name.starts_with("projects/") {
            format!("/v1/{model}:{method}")
        } else if name.starts_with("publishers/") || name.starts_with("endpoints/") {
            format!("{prefix}/{model}:{method}")
        } else {
            format!("{prefix}/publishers/{publisher}/models/{model}:{method}")
        }
    }
}

impl ModelPaths for ProjectLocation {
    fn method_path(&self, upstream_model: &str, method: &str) -> String {
        self.path(PUBLISHER, upstream_model, method)
    }
}

/// A region is a part of the host and of the path.
fn is_region(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.len() <= 64 && text.bytes().all(fits)
}

/// A project is a segment of the path, so it has a character besides dots. A project of a domain is `example.com:name`.
fn is_project(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b':');
    text.len() <= 128 && text.bytes().all(fits) && text.bytes().any(|byte| byte != b'.')
}
