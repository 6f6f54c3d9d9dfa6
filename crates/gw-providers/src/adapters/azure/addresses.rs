//! The addresses of an Azure resource.

use std::collections::HashMap;
use std::sync::Arc;

use gw_wire::percent;

use crate::adapter::Target;
use crate::settings::SettingsError;

/// The addresses of one resource.
#[derive(Clone, Debug)]
pub(super) struct Addresses {
    /// The path between the resource's address and `deployments` or `chat`.
    pub(super) prefix: &'static str,
    /// The API version is dated, so the path names the deployment.
    pub(super) is_classic: bool,
    /// `?api-version=…`, or nothing.
    pub(super) query: String,
    pub(super) deployments: Arc<HashMap<String, String>>,
}

impl Addresses {
    /// The deployment of a model.
    pub(super) fn deployment<'a>(&'a self, target: &Target<'a>) -> &'a str {
        self.deployments.get(target.upstream_model).map_or(target.upstream_model, String::as_str)
    }

    /// The path and the query of an operation.
    pub(super) fn path(&self, deployment: &str, operation: &str) -> String {
        let Self { prefix, query, .. } = self;
        if self.is_classic {
            format!("{prefix}/deployments/{}/{operation}{query}", percent::encode(deployment))
        } else {
            format!("{prefix}/{operation}{query}")
        }
    }
}

/// The path that follows `base_url`. `base_url` is the resource's endpoint, or continues up to `/openai` or
/// `/openai/v1`.
pub(super) fn prefix(base: &str, is_classic: bool) -> Result<&'static str, SettingsError> {
    let base = base.trim_end_matches('/');
    match (base.ends_with("/openai/v1"), base.ends_with("/openai")) {
        (true, _) if is_classic => {
            Err(SettingsError::Rule("base_url names the v1 API, which takes no dated api_version"))
        }
        (true, _) => Ok(""),
        (_, true) if is_classic => Ok(""),
        (_, true) => Ok("/v1"),
        (_, false) if is_classic => Ok("/openai"),
        (_, false) => Ok("/openai/v1"),
    }
}
