//! The web console: its files, its sign-in, and what its sessions may do.

mod files;
mod links;
mod sessions;
mod views;
