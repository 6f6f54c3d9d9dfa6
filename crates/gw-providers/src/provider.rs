//! One configured account at a vendor: its address, its dialect and its keys.

mod account;
mod client_secrets;
mod credentials;
mod headers;
mod passing;
mod secret_mask;
mod secret_patterns;
mod sockets;
mod unescaped;

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use gw_wire::failure::Failure;
use gw_wire::request::AllowedMembers;
use gw_wire::request::references::host_of;

pub use self::client_secrets::ClientSecrets;
use self::credentials::Credentials;
pub use self::credentials::KeyState;
pub(crate) use self::headers::USER_AGENT_VALUE;
use self::headers::{Header, configured_headers};
pub use self::passing::PassedCall;
pub use self::secret_mask::SecretMask;
use self::secret_patterns::SecretPatterns;
use crate::adapter::{Adapter, HttpCall, Signer};
use crate::client::{Client, UpstreamBody, UpstreamResponse, head_timeout};
use crate::demo::Demo;
use crate::in_process::{InProcess, InProcessResponse};
use crate::media_sizes::MediaSizes;
use crate::seal::{Issuer, Sealer};
use crate::settings::{Api, PromptCacheSettings, ProviderError, ProviderSettings, SettingsError, Timeouts};
use crate::surfaces::Surfaces;
use crate::{presets, registry};

/// A provider that is ready to be called.
pub struct Provider {
    name: Arc<str>,
    api: Api,
    adapter: Box<dyn Adapter>,
    surfaces: Surfaces,
    transport: Transport,
    /// Gets the calls whose path begins with `//`. None: the provider has one host.
    second_service: Option<Box<Client>>,
    credentials: Credentials,
    /// The secrets that may not stand in errors, made for the first error.
    error_secrets: OnceLock<Option<Arc<SecretPatterns>>>,
    /// The secrets that are masked in answers, made for the first answer that passes through.
    body_secrets: OnceLock<Option<Arc<SecretPatterns>>>,
    /// Replaces the keys.
    signer: Option<Arc<dyn Signer>>,
    /// Configured headers, which every request carries.
    headers: Vec<Header>,
    /// A hash of the configuration.
    identity: u64,
    /// Seals the reasoning of its answers.
    issuer: Issuer,
    timeouts: Timeouts,
    embedding_batch: usize,
    /// Clients may name files that are stored at the provider.
    file_ids: bool,
    /// Guarded members of requests that may be sent to this provider.
    allowed: AllowedMembers,
    /// Beta features of the Messages API that clients may not ask for.
    denied_betas: Vec<String>,
    prompt_cache: Option<PromptCacheSettings>,
    /// The host of the provider's address.
    host: Option<String>,
}

/// The way of a call: over the network, or to an upstream in this process.
enum Transport {
    Http(Box<Client>),
    Demo(Demo),
    InProcess(Arc<dyn InProcess>),
}

impl Provider {
    /// Checks the settings and makes the provider. Opens no connection and reads no root certificates yet.
    ///
    /// # Errors
    /// The settings are wrong. The message holds no secret.
    pub fn build(settings: &ProviderSettings, defaults: Timeouts) -> Result<Self, ProviderError> {
        Self::assemble(settings, defaults, |base_url| transport(settings, base_url))
    }

    /// As [`Provider::build`], with an upstream in this process in place of the network.
    ///
    /// # Errors
    /// As [`Provider::build`].
    pub fn in_process(
        settings: &ProviderSettings,
        defaults: Timeouts,
        upstream: Arc<dyn InProcess>,
    ) -> Result<Self, ProviderError> {
        Self::assemble(settings, defaults, |_| Ok(Transport::InProcess(upstream)))
    }

    fn assemble(
        settings: &ProviderSettings,
        defaults: Timeouts,
        transport: impl FnOnce(Option<&str>) -> Result<Transport, SettingsError>,
    ) -> Result<Self, ProviderError> {
        let in_provider = |fault| ProviderError { provider: settings.name.clone(), fault };
        let built = registry::build(settings).map_err(in_provider)?;
        let transport = transport(built.base_url.as_deref()).map_err(in_provider)?;
        let second_service = match (&transport, built.second_url) {
            (Transport::Http(_), Some(url)) => Some(Box::new(client(settings, url).map_err(in_provider)?)),
            _ => None,
        };
        let credentials =
            Credentials::new(&settings.api_keys, built.adapter.traits().scheme).map_err(in_provider)?;
        let headers = configured_headers(settings).map_err(in_provider)?;
        let base_url = match &transport {
            Transport::Http(client) => client.url("/"),
            Transport::Demo(_) | Transport::InProcess(_) => settings.base_url.clone().unwrap_or_default(),
        };
        let name: Arc<str> = settings.name.as_str().into();
        let account = account::fingerprint(settings, &base_url);
        Ok(Self {
            issuer: Issuer::new(Sealer::random(), Arc::clone(&name), account),
            name,
            api: settings.api,
            adapter: built.adapter,
            surfaces: built.surfaces,
            identity: identity(settings, &transport, &headers),
            file_ids: settings.file_ids,
            allowed: settings.allowed_members(),
            denied_betas: settings.deny_betas.clone(),
            prompt_cache: settings.prompt_cache,
            host: match &transport {
                Transport::Http(client) => host_of(&client.url("/")),
                Transport::Demo(_) | Transport::InProcess(_) => None,
            },
            transport,
            second_service,
            credentials,
            error_secrets: OnceLock::new(),
            body_secrets: OnceLock::new(),
            signer: built.signer,
            headers,
            timeouts: settings.timeouts.over(defaults),
            embedding_batch: settings
                .embedding_batch
                .unwrap_or_else(|| presets::embedding_batch(settings))
                .max(1),
        })
    }

    /// The provider with this sealer. A new provider has one whose key ends with the process.
    #[must_use]
    pub fn with_sealer(self, sealer: Sealer) -> Self {
        Self { issuer: self.issuer.with_sealer(sealer), ..self }
    }

    /// The provider's account, which seals the reasoning of its answers.
    #[must_use]
    pub fn issuer(&self) -> &Issuer {
        &self.issuer
    }

    /// The `<provider>` of the provider's model ids.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The API of the provider.
    #[must_use]
    pub fn api(&self) -> Api {
        self.api
    }

    /// The dialect of the provider.
    #[must_use]
    pub fn adapter(&self) -> &dyn Adapter {
        &*self.adapter
    }

    /// The one-shot surfaces of the provider, beside embeddings.
    #[must_use]
    pub fn surfaces(&self) -> &Surfaces {
        &self.surfaces
    }

    /// Forgets what the provider's answers taught, because the configuration is read again.
    pub fn forget_learned(&self) {
        self.adapter.forget_learned();
        self.surfaces.forget_learned();
    }

    /// The tokens that a model bills for media, by the model's name at the provider and its catalogue id.
    #[must_use]
    pub fn media_sizes(&self, upstream_model: &str, id: &str) -> MediaSizes {
        self.adapter.media_sizes(upstream_model, id)
    }

    /// A hash of the configuration: API, address, headers and options (deployments, context size and so on). It is not
    /// a secret. It is not stable: another build may compute another number.
    #[must_use]
    pub fn identity(&self) -> u64 {
        self.identity
    }

    /// Breakpoints of prompt caches.
    #[must_use]
    pub fn prompt_cache(&self) -> Option<&PromptCacheSettings> {
        self.prompt_cache.as_ref()
    }

    /// The timeouts: the defaults with the provider's own values over them.
    #[must_use]
    pub fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    /// The most inputs of one embeddings call.
    #[must_use]
    pub fn embedding_batch(&self) -> usize {
        self.embedding_batch
    }

    /// Whether clients may name files that are stored at the provider or addresses in its network.
    #[must_use]
    pub fn takes_references(&self) -> bool {
        self.file_ids
    }

    /// The guarded members, tools and parts of requests that may be sent to the provider.
    #[must_use]
    pub fn allowed(&self) -> &AllowedMembers {
        &self.allowed
    }

    /// Beta features of the Messages API that clients may not ask for.
    #[must_use]
    pub fn denied_betas(&self) -> &[String] {
        &self.denied_betas
    }

    /// Whether this member, which has a [`gw_wire::request::Rule`], may be sent to the provider.
    #[must_use]
    pub fn takes_member(&self, name: &str) -> bool {
        self.allowed.has(name)
    }

    /// Whether the dialect can forward this member, which has a [`gw_wire::request::Rule`].
    #[must_use]
    pub fn forwards_member(&self, name: &str) -> bool {
        self.api.guarded_members.is_none_or(|names| names.contains(&name))
    }

    /// Whether the provider's answers report the web searches that a chat with `web_search_options` made.
    #[must_use]
    pub fn counts_searches(&self) -> bool {
        self.api.counts_searches
    }

    /// The host of the provider's address, in lower case.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// Sends a call with this provider's credentials and waits for the response head. The wait after connecting is at
    /// most `clocks.first_token`. A response with any status is a success.
    ///
    /// # Errors
    /// `Unreachable`, `Timeout` or `InvalidResponse` when no head arrived. `NoKey` when nothing was sent.
    pub async fn send(&self, mut call: HttpCall, clocks: &Timeouts) -> Result<UpstreamResponse, Failure> {
        match &self.transport {
            Transport::Http(client) => {
                let client = self.second_service_of(&mut call).unwrap_or(client);
                let key = self.complete(&mut call.headers)?;
                if let Some(signer) = &self.signer {
                    let url = client.url(&call.path);
                    signer.sign(&mut call, &url).await?;
                }
                let mut response = client.send(call, clocks).await?;
                response.key = key;
                Ok(response)
            }
            Transport::Demo(demo) => {
                let Ok(answer) = tokio::time::timeout(clocks.first_token, demo.send(call)).await else {
                    return Err(head_timeout());
                };
                let body = UpstreamBody::in_process(Box::new(answer.body));
                Ok(UpstreamResponse { status: answer.status, headers: answer.headers, body, key: None })
            }
            Transport::InProcess(upstream) => {
                let key = self.complete(&mut call.headers)?;
                let Ok(answer) = tokio::time::timeout(clocks.first_token, upstream.send(call)).await else {
                    return Err(head_timeout().after_sending());
                };
                let InProcessResponse { status, headers, body } = answer?;
                Ok(UpstreamResponse { status, headers, body: UpstreamBody::in_process(body), key })
            }
        }
    }

    /// The second service, if the call goes there. The path of the call then is the path at that service.
    fn second_service_of(&self, call: &mut HttpCall) -> Option<&Client> {
        let second = self.second_service.as_deref()?;
        let path = call.path.strip_prefix('/').filter(|path| path.starts_with('/'))?;
        call.path = path.to_owned();
        Some(second)
    }

    /// Records whether the provider accepted the key or the token of a call.
    pub fn record_outcome(&self, key: Option<usize>, outcome: Result<(), &Failure>) {
        if let (Some(signer), Err(failure)) = (&self.signer, outcome)
            && failure.status == Some(401)
        {
            signer.refused();
        }
        let Some(key) = key else { return };
        match outcome {
            Ok(()) => self.credentials.record_success(key),
            Err(failure) => {
                if self.credentials.record_failure(key, failure) {
                    let number = key + 1;
                    tracing::warn!(provider = %self.name, key = number, status = failure.status, "a key was refused and is set aside");
                }
            }
        }
    }

    /// Whether a call that failed because of its key may be tried with another key.
    #[must_use]
    pub fn has_other_key(&self) -> bool {
        self.credentials.has_other()
    }

    /// The number of its keys.
    #[must_use]
    pub fn key_count(&self) -> usize {
        self.credentials.count()
    }

    /// The state of each key, in the order of the configuration, with the time until the key is used again.
    #[must_use]
    pub fn keys(&self) -> Vec<(KeyState, Option<Duration>)> {
        self.credentials.states()
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider")
            .field("name", &self.name)
            .field("credentials", &self.credentials)
            .finish_non_exhaustive()
    }
}

fn identity(settings: &ProviderSettings, transport: &Transport, headers: &[Header]) -> u64 {
    let mut hasher = DefaultHasher::new();
    settings.api.as_str().hash(&mut hasher);
    settings.options.to_string().hash(&mut hasher);
    if let Transport::Http(client) = transport {
        client.url("/").hash(&mut hasher);
    }
    for (name, value) in headers {
        (name.as_str(), value.as_bytes()).hash(&mut hasher);
    }
    // These settings also decide which members of a request are sent.
    for (setting, names) in [("allow", &settings.allow_members), ("deny", &settings.deny_betas)] {
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        names.sort_unstable();
        if !names.is_empty() {
            (setting, names).hash(&mut hasher);
        }
    }
    hasher.finish()
}

fn transport(settings: &ProviderSettings, made: Option<&str>) -> Result<Transport, SettingsError> {
    if settings.api.is_demo {
        return Ok(Transport::Demo(Demo::new()));
    }
    let base_url = settings.base_url.as_deref().or(made).or_else(|| presets::base_url(settings));
    let base_url = base_url.ok_or_else(|| SettingsError::NoAddress(settings.name.clone()))?;
    Ok(Transport::Http(Box::new(client(settings, base_url)?)))
}

fn client(settings: &ProviderSettings, url: &str) -> Result<Client, SettingsError> {
    let ca_file = match settings.options.get("ca_file") {
        None => None,
        Some(toml::Value::String(path)) => Some(PathBuf::from(path)),
        Some(_) => return Err(SettingsError::Option { name: "ca_file", expected: "a path" }),
    };
    let client = Client::new(url, settings.allow_private_network, ca_file.as_deref())?;
    Ok(if settings.allow_plain_http { client } else { client.without_public_plain_http() })
}
