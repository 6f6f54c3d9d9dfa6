//! The list of models in Anthropic's shape: `GET /v1/models` and `GET /v1/models/{id}` with an `anthropic-version` header.
//! The members are those of anthropic-sdk-python's `ModelInfo` (November 2026).

use std::ops::RangeInclusive;

use super::faults::{MessagesPath, invalid};
use crate::json::ObjectWriter;
use crate::request::Invalid;

/// One model.
#[derive(Clone, Debug, Default)]
pub struct ListedModel<'a> {
    /// The name by which clients ask for the model.
    pub id: &'a str,
    /// A name for people.
    pub display_name: &'a str,
    /// Unix seconds; 0 = unknown.
    pub created: u64,
    /// The most tokens of a prompt, if known.
    pub max_input_tokens: Option<u64>,
    /// The most tokens of an answer, if known.
    pub max_tokens: Option<u64>,
}

/// The range and the default of `limit`.
const LIMITS: RangeInclusive<usize> = 1..=1000;
const DEFAULT_LIMIT: usize = 20;

/// A page of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelPage {
    limit: usize,
    position: PagePosition,
}

/// The position of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PagePosition {
    First,
    /// After the model with this id.
    After(String),
    /// Before the model with this id.
    Before(String),
}

impl ModelPage {
    /// The page of a query's decoded parameters.
    ///
    /// # Errors
    /// A `limit` that is not an integer of 1 to 1000, or both positions.
    pub fn new(
        limit: Option<&str>,
        after_id: Option<&str>,
        before_id: Option<&str>,
    ) -> Result<Self, Invalid> {
        let path = MessagesPath::Top("limit");
        let limit = match limit {
            None => DEFAULT_LIMIT,
            Some(limit) => limit.parse().map_err(|_| invalid(&path, "Input should be a valid integer"))?,
        };
        if !LIMITS.contains(&limit) {
            let (min, max) = (LIMITS.start(), LIMITS.end());
            return Err(invalid(&path, format_args!("Input should be between {min} and {max}")));
        }
        let position = match (after_id, before_id) {
            (None, None) => PagePosition::First,
            (Some(id), None) => PagePosition::After(id.to_owned()),
            (None, Some(id)) => PagePosition::Before(id.to_owned()),
            (Some(_), Some(_)) => {
                let path = MessagesPath::Top("before_id");
                return Err(invalid(&path, "may not be given together with `after_id`"));
            }
        };
        Ok(Self { limit, position })
    }

    /// The models of the page, and whether there are more in its direction.
    ///
    /// # Errors
    /// A position after or before a model that is not in the list.
    fn of<'m, 'a>(&self, models: &'m [ListedModel<'a>]) -> Result<(&'m [ListedModel<'a>], bool), Invalid> {
        let find = |name: &str, id: &str| {
            let position = models.iter().position(|model| model.id == id);
            position.ok_or_else(|| invalid(&MessagesPath::Top(name), "no model has this id"))
        };
        let (start, end) = match &self.position {
            PagePosition::First => (0, models.len().min(self.limit)),
            PagePosition::After(id) => {
                let start = find("after_id", id)? + 1;
                (start, models.len().min(start.saturating_add(self.limit)))
            }
            PagePosition::Before(id) => {
                let end = find("before_id", id)?;
                (end.saturating_sub(self.limit), end)
            }
        };
        let has_more =
            if matches!(self.position, PagePosition::Before(_)) { start > 0 } else { end < models.len() };
        Ok((models.get(start..end).unwrap_or_default(), has_more))
    }
}

/// Writes a page of the list.
///
/// # Errors
/// The page begins at a model that is not in the list.
pub fn write_models(models: &[ListedModel<'_>], page: &ModelPage) -> Result<Vec<u8>, Invalid> {
    let (shown, has_more) = page.of(models)?;
    let mut out = Vec::with_capacity(64 + shown.len() * 192);
    let mut list = ObjectWriter::begin(&mut out);
    list.array("data", shown, put_model);
    list.raw("has_more", if has_more { "true" } else { "false" });
    for (name, model) in [("first_id", shown.first()), ("last_id", shown.last())] {
        match model {
            Some(model) => list.string(name, model.id),
            None => list.raw(name, "null"),
        }
    }
    list.finish();
    Ok(out)
}

/// Writes one model.
#[must_use]
pub fn write_model(model: &ListedModel<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(192);
    put_model(&mut out, model);
    out
}

fn put_model(out: &mut Vec<u8>, model: &ListedModel<'_>) {
    let mut object = ObjectWriter::begin(out);
    object.string("type", "model");
    object.string("id", model.id);
    object.string("display_name", model.display_name);
    object.string("created_at", &rfc3339(model.created));
    object.string("lifecycle", "active");
    for (name, tokens) in [("max_input_tokens", model.max_input_tokens), ("max_tokens", model.max_tokens)] {
        if let Some(tokens) = tokens {
            object.integer(name, tokens);
        }
    }
    object.finish();
}

/// Seconds of a day.
const DAY: u64 = 86_400;

/// Days of 400 years of the Gregorian calendar.
const ERA_DAYS: u64 = 146_097;

/// A time as RFC 3339, in UTC.
fn rfc3339(seconds: u64) -> String {
    let (days, time) = (seconds / DAY, seconds % DAY);
    // The era begins on 1 March of the year 0, so that the leap day is the last day of its year.
    let days = days + 719_468;
    let (era, day_of_era) = (days / ERA_DAYS, days % ERA_DAYS);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(limit: &str, after: Option<&str>, before: Option<&str>) -> String {
        let models =
            ["a", "b/c", "d", "e"].map(|id| ListedModel { id, display_name: id, ..Default::default() });
        let page = ModelPage::new(Some(limit), after, before).unwrap();
        match write_models(&models, &page) {
            Ok(body) => {
                let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
                let ids: Vec<&str> =
                    body["data"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap()).collect();
                format!("{} {} {} {}", ids.join(","), body["has_more"], body["first_id"], body["last_id"])
            }
            Err(fault) => fault.message,
        }
    }

    #[test]
    fn pages_go_forward_and_back() {
        assert_eq!(page("2", None, None), r#"a,b/c true "a" "b/c""#);
        assert_eq!(page("2", Some("b/c"), None), r#"d,e false "d" "e""#);
        assert_eq!(page("2", Some("e"), None), " false null null");
        assert_eq!(page("1", None, Some("d")), r#"b/c true "b/c" "b/c""#);
        assert_eq!(page("1000", None, Some("d")), r#"a,b/c false "a" "b/c""#);
        assert_eq!(page("1", Some("x"), None), "after_id: no model has this id");
    }

    #[test]
    fn a_page_without_sense_is_refused() {
        let fault = |limit, after, before| ModelPage::new(limit, after, before).unwrap_err().message;
        assert_eq!(fault(Some("0"), None, None), "limit: Input should be between 1 and 1000");
        assert_eq!(fault(Some("x"), None, None), "limit: Input should be a valid integer");
        assert_eq!(fault(None, Some("a"), Some("b")), "before_id: may not be given together with `after_id`");
        assert_eq!(ModelPage::new(None, None, None).unwrap().limit, 20);
    }

    #[test]
    fn a_model_has_anthropics_members() {
        let model = ListedModel {
            id: "claude-local",
            display_name: "Local \"Qwen\"",
            created: 1_795_305_599,
            max_input_tokens: Some(32_768),
            max_tokens: None,
        };
        let expected = r#"{"type":"model","id":"claude-local","display_name":"Local \"Qwen\"","created_at":"2026-11-21T23:59:59Z","lifecycle":"active","max_input_tokens":32768}"#;
        assert_eq!(String::from_utf8(write_model(&model)).unwrap(), expected);
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
    }
}
