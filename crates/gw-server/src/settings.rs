//! The settings of the HTTP server: `[server]` of gateway.toml.

use std::path::PathBuf;
use std::time::Duration;

use crate::client_address::TrustedProxies;
use crate::tls::TlsSettings;

/// `[server]`, after the checks of the configuration loader.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// The address of the listener, `host:port`.
    pub listen: String,
    /// The address of a second listener, for everything except `/v1` and the probes.
    pub admin_listen: Option<String>,
    /// The most bytes of a request body, before and after decompression.
    pub body_limit: usize,
    /// The most bytes of a body that is sent upstream as it comes.
    pub upload_limit: usize,
    /// The directory of files that clients upload, while they are sent on.
    pub spool_directory: PathBuf,
    /// The most bytes of all request bodies over 64 KiB together. None: [`ServerSettings::usual_body_memory`].
    pub body_memory: Option<usize>,
    /// The most open connections of each listener. Further ones are refused at once.
    pub max_connections: usize,
    /// The most requests in flight. Further requests get 503 at once. Those that wait for a worker do not count.
    pub max_in_flight: usize,
    /// A generation request that has waited longer for its worker gets 503. Zero = never.
    pub shed_after: Duration,
    /// The time between two SSE comments while an upstream is silent; None = no comments.
    pub keepalive: Option<Duration>,
    /// The longest time for a request head, and from accept to the first byte.
    pub head_timeout: Duration,
    /// The longest pause between two pieces of a request body.
    pub body_timeout: Duration,
    /// The most open WebSockets. A key may have half of the places that other keys leave.
    pub max_sockets: usize,
    /// The longest time that a WebSocket may have no turn.
    pub socket_idle: Duration,
    /// The longest time of a realtime session.
    pub realtime_session: Duration,
    /// The longest pause between two requests of a kept connection.
    pub idle_timeout: Duration,
    /// The longest time that a client may read nothing while bytes wait for it.
    pub send_timeout: Duration,
    /// The longest time for live streams to finish after SIGTERM.
    pub drain: Duration,
    /// How long the gateway serves normally after SIGTERM, so that load balancers see `/readyz` change first.
    pub drain_delay: Duration,
    /// Origins of web pages that may call `/v1`; `*` = any.
    pub cors_origins: Vec<String>,
    /// Origins of web pages that may call the management API and the metrics; never `*`.
    pub admin_cors_origins: Vec<String>,
    /// Further origins at which browsers reach the console.
    pub console_origins: Vec<String>,
    /// The origin at which browsers reach the gateway (`identity.public_url`).
    pub public_url: Option<String>,
    /// The certificate files. None: no TLS.
    pub tls: Option<TlsSettings>,
    /// The proxies that may tell the address of their clients.
    pub trusted_proxies: TrustedProxies,
    /// Connections of trusted proxies begin with a header of the PROXY protocol.
    pub proxy_protocol: bool,
    /// The most open connections of one client address. None: no limit. Trusted proxies have none.
    pub max_connections_per_address: Option<u32>,
    /// The most requests without a correct key of one client address in a minute; further ones get 429. None: no limit.
    pub bad_keys_per_minute: Option<u32>,
}

/// The least memory of all large request bodies together if no setting names it, in bytes.
const MIN_BODY_MEMORY_BYTES: usize = 192 << 20;
/// The bodies of the largest size that fit into that memory at least.
const MIN_LARGE_BODIES: usize = 4;

impl ServerSettings {
    /// The memory of all request bodies over 64 KiB together where memory is plentiful, in bytes.
    #[must_use]
    pub fn usual_body_memory(&self) -> usize {
        MIN_BODY_MEMORY_BYTES.max(self.body_limit.saturating_mul(MIN_LARGE_BODIES))
    }
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:4000".to_owned(),
            admin_listen: None,
            body_limit: 32 << 20,
            upload_limit: 512 << 20,
            spool_directory: std::env::temp_dir(),
            body_memory: None,
            max_connections: 65_536,
            max_in_flight: 4_096,
            shed_after: Duration::from_millis(1_000),
            keepalive: Some(Duration::from_secs(15)),
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            max_sockets: 8_192,
            socket_idle: Duration::from_secs(600),
            realtime_session: Duration::from_secs(3_600),
            idle_timeout: Duration::from_secs(75),
            send_timeout: Duration::from_secs(60),
            drain: Duration::from_secs(30),
            drain_delay: Duration::ZERO,
            cors_origins: vec!["*".to_owned()],
            admin_cors_origins: Vec::new(),
            console_origins: Vec::new(),
            public_url: None,
            tls: None,
            trusted_proxies: TrustedProxies::default(),
            proxy_protocol: false,
            max_connections_per_address: None,
            bad_keys_per_minute: Some(1000),
        }
    }
}
