//! The client against scripted upstreams. A test that proves a guarantee begins with the guarantee's name.

mod encoding;
mod faults;
mod framing;
mod places;
mod reuse;
mod tls;
