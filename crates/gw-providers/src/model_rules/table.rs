//! The table of one vendor, read from TOML and checked. Rows are found by the words of a model's name.

use std::collections::HashSet;

use serde::Deserialize;

use super::name::{fits, words};
use super::row::{Row, Thinks};

/// A fault of a table's file.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file is not TOML, or has unknown members.
    #[error("{0}")]
    Toml(toml::de::Error),
    /// Two rows have the same name. The words are its parts.
    #[error("two rows are called {0:?}")]
    Twice(Vec<String>),
    /// `newest` names a row that does not exist.
    #[error("newest = \"{0}\" is not a row")]
    NoNewest(String),
    /// A row contradicts itself, or gives no source.
    #[error("row '{row}': {fault}")]
    Row {
        /// The name of the row.
        row: String,
        /// The fault.
        fault: &'static str,
    },
}

/// The contents of a file. Each row is laid over the defaults before it is read.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableFile {
    vendor: String,
    #[serde(default)]
    words: Vec<String>,
    #[serde(default)]
    words_with_number: Vec<String>,
    newest: Option<String>,
    #[serde(default)]
    defaults: toml::Table,
    rows: Vec<toml::Table>,
    otherwise: Option<toml::Table>,
}

/// A vendor's rows.
#[derive(Debug)]
pub struct Table {
    /// The vendor of the models.
    pub vendor: String,
    /// In the order of the file.
    pub rows: Vec<Row>,
    /// The row for names that the vendor's words do not claim.
    pub otherwise: Option<Row>,
    /// The words of each row's names, with the index of the row.
    patterns: Vec<(Vec<String>, usize)>,
    words: Vec<String>,
    words_with_number: Vec<String>,
    /// The row of the vendor's newest model.
    newest: Option<usize>,
}

impl Table {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The file has a fault.
    pub fn parse(text: &str) -> Result<Self, TableError> {
        let file: TableFile = toml::from_str(text).map_err(TableError::Toml)?;
        let read = |row: toml::Table| {
            let mut whole = file.defaults.clone();
            whole.extend(row);
            let row: Row = whole.try_into().map_err(TableError::Toml)?;
            checked(row)
        };
        let rows = file.rows.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let otherwise = file.otherwise.map(read).transpose()?;
        let all = rows.iter().enumerate();
        let patterns: Vec<_> =
            all.flat_map(|(at, row)| row.names.iter().map(move |name| (words(name), at))).collect();
        let mut known = HashSet::new();
        if let Some((twice, _)) = patterns.iter().find(|(pattern, _)| !known.insert(pattern.clone())) {
            return Err(TableError::Twice(twice.clone()));
        }
        let newest = match &file.newest {
            None => None,
            Some(name) => match rows.iter().position(|row| row.name == *name) {
                Some(at) => Some(at),
                None => return Err(TableError::NoNewest(name.clone())),
            },
        };
        let (vendor, words, words_with_number) = (file.vendor, file.words, file.words_with_number);
        Ok(Self { vendor, rows, otherwise, patterns, words, words_with_number, newest })
    }

    /// The row with the longest name that matches these words.
    pub(super) fn row(&self, name: &[String], at_start: bool) -> Option<&Row> {
        let fitting = self.patterns.iter().filter(|(pattern, _)| fits(pattern, name, at_start));
        let (_, at) = fitting.max_by_key(|(pattern, _)| pattern.len())?;
        self.rows.get(*at)
    }

    /// Whether these words name one of the vendor's models, known or new.
    pub(super) fn claims(&self, name: &[String]) -> bool {
        self.row(name, false).or_else(|| self.newest(name, false)).is_some()
    }

    /// The row of the newest model in the name's family, or of the vendor.
    pub(super) fn newest(&self, name: &[String], at_start: bool) -> Option<&Row> {
        // With `at_start` a number must follow the family directly: `gpt-7`, but not `gpt-jt-6b`.
        let (family, numbers) = match at_start {
            true => (name.get(..1).unwrap_or_default(), name.get(1..2).unwrap_or_default()),
            false => (name, name),
        };
        let has = |word: &String| family.contains(word);
        let has_number = || numbers.iter().any(|word| word.bytes().any(|byte| byte.is_ascii_digit()));
        let of_family = self.rows.iter().find(|row| row.newest_of.iter().any(has));
        let claimed = self.words.iter().any(has) || self.words_with_number.iter().any(has) && has_number();
        if !claimed {
            return None;
        }
        of_family.or_else(|| self.rows.get(self.newest?))
    }
}

/// Checks that a row names its source and does not contradict itself.
fn checked(row: Row) -> Result<Row, TableError> {
    let fault = |fault: &'static str| Err(TableError::Row { row: row.name.clone(), fault });
    if row.source.is_empty() || row.as_of.len() != 10 {
        return fault("source and as_of (YYYY-MM-DD) are required");
    }
    let has_limits = row.context_tokens.is_some() || row.max_output_tokens.is_some();
    if has_limits == row.limits_source.is_empty() {
        return fault("limits and limits_source must be set together");
    }
    if !row.efforts.is_sorted() {
        return fault("efforts are not in ascending order");
    }
    let silent = matches!(row.thinks, Thinks::Never | Thinks::Unknown);
    if silent && !(row.efforts.is_empty() && row.budgets.is_empty()) {
        return fault("it does not think, but has efforts or budgets");
    }
    if !row.instead.values().all(|effort| row.efforts.iter().any(|taken| taken == *effort)) {
        return fault("instead names an effort that the model does not accept");
    }
    Ok(row)
}
