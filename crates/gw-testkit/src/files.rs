//! The limit of open files. A login shell allows 1,024, which is too few connections for some tests.

use std::process::Command;

/// Sets the limit of open files of this process and of the programs that it starts from now on.
pub fn open_files(many: usize) {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let now = files.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    if now.is_none_or(|now| now >= many) {
        return;
    }
    // The program of util-linux: the system call would need unsafe code.
    let limit = format!("--nofile={many}:");
    let status = Command::new("prlimit").args(["--pid", &std::process::id().to_string(), &limit]).status();
    assert!(status.is_ok_and(|status| status.success()), "{many} open files are not allowed here");
}
