//! A control group with a limit of memory: the container that a process of a test runs in.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A control group of version 1 or 2. It is removed at its end, so its processes must have ended before.
#[derive(Debug)]
pub struct MemoryGroup {
    path: PathBuf,
    is_version_2: bool,
}

impl MemoryGroup {
    /// A group with this limit. None: this machine lets no group be made.
    #[must_use]
    pub fn new(limit_bytes: u64) -> Option<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let root = Path::new("/sys/fs/cgroup");
        let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        let is_version_2 = controllers.split_whitespace().any(|controller| controller == "memory");
        let (parent, limit) = if is_version_2 {
            (root.to_owned(), "memory.max")
        } else {
            (root.join("memory"), "memory.limit_in_bytes")
        };
        if is_version_2 {
            fs::write(root.join("cgroup.subtree_control"), "+memory").ok()?;
        }
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("model-gateway-test-{}-{number}", std::process::id()));
        // Where no controller of version 1 is mounted, this is no folder of groups.
        if !is_version_2 && !parent.join(limit).exists() {
            return None;
        }
        fs::create_dir(&path).ok()?;
        let group = Self { path, is_version_2 };
        let limited = fs::OpenOptions::new().write(true).open(group.path.join(limit));
        limited
            .and_then(|mut file| std::io::Write::write_all(&mut file, limit_bytes.to_string().as_bytes()))
            .ok()?;
        Some(group)
    }

    /// The file to which a process writes its id to join the group.
    #[must_use]
    pub fn members(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    /// The number of processes that were killed for want of memory.
    #[must_use]
    pub fn kills(&self) -> u64 {
        let name = if self.is_version_2 { "memory.events" } else { "memory.oom_control" };
        let events = fs::read_to_string(self.path.join(name)).unwrap_or_default();
        let line = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.and_then(|count| count.trim().parse().ok()).expect("the kernel counts kills")
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.path);
    }
}
