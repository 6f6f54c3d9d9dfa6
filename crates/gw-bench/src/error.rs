//! Reasons why a benchmark cannot run or must not be reported.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// The result of a benchmark's step.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Why a benchmark has failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A system call of the benchmark itself.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A request of the benchmark is not valid.
    #[error("{0}")]
    Request(#[from] gw_wire::request::Invalid),
    /// A file of the benchmark cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file of the benchmark cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The budgets are exceeded, or their file cannot be used.
    #[error("{0}")]
    Budgets(String),
    /// The measured store has failed.
    #[error("{0}")]
    Store(#[from] gw_store::Error),
    /// A measured program cannot be started.
    #[error("cannot start {command}: {source}")]
    Start {
        /// The program with its arguments.
        command: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A measured program has ended before it listened.
    #[error("{command} ended at once: {status}")]
    Ended {
        /// The program with its arguments.
        command: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// A measured program runs but does not listen.
    #[error("{0} did not listen within 10 s")]
    NotListening(String),
    /// The connection was closed in the middle of an answer.
    #[error("the connection was closed in the middle of an answer")]
    Closed,
    /// An answer is not a 200 with the expected end.
    #[error("unexpected answer: {0}")]
    UnexpectedAnswer(String),
    /// A task of the load has panicked.
    #[error("a task of the benchmark failed: {0}")]
    Task(#[from] tokio::task::JoinError),
    /// A thread of the benchmark has panicked.
    #[error("the {0} thread panicked")]
    Thread(&'static str),
}

impl Error {
    /// A program that cannot be started.
    pub(crate) fn start(command: &Command, source: io::Error) -> Self {
        Self::Start { command: format!("{command:?}"), source }
    }

    /// A file that cannot be read.
    pub(crate) fn read(path: &Path, source: io::Error) -> Self {
        Self::Read { path: path.to_owned(), source }
    }

    /// A file that cannot be written.
    pub(crate) fn write(path: &Path, source: io::Error) -> Self {
        Self::Write { path: path.to_owned(), source }
    }
}
