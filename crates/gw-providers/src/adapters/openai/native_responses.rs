//! Whether a provider has the Responses API itself (`responses` of a provider).

use std::sync::atomic::{AtomicU8, Ordering};

use toml::Value;

use crate::presets;
use crate::settings::{ProviderSettings, SettingsError};

/// The name of the option.
const OPTION: &str = "responses";

const OFF: u8 = 0;
const ON: u8 = 1;
/// The provider is asked. A 404 or 405 means that it has no Responses API.
const UNKNOWN: u8 = 2;

/// Whether a provider has the Responses API. It is learned from the first request, if neither the configuration nor the
/// table of known providers tells.
#[derive(Debug)]
pub(crate) struct NativeResponses(AtomicU8);

impl NativeResponses {
    /// The provider has no Responses API.
    pub(crate) fn off() -> Self {
        Self(AtomicU8::new(OFF))
    }

    /// The value of the configuration, or else the one of the known provider.
    ///
    /// # Errors
    /// The option has another value than true, false and "auto".
    pub(crate) fn of(settings: &ProviderSettings) -> Result<Self, SettingsError> {
        let state = match settings.options.get(OPTION) {
            Some(Value::Boolean(true)) => ON,
            Some(Value::Boolean(false)) => OFF,
            Some(Value::String(word)) if word == "auto" => UNKNOWN,
            Some(_) => {
                return Err(SettingsError::Option { name: OPTION, expected: "true, false or \"auto\"" });
            }
            None => match presets::has_responses(settings) {
                Some(true) => ON,
                Some(false) => OFF,
                None => UNKNOWN,
            },
        };
        Ok(Self(AtomicU8::new(state)))
    }

    /// Whether requests go to the provider's own endpoint.
    pub(super) fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed) != OFF
    }

    /// Whether the provider need not be asked any more.
    pub(super) fn is_certain(&self) -> bool {
        self.0.load(Ordering::Relaxed) != UNKNOWN
    }

    /// Notes that the endpoint answered.
    pub(super) fn note_answer(&self) {
        let _ = self.0.compare_exchange(UNKNOWN, ON, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Notes that the provider does not know the endpoint. Gives whether the request goes to chat completions instead.
    pub(super) fn note_refusal(&self) -> bool {
        let _ = self.0.compare_exchange(UNKNOWN, OFF, Ordering::Relaxed, Ordering::Relaxed);
        !self.is_on()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_provider_is_asked_once() {
        let unknown = NativeResponses(AtomicU8::new(UNKNOWN));
        assert!(unknown.is_on());
        assert!(unknown.note_refusal());
        assert!(!unknown.is_on());
        unknown.note_answer();
        assert!(!unknown.is_on());
    }

    #[test]
    fn a_provider_that_answered_keeps_its_endpoint() {
        let unknown = NativeResponses(AtomicU8::new(UNKNOWN));
        unknown.note_answer();
        assert!(!unknown.note_refusal(), "a later 404 is about the model");
        assert!(unknown.is_on());
        assert!(!NativeResponses(AtomicU8::new(ON)).note_refusal());
    }
}
