//! Why a store cannot be used, in one line for an operator.

/// Shorthand.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the store cannot be used: one line for an operator, that names the place (a file, or a database without its
/// password).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is damaged, cut short, or something else altogether.
    #[error("{place} is damaged or not a gateway store ({reason}); it was left as it is")]
    Damaged {
        /// The file or database.
        place: String,
        /// The database's words.
        reason: String,
    },
    /// A later version of this program wrote it.
    #[error(
        "{place} was written by a newer version of this program (schema {found}, this one knows {known}); it was left as it is"
    )]
    Newer {
        /// The file or database.
        place: String,
        /// Its schema.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// It cannot be written.
    #[error("{place} cannot be written: {reason}")]
    ReadOnly {
        /// The file or database.
        place: String,
        /// The system's words.
        reason: String,
    },
    /// Another program held it, or what is in it, for too long.
    #[error("{place} is locked by another program")]
    Busy {
        /// The file or database.
        place: String,
    },
    /// A row of this id, or of this secret, is there already.
    #[error("{place} has a row of this id already")]
    Taken {
        /// The file or database.
        place: String,
    },
    /// The server does not answer, or does not let us in: it may do so later.
    #[error("{place} cannot be reached: {reason}")]
    Unreachable {
        /// The database.
        place: String,
        /// What happened.
        reason: String,
    },
    /// The URL is not one of a store.
    #[error("the store's URL {0}")]
    Url(&'static str),
    /// Anything else that the database or the system says.
    #[error("{place}: {reason}")]
    Failed {
        /// The file or database.
        place: String,
        /// Its words.
        reason: String,
    },
    /// SQLite below 3.51.3 can corrupt a file in WAL mode.
    #[error("this program was built with SQLite {0}; 3.51.3 or later is needed")]
    OldSqlite(String),
    /// No randomness for a key.
    #[error("the operating system gave no randomness for a key")]
    Randomness,
}

impl Error {
    /// Whether the same may succeed later without anybody changing anything here.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Unreachable { .. })
    }
}

/// Longer than any sentence of a database; what is longer comes from something else.
const LONGEST: usize = 300;

/// On one line, without control characters, and not for ever.
pub(crate) fn one_line(text: &str) -> String {
    let line = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = line.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}
