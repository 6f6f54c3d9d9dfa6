//! Ollama's dialect against its fixtures, and its errors.

mod answers;
mod requests;
mod streams;

use crate::adapter::Adapter;
use crate::settings::{Api, ProviderSettings, SettingsError};

/// An adapter with this limit of `num_ctx`.
fn server(num_ctx_max: Option<i64>) -> Result<Box<dyn Adapter>, SettingsError> {
    allowing(num_ctx_max, &["keep_alive"])
}

/// Like [`server`], but clients may send these members.
fn allowing(num_ctx_max: Option<i64>, members: &[&str]) -> Result<Box<dyn Adapter>, SettingsError> {
    let options = num_ctx_max.map(|most| ("num_ctx_max".to_owned(), toml::Value::Integer(most)));
    let built = super::build(&ProviderSettings {
        allow_members: members.iter().map(|&name| name.to_owned()).collect(),
        options: options.into_iter().collect(),
        ..ProviderSettings::plain("ollama", Api::OLLAMA)
    })?;
    Ok(built.adapter)
}

fn adapter() -> Box<dyn Adapter> {
    server(None).unwrap()
}
