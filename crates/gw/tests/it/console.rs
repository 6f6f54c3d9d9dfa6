//! The web console: its files, its sign-in, and what its sessions may do.

pub(crate) mod browser;
mod files;
mod links;
mod sessions;
mod views;
