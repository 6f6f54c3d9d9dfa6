//! Identities of OpenID Connect issuers: tokens that callers send instead of a gateway key, and the sign-in of a browser.
//!
//! [`Issuers`] verifies tokens with the issuers' public keys. A background task fetches the keys ([`Issuers::keep_up_to_date`]), so
//! that no request waits for an issuer, and while an issuer is down, tokens signed with its known keys still work. [`login`] has the steps of the
//! authorization code flow with PKCE. This crate makes no connection: the program passes in a [`Fetch`].

mod claims;
mod fetch;
mod issuers;
mod jwks;
pub mod login;
mod random;
mod settings;
mod token;

pub use claims::Identity;
pub use fetch::{Fetch, FetchError, FetchFuture, FetchRequest};
pub use issuers::Issuers;
pub use random::random_text;
pub use settings::{ClaimNames, IssuerSettings, KeySource, LoginSettings, SigningAlgorithm};
pub use token::{TokenError, looks_like_token};
