//! A PostgreSQL server that is away, hangs, lies, or is shared.
