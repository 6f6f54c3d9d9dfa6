//! Tests of measuring.
