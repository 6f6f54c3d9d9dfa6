//! The time of day of a gateway, set by the test with libfaketime.
//!
//! The monotonic clock is unchanged, so timeouts last as long as usual.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::gateway::Launch;

/// The places of the library on common distributions.
const PLACES: [&str; 4] =
    ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];

/// A time of day for every program that is launched with it.
#[derive(Debug)]
pub struct Faketime {
    directory: TempDir,
}

impl Faketime {
    /// Takes the notation of libfaketime: `+365d` is later than now, `@2026-11-22 23:50:00` (UTC) is the time at the start of a
    /// program, or at the moment of [`Faketime::set`]. The clock runs on from there.
    #[must_use]
    pub fn at(time: &str) -> Self {
        let faketime = Self { directory: tempfile::tempdir().expect("a temporary directory") };
        faketime.set(time);
        faketime
    }

    /// Sets another time of day, also for running programs.
    pub fn set(&self, time: &str) {
        // The file is replaced atomically: programs read it whenever they read the clock.
        let new = self.directory.path().join("new");
        std::fs::write(&new, format!("{time}\n")).expect("the test's directory is writable");
        std::fs::rename(&new, self.file()).expect("the test's directory is writable");
    }

    /// Launches the program with this time of day.
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
