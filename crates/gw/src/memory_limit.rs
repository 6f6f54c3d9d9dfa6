//! The memory that the system allows this process: the limit of its control group, as containers and services set it.

use std::fs;
use std::path::{Path, PathBuf};

use gw_server::settings::ServerSettings;

/// The place where Linux shows control groups.
const CGROUP_ROOT: &str = "/sys/fs/cgroup";
/// The part of the allowed memory for request bodies. A body is held beside its parsed form and its upstream's form.
const BODY_SHARE: u64 = 8;

/// These settings with a memory for large request bodies that fits into the memory of this process. The operator's own
/// value stands.
#[must_use]
pub fn fitted(settings: ServerSettings) -> ServerSettings {
    fitted_to(allowed(), settings)
}

/// The memory that the system allows this process, in bytes. None: it has no limit.
#[must_use]
pub fn allowed() -> Option<u64> {
    let own_groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    allowed_bytes(Path::new(CGROUP_ROOT), &own_groups)
}

/// As [`fitted`], where the system allows so many bytes. One body of the largest size always fits.
fn fitted_to(allowed_bytes: Option<u64>, mut settings: ServerSettings) -> ServerSettings {
    if let (None, Some(allowed)) = (settings.body_memory, allowed_bytes) {
        let share = usize::try_from(allowed / BODY_SHARE).unwrap_or(usize::MAX);
        settings.body_memory = Some(share.clamp(settings.body_limit, settings.usual_body_memory()));
    }
    settings
}

/// The smallest limit of the control group and its ancestors, in bytes. `own_groups` is the text of `/proc/self/cgroup`.
fn allowed_bytes(root: &Path, own_groups: &str) -> Option<u64> {
    own_groups.lines().filter_map(|line| limit_of_line(root, line)).min()
}

/// The limit that a line such as `0::/a/b` (version 2) or `4:memory:/a/b` (version 1) leads to.
fn limit_of_line(root: &Path, line: &str) -> Option<u64> {
    let mut fields = line.splitn(3, ':');
    let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let (mount, file) = if number == "0" && controllers.is_empty() {
        (root.to_owned(), "memory.max")
    } else if controllers.split(',').any(|controller| controller == "memory") {
        (root.join("memory"), "memory.limit_in_bytes")
    } else {
        return None;
    };
    // In a container the group's own path may not be visible. Its limit then lies at the mount itself.
    let below = PathBuf::from(path.trim_start_matches('/'));
    below.ancestors().filter_map(|group| limit_in(&mount.join(group).join(file))).min()
}

/// The number in a limit's file. Version 2 writes `max` for no limit, version 1 a number near 2⁶³.
fn limit_in(file: &Path) -> Option<u64> {
    let limit: u64 = fs::read_to_string(file).ok()?.trim().parse().ok()?;
    (limit < 1 << 62).then_some(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree with these files, and the limit that `own_groups` leads to.
    fn limit_of(files: &[(&str, &str)], own_groups: &str) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = root.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        allowed_bytes(root.path(), own_groups)
    }

    #[test]
    fn the_smallest_limit_of_a_group_and_its_ancestors_counts() {
        let v2 = [("memory.max", "max\n"), ("a/memory.max", "500\n"), ("a/b/memory.max", "900\n")];
        assert_eq!(limit_of(&v2, "0::/a/b\n"), Some(500));
        assert_eq!(limit_of(&v2, "0::/\n"), None, "max is no limit");
        let v1 = [
            ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory/a/memory.limit_in_bytes", "700\n"),
        ];
        assert_eq!(limit_of(&v1, "3:cpuset:/\n4:memory:/a\n0::/\n"), Some(700));
        assert_eq!(limit_of(&v1, "4:memory:/\n"), None, "a number near 2^63 is no limit");
    }

    #[test]
    fn a_container_that_does_not_see_its_path_reads_the_mount() {
        assert_eq!(limit_of(&[("memory.max", "512")], "0::/kubepods/pod1/x\n"), Some(512));
        let v1 = [("memory/memory.limit_in_bytes", "512")];
        assert_eq!(limit_of(&v1, "9:cpu,memory:/docker/x\n"), Some(512));
    }

    #[test]
    fn bodies_take_an_eighth_of_the_allowed_memory() {
        let fitted = |allowed, body_memory| {
            let settings = ServerSettings { body_limit: 32 << 20, body_memory, ..ServerSettings::default() };
            fitted_to(allowed, settings).body_memory
        };
        assert_eq!(fitted(Some(512 << 20), None), Some(64 << 20));
        assert_eq!(fitted(Some(128 << 20), None), Some(32 << 20), "one body fits");
        assert_eq!(fitted(Some(64 << 30), None), Some(192 << 20), "never more than usual");
        assert_eq!(fitted(Some(512 << 20), Some(100 << 20)), Some(100 << 20), "the operator's own value");
        assert_eq!(fitted(None, None), None);
    }

    #[test]
    fn what_is_no_limit_is_none() {
        assert_eq!(limit_of(&[], "0::/\n"), None);
        assert_eq!(limit_of(&[("memory.max", "soon")], "0::/\n"), None);
        assert_eq!(limit_of(&[("memory.max", "512")], "no groups at all"), None);
        assert_eq!(limit_of(&[("memory.max", "512")], ""), None);
    }
}
