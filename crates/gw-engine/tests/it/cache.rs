//! Calls that requests share, and the answers of the cache.

mod followers;
mod held_vectors;
