//! Calls that requests share.
