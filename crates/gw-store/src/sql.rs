//! One SQL text with its values for either database, and the rows that it returns.
//!
//! The text consists only of pieces of this program (`&'static str`); outside data can only be a value. A NUL, which
//! PostgreSQL cannot store in a text, becomes U+FFFD in both databases.

use std::borrow::Cow;

use gw_wire::hex;
use gw_wire::json::is_plain;
use sha2::{Digest, Sha256};
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Decode, Postgres, Row as _, Sqlite, Type};

/// A value of a statement.
#[derive(Debug)]
enum Value<'q> {
    Int(Option<i64>),
    Text(Option<Cow<'q, str>>),
    Bytes(Option<&'q [u8]>),
}

/// A statement under construction.
#[derive(Debug)]
pub(crate) struct Sql<'q> {
    text: Cow<'static, str>,
    values: Vec<Value<'q>>,
}

impl<'q> Sql<'q> {
    pub(crate) fn new(text: &'static str) -> Self {
        Self { text: Cow::Borrowed(text), values: Vec::new() }
    }

    /// Appends a piece of text.
    pub(crate) fn push(&mut self, piece: &'static str) -> &mut Self {
        self.text.to_mut().push_str(piece);
        self
    }

    /// Appends the placeholder of the last value.
    fn placeholder(&mut self) -> &mut Self {
        let number = self.values.len();
        let text = self.text.to_mut();
        text.push('$');
        text.push_str(&number.to_string());
        self
    }

    /// Binds an integer to the next `$n` of the text.
    pub(crate) fn int(mut self, value: impl Into<Option<i64>>) -> Self {
        self.values.push(Value::Int(value.into()));
        self
    }

    /// As [`Sql::int`], for a text.
    pub(crate) fn text(mut self, value: impl Into<Option<&'q str>>) -> Self {
        self.values.push(Value::Text(value.into().map(without_nul)));
        self
    }

    /// As [`Sql::int`], for an owned text.
    pub(crate) fn owned(mut self, value: Option<String>) -> Self {
        self.values.push(Value::Text(value.map(Cow::Owned)));
        self
    }

    /// As [`Sql::int`], for bytes.
    pub(crate) fn bytes(mut self, value: impl Into<Option<&'q [u8]>>) -> Self {
        self.values.push(Value::Bytes(value.into()));
        self
    }

    /// Appends an integer and its placeholder.
    pub(crate) fn push_int(&mut self, value: i64) -> &mut Self {
        self.values.push(Value::Int(Some(value)));
        self.placeholder()
    }

    /// Appends a text and its placeholder.
    pub(crate) fn push_text(&mut self, value: &'q str) -> &mut Self {
        self.values.push(Value::Text(Some(without_nul(value))));
        self.placeholder()
    }

    /// As [`Sql::push_text`], for an owned text.
    pub(crate) fn push_owned(&mut self, value: String) -> &mut Self {
        let value = if value.contains('\0') { without_nul(&value).into_owned() } else { value };
        self.values.push(Value::Text(Some(Cow::Owned(value))));
        self.placeholder()
    }

    /// As [`Sql::push_text`], for bytes.
    pub(crate) fn push_bytes(&mut self, value: &'q [u8]) -> &mut Self {
        self.values.push(Value::Bytes(Some(value)));
        self.placeholder()
    }

    /// As [`Sql::push_text`], for an indexed column.
    pub(crate) fn push_name(&mut self, value: &'q str) -> &mut Self {
        self.values.push(Value::Text(Some(indexed(value))));
        self.placeholder()
    }

    /// As [`Sql::text`], for an indexed column.
    pub(crate) fn name(mut self, value: &'q str) -> Self {
        self.values.push(Value::Text(Some(indexed(value))));
        self
    }

    pub(crate) fn for_sqlite(self) -> sqlx::query::Query<'q, Sqlite, sqlx::sqlite::SqliteArguments> {
        let mut query = sqlx::query(AssertSqlSafe(self.text));
        for value in self.values {
            query = match value {
                Value::Int(value) => query.bind(value),
                Value::Text(value) => query.bind(value.map(Cow::into_owned)),
                Value::Bytes(value) => query.bind(value),
            };
        }
        query
    }

    /// Without a name on the server: PgBouncer may run the next statement on another connection.
    pub(crate) fn for_postgres(self) -> sqlx::query::Query<'q, Postgres, sqlx::postgres::PgArguments> {
        let mut query = sqlx::query(AssertSqlSafe(self.text)).persistent(false);
        for value in self.values {
            query = match value {
                Value::Int(value) => query.bind(value),
                Value::Text(value) => query.bind(value),
                Value::Bytes(value) => query.bind(value),
            };
        }
        query
    }
}

/// The text without NUL, as both databases can store it.
pub(crate) fn without_nul(text: &str) -> Cow<'_, str> {
    // A name that needs no escape is checked faster, and nearly all names are such.
    if !is_plain(text) && text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{FFFD}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Maximum bytes of an indexed text. PostgreSQL limits an index entry to about 2,700 bytes, and ours hold up to four texts.
pub(crate) const MAX_INDEXED_BYTES: usize = 500;

/// A name as both databases can store and find it. A name that is too long becomes its beginning and a digest.
pub(crate) fn indexed(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_INDEXED_BYTES {
        return without_nul(text);
    }
    let beginning = text.get(..text.floor_char_boundary(MAX_INDEXED_BYTES - 100)).unwrap_or_default();
    let digest = Sha256::digest(text.as_bytes());
    let mut short = without_nul(beginning).into_owned();
    short.push('…');
    short.push_str(&hex::encode(&digest));
    Cow::Owned(short)
}

/// A row of either database.
pub(crate) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

impl Row {
    /// The value of a column.
    pub(crate) fn get<T>(&self, column: &str) -> sqlx::Result<T>
    where
        T: for<'r> Decode<'r, Sqlite> + Type<Sqlite> + for<'r> Decode<'r, Postgres> + Type<Postgres>,
    {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
        }
    }
}
