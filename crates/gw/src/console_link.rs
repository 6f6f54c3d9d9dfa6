//! Links to the console: the address at which a browser on this machine reaches it, and the file that tells it to `login`.

use std::fs::OpenOptions;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use gw_server::Listeners;

/// The file in the data directory with the address of the running gateway's console.
const ADDRESS_FILE: &str = "console-address";

/// The URL that signs in at the console of the gateway at `base`. The token stands behind the `#`, so that no server, proxy or log
/// sees it.
#[must_use]
pub fn link(base: &str, token: &str) -> String {
    format!("{}/ui/#token={token}", base.trim_end_matches('/'))
}

/// The address at which a browser on this machine reaches the console. None: the addresses of the listeners are unknown.
#[must_use]
pub fn base(listeners: &Listeners, scheme: &str) -> Option<String> {
    let listener = listeners.admin.as_ref().unwrap_or(&listeners.public);
    listener.local_addr().ok().map(|address| format!("{scheme}://{}", reached(address)))
}

/// The address under which this machine reaches a listener on every interface.
fn reached(address: SocketAddr) -> SocketAddr {
    let mut reached = address;
    if address.ip().is_unspecified() {
        reached.set_ip(if address.is_ipv4() {
            [127, 0, 0, 1].into()
        } else {
            std::net::Ipv6Addr::LOCALHOST.into()
        });
    }
    reached
}

/// Notes the address for `model-gateway login`. Without the note `login` takes the address of the configuration.
pub fn note(data: &Path, base: &str) {
    let path = file(data);
    // An older file may be open to others.
    let _ = std::fs::remove_file(&path);
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    if let Err(error) = opened.and_then(|mut file| file.write_all(base.as_bytes())) {
        tracing::debug!(%error, "the address of the console is not noted");
    }
}

/// The noted address of the gateway that runs on this data directory, or that ran last.
#[must_use]
pub fn noted(data: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file(data)).ok()?;
    let text = text.trim();
    let is_address = text.starts_with("http://") || text.starts_with("https://");
    (is_address && !text.contains(char::is_whitespace)).then(|| text.to_owned())
}

fn file(data: &Path) -> PathBuf {
    data.join(ADDRESS_FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_stands_behind_the_hash() {
        assert_eq!(link("https://gw.example/", "t0"), "https://gw.example/ui/#token=t0");
    }

    #[test]
    fn a_listener_on_every_interface_is_reached_over_the_loopback() {
        for (listens, reaches) in
            [("0.0.0.0:1", "127.0.0.1:1"), ("[::]:2", "[::1]:2"), ("192.0.2.1:3", "192.0.2.1:3")]
        {
            assert_eq!(reached(listens.parse().unwrap()).to_string(), reaches);
        }
    }

    #[test]
    fn only_an_address_is_read_from_the_note() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(noted(folder.path()), None);
        note(folder.path(), "http://127.0.0.1:4000");
        assert_eq!(noted(folder.path()).as_deref(), Some("http://127.0.0.1:4000"));
        note(folder.path(), "http://a b");
        assert_eq!(noted(folder.path()), None);
    }
}
