//! Sources of Google access tokens: the key of a service account (RFC 7523,
//! <https://developers.google.com/identity/protocols/oauth2/service-account>), the refresh token of a user (`gcloud
//! auth application-default login`), or the metadata server.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gw_wire::failure::{Failure, FailureKind};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Uri};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use super::metadata_server::{self, MAX_TOKEN_RESPONSE_BYTES};
use crate::adapter::HttpCall;
use crate::adapters::failure::{invalid, invalid_json};
use crate::adapters::gemini::path::encoded_path;
use crate::client::Client;
use crate::settings::{GoogleCredentialsError, SettingsError, Timeouts};

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";

/// The lifetime that is requested for a token.
const REQUESTED_LIFETIME: Duration = Duration::from_secs(3600);
/// The longest lifetime that is believed.
const MAX_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// The lifetime that is assumed when a response names none.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(300);

/// The largest credentials file.
const MAX_CREDENTIALS_BYTES: u64 = 64 << 10;

/// The time limits of one token call. The caller limits the whole renewal.
const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    first_token: Duration::from_secs(10),
    idle: Duration::from_secs(10),
    total: Duration::from_secs(10),
};

/// A token from the token endpoint.
pub(super) struct FetchedGoogleToken {
    pub(super) token: SecretString,
    pub(super) lifetime: Duration,
}

/// Fetches access tokens.
pub(super) struct GoogleTokenSource {
    kind: GoogleTokenSourceKind,
    /// The project whose quota a user's calls count against.
    quota_project: Option<HeaderValue>,
}

enum GoogleTokenSourceKind {
    ServiceAccount(Box<ServiceAccount>),
    UserLogin(Box<UserLogin>),
    Metadata(SocketAddr),
}

/// The login of a user.
struct UserLogin {
    endpoint: TokenEndpoint,
    /// The form that every call posts.
    form: SecretString,
}

struct ServiceAccount {
    endpoint: TokenEndpoint,
    key: RsaKeyPair,
    key_id: Option<String>,
    email: String,
    /// The recipient named in the assertion: the token endpoint as the file spells it.
    audience: String,
}

/// A token endpoint.
struct TokenEndpoint {
    client: Client,
    path: String,
}

/// The content of a credentials file.
pub(super) struct LoadedCredentials {
    pub(super) source: GoogleTokenSource,
    /// The project that the credentials belong to.
    pub(super) project: Option<String>,
}

#[derive(Deserialize)]
struct CredentialsJson {
    #[serde(rename = "type", default)]
    kind: String,
    project_id: Option<String>,
    quota_project_id: Option<String>,
    private_key_id: Option<String>,
    private_key: Option<String>,
    client_email: Option<String>,
    token_uri: Option<String>,
    client_id: Option<String>,
    client_secret: Option<String>,
    refresh_token: Option<String>,
}

#[derive(Deserialize)]
struct GoogleTokenResponse {
    access_token: Option<String>,
    expires_in: Option<f64>,
}

#[derive(Deserialize)]
struct GoogleTokenError {
    error: Option<String>,
}

/// Reads a credentials file.
///
/// # Errors
/// The file cannot be used.
pub(super) fn read(
    path: &Path,
    allow_private_network: bool,
    ca_file: Option<&Path>,
) -> Result<LoadedCredentials, SettingsError> {
    let read = || {
        let unreadable = |error: std::io::Error| GoogleCredentialsError::Unreadable(error.kind());
        if std::fs::metadata(path).map_err(unreadable)?.len() > MAX_CREDENTIALS_BYTES {
            return Err(GoogleCredentialsError::TooLarge);
        }
        parse(&std::fs::read(path).map_err(unreadable)?, allow_private_network, ca_file)
    };
    read().map_err(|fault| SettingsError::GoogleCredentials { path: path.to_owned(), fault })
}

fn parse(
    text: &[u8],
    allow_private_network: bool,
    ca_file: Option<&Path>,
) -> Result<LoadedCredentials, GoogleCredentialsError> {
    let file: CredentialsJson = serde_json::from_slice(text).map_err(|_| GoogleCredentialsError::NotJson)?;
    let audience = file.token_uri.unwrap_or_else(|| TOKEN_URI.to_owned());
    let endpoint = TokenEndpoint::new(&audience, allow_private_network, ca_file)?;
    let missing = GoogleCredentialsError::Missing;
    let kind = match file.kind.as_str() {
        "service_account" => {
            let pem = file.private_key.ok_or(missing("private_key"))?;
            let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes());
            let key = der.ok().and_then(|der| RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).ok());
            let key = key.ok_or(GoogleCredentialsError::PrivateKey)?;
            let email = file.client_email.ok_or(missing("client_email"))?;
            GoogleTokenSourceKind::ServiceAccount(Box::new(ServiceAccount {
                endpoint,
                key,
                key_id: file.private_key_id,
                email,
                audience,
            }))
        }
        "authorized_user" => {
            let form = form(&[
                ("grant_type", "refresh_token"),
                ("client_id", &file.client_id.ok_or(missing("client_id"))?),
                ("client_secret", &file.client_secret.ok_or(missing("client_secret"))?),
                ("refresh_token", &file.refresh_token.ok_or(missing("refresh_token"))?),
            ]);
            GoogleTokenSourceKind::UserLogin(Box::new(UserLogin { endpoint, form: form.into() }))
        }
        _ => return Err(GoogleCredentialsError::UnsupportedType),
    };
    let quota_project = file.quota_project_id.and_then(|project| HeaderValue::from_str(&project).ok());
    Ok(LoadedCredentials { source: GoogleTokenSource { kind, quota_project }, project: file.project_id })
}

impl GoogleTokenSource {
    /// The service account of the machine that the gateway runs on.
    pub(super) fn metadata() -> Self {
        Self { kind: GoogleTokenSourceKind::Metadata(metadata_server::ADDRESS), quota_project: None }
    }

    #[cfg(test)]
    pub(super) fn metadata_at(address: SocketAddr) -> Self {
        Self { kind: GoogleTokenSourceKind::Metadata(address), quota_project: None }
    }

    pub(super) fn quota_project(&self) -> Option<&HeaderValue> {
        self.quota_project.as_ref()
    }

    /// Fetches a new token.
    pub(super) async fn fetch(&self) -> Result<FetchedGoogleToken, Failure> {
        let (status, body) = match &self.kind {
            GoogleTokenSourceKind::ServiceAccount(account) => {
                let assertion = account.assertion(SystemTime::now())?;
                let grant = "urn:ietf:params:oauth:grant-type:jwt-bearer";
                account.endpoint.post(form(&[("grant_type", grant), ("assertion", &assertion)])).await?
            }
            GoogleTokenSourceKind::UserLogin(login) => {
                login.endpoint.post(login.form.expose_secret().to_owned()).await?
            }
            GoogleTokenSourceKind::Metadata(address) => metadata_server::request_token(*address).await?,
        };
        if status != 200 {
            return Err(refusal(status, &body));
        }
        let answer: GoogleTokenResponse =
            serde_json::from_slice(&body).map_err(|fault| invalid_json(&fault))?;
        let token = answer.access_token.filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| invalid("the token endpoint's response has no access_token"))?;
        let lifetime = answer.expires_in.filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
        let lifetime = lifetime.map_or(DEFAULT_LIFETIME, |seconds| {
            Duration::from_secs_f64(seconds.min(MAX_LIFETIME.as_secs_f64()))
        });
        Ok(FetchedGoogleToken { token: token.into(), lifetime })
    }
}

impl ServiceAccount {
    /// A JWT that names the service account, signed with its key.
    fn assertion(&self, now: SystemTime) -> Result<String, Failure> {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut header = json!({ "alg": "RS256", "typ": "JWT" });
        if let (Some(id), Some(header)) = (&self.key_id, header.as_object_mut()) {
            header.insert("kid".to_owned(), id.as_str().into());
        }
        let claims = json!({
            "iss": self.email,
            "scope": SCOPE,
            "aud": self.audience,
            "iat": now,
            "exp": now + REQUESTED_LIFETIME.as_secs(),
        });
        let mut token = URL_SAFE_NO_PAD.encode(header.to_string());
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(claims.to_string(), &mut token);
        let mut signature = vec![0; self.key.public_modulus_len()];
        let signed = self.key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), token.as_bytes(), &mut signature);
        signed.map_err(|_| {
            Failure::new(
                FailureKind::Auth,
                "The gateway's credentials for the upstream provider cannot be used.",
            )
            .with_detail("signing with the service account's key failed")
        })?;
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(&signature, &mut token);
        Ok(token)
    }
}

impl TokenEndpoint {
    /// Accepts an address only with TLS or on this machine, because credentials are sent to it.
    fn new(
        address: &str,
        allow_private_network: bool,
        ca_file: Option<&Path>,
    ) -> Result<Self, GoogleCredentialsError> {
        let fault = || GoogleCredentialsError::TokenUri;
        let uri: Uri = address.parse().map_err(|_| fault())?;
        let (scheme, authority) = uri.scheme_str().zip(uri.authority()).ok_or_else(fault)?;
        let is_here = matches!(authority.host(), "localhost" | "127.0.0.1" | "[::1]");
        if scheme != "https" && !is_here {
            return Err(GoogleCredentialsError::InsecureTokenUri);
        }
        let client = Client::new(&format!("{scheme}://{authority}"), allow_private_network, ca_file)
            .map_err(|_| fault())?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { client, path })
    }

    /// Posts a form; returns the status and the body.
    async fn post(&self, form: String) -> Result<(u16, Vec<u8>), Failure> {
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let call = HttpCall {
            method: Method::POST,
            path: self.path.clone(),
            headers,
            body: form.into(),
            upload: None,
        };
        let response = self.client.send(call, &TIMEOUTS).await?;
        let status = response.status;
        let body = response
            .body
            .collect(MAX_TOKEN_RESPONSE_BYTES, TIMEOUTS.idle, Instant::now() + TIMEOUTS.total)
            .await?;
        Ok((status, body.to_vec()))
    }
}

/// The failure for a refusal of the token endpoint: `{"error": "invalid_grant", "error_description": …}`. Only the
/// short name is kept, for the log.
fn refusal(status: u16, body: &[u8]) -> Failure {
    let (kind, message) = match status {
        408 | 504 => (FailureKind::Timeout, "The upstream provider timed out."),
        429 => (FailureKind::RateLimited, "The upstream provider is limiting the rate of requests."),
        503 => (FailureKind::Overloaded, "The upstream provider is overloaded."),
        500..=599 => (FailureKind::Server, "The upstream provider failed."),
        _ => (FailureKind::Auth, "The upstream provider refused the gateway's credentials."),
    };
    let is_plain = |name: &String| {
        name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let name = serde_json::from_slice::<GoogleTokenError>(body)
        .ok()
        .and_then(|refusal| refusal.error)
        .filter(is_plain);
    let name = name.as_deref().unwrap_or("no reason given");
    Failure::new(kind, message).with_detail(format_args!("token endpoint: {status} {name}"))
}

/// Encodes names and values as a form.
fn form(members: &[(&str, &str)]) -> String {
    let mut out = String::new();
    for (name, value) in members {
        if !out.is_empty() {
            out.push('&');
        }
        out.push_str(name);
        out.push('=');
        // Slashes are not encoded, which a form allows.
        out.push_str(&encoded_path(value));
    }
    out
}

impl fmt::Debug for GoogleTokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            GoogleTokenSourceKind::ServiceAccount(_) => "a service account",
            GoogleTokenSourceKind::UserLogin(_) => "a refresh token",
            GoogleTokenSourceKind::Metadata(_) => "the metadata server",
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{GoogleCredentialsError, LoadedCredentials, parse};

    pub(in crate::adapters::vertex) fn of(
        json: &serde_json::Value,
    ) -> Result<LoadedCredentials, GoogleCredentialsError> {
        parse(json.to_string().as_bytes(), true, None)
    }
}
