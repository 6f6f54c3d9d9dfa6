//! The keys of the first start. They are created once and shown once.

use std::net::SocketAddr;
use std::path::Path;

use gw_store::audit::{Actor, AuditRecord};
use gw_store::sign_in_links::NewLink;
use gw_store::{NewKey, Role, Store, StoredKey};
use secrecy::ExposeSecret;

use crate::console_link;

/// The new keys.
#[derive(Debug)]
pub struct FirstKeys {
    admin: NewKey,
    /// None: the store already has inference keys.
    inference: Option<NewKey>,
}

/// Creates an admin key and an inference key when neither the configuration nor the store has a key. Creates only an admin key
/// when the store has inference keys alone (`keys create` before the first start). When several programs start on one store at
/// once, one of them creates the keys.
///
/// # Errors
/// When the store cannot keep the keys.
pub async fn create_keys(
    store: &Store,
    has_configured_keys: bool,
    now: i64,
) -> gw_store::Result<Option<FirstKeys>> {
    if has_configured_keys {
        return Ok(None);
    }
    let (admin, inference) = (NewKey::generate()?, NewKey::generate()?);
    let stored =
        [admin.stored("admin", Role::Admin, now), inference.stored("inference", Role::Inference, now)];
    let kept = store.insert_first_keys(&stored).await?;
    for key in stored.iter().filter(|key| kept.contains(&key.id)) {
        let after = serde_json::json!({ "id": key.id, "name": key.name, "role": key.role.as_str() });
        let (actor, object) = (Actor::gateway(), key.id.clone());
        let at = now.saturating_mul(1000);
        let after = Some(after.to_string());
        let record = AuditRecord { at, actor, action: "key.create", object, before: None, after };
        store.record_change(&record).await?;
    }
    let is_kept = |key: &NewKey| kept.iter().any(|id| id == key.id());
    Ok(is_kept(&admin).then(|| FirstKeys { inference: Some(inference).filter(|key| is_kept(key)), admin }))
}

/// Whether one of these keys is neither revoked nor expired.
#[must_use]
pub fn any_usable(keys: &[StoredKey], now: i64) -> bool {
    keys.iter().any(|key| key.revoked_at.is_none() && key.expires_at.is_none_or(|at| at > now))
}

/// The begin of a `curl` command up to the origin of the API. `certificate` is the file of the gateway's certificate, which the
/// system may not trust; None: the gateway speaks plain HTTP.
#[must_use]
pub fn curl(address: SocketAddr, certificate: Option<&Path>) -> String {
    let address = console_link::reached(address);
    match certificate {
        Some(file) => format!("curl --cacert '{}' https://{address}", in_quotes(&file.to_string_lossy())),
        None => format!("curl http://{address}"),
    }
}

/// A text between single quotes of a shell. A quote in it must not end the string.
fn in_quotes(text: &str) -> String {
    text.replace('\'', "'\\''")
}

impl FirstKeys {
    /// A link that signs in as the holder of the admin key.
    ///
    /// # Errors
    /// When the store cannot keep the link.
    pub async fn link(&self, store: &Store, base: &str, now: i64) -> gw_store::Result<String> {
        let link = NewLink::generate(gw_store::keys::hash(self.admin.expose()), now)?;
        store.insert_link(&link).await?;
        Ok(console_link::link(base, link.token.expose_secret()))
    }

    /// The text that shows the keys, where their hashes are kept, the link to the console, and a command to try, which begins with
    /// `curl`.
    #[must_use]
    pub fn welcome(&self, curl: &str, kept_in: &str, model: Option<&str>, link: Option<&str>) -> String {
        let mut text = match &self.inference {
            Some(inference) => format!(
                "\nFirst start: created two keys. They are shown only now; the gateway keeps their hashes in \
                 {kept_in}.\n\n  admin      {}\n  inference  {}\n",
                self.admin.expose(),
                inference.expose()
            ),
            None => format!(
                "\nFirst start: created an admin key, because the store has only inference keys. It is shown only now; the \
                 gateway keeps its hash in {kept_in}.\n\n  admin      {}\n",
                self.admin.expose()
            ),
        };
        if let Some(link) = link {
            text += &format!(
                "\nOpen the console (the link signs in once, within 15 minutes; 'model-gateway login' makes another):\n\n  {link}\n"
            );
        }
        let Some(model) = model else { return text };
        // The name of a model comes from a file, so a quote in it must not end the string of the shell or the JSON.
        let model = in_quotes(&serde_json::Value::from(model).to_string());
        let body =
            format!("{{\"model\":{model},\"messages\":[{{\"role\":\"user\",\"content\":\"Hello\"}}]}}");
        let key = self.inference.as_ref().unwrap_or(&self.admin);
        text += &format!(
            "\nTry it:\n\n  {curl}/v1/chat/completions \\\n    \
             -H 'Authorization: Bearer {}' \\\n    -H 'Content-Type: application/json' \\\n    -d '{body}'\n\n",
            key.expose()
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn store(directory: &tempfile::TempDir) -> Store {
        Store::open(&directory.path().join("gateway.db")).await.unwrap()
    }

    #[tokio::test]
    async fn the_second_start_creates_no_keys() {
        let directory = tempfile::tempdir().unwrap();
        let first = create_keys(&store(&directory).await, false, 1).await.unwrap().unwrap();
        assert!(create_keys(&store(&directory).await, false, 2).await.unwrap().is_none());
        let kept = store(&directory).await.keys().await.unwrap();
        let ids: Vec<_> = kept.iter().map(|key| (key.id.as_str(), key.role)).collect();
        let inference = first.inference.unwrap();
        assert_eq!(ids, [(first.admin.id(), Role::Admin), (inference.id(), Role::Inference)]);
        assert_eq!(kept[1].hash, gw_store::keys::hash(inference.expose()));
    }

    #[tokio::test]
    async fn an_admin_key_is_created_beside_earlier_inference_keys() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(&directory).await;
        let early = NewKey::generate().unwrap().stored("early", Role::Inference, 1);
        store.insert_key(&early).await.unwrap();
        let made = create_keys(&store, false, 2).await.unwrap().unwrap();
        assert!(made.inference.is_none());
        let text = made.welcome("curl http://127.0.0.1:1", "x", Some("a/b"), None);
        assert!(
            text.contains("created an admin key") && text.matches(made.admin.expose()).count() == 2,
            "{text}"
        );
        assert!(create_keys(&store, false, 3).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn configured_keys_are_enough() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(&directory).await;
        assert!(create_keys(&store, true, 1).await.unwrap().is_none());
        assert!(store.keys().await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn the_welcome_shows_both_keys_and_a_command_to_paste() {
        let directory = tempfile::tempdir().unwrap();
        let keys = create_keys(&store(&directory).await, false, 1).await.unwrap().unwrap();
        let text = keys.welcome(
            &curl("0.0.0.0:4321".parse().unwrap(), None),
            "/data/gateway.db",
            Some("odd/it's"),
            Some("http://h/ui/#token=t"),
        );
        let inference = keys.inference.as_ref().unwrap();
        assert!(text.contains(keys.admin.expose()) && text.contains(inference.expose()));
        assert!(text.contains("hashes in /data/gateway.db."), "{text}");
        assert!(text.contains("\n  http://h/ui/#token=t\n"), "{text}");
        assert!(text.contains("curl http://127.0.0.1:4321/v1/chat/completions"), "{text}");
        assert!(text.contains(r#""model":"odd/it'\''s""#), "{text}");
        assert!(!keys.welcome("curl http://127.0.0.1:1", "x", None, None).contains("curl"));
        assert!(!format!("{keys:?}").contains(&keys.admin.expose()[12..]));
    }

    #[test]
    fn a_gateway_with_tls_is_called_over_https_with_its_certificate() {
        let said = curl("[::]:4321".parse().unwrap(), Some(Path::new("/etc/it's.pem")));
        assert_eq!(said, r"curl --cacert '/etc/it'\''s.pem' https://[::1]:4321");
    }

    #[test]
    fn revoked_and_expired_keys_are_not_usable() {
        let key = NewKey::generate().unwrap().stored("k", Role::Inference, 1);
        assert!(any_usable(std::slice::from_ref(&key), 10));
        assert!(any_usable(&[StoredKey { expires_at: Some(11), ..key.clone() }], 10));
        assert!(!any_usable(&[StoredKey { expires_at: Some(10), ..key.clone() }], 10));
        assert!(!any_usable(&[StoredKey { revoked_at: Some(1), ..key }], 10));
        assert!(!any_usable(&[], 10));
    }
}
