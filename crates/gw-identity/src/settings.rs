//! The settings of an issuer: `[[identity.issuers]]` of gateway.toml.

use std::path::PathBuf;

use gw_store::{Limits, Role};
use secrecy::SecretString;

/// The signature algorithms of tokens (RFC 7518, RFC 8037). All of them are asymmetric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the standard")]
pub enum SigningAlgorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl SigningAlgorithm {
    /// Every algorithm.
    pub const ALL: [Self; 9] = [
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
    ];

    /// The name in the header of a token.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }

    /// The reverse of [`SigningAlgorithm::as_str`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.as_str() == text)
    }
}

/// The place of an issuer's public keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// The document at `ISSUER/.well-known/openid-configuration` names it.
    Discovery,
    /// A JWK set in a file.
    File(PathBuf),
}

/// The names of claims. A dot leads into an object (`realm_access.roles`), unless a claim has the whole name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimNames {
    /// The name of the person or program.
    pub name: String,
    /// The team.
    pub team: Option<String>,
    /// The roles at the issuer: a list, or words in one text.
    pub role: Option<String>,
    /// The allowed models: a list, or words in one text.
    pub models: Option<String>,
    /// An object with limits, named as in the management API.
    pub limits: Option<String>,
}

impl Default for ClaimNames {
    fn default() -> Self {
        Self { name: "preferred_username".to_owned(), team: None, role: None, models: None, limits: None }
    }
}

/// The gateway as a client of the issuer, for the sign-in of a browser.
#[derive(Clone, Debug)]
pub struct LoginSettings {
    /// The client id. It is the audience of the issuer's ID tokens.
    pub client_id: String,
    /// The client secret; None for a public client.
    pub client_secret: Option<SecretString>,
    /// The scopes beside `openid`.
    pub scopes: Vec<String>,
}

/// One `[[identity.issuers]]` entry.
#[derive(Clone, Debug)]
pub struct IssuerSettings {
    /// The issuer's URL, as its tokens name it.
    pub issuer: String,
    /// The accepted audiences of tokens.
    pub audiences: Vec<String>,
    /// The place of the public keys.
    pub keys: KeySource,
    /// The accepted algorithms.
    pub algorithms: Vec<SigningAlgorithm>,
    /// The claims that are read.
    pub claims: ClaimNames,
    /// The roles at the issuer that give a role here. The role with the most rights counts.
    pub roles: Vec<(Role, Vec<String>)>,
    /// The role of identities without one of these roles; None = they are refused.
    pub default_role: Option<Role>,
    /// The team of identities without the team's claim.
    pub team: Option<String>,
    /// The limits of each identity, as far as its claims have none.
    pub limits: Limits,
    /// The sign-in of a browser; None = tokens only.
    pub login: Option<LoginSettings>,
}
