//! The configuration as the management API shows it.

use bytes::Bytes;
use gw_engine::Engine;

/// `GET /admin/v1/config`: the settings in force, with masked secrets.
#[must_use]
pub fn show_configuration(engine: &Engine) -> Bytes {
    let settings = engine.shown_settings();
    let settings = if settings.is_empty() { "{}" } else { settings };
    Bytes::from(format!("{{\"object\":\"config\",\"settings\":{settings}}}"))
}
