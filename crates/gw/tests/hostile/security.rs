//! Access rights, tenants, secrets and injected text.

mod addresses;
mod authz;
mod client_address;
mod credentials;
mod host_header;
mod image_addresses;
mod injection;
mod key_rotation;
mod listeners;
mod log_lines;
mod member_policy;
mod no_execution;
mod private_files;
mod searches;
mod secrets;
mod tenant_references;
mod tenants;
mod tls;
mod weak_secrets;
