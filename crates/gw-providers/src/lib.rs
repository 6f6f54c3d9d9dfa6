//! The providers: their addresses, their dialects, the HTTP client that calls them, and the meaning of their errors.

pub mod adapter;
pub mod adapters;
pub mod client;
pub mod demo;
pub mod gateway_format;
pub mod in_process;
mod inline_files;
pub mod media_sizes;
pub mod missing_model;
pub mod model_rules;
pub mod multipart;
pub mod native_responses;
pub mod presets;
pub mod provider;
pub mod registry;
pub mod seal;
pub mod settings;
pub mod surfaces;
pub mod usage_scan;
