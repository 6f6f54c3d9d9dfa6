//! Tests of the dialect.

mod stops;
