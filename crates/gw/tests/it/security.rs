//! Access rights, tenants, secrets and injected text.

mod addresses;
mod authz;
pub(crate) mod canary;
mod credentials;
mod injection;
mod member_policy;
mod private_files;
mod secrets;
mod tenant_references;
mod tenants;
