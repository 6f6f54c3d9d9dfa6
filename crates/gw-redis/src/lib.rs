//! The line to Redis or Valkey that limits and the cache have each one of. It knows how to talk, not what about.

mod line;
mod link;

pub use line::{Line, MISSES};
pub use link::{Address, Allowance, Link, why};
