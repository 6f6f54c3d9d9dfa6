//! What a person writes about the HTTP edge: `[server]` of gateway.toml.

use std::path::PathBuf;
use std::time::Duration;

/// `[server]`, checked by the configuration loader.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// `host:port` of the listener.
    pub listen: String,
    /// A listener of its own for everything but /v1 and the probes.
    pub admin_listen: Option<String>,
    /// Bytes of a request body, before and after decompression.
    pub body_limit: usize,
    /// Open client connections.
    pub max_connections: usize,
    /// Requests being answered; beyond it 503 at once.
    pub max_in_flight: usize,
    /// A generation request that would wait longer for its turn is refused with 503; zero = never.
    pub shed_after: Duration,
    /// SSE comments while an upstream is silent; None = off.
    pub keepalive: Option<Duration>,
    /// Request head; also from accept to the first byte.
    pub head_timeout: Duration,
    /// Without progress in the body.
    pub body_timeout: Duration,
    /// A kept-alive connection between two requests.
    pub idle_timeout: Duration,
    /// A client that reads nothing of what is ready for it.
    pub write_stall: Duration,
    /// Grace for live streams on SIGTERM.
    pub drain: Duration,
    /// How long a draining gateway still accepts, so that load balancers can see /readyz turn.
    pub drain_delay: Duration,
    /// Origins of web pages that may read /v1; `*` = any.
    pub cors_origins: Vec<String>,
    /// Origins of web pages that may read the management API and the metrics; never `*`.
    pub admin_cors_origins: Vec<String>,
    /// Certificate and key files (PEM).
    pub tls: Option<(PathBuf, PathBuf)>,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:4000".to_owned(),
            admin_listen: None,
            body_limit: 32 << 20,
            max_connections: 65_536,
            max_in_flight: 4_096,
            shed_after: Duration::from_millis(20),
            keepalive: Some(Duration::from_secs(15)),
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(75),
            write_stall: Duration::from_secs(60),
            drain: Duration::from_secs(30),
            drain_delay: Duration::ZERO,
            cors_origins: vec!["*".to_owned()],
            admin_cors_origins: Vec::new(),
            tls: None,
        }
    }
}
