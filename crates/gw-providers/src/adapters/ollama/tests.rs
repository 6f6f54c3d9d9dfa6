//! Ollama's dialect against its fixtures, and its errors.

mod answers;
mod requests;
mod streams;

use crate::adapter::Adapter;
use crate::settings::{Api, ProviderSettings, SettingsError, TimeoutOverrides};

/// An adapter with this limit of `num_ctx`.
fn server(num_ctx_max: Option<i64>) -> Result<Box<dyn Adapter>, SettingsError> {
    allowing(num_ctx_max, &["keep_alive"])
}

/// Like [`server`], but clients may send these members.
fn allowing(num_ctx_max: Option<i64>, members: &[&str]) -> Result<Box<dyn Adapter>, SettingsError> {
    let options = num_ctx_max.map(|most| ("num_ctx_max".to_owned(), toml::Value::Integer(most)));
    let built = super::build(&ProviderSettings {
        name: "ollama".to_owned(),
        api: Api::OLLAMA,
        base_url: None,
        api_keys: Vec::new(),
        headers: Vec::new(),
        price_multiplier: gw_wire::money::Price::default(),
        discover: false,
        timeouts: TimeoutOverrides::default(),
        embedding_batch: None,
        allow_private_network: true,
        allow_plain_http: false,
        file_ids: false,
        allow_members: members.iter().map(|&name| name.to_owned()).collect(),
        deny_betas: Vec::new(),
        prompt_cache: None,
        options: options.into_iter().collect(),
    })?;
    Ok(built.adapter)
}

fn adapter() -> Box<dyn Adapter> {
    server(None).unwrap()
}
