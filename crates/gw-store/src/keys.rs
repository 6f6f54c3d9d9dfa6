//! Gateway keys: how a key is generated, what the store keeps of it, and its rows.
//!
//! A key is `sk-gw-`, 40 random base62 characters and a checksum of 6 base62 characters over the 46 before it (the first
//! eight bytes of their SHA-256, big endian, modulo 62^6). The checksum distinguishes a mistyped key from a wrong one
//! without the store. The id is the first 12 characters. The other 34 hold 202 random bits, so plain SHA-256 is enough.

mod last_key;
mod table;

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use rand::TryRngCore;
use secrecy::{ExposeSecret, SecretString};

use crate::db::{Error, Result};
use crate::limits::Limits;
pub use last_key::LastKey;
pub(crate) use table::SERIALISE_CHANGES;
pub use table::Team;

/// The prefix of every generated key.
pub const PREFIX: &str = "sk-gw-";
const RANDOM: usize = 40;
const CHECK: usize = 6;
const ID: usize = 12;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The APIs that a key may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Only /v1.
    Inference,
    /// The management API and metrics, without changes and without stored prompts. Of /v1 it may use what costs nothing.
    Viewer,
    /// /v1, metrics and the management API, without changes of the configuration and of keys of role admin.
    Operator,
    /// /v1, the management API and metrics.
    Admin,
}

impl Role {
    /// Every role, the one with the fewest rights first.
    pub const ALL: [Self; 4] = [Self::Inference, Self::Viewer, Self::Operator, Self::Admin];

    /// Whether the role has at least the rights of `other` in the management API.
    #[must_use]
    pub fn includes(self, other: Self) -> bool {
        let rank = |role| Self::ALL.iter().position(|known| *known == role);
        rank(self) >= rank(other)
    }

    /// The roles with at least these rights in the management API, in words.
    #[must_use]
    pub fn or_more(self) -> &'static str {
        match self {
            Self::Inference => "inference, viewer, operator or admin",
            Self::Viewer => "viewer, operator or admin",
            Self::Operator => "operator or admin",
            Self::Admin => "admin",
        }
    }

    /// The spelling in the store, the configuration and the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inference => "inference",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    /// The reverse of [`Role::as_str`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

/// A key as it is stored. Times are unix seconds.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredKey {
    /// The first 12 characters of the key.
    pub id: String,
    /// Label shown in lists and reports.
    pub name: String,
    /// The APIs that the key may use.
    pub role: Role,
    /// SHA-256 of the whole key.
    pub hash: [u8; 32],
    /// Allowed models (`acme/*` wildcards); None = all.
    pub models: Option<Vec<String>>,
    /// Creation time.
    pub created_at: i64,
    /// Time after which it is refused.
    pub expires_at: Option<i64>,
    /// Time since which it is refused.
    pub revoked_at: Option<i64>,
    /// The team it belongs to, whose limits apply above its own.
    pub team: Option<String>,
    /// The limits of the key.
    pub limits: Limits,
    /// Whether the redacted bodies of its requests and answers are stored.
    pub log_payloads: bool,
    /// Whether the end user and the tags that its requests name are believed.
    pub trust_attribution: bool,
    /// Free-form JSON of the key's creator.
    pub metadata: Option<String>,
    /// The hash before the last rotation, and the time (unix seconds) until which it is still accepted.
    pub previous: Option<([u8; 32], i64)>,
}

impl fmt::Debug for StoredKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredKey")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}

/// A newly generated key: the only value that holds the whole secret. It cannot print itself.
pub struct NewKey {
    secret: SecretString,
    id: String,
}

impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl NewKey {
    /// Generates a key from the operating system's randomness.
    pub fn generate() -> Result<Self> {
        Self::successor(PREFIX)
    }

    /// Generates another secret for an existing id: the new key of a rotation begins with the old key's characters. The
    /// characters after the id are random, so it is as hard to guess as any key whose id is known.
    pub fn successor(id: &str) -> Result<Self> {
        Self::from_random(id, |bytes| rand::rngs::OsRng.try_fill_bytes(bytes)).map_err(|_| Error::Randomness)
    }

    fn from_random<E>(
        begin: &str,
        mut fill: impl FnMut(&mut [u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<Self, E> {
        let mut text = String::with_capacity(PREFIX.len() + RANDOM + CHECK);
        text.push_str(begin);
        let mut bytes = [0; 2 * RANDOM];
        while text.len() < PREFIX.len() + RANDOM {
            fill(&mut bytes)?;
            let free = PREFIX.len() + RANDOM - text.len();
            text.extend(bytes.iter().filter_map(|&byte| unbiased(byte)).take(free));
        }
        let check = check_of(&text);
        text.push_str(&check);
        Ok(Self { id: id_of(&text).to_owned(), secret: text.into() })
    }

    /// The id, which names the key in logs, tables and the API.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The key itself, to be shown once.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.secret.expose_secret()
    }

    /// The key as it is stored.
    #[must_use]
    pub fn stored(&self, name: &str, role: Role, created_at: i64) -> StoredKey {
        StoredKey {
            id: self.id.clone(),
            name: name.to_owned(),
            role,
            hash: hash(self.expose()),
            models: None,
            created_at,
            expires_at: None,
            revoked_at: None,
            team: None,
            limits: Limits::default(),
            log_payloads: false,
            trust_attribution: false,
            metadata: None,
            previous: None,
        }
    }
}

/// The digest by which a key is found: SHA-256 of all its bytes. aws-lc takes as long as other code on a processor with
/// instructions for SHA, and two thirds of it on one without.
#[must_use]
pub fn hash(key: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.iter_mut().zip(digest(&SHA256, key.as_bytes()).as_ref()).for_each(|(place, byte)| *place = *byte);
    hash
}

/// Whether the text has the form of a generated key with a valid checksum: false for a mistyped key.
#[must_use]
pub fn is_well_formed(key: &str) -> bool {
    let Some((body, check)) = key.split_at_checked(PREFIX.len() + RANDOM) else {
        return false;
    };
    body.strip_prefix(PREFIX).is_some_and(|random| random.bytes().all(|byte| byte.is_ascii_alphanumeric()))
        && check_of(body) == check
}

fn id_of(key: &str) -> &str {
    key.get(..ID).unwrap_or(key)
}

/// Maps a byte to one of 62 characters without bias: 248 of the 256 values are used, four for each character.
fn unbiased(byte: u8) -> Option<char> {
    (byte < 248).then(|| digit(u64::from(byte)))
}

fn digit(value: u64) -> char {
    let at = usize::try_from(value % 62).unwrap_or_default();
    ALPHABET.get(at).map_or('0', |&character| char::from(character))
}

fn check_of(body: &str) -> String {
    let head = hash(body).iter().take(8).fold(0_u64, |value, &byte| (value << 8) | u64::from(byte));
    let digits: Vec<char> =
        std::iter::successors(Some(head), |rest| Some(rest / 62)).take(CHECK).map(digit).collect();
    digits.into_iter().rev().collect()
}

#[cfg(test)]
mod tests;
