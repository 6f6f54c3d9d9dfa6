//! The time of day of a gateway, as a test sets it: libfaketime stands between the program and its clock.
//!
//! The clock that only goes forward is left alone, so timeouts last as long as ever.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::gateway::Launch;

/// Where distributions keep the library.
const PLACES: [&str; 4] =
    ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];

/// A time of day. Every program that it is given to has it, until it is set anew.
#[derive(Debug)]
pub struct Faketime {
    directory: TempDir,
}

impl Faketime {
    /// As libfaketime writes times: `+365d` from now on, or `@2026-11-22 23:50:00` (UTC) when a program starts. Both run.
    #[must_use]
    pub fn at(time: &str) -> Self {
        let faketime = Self { directory: tempfile::tempdir().expect("a temporary directory") };
        faketime.set(time);
        faketime
    }

    /// The time of day jumps, for programs that run as well.
    pub fn set(&self, time: &str) {
        // The file changes as a whole: programs read it at every look at the clock.
        let new = self.directory.path().join("new");
        std::fs::write(&new, format!("{time}\n")).expect("the test's directory is writable");
        std::fs::rename(&new, self.file()).expect("the test's directory is writable");
    }

    /// The program that is launched has this time of day.
    #[must_use]
    pub fn apply(&self, launch: Launch) -> Launch {
        launch
            .env("LD_PRELOAD", &library().to_string_lossy())
            .env("FAKETIME_TIMESTAMP_FILE", &self.file().to_string_lossy())
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("TZ", "UTC")
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("time")
    }
}

fn library() -> PathBuf {
    let place = |directory: &&str| Path::new(directory).join("faketime/libfaketimeMT.so.1");
    let found = PLACES.iter().map(place).find(|path| path.exists());
    found.expect("libfaketime is installed, as ./test does it")
}
