//! An answer of the API as JSON on several lines.

use gw_command::CommandError;
use gw_wire::json::{Kind, View};
use serde::ser::Error;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// A JSON text on several lines. The members keep their order, which a comparison needs, and numbers keep their digits.
///
/// # Errors
/// The text is not UTF-8.
pub(crate) fn on_lines(text: &[u8]) -> Result<String, CommandError> {
    let text = std::str::from_utf8(text).map_err(CommandError::runtime)?;
    serde_json::to_string_pretty(&InOrder(View::new(text))).map_err(CommandError::runtime)
}

/// A value with the members of its objects in their order.
struct InOrder<'a>(View<'a>);

impl Serialize for InOrder<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(value) = self;
        match value.kind() {
            Kind::Object => {
                let members = value.members();
                serializer
                    .collect_map(members.filter_map(|(name, value)| Some((name.string()?, InOrder(value)))))
            }
            Kind::Array => serializer.collect_seq(value.elements().map(InOrder)),
            _ => {
                let raw: &RawValue = serde_json::from_str(value.text()).map_err(S::Error::custom)?;
                raw.serialize(serializer)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::on_lines;

    #[test]
    fn members_keep_their_order_and_numbers_their_digits() {
        let text = r#"{"z":[1.10,"a\n",{}],"b":{"y":null,"a":true}}"#;
        let lines = "{\n  \"z\": [\n    1.10,\n    \"a\\n\",\n    {}\n  ],\n  \"b\": {\n    \"y\": null,\n    \"a\": true\n  }\n}";
        assert_eq!(on_lines(text.as_bytes()).unwrap(), lines);
    }
}
