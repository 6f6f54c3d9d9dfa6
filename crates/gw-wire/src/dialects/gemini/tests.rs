//! Tests of the dialect.
