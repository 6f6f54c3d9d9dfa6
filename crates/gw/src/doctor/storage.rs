//! Checks the store, Redis, and the clock of this machine.

use gw_config::paths::DataDirError;
use gw_config::setup::Setup;
use gw_config::stored_configuration::overlay::OverlayError;
use gw_config::stored_configuration::{self, MergeError};
use gw_config::{encryption_key, paths};
use gw_limits::{RedisFacts, RedisSettings};
use gw_store::inspection::{Inspection, inspect_file, inspect_server};
use gw_store::{Error, Store};
use gw_wire::calendar;
use secrecy::ExposeSecret;

use super::finding::{DoctorFinding, DoctorReport};
use crate::store::StoreLocation;
use crate::{clock, store};

/// The oldest Redis that has the commands of the gateway.
const OLDEST_REDIS: (u32, u32) = (6, 2);
/// Differences between clocks that deserve a warning and a failure, in milliseconds.
const CLOCK_DIFFERENCES: [u64; 2] = [5_000, 300_000];

/// A clock of another machine.
#[derive(Debug)]
pub(super) struct OtherClock {
    /// The machine, such as `PostgreSQL`.
    pub(super) name: String,
    /// Milliseconds that it is ahead of this machine.
    pub(super) ahead: i64,
}

impl OtherClock {
    /// Compares a time, in unix milliseconds, with the present.
    pub(super) fn read(name: &str, time: i64) -> Self {
        Self { name: name.to_owned(), ahead: time.saturating_sub(calendar::unix_millis()) }
    }
}

/// Checks the store and Redis. Returns their clocks.
pub(super) async fn check(setup: &Setup, report: &mut DoctorReport) -> Vec<OtherClock> {
    let mut clocks = check_store(setup, report).await;
    if let Some(settings) = &setup.config.redis {
        clocks.extend(check_redis(settings, report).await);
    }
    clocks
}

async fn check_store(setup: &Setup, report: &mut DoctorReport) -> Vec<OtherClock> {
    let inspected = match store::location(setup) {
        Ok(StoreLocation::File(file)) => inspect_file(&file).await,
        Ok(StoreLocation::Server(url)) => inspect_server(url.expose_secret()).await,
        Ok(StoreLocation::Memory) => {
            let message = "in the memory of the process: keys and usage end with it";
            report.add(
                DoctorFinding::warning("store", "memory", message)
                    .remedy("set store.url to a file or to PostgreSQL for anything but tests"),
            );
            return Vec::new();
        }
        // The check of the data directory reports this.
        Err(DataDirError::Unknown | DataDirError::Uncreatable { .. }) => return Vec::new(),
    };
    match inspected {
        Ok(inspection) => {
            report.add(schema(&inspection));
            if inspection.found == Some(inspection.known) {
                check_content(setup, report).await;
            }
            inspection.server_time.map(|time| OtherClock::read("PostgreSQL", time)).into_iter().collect()
        }
        Err(error) => {
            report.add(refusal(&error));
            Vec::new()
        }
    }
}

fn schema(Inspection { location, found, known, .. }: &Inspection) -> DoctorFinding {
    match found {
        None => DoctorFinding::ok("store", location, "is empty; the first start creates its schema"),
        Some(found) if found < known => {
            let message = format!("has schema {found}; the next start updates it to {known}");
            DoctorFinding::warning("store", location, &message)
                .remedy("make a backup before the start: `model-gateway backup FILE`")
        }
        Some(found) => {
            DoctorFinding::ok("store", location, &format!("answers, with schema {found}, the newest"))
        }
    }
}

fn refusal(error: &Error) -> DoctorFinding {
    let remedy = match error {
        Error::Newer { .. } => {
            "use the program that wrote the store, or restore a backup from before the upgrade"
        }
        Error::Unreachable { .. } => "check store.url, and that the server runs and accepts this machine",
        Error::Damaged { .. } => "restore a backup: `model-gateway restore FILE --replace`",
        Error::ReadOnly { .. } => "give the file and its directory to the gateway's user",
        Error::DiskFull { .. } => "free space on the disk of the store, or raise the quota of its user",
        Error::Busy { .. } => "find the program that holds the lock, for example with fuser",
        Error::LogFull { .. } => {
            "end the program that reads the file for so long, such as a backup or a shell of SQLite"
        }
        Error::Url(_) => "correct store.url",
        Error::Taken { .. }
        | Error::TooSlow { .. }
        | Error::Failed { .. }
        | Error::OldSqlite(_)
        | Error::Randomness => "correct what the finding names, and run doctor again",
    };
    DoctorFinding::failed("store", "[store]", &error.to_string()).remedy(remedy)
}

/// Checks the content of a store with the newest schema.
async fn check_content(setup: &Setup, report: &mut DoctorReport) {
    match store::open_shared(setup).await {
        Ok(store) => {
            report.add(doubt(&store).await);
            check_stored_configuration(setup, &store, report).await;
            store.close().await;
        }
        Err(error) => report.add(
            DoctorFinding::failed("store", "[store]", &error.to_string())
                .remedy("correct what the finding names, and run doctor again"),
        ),
    }
}

/// Checks the encryption key, and the entries that the API has made beside the file.
async fn check_stored_configuration(setup: &Setup, store: &Store, report: &mut DoctorReport) {
    let data = paths::find_data_dir(setup.config.data_dir.as_deref()).unwrap_or_default();
    let key = encryption_key::preview(store, &data).await;
    let sealer = match key.and_then(|key| encryption_key::secret_sealer(&key)) {
        Ok(sealer) => sealer,
        Err(error) => {
            let remedy = "give the gateway the encryption key with which it has sealed its secrets";
            report.add(DoctorFinding::failed("encryption key", "[store]", &error.to_string()).remedy(remedy));
            return;
        }
    };
    let (check, subject) = ("configuration", "made over the API");
    match stored_configuration::check(setup, store, &sealer).await {
        Ok(0) => {}
        Ok(count) => {
            let entries = if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") };
            report.add(DoctorFinding::ok(check, subject, &format!("{entries}, no problems")));
        }
        Err(MergeError::Problems(problems)) => {
            for problem in problems {
                let remedy = "correct the file so that it fits the entries of the configuration API";
                report.add(DoctorFinding::failed(check, subject, &problem).remedy(remedy));
            }
        }
        Err(error @ MergeError::Overlay(OverlayError::Secret { .. })) => {
            let remedy = "give the gateway the encryption key with which it has sealed its secrets: in secret.key of the data directory, \
                          in the store, or in MODEL_GATEWAY_ENCRYPTION_KEY";
            report.add(DoctorFinding::failed(check, subject, &error.to_string()).remedy(remedy));
        }
        Err(error @ MergeError::Overlay(_)) => {
            let remedy = "correct what the finding names, and run doctor again";
            report.add(DoctorFinding::failed(check, subject, &error.to_string()).remedy(remedy));
        }
    }
}

/// Whether the gateway doubts the clock of this machine, so that it purges nothing.
async fn doubt(store: &Store) -> DoctorFinding {
    match clock::doubt(store).await {
        Ok(None) => DoctorFinding::ok("clock", "last use", "agrees with the times in the store"),
        Ok(Some(doubt)) => DoctorFinding::failed("clock", "last use", &doubt)
            .remedy("correct the clock, or run `model-gateway clock --confirm`"),
        Err(error) => DoctorFinding::failed("clock", "last use", &error.to_string())
            .remedy("see the finding about the store"),
    }
}

async fn check_redis(settings: &RedisSettings, report: &mut DoctorReport) -> Option<OtherClock> {
    match RedisFacts::ask(settings).await {
        Ok(facts) => {
            redis_findings(&facts).into_iter().for_each(|finding| report.add(finding));
            Some(OtherClock::read(facts.product, facts.time))
        }
        Err(error) => {
            report.add(
                DoctorFinding::failed("redis", "[redis]", &format!("cannot be used: {error}")).remedy(
                    "check redis.url, and that the server runs, accepts this machine and the password",
                ),
            );
            None
        }
    }
}

fn redis_findings(facts: &RedisFacts) -> Vec<DoctorFinding> {
    let name = format!("{} {}", facts.product, facts.version);
    let mut findings = Vec::new();
    if facts.compatible < OLDEST_REDIS {
        findings.push(
            DoctorFinding::failed("redis", &name, "is too old").remedy("use Redis 6.2 or later, or Valkey"),
        );
    }
    if facts.is_cluster {
        let message = "is part of a cluster, which the gateway's scripts cannot use";
        findings.push(
            DoctorFinding::failed("redis", &name, message).remedy("use one Redis, with replicas if needed"),
        );
    }
    if !facts.is_primary {
        let message = "is a replica and refuses writes";
        findings.push(DoctorFinding::failed("redis", &name, message).remedy("set redis.url to the primary"));
    }
    if !facts.last_save_succeeded {
        let message = "could not save its last snapshot, and may refuse writes";
        findings.push(
            DoctorFinding::warning("redis", &name, message).remedy("free disk space on the Redis server"),
        );
    }
    if facts.max_memory_bytes > 0 && facts.eviction_policy != "noeviction" {
        let message = format!("evicts keys ({}), so budgets can be forgotten", facts.eviction_policy);
        findings.push(
            DoctorFinding::warning("redis", &name, &message)
                .remedy("set maxmemory-policy noeviction, in a Redis for limits alone"),
        );
    }
    if findings.is_empty() {
        let persistence = if facts.has_append_only_file { "with" } else { "without" };
        let message = format!(
            "answers, {persistence} an append-only file; if Redis loses its memory, the gateway counts the budgets again from its ledger"
        );
        findings.push(DoctorFinding::ok("redis", &name, &message));
    }
    findings
}

/// Compares the clock of this machine with the others.
pub(super) fn compare_clocks(clocks: &[OtherClock], report: &mut DoctorReport) {
    if clocks.is_empty() {
        let message = "not compared: no other machine was asked; --providers compares with the providers";
        report.add(DoctorFinding::ok("clock", "other machines", message));
    }
    for OtherClock { name, ahead } in clocks {
        let distance = ahead.unsigned_abs();
        let side = if *ahead > 0 { "behind" } else { "ahead of" };
        let message = format!("this machine is {}.{} s {side} it", distance / 1000, distance % 1000 / 100);
        let remedy = "synchronise the clock (chrony, systemd-timesyncd)";
        report.add(match CLOCK_DIFFERENCES {
            [_, much] if distance >= much => DoctorFinding::failed("clock", name, &message).remedy(remedy),
            [little, _] if distance >= little => {
                DoctorFinding::warning("clock", name, &message).remedy(remedy)
            }
            _ => DoctorFinding::ok("clock", name, &message),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(findings: Vec<DoctorFinding>) -> Vec<String> {
        let mut report = DoctorReport::default();
        findings.into_iter().for_each(|finding| report.add(finding));
        let value: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        let all = value["findings"].as_array().unwrap().iter();
        all.map(|finding| finding["result"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn the_facts_of_redis_are_judged() {
        let good = RedisFacts {
            product: "Redis",
            version: "7.2.4".to_owned(),
            compatible: (7, 2),
            is_primary: true,
            is_cluster: false,
            max_memory_bytes: 0,
            eviction_policy: "allkeys-lru".to_owned(),
            has_append_only_file: false,
            last_save_succeeded: true,
            time: 0,
        };
        assert_eq!(results(redis_findings(&good)), ["ok"]);
        let evicting = RedisFacts { max_memory_bytes: 1, ..good.clone() };
        assert_eq!(results(redis_findings(&evicting)), ["warning"]);
        let bad = RedisFacts { compatible: (6, 0), is_primary: false, is_cluster: true, ..good };
        assert_eq!(results(redis_findings(&bad)), ["failed", "failed", "failed"]);
    }

    #[test]
    fn clocks_that_differ_are_told() {
        let clock = |ahead| OtherClock { name: "x".to_owned(), ahead };
        let mut report = DoctorReport::default();
        compare_clocks(&[clock(-4_999), clock(5_000), clock(300_000)], &mut report);
        let value: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        let told = |at: usize| {
            let finding = &value["findings"][at];
            format!("{}: {}", finding["result"].as_str().unwrap(), finding["message"].as_str().unwrap())
        };
        assert_eq!(told(0), "ok: this machine is 4.9 s ahead of it");
        assert_eq!(told(1), "warning: this machine is 5.0 s behind it");
        assert_eq!(told(2), "failed: this machine is 300.0 s behind it");
    }
}
