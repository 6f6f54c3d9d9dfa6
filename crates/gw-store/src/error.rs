//! The errors of the store, each in one line for the operator.

/// The result of a store operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the store cannot be used: one line for the operator that names its location (a file, or a database without its
/// password).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is damaged, truncated, or not a store.
    #[error("{location} is damaged or not a gateway store ({reason}); it was left as it is")]
    Damaged {
        /// The file or database.
        location: String,
        /// The database's message.
        reason: String,
    },
    /// A newer version of this program wrote the store.
    #[error(
        "{location} was written by a newer version of this program (schema {found}, this one knows {known}); it was left as it is"
    )]
    Newer {
        /// The file or database.
        location: String,
        /// The schema version of the store.
        found: i64,
        /// The newest schema version that this program knows.
        known: i64,
    },
    /// The store cannot be written.
    #[error("{location} cannot be written: {reason}")]
    ReadOnly {
        /// The file or database.
        location: String,
        /// The system's message.
        reason: String,
    },
    /// The disk has no room for a write.
    #[error("{location} cannot be written, because its disk is full or a quota is used up: free space there")]
    DiskFull {
        /// The file or database.
        location: String,
    },
    /// Another process held a lock for too long.
    #[error("{location} is locked by another program")]
    Busy {
        /// The file or database.
        location: String,
    },
    /// A long read keeps SQLite's write-ahead log from being shortened.
    #[error("{location} takes no writes while a long read keeps its write-ahead log from being shortened")]
    LogFull {
        /// The file or database.
        location: String,
    },
    /// A search would have taken longer than it may.
    #[error("{location} was searched for longer than {seconds} s")]
    TooSlow {
        /// The file or database.
        location: String,
        /// The time that it had.
        seconds: u64,
    },
    /// A row with this id or this secret exists already.
    #[error("{location} has a row of this id already")]
    Taken {
        /// The file or database.
        location: String,
    },
    /// The server does not answer or refuses the connection. It may accept it later.
    #[error("{location} cannot be reached: {reason}")]
    Unreachable {
        /// The database.
        location: String,
        /// The reason.
        reason: String,
    },
    /// The URL is not that of a store.
    #[error("the store's URL {0}")]
    Url(&'static str),
    /// Any other failure of the database or the system.
    #[error("{location}: {reason}")]
    Failed {
        /// The file or database.
        location: String,
        /// The message.
        reason: String,
    },
    /// SQLite below 3.51.3 can corrupt a file in WAL mode.
    #[error("this program was built with SQLite {0}; 3.51.3 or later is needed")]
    OldSqlite(String),
    /// The operating system gave no randomness for a key.
    #[error("the operating system gave no randomness for a key")]
    Randomness,
}

impl Error {
    /// Whether the same operation may succeed later without any change by the operator.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::LogFull { .. } | Self::Unreachable { .. })
    }
}

/// Maximum characters of a message. A database's own messages are shorter.
const MAX_MESSAGE_CHARS: usize = 300;

/// A message on one line, without control characters and of bounded length.
pub(crate) fn one_line(text: &str) -> String {
    let line = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = line.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}
