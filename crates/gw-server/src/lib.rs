//! The HTTP edge: connections, URLs, headers, bodies, event streams out.

pub mod settings;
