//! Cohere's dialect against its fixtures, and its errors.

mod answers;
mod requests;
mod streams;
