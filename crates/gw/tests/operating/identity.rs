//! Identities: the holder of a key, roles, the audit log, identities of other issuers and sessions of browsers.

mod audit;
mod browser_rules;
mod issuer;
mod me;
pub(crate) mod roles;
mod sessions;
mod tokens;
