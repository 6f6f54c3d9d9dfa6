//! One `[[alerts]]` entry.

use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

/// Where PagerDuty takes events.
const PAGERDUTY: &str = "https://events.pagerduty.com/v2/enqueue";

/// The format of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AlertFormat {
    /// The event as JSON, signed as Standard Webhooks say.
    #[default]
    Json,
    /// A message of a Slack webhook.
    Slack,
    /// An adaptive card for Microsoft Teams.
    Teams,
    /// An event of PagerDuty's Events API v2.
    PagerDuty,
}

impl AlertFormat {
    /// The name in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Slack => "slack",
            Self::Teams => "teams",
            Self::PagerDuty => "pagerduty",
        }
    }
}

/// An alert: its events, and where they are sent.
#[derive(Clone, Debug)]
pub struct AlertSettings {
    /// Its name.
    pub name: String,
    /// The events, such as `budget:0.8`.
    pub on: Vec<String>,
    /// Where messages are sent. None: PagerDuty's own address.
    pub url: Option<SecretString>,
    /// The format of messages.
    pub format: AlertFormat,
    /// The key of the signature: `whsec_` and base64.
    pub secret: Option<SecretString>,
    /// The integration key of PagerDuty.
    pub routing_key: Option<SecretString>,
    /// How long the receiver may take for its answer.
    pub timeout: Duration,
    /// Whether the URL may lead to private and loopback addresses.
    pub allow_private_network: bool,
}

impl Default for AlertSettings {
    fn default() -> Self {
        Self {
            name: String::new(),
            on: Vec::new(),
            url: None,
            format: AlertFormat::default(),
            secret: None,
            routing_key: None,
            timeout: Duration::from_secs(5),
            allow_private_network: true,
        }
    }
}

impl AlertSettings {
    /// The URL that gets the messages.
    pub(crate) fn target(&self) -> &str {
        self.url.as_ref().map_or(PAGERDUTY, |url| url.expose_secret())
    }
}

/// The scheme and the host of a URL. Everything else of it may be a secret.
pub(crate) fn origin(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let rest = url.get(start..).unwrap_or_default();
    let end = rest.find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    url.get(..end).unwrap_or_default()
}

/// The path of a URL with its query.
pub(crate) fn path(url: &str) -> String {
    let rest = url.get(origin(url).len()..).unwrap_or_default();
    let rest = rest.split('#').next().unwrap_or_default();
    if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") }
}

#[cfg(test)]
mod tests {
    use super::{origin, path};

    #[test]
    fn a_url_is_an_origin_and_a_path() {
        for (url, first, rest) in [
            ("https://h.example/a/b?c=d", "https://h.example", "/a/b?c=d"),
            ("http://[::1]:9", "http://[::1]:9", "/"),
            ("https://h?c=/d", "https://h", "/?c=/d"),
            ("https://h/a#b", "https://h", "/a"),
        ] {
            assert_eq!((origin(url), &*path(url)), (first, rest), "{url}");
        }
    }
}
