//! The client against scripted upstreams; names with a row of GUARANTEES.md begin with it.

mod encoding;
mod faults;
mod framing;
mod places;
mod reuse;
mod tls;
