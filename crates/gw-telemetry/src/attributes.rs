//! Attributes of spans and events.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue};

/// A list of attributes that grows.
#[derive(Debug, Default)]
pub(crate) struct Attributes(pub(crate) Vec<KeyValue>);

impl Attributes {
    /// Adds a text.
    pub(crate) fn text(&mut self, key: &str, value: impl Into<String>) {
        self.add(key, Value::StringValue(value.into()));
    }

    /// Adds a text, if there is one.
    pub(crate) fn maybe_text(&mut self, key: &str, value: Option<impl Into<String>>) {
        if let Some(value) = value {
            self.text(key, value);
        }
    }

    /// Adds a list of texts, if it is not empty.
    pub(crate) fn texts(&mut self, key: &str, values: &[&str]) {
        if values.is_empty() {
            return;
        }
        let value = |text: &&str| AnyValue { value: Some(Value::StringValue((*text).to_owned())) };
        self.add(key, Value::ArrayValue(ArrayValue { values: values.iter().map(value).collect() }));
    }

    /// Adds a count, if there is one.
    pub(crate) fn maybe_count(&mut self, key: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.add(key, Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX)));
        }
    }

    /// Adds a count.
    pub(crate) fn count(&mut self, key: &str, value: u64) {
        self.maybe_count(key, Some(value));
    }

    /// Adds an integer, if there is one.
    pub(crate) fn maybe_integer(&mut self, key: &str, value: Option<i64>) {
        if let Some(value) = value {
            self.add(key, Value::IntValue(value));
        }
    }

    /// Adds a number, if there is one.
    pub(crate) fn maybe_number(&mut self, key: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.add(key, Value::DoubleValue(value));
        }
    }

    /// Adds a truth value.
    pub(crate) fn boolean(&mut self, key: &str, value: bool) {
        self.add(key, Value::BoolValue(value));
    }

    fn add(&mut self, key: &str, value: Value) {
        let value = Some(AnyValue { value: Some(value) });
        self.0.push(KeyValue { key: key.to_owned(), value, ..KeyValue::default() });
    }
}
