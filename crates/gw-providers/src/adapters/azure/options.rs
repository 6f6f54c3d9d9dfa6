//! Reads and checks the options of an Azure provider.

use std::collections::HashMap;

use secrecy::{ExposeSecret, SecretString};
use toml::{Table, Value};

use crate::settings::{ProviderSettings, SettingsError};

/// The default of `authority`, the address that issues tokens.
const AUTHORITY: &str = "https://login.microsoftonline.com";

/// The options of a provider.
#[derive(Debug)]
pub(super) struct AzureOptions {
    /// `api_version`.
    pub(super) version: Option<String>,
    /// `deployments`.
    pub(super) deployments: HashMap<String, String>,
    /// The authentication of calls.
    pub(super) credentials: AzureAuth,
}

/// The authentication of calls.
#[derive(Debug)]
pub(super) enum AzureAuth {
    /// `api-key: <key>`.
    Key,
    /// `auth = "bearer"`: the key is an Entra token that is renewed outside the gateway.
    Bearer,
    /// `tenant_id`, `client_id` and a secret: the gateway fetches tokens.
    Application(EntraApplication),
}

/// An application registered in Entra ID.
#[derive(Debug)]
pub(super) struct EntraApplication {
    /// `https://login.microsoftonline.com`, or the address of another cloud.
    pub(super) authority: String,
    pub(super) tenant: String,
    pub(super) id: String,
    /// `client_secret`, or the provider's key.
    pub(super) secret: SecretString,
}

/// Whether a version is a date. The v1 API has the versions `preview` and `latest`.
pub(super) fn is_dated(version: &str) -> bool {
    version.starts_with(|first: char| first.is_ascii_digit())
}

impl AzureOptions {
    pub(super) fn read(settings: &ProviderSettings) -> Result<Self, SettingsError> {
        let options = &settings.options;
        let version = settings.text_option("api_version")?.filter(|version| *version != "v1");
        let version = version.map(str::to_owned);
        Ok(Self { version, deployments: deployments(options)?, credentials: credentials(settings)? })
    }
}

fn deployments(options: &Table) -> Result<HashMap<String, String>, SettingsError> {
    let wrong = || SettingsError::Option {
        name: "deployments",
        expected: "a map of model names to deployment names",
    };
    let Some(value) = options.get("deployments") else { return Ok(HashMap::new()) };
    let entries = value.as_table().ok_or_else(wrong)?.iter();
    let entry = |(model, deployment): (&String, &Value)| match deployment.as_str() {
        Some(deployment) if !deployment.is_empty() && !is_dots(deployment) => {
            Ok((model.clone(), deployment.to_owned()))
        }
        _ => Err(wrong()),
    };
    entries.map(entry).collect()
}

fn credentials(settings: &ProviderSettings) -> Result<AzureAuth, SettingsError> {
    let bearer = match settings.text_option("auth")? {
        None | Some("api-key") => false,
        Some("bearer") => true,
        Some(_) => return Err(SettingsError::Option { name: "auth", expected: "\"api-key\" or \"bearer\"" }),
    };
    let (tenant, id) = (settings.text_option("tenant_id")?, settings.text_option("client_id")?);
    let own_secret = settings.text_option("client_secret")?.map(SecretString::from);
    let (tenant, id) = match (tenant, id) {
        (None, None) if own_secret.is_none() => {
            return Ok(if bearer { AzureAuth::Bearer } else { AzureAuth::Key });
        }
        (Some(tenant), Some(_)) if !is_tenant(tenant) => {
            return Err(SettingsError::Option {
                name: "tenant_id",
                expected: "the id of a tenant, or one of its domains",
            });
        }
        (Some(tenant), Some(id)) => (tenant.to_owned(), id.to_owned()),
        _ => return Err(SettingsError::Rule("tenant_id, client_id and client_secret must be set together")),
    };
    let key = settings.api_keys.first().map(|(key, _)| key.clone());
    let secret = match (own_secret, key) {
        (Some(_), Some(_)) => {
            return Err(SettingsError::Rule("api_key and client_secret are both set: keep one of them"));
        }
        (Some(secret), None) | (None, Some(secret)) if !secret.expose_secret().is_empty() => secret,
        _ => return Err(SettingsError::Rule("client_secret is missing (api_key can hold it instead)")),
    };
    let authority = settings.text_option("authority")?.unwrap_or(AUTHORITY).to_owned();
    Ok(AzureAuth::Application(EntraApplication { authority, tenant, id, secret }))
}

/// Whether a text is the id of a tenant (a GUID) or a domain. It is a segment of a URL, so it must not lead elsewhere.
fn is_tenant(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    text.len() <= 253 && text.bytes().all(fits) && text.split('.').all(|label| !label.is_empty())
}

/// Whether a text is a segment that a URL reads as the present or the parent folder. No encoding keeps it from that.
fn is_dots(text: &str) -> bool {
    matches!(text, "." | "..")
}
