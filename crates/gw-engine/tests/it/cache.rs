//! Calls that requests share.

mod followers;
