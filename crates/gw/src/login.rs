//! `model-gateway login`: prints a link that signs a browser in at the console, and opens it.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use clap::Args;
use gw_command::{CommandError, Common, print, runtime};
use gw_config::{paths, setup};
use gw_engine::settings::{KeySettings, Role};
use gw_store::sign_in_links::NewLink;
use gw_store::{Store, StoredKey};
use secrecy::ExposeSecret;
use serde::Deserialize;

use crate::admin_client::{self, AdminTarget};
use crate::reload_command::own_address;
use crate::{console_link, store};

/// The options of `login`.
#[derive(Debug, Args)]
pub struct LoginArgs {
    #[command(flatten)]
    target: AdminTarget,
    /// Print the link only, and open no browser
    #[arg(long)]
    no_open: bool,
}

/// Prints a link, and opens it where a person sits at a screen.
///
/// # Errors
/// Exit code 2 when there is no admin key or the gateway refuses it, 1 when the store or the gateway does not answer.
pub fn run(common: &Common, args: &LoginArgs) -> Result<(), CommandError> {
    let link = match &args.target.url {
        Some(url) => over_http(url)?,
        None => runtime()?.block_on(Box::pin(from_store(common)))?,
    };
    print(&format!("{link}\n\nThe link signs in once, within 15 minutes.\n"))?;
    if !args.no_open && io::stdout().is_terminal() && has_screen() {
        open(&link);
    }
    Ok(())
}

/// A link for the admin key in the environment, which the gateway at this address makes.
fn over_http(url: &str) -> Result<String, CommandError> {
    #[derive(Deserialize)]
    struct Made {
        token: String,
    }
    let answer = admin_client::make_link(url)?;
    let made: Made = serde_json::from_slice(&answer)
        .map_err(|_| CommandError::Runtime(format!("{url}: the answer is not a gateway's")))?;
    Ok(console_link::link(url, &made.token))
}

/// A link for an admin key of this store. Whoever can write the store could make a key as well.
async fn from_store(common: &Common) -> Result<String, CommandError> {
    let setup = setup::load(common)?;
    let data = paths::data_dir(setup.config.data_dir.as_deref()).map_err(CommandError::runtime)?;
    let base = match &setup.config.identity.public_url {
        Some(url) => url.clone(),
        None => own_base(common, &data).await?,
    };
    let store = store::open_shared(&setup).await?;
    let made = make(&store, &setup.config.engine.keys).await;
    store.close().await;
    Ok(console_link::link(&base, &made?))
}

/// The address of the console on this machine: the one that the newest gateway has noted, or that of the configuration. A gateway
/// that was killed leaves its note behind, and the newest gateway of a data directory may have ended before an older one.
async fn own_base(common: &Common, data: &Path) -> Result<String, CommandError> {
    let configured = own_address(common)?;
    let noted = console_link::noted(data);
    for base in noted.iter().chain([&configured]) {
        if console_link::answers(base).await {
            return Ok(base.clone());
        }
    }
    let base = noted.unwrap_or(configured);
    let _ = writeln!(
        io::stderr(),
        "model-gateway: no gateway answers at {base}; start it before you open the link, or name the address of the \
         running one with --url URL"
    );
    Ok(base)
}

async fn make(store: &Store, configured: &[KeySettings]) -> Result<String, CommandError> {
    let now = gw_wire::calendar::unix_seconds();
    let stored = store.keys().await.map_err(CommandError::runtime)?;
    let (hash, id) = admin_key(configured, &stored, now).ok_or_else(|| {
        CommandError::Usage(
            "there is no admin key; make one with 'model-gateway keys create --name admin --role admin'"
                .to_owned(),
        )
    })?;
    let link = NewLink::generate(hash, now).map_err(CommandError::runtime)?;
    let record = admin_client::this_user().record("sign_in_link.create", &id);
    store.record_change(&record).await.map_err(CommandError::runtime)?;
    store.insert_link(&link).await.map_err(CommandError::runtime)?;
    Ok(link.token.expose_secret().to_owned())
}

/// The digest and the id of an admin key that can be used now: of the configuration, or the oldest of the store.
fn admin_key(configured: &[KeySettings], stored: &[StoredKey], now: i64) -> Option<([u8; 32], String)> {
    let lives = |end: Option<i64>| end.is_none_or(|end| end > now);
    let mut configured = configured.iter().filter(|key| key.role == Role::Admin && lives(key.expires_at));
    let mut stored = stored
        .iter()
        .filter(|key| key.role == Role::Admin && key.revoked_at.is_none() && lives(key.expires_at));
    let of_configuration = configured.next().map(|key| {
        (gw_store::keys::hash(key.key.expose_secret()), gw_engine::auth::configured_id(&key.name))
    });
    of_configuration.or_else(|| stored.next().map(|key| (key.hash, key.id.clone())))
}

/// Whether this session has a screen on which a browser can open.
fn has_screen() -> bool {
    cfg!(target_os = "macos")
        || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| paths::variable(name).is_some())
}

/// Opens a link with the system's browser. The link is printed, so a failure needs no message.
fn open(link: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let none = Stdio::null;
    let _ = Command::new(program).arg(link).stdin(none()).stdout(none()).stderr(none()).spawn();
}

#[cfg(test)]
mod tests {
    use gw_store::NewKey;

    use super::*;

    #[test]
    fn the_link_is_of_an_admin_key_that_can_be_used() {
        let key = |role, edit: fn(&mut StoredKey)| {
            let mut key = NewKey::generate().unwrap().stored("k", role, 1);
            edit(&mut key);
            key
        };
        let good = key(Role::Admin, |_| {});
        let stored = [
            key(Role::Operator, |_| {}),
            key(Role::Admin, |key| key.revoked_at = Some(5)),
            key(Role::Admin, |key| key.expires_at = Some(10)),
            good.clone(),
        ];
        assert_eq!(admin_key(&[], &stored, 10), Some((good.hash, good.id)));
        assert_eq!(admin_key(&[], &stored[..3], 10), None);
    }
}
