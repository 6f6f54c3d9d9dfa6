//! Links that sign a browser in once, for a key. The store knows only the SHA-256 of a link's token.

use rand::TryRngCore;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

use crate::db::{Error, Result, Store};
use crate::sql::Sql;

/// A link can be used for this long, in seconds.
pub const LINK_SECONDS: i64 = 15 * 60;
/// The store remembers a link for this long after its end, so that it can tell a used link from a wrong one.
const REMEMBERED_SECONDS: i64 = 24 * 3600;

/// A new link. Its token is shown once.
#[derive(Clone, Debug)]
pub struct NewLink {
    /// The secret of the link: 256 random bits in hexadecimal digits.
    pub token: SecretString,
    /// The SHA-256 of the key for which the link signs in.
    key_hash: [u8; 32],
    /// The unix second at which it expires.
    pub expires_at: i64,
}

impl NewLink {
    /// A link for the key with this SHA-256.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn generate(key_hash: [u8; 32], now: i64) -> Result<Self> {
        let mut bytes = [0; 32];
        rand::rngs::OsRng.try_fill_bytes(&mut bytes).map_err(|_| Error::Randomness)?;
        let token = gw_wire::hex::encode(&bytes).into();
        Ok(Self { token, key_hash, expires_at: now.saturating_add(LINK_SECONDS) })
    }
}

/// The result of a link's use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkUse {
    /// The first use: the SHA-256 of the key.
    SignsIn([u8; 32]),
    /// The link was used before.
    Used,
    /// Its time has passed.
    Expired,
    /// No link has this token.
    Unknown,
}

impl Store {
    /// Keeps a new link. Forgets those that ended a day ago.
    pub async fn insert_link(&self, link: &NewLink) -> Result<()> {
        let old = link.expires_at.saturating_sub(LINK_SECONDS + REMEMBERED_SECONDS);
        self.run(Sql::new("DELETE FROM gateway_sign_in_links WHERE expires_at < $1").int(old)).await?;
        let hash = hash_of(link.token.expose_secret());
        let insert = "INSERT INTO gateway_sign_in_links (hash, key_hash, expires_at) VALUES ($1, $2, $3)";
        let insert =
            Sql::new(insert).bytes(hash.as_slice()).bytes(link.key_hash.as_slice()).int(link.expires_at);
        self.run(insert).await.map(drop)
    }

    /// Uses a link. Of two uses at the same time one succeeds.
    pub async fn use_link(&self, token: &str, now: i64) -> Result<LinkUse> {
        let hash = hash_of(token);
        let mark = "UPDATE gateway_sign_in_links SET used_at = $1 \
            WHERE hash = $2 AND used_at IS NULL AND expires_at > $3";
        let is_first = self.run(Sql::new(mark).int(now).bytes(hash.as_slice()).int(now)).await? > 0;
        let select = Sql::new("SELECT key_hash, used_at FROM gateway_sign_in_links WHERE hash = $1");
        let found = self.first(select.bytes(hash.as_slice()), |row| {
            let key_hash: Vec<u8> = row.get("key_hash")?;
            let used_at: Option<i64> = row.get("used_at")?;
            Ok((key_hash, used_at))
        });
        Ok(match found.await? {
            None => LinkUse::Unknown,
            Some((key_hash, _)) if is_first => key_hash.try_into().map_or(LinkUse::Unknown, LinkUse::SignsIn),
            Some((_, Some(_))) => LinkUse::Used,
            Some((_, None)) => LinkUse::Expired,
        })
    }
}

fn hash_of(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::{LINK_SECONDS, LinkUse, NewLink};
    use crate::testing::on_both;

    #[tokio::test]
    async fn a_link_signs_in_once_and_for_a_quarter_of_an_hour() {
        on_both(async |place| {
            let store = place.open().await;
            let link = NewLink::generate([7; 32], 100).unwrap();
            let late = NewLink::generate([8; 32], 100).unwrap();
            let (token, other) = (link.token.expose_secret(), late.token.expose_secret());
            assert!(token.len() == 64 && token != other);
            for link in [&link, &late] {
                store.insert_link(link).await.unwrap();
            }
            let end = 100 + LINK_SECONDS;
            assert_eq!(store.use_link(token, end - 1).await.unwrap(), LinkUse::SignsIn([7; 32]));
            assert_eq!(store.use_link(token, end - 1).await.unwrap(), LinkUse::Used);
            assert_eq!(store.use_link(token, end + 1).await.unwrap(), LinkUse::Used);
            assert_eq!(store.use_link(other, end).await.unwrap(), LinkUse::Expired);
            assert_eq!(store.use_link("", 100).await.unwrap(), LinkUse::Unknown);
            let much_later = NewLink::generate([9; 32], end + 24 * 3600 + 1).unwrap();
            store.insert_link(&much_later).await.unwrap();
            assert_eq!(store.use_link(token, end).await.unwrap(), LinkUse::Unknown, "forgotten");
        })
        .await;
    }
}
