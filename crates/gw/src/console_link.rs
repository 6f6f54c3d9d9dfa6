//! Links to the console: the address at which a browser on this machine reaches it, and the file that tells it to `login`.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use gw_server::Listeners;
use tokio::net::TcpStream;

/// The file in the data directory with the address of the running gateway's console.
const ADDRESS_FILE: &str = "console-address";
/// The longest wait for a connection to a console.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

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
#[must_use]
pub fn reached(address: SocketAddr) -> SocketAddr {
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

/// The note of a gateway with the address of its console. It goes with the gateway, unless a later one has written its own.
#[derive(Debug)]
pub struct AddressNote {
    path: PathBuf,
    /// The open file keeps its inode, so no other file has the same.
    file: File,
}

impl Drop for AddressNote {
    fn drop(&mut self) {
        let own = self.file.metadata().map(|own| (own.dev(), own.ino()));
        let there = std::fs::symlink_metadata(&self.path).map(|there| (there.dev(), there.ino()));
        if let (Ok(own), Ok(there)) = (own, there)
            && own == there
        {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Notes the address for `model-gateway login`. Without the note `login` takes the address of the configuration.
#[must_use]
pub fn note(data: &Path, base: &str) -> Option<AddressNote> {
    let path = file(data);
    // An older file may be open to others.
    let _ = std::fs::remove_file(&path);
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let written = opened.and_then(|mut file| file.write_all(base.as_bytes()).map(|()| file));
    match written {
        Ok(file) => Some(AddressNote { path, file }),
        Err(error) => {
            tracing::debug!(%error, "the address of the console is not noted");
            None
        }
    }
}

/// Whether something listens at the address of a console, such as `http://127.0.0.1:4000`.
pub async fn answers(base: &str) -> bool {
    let host = base.split_once("://").map_or(base, |(_, host)| host);
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(host)).await;
    matches!(connected, Ok(Ok(_)))
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
        let _first = note(folder.path(), "http://127.0.0.1:4000");
        assert_eq!(noted(folder.path()).as_deref(), Some("http://127.0.0.1:4000"));
        let _second = note(folder.path(), "http://a b");
        assert_eq!(noted(folder.path()), None);
    }

    #[test]
    fn a_gateway_removes_its_own_note_and_no_later_one() {
        let folder = tempfile::tempdir().unwrap();
        let first = note(folder.path(), "http://127.0.0.1:1");
        let second = note(folder.path(), "http://127.0.0.1:2");
        drop(first);
        assert_eq!(noted(folder.path()).as_deref(), Some("http://127.0.0.1:2"));
        drop(second);
        assert_eq!(noted(folder.path()), None);
    }

    #[tokio::test]
    async fn only_a_listener_answers() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("https://{}", listener.local_addr().unwrap());
        assert!(answers(&base).await);
        // Another test may take the port of a listener that has closed.
        assert!(!answers("http://127.0.0.1:0").await);
    }
}
