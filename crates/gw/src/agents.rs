//! Programs that use the gateway: `run` starts one, `setup` prints the configuration of one.

pub mod guide;
pub mod launch;
mod program;
mod snippets;
mod workplace;

use clap::Args;
use gw_command::{CommandError, Common};
use gw_config::setup::{self, Setup};
use gw_engine::catalog::Catalog;
use http::Uri;
use serde_json::Value;

use crate::admin_client;

/// The environment variable with the key of a program.
pub const KEY: &str = "MODEL_GATEWAY_KEY";

/// The options that `run` and `setup` share.
#[derive(Clone, Debug, Args)]
pub struct GatewayOptions {
    /// Address of the gateway [default: the address in the configuration]
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Model or alias that the program uses
    #[arg(long, value_name = "NAME", value_parser = model_name)]
    pub model: Option<String>,
}

/// Why the name of a model cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelNameError {
    /// The name is blank, or has a control character.
    #[error("write the id of a model, a bare name or an alias")]
    NoName,
}

fn model_name(text: &str) -> Result<String, ModelNameError> {
    let is_name = !text.trim().is_empty() && !text.chars().any(char::is_control);
    if is_name { Ok(text.to_owned()) } else { Err(ModelNameError::NoName) }
}

/// The gateway as a program reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// The address without a path, such as `http://127.0.0.1:4000`.
    pub(crate) origin: String,
    /// The model. None: the program chooses.
    pub(crate) model: Option<AgentModel>,
}

/// The model of a program, with the limits that the catalogue knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AgentModel {
    pub(crate) name: String,
    /// Tokens of prompt and answer together.
    pub(crate) context: Option<u64>,
    /// Tokens of an answer.
    pub(crate) max_output: Option<u64>,
}

impl Endpoint {
    /// The base URL of clients of OpenAI's API.
    pub(crate) fn openai_url(&self) -> String {
        format!("{}/v1", self.origin)
    }

    /// Finds the gateway. With `--url` no configuration is read; [`Endpoint::ask_limits`] asks that gateway for the limits
    /// of the model. `needs_model` chooses a model of the catalogue when no option names one.
    pub(crate) fn find(
        common: &Common,
        options: &GatewayOptions,
        needs_model: bool,
    ) -> Result<Self, CommandError> {
        if let Some(url) = &options.url {
            let model =
                options.model.clone().map(|name| AgentModel { name, context: None, max_output: None });
            return Ok(Self { origin: origin(url)?, model });
        }
        let mut setup = setup::load(common)?;
        setup.demo_if_alone();
        let catalog = setup.catalog(false).map_err(|problems| CommandError::problems(&problems))?;
        let chosen = || needs_model.then(|| setup::model_to_try(&catalog)).flatten();
        let model = options.model.clone().or_else(chosen).map(|name| known(&catalog, name));
        Ok(Self { origin: listening(&setup)?, model })
    }

    /// Asks the gateway at `--url` for the limits of the model.
    ///
    /// # Errors
    /// The reason why they stay unknown.
    pub(crate) fn ask_limits(&mut self, key: &str) -> Result<(), CommandError> {
        let origin = self.origin.as_str();
        let Some(model) = self.model.as_mut() else { return Ok(()) };
        let document = admin_client::model(origin, &model.name, key)?;
        let limit = |name: &str| document.get(name).and_then(Value::as_u64).filter(|tokens| *tokens > 0);
        model.context = limit("context_length");
        model.max_output = limit("max_output_tokens");
        Ok(())
    }
}

fn known(catalog: &Catalog, name: String) -> AgentModel {
    let resolved = catalog.resolve(&name);
    let models = resolved.as_ref().map(|resolved| resolved.models).unwrap_or_default();
    // Any of the models may answer, so the smallest limits count.
    let context = models.iter().filter_map(|model| model.context_length).min();
    let max_output = models.iter().filter_map(|model| model.max_output_tokens).min();
    AgentModel { name, context, max_output }
}

/// The address in the configuration, as a program on this machine reaches it.
fn listening(setup: &Setup) -> Result<String, CommandError> {
    let server = &setup.config.server;
    let scheme = if server.tls.is_some() { "https" } else { "http" };
    let (host, port) = server.listen.rsplit_once(':').unwrap_or((&server.listen, "4000"));
    if port == "0" {
        return Err(CommandError::Usage(
            "the configuration lets the system choose the port; write the gateway's address with --url"
                .to_owned(),
        ));
    }
    let host = match host {
        "0.0.0.0" => "127.0.0.1",
        "[::]" => "[::1]",
        other => other,
    };
    Ok(format!("{scheme}://{host}:{port}"))
}

/// The address of `--url` without its path. The path may be `/v1`, as clients of OpenAI's API write it.
fn origin(url: &str) -> Result<String, CommandError> {
    let wrong =
        |reason: &str| CommandError::Usage(format!("--url: {reason}; write it as http://127.0.0.1:4000"));
    let uri: Uri = url.parse().map_err(|_| wrong("this is not an address"))?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err(wrong("the address has no scheme or no host"));
    };
    if !matches!(scheme, "http" | "https") {
        return Err(wrong("the address does not begin with http:// or https://"));
    }
    if authority.as_str().contains('@') {
        return Err(wrong("the address holds a user or a password"));
    }
    if uri.query().is_some() || !matches!(uri.path().trim_end_matches('/'), "" | "/v1") {
        return Err(wrong("the address has a path or a query"));
    }
    Ok(format!("{scheme}://{authority}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_cut_to_its_origin() {
        for (url, expected) in [
            ("http://127.0.0.1:4000", "http://127.0.0.1:4000"),
            ("http://127.0.0.1:4000/", "http://127.0.0.1:4000"),
            ("https://gw.example/v1/", "https://gw.example"),
            ("http://[::1]:4000/v1", "http://[::1]:4000"),
        ] {
            assert_eq!(origin(url).as_deref(), Ok(expected), "{url}");
        }
        for url in [
            "",
            "gw.example",
            "ftp://x",
            "http://u:p@x",
            "http://x/other",
            "http://x/?a=1",
            "http://x y",
            "/v1",
        ] {
            let error = origin(url).unwrap_err().to_string();
            assert!(error.starts_with("--url: ") && !error.contains("u:p"), "{url}: {error}");
        }
    }

    #[test]
    fn an_address_for_every_interface_becomes_this_machine() {
        let listening = |listen: &str, has_tls: bool| {
            let mut setup = Setup {
                config: gw_config::Config::default(),
                path: None,
                notes: Vec::new(),
                documents: setup::documents(None),
            };
            setup.config.server.listen = listen.to_owned();
            setup.config.server.tls = has_tls.then(Default::default);
            listening(&setup)
        };
        assert_eq!(listening("0.0.0.0:4000", false).as_deref(), Ok("http://127.0.0.1:4000"));
        assert_eq!(listening("[::]:80", true).as_deref(), Ok("https://[::1]:80"));
        assert_eq!(listening("gw.example:443", true).as_deref(), Ok("https://gw.example:443"));
        assert!(listening("127.0.0.1:0", false).unwrap_err().to_string().contains("--url"));
    }

    #[test]
    fn a_models_name_is_one_line() {
        assert_eq!(model_name("acme/fast:floor").as_deref(), Ok("acme/fast:floor"));
        for bad in ["", "  ", "a\nb", "a\u{7f}"] {
            assert_eq!(model_name(bad), Err(ModelNameError::NoName), "{bad:?}");
        }
    }
}
