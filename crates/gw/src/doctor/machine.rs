//! Checks this machine: open files, memory, the data directory.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use gw_config::Config;
use gw_config::paths;
use gw_config::setup::Setup;
use gw_engine::stored_responses::ResponsePlace;

use super::finding::{DoctorFinding, DoctorReport};
use crate::open_files;
use crate::store;
use crate::store::StoreLocation;

/// The memory of the program without caches and requests.
const OWN_BYTES: u64 = 128 << 20;
/// Bodies of the largest size that should fit into memory at once.
const LARGE_BODIES: u64 = 4;
/// Less free space than this is a failure, and less than the second value is a warning.
const LITTLE_SPACE: [u64; 2] = [100 << 20, 1 << 30];
/// The numbers of NFS, CIFS and SMB in `statfs`.
#[cfg(target_os = "linux")]
const NETWORK_FILE_SYSTEMS: [u64; 3] = [0x6969, 0xff53_4d42, 0xfe53_4d42];

pub(super) fn check(setup: &Setup, report: &mut DoctorReport) {
    report.add(open_files(open_files::most(), setup.config.server.max_connections as u64));
    report.add(memory(memory_limit(), needed_memory(&setup.config)));
    match paths::find_data_dir(setup.config.data_dir.as_deref()) {
        Some(path) => {
            data_directory(&path, matches!(store::location(setup), Ok(StoreLocation::File(_))), report)
        }
        None => report.add(
            DoctorFinding::failed("data directory", "-", "no data directory is known")
                .remedy("set server.data_dir or MODEL_GATEWAY_DATA_DIR"),
        ),
    }
}

/// A proxied request needs two connections. `most` None: no limit.
fn open_files(most: Option<u64>, max_connections: u64) -> DoctorFinding {
    let Some(most) = most else { return DoctorFinding::ok("open files", "limit", "unlimited") };
    let clients = open_files::clients(most);
    let message = format!("{most}: enough for about {clients} clients at once");
    if open_files::are_few(clients, max_connections) {
        return DoctorFinding::warning("open files", "limit", &message).remedy(open_files::REMEDY);
    }
    DoctorFinding::ok("open files", "limit", &message)
}

/// The memory that caches, stored responses and a few large requests use.
fn needed_memory(config: &Config) -> u64 {
    let cache = &config.cache;
    let answers = if cache.enabled && !cache.shared { cache.max_bytes } else { 0 };
    let similar: u64 = cache.semantic.iter().map(|settings| settings.similar.max_bytes as u64).sum();
    let responses = match config.responses.place {
        ResponsePlace::Memory { max_bytes } => max_bytes,
        ResponsePlace::Off | ResponsePlace::Database => 0,
    };
    OWN_BYTES + answers + similar + responses + config.server.body_limit as u64 * LARGE_BODIES
}

fn memory(limit: Option<(u64, &'static str)>, needed: u64) -> DoctorFinding {
    let mib = |bytes: u64| bytes >> 20;
    let Some((bytes, source)) = limit else {
        return DoctorFinding::warning("memory", "limit", "the memory of this machine cannot be read")
            .remedy(&format!("see that {} MiB are free", mib(needed)));
    };
    let message = format!("{} MiB, of which this configuration can use {} MiB", mib(bytes), mib(needed));
    if bytes >= needed {
        return DoctorFinding::ok("memory", source, &message);
    }
    DoctorFinding::warning("memory", source, &message)
        .remedy("raise the limit, or lower cache.max_mib and server.body_limit_mib")
}

/// The smallest limit of the control groups of this process, else the memory of the machine, in bytes.
fn memory_limit() -> Option<(u64, &'static str)> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = groups
        .lines()
        .flat_map(limit_files)
        .filter_map(|file| fs::read_to_string(file).ok()?.trim().parse::<u64>().ok());
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_memory(&text));
    let group = limits.min().filter(|limit| machine.is_none_or(|machine| *limit < machine));
    group.map(|limit| (limit, "control group")).or_else(|| machine.map(|bytes| (bytes, "machine")))
}

/// The files with the limits of a control group and its parents. `line` is one of /proc/self/cgroup.
fn limit_files(line: &str) -> Vec<PathBuf> {
    let mut parts = line.splitn(3, ':');
    let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
        return Vec::new();
    };
    let (root, name) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max"),
        words if words.split(',').any(|word| word == "memory") => {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    let group = Path::new(path.trim_start_matches('/'));
    group.ancestors().map(|part| Path::new(root).join(part).join(name)).collect()
}

/// The total in /proc/meminfo, in bytes.
fn total_memory(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib << 10)
}

fn data_directory(path: &Path, holds_store: bool, report: &mut DoctorReport) {
    let name = path.display().to_string();
    report.add(rights(path, &name));
    // The space counts where the directory is or will be.
    #[cfg(not(target_os = "linux"))]
    let _ = holds_store;
    let Some(existing) = path.ancestors().find(|part| part.exists()) else { return };
    if let Ok(found) = rustix::fs::statvfs(existing) {
        report.add(space(&name, found.f_bavail.saturating_mul(found.f_frsize)));
    }
    // The numbers are those of Linux.
    #[cfg(target_os = "linux")]
    if holds_store
        && let Ok(found) = rustix::fs::statfs(existing)
        && NETWORK_FILE_SYSTEMS.contains(&found.f_type.unsigned_abs())
    {
        let message = "is on a network file system, whose locks SQLite cannot rely on";
        report.add(
            DoctorFinding::failed("data directory", &name, message)
                .remedy("use a local disk, or PostgreSQL (store.url = \"postgres://…\")"),
        );
    }
}

fn rights(path: &Path, name: &str) -> DoctorFinding {
    let remedy = "give the directory to the gateway's user, or set server.data_dir";
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return DoctorFinding::ok(
                "data directory",
                name,
                "does not exist yet; the first start creates it",
            );
        }
        Err(error) => {
            return DoctorFinding::failed("data directory", name, &error.to_string()).remedy(remedy);
        }
    };
    if !found.is_dir() {
        return DoctorFinding::failed("data directory", name, "is not a directory").remedy(remedy);
    }
    if let Err(error) = tempfile::tempfile_in(path) {
        return DoctorFinding::failed(
            "data directory",
            name,
            &format!("this user cannot write there: {error}"),
        )
        .remedy(remedy);
    }
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o777;
        if mode & 0o077 != 0 {
            let message = format!("other users have rights there (mode {mode:o})");
            return DoctorFinding::warning("data directory", name, &message)
                .remedy(&format!("chmod 700 {name}"));
        }
    }
    DoctorFinding::ok("data directory", name, "writable, and closed to other users")
}

fn space(name: &str, free: u64) -> DoctorFinding {
    let message = format!("{} MiB are free", free >> 20);
    let remedy = "free space, or lower store.retention_days";
    match LITTLE_SPACE {
        [least, _] if free < least => DoctorFinding::failed("disk space", name, &message).remedy(remedy),
        [_, little] if free < little => DoctorFinding::warning("disk space", name, &message).remedy(remedy),
        _ => DoctorFinding::ok("disk space", name, &message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(finding: DoctorFinding) -> String {
        let mut report = DoctorReport::default();
        report.add(finding);
        let value: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        value["result"].as_str().unwrap().to_owned()
    }

    #[test]
    fn open_files_are_compared_with_the_connections() {
        assert_eq!(result(open_files(Some(256), 65_536)), "warning");
        assert_eq!(result(open_files(Some(256), 90)), "ok");
        assert_eq!(result(open_files(Some(65_536), 65_536)), "ok");
        assert_eq!(result(open_files(None, 65_536)), "ok");
    }

    #[test]
    fn the_limit_of_a_group_and_its_parents_is_found() {
        let paths = |line: &str| -> Vec<String> {
            limit_files(line).iter().map(|path| path.display().to_string()).collect()
        };
        let expected =
            ["/sys/fs/cgroup/a/b/memory.max", "/sys/fs/cgroup/a/memory.max", "/sys/fs/cgroup/memory.max"];
        assert_eq!(paths("0::/a/b"), expected);
        let expected =
            ["/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
        assert_eq!(paths("7:cpu,memory:/c"), expected);
        assert!(paths("3:pids:/a").is_empty() && paths("odd").is_empty());
    }

    #[test]
    fn memory_is_compared_with_the_need_of_the_configuration() {
        assert_eq!(total_memory("MemTotal:       2048 kB\nMemFree: 1 kB\n"), Some(2 << 20));
        let need = needed_memory(&Config::default());
        assert_eq!(result(memory(Some((need, "machine")), need)), "ok");
        assert_eq!(result(memory(Some((need - 1, "control group")), need)), "warning");
    }

    #[test]
    fn little_space_is_a_warning_and_almost_none_is_a_failure() {
        let results = [50 << 20, 500 << 20, 5 << 30].map(|free| result(space("d", free)));
        assert_eq!(results, ["failed", "warning", "ok"]);
    }

    #[test]
    fn the_rights_of_the_data_directory_are_checked() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let set = |mode| fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode)).unwrap();
        set(0o755);
        assert_eq!(result(rights(directory.path(), "d")), "warning");
        set(0o700);
        assert_eq!(result(rights(directory.path(), "d")), "ok");
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(result(rights(&file, "d")), "failed");
    }
}
