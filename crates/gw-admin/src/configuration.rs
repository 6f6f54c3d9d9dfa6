//! The configuration as the management API shows it.

use bytes::Bytes;
use gw_engine::Engine;

/// `GET /admin/v1/config`: the settings in force, with masked secrets.
#[must_use]
pub fn show(engine: &Engine) -> Bytes {
    let shown = engine.shown_settings();
    let shown = if shown.is_empty() { "{}" } else { shown };
    Bytes::from(format!("{{\"object\":\"config\",\"settings\":{shown}}}"))
}
