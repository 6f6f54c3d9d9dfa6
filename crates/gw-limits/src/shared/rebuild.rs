//! Redis has lost its memory: every replica tells it again what it holds, and the ledger is asked after that.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gw_redis::{Link, why};
use redis::{ErrorKind, Pipeline, RedisError, Value};

use super::core::{ALIVE, Core, run};
use super::register::Report;

/// Reports that are sent at once.
const CHUNK: usize = 128;
/// How long the answers to them may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two generations that this replica begins because Redis has missed something.
const PAUSE: Duration = Duration::from_secs(5);

/// How Redis stands with this replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has been told everything.
    Told,
    /// It is being told: nothing that was told can be taken back meanwhile.
    Telling,
}

impl Core {
    /// Somebody met another generation, or none: the one who keeps the connection finds out.
    pub(super) fn suspect(&self) {
        self.is_suspected.store(true, Ordering::Release);
        self.suspected.notify_one();
    }

    /// What Redis knows is wrong: the ledger is to be asked about everything again, as soon as Redis can be told so.
    pub(crate) fn begin_anew(&self) {
        self.anew.store(true, Ordering::Release);
        self.suspect();
    }

    /// A sign of life, after what there is to be told.
    pub(super) async fn tend(&self, link: &Arc<Link>) {
        let is_due = self.is_suspected.swap(false, Ordering::AcqRel)
            || !self.has_told()
            || self.anew.load(Ordering::Acquire)
            || self.register.has_untold();
        if is_due {
            self.catch_up(link).await;
        }
        self.beat(link).await;
    }

    /// Whether Redis has been told everything.
    pub(super) fn has_told(&self) -> bool {
        *self.standing.borrow() == Standing::Told
    }

    /// Waits until Redis has been told everything.
    pub(super) async fn until_told(&self) {
        let mut standing = self.standing.subscribe();
        let _never = standing.wait_for(|standing| *standing == Standing::Told).await;
    }

    /// Waits until this is not the generation any more, but not longer than this.
    pub(super) async fn until_other(&self, generation: &str, at_most: Duration) -> bool {
        let mut seen = self.generation.subscribe();
        let other = seen.wait_for(|now| **now != *generation);
        matches!(tokio::time::timeout(at_most, other).await, Ok(Ok(_)))
    }

    /// Hears which generation it is, begins one where there is none, and tells what Redis does not know. Gives the time
    /// that budgets wait for replicas nobody knows of, when it begins one; None when Redis did not answer.
    pub(super) async fn catch_up(&self, link: &Arc<Link>) -> Option<Duration> {
        self.standing.send_replace(Standing::Telling);
        let caught_up = async {
            let run_id = self.run_id(link).await?;
            let waits = self.hear(link, &run_id).await?;
            self.tell(link).await?;
            Ok::<_, RedisError>(waits)
        };
        match caught_up.await {
            Ok(waits) => {
                self.standing.send_replace(Standing::Told);
                self.told.send_replace(self.register.generation());
                Some(waits)
            }
            Err(error) => {
                let broken = !matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension);
                self.line.missed(link, broken, why(&error));
                // It is tried again at the next beat, or over the next connection.
                None
            }
        }
    }

    /// The server's name for its own process: another one after a restart or a failover. Empty when it does not say.
    async fn run_id(&self, link: &Link) -> Result<String, RedisError> {
        let mut command = redis::cmd("INFO");
        command.arg("server");
        let asked = tokio::time::timeout(PATIENCE, link.ask(&command)).await;
        let text = match asked.map_err(|_| late())? {
            Ok(Value::BulkString(text)) => String::from_utf8_lossy(&text).into_owned(),
            Ok(Value::VerbatimString { text, .. } | Value::SimpleString(text)) => text,
            Ok(_) => String::new(),
            // A server that does not let everybody ask.
            Err(error) if matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension) => {
                String::new()
            }
            Err(error) => return Err(error),
        };
        let run_id = text.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap_or_default();
        Ok(run_id.trim().to_owned())
    }

    async fn hear(&self, link: &Link, run_id: &str) -> Result<Duration, RedisError> {
        let known = self.register.generation();
        let may_begin = self.anew.load(Ordering::Acquire)
            && self.begun.lock().is_none_or(|begun| begun.elapsed() >= PAUSE);
        let over = if may_begin { &*known } else { "" };
        let peers: Option<Vec<String>> =
            self.peers.lock().as_ref().map(|known| known.keys().cloned().collect());
        // Who has never heard of anybody does not know whom to wait for.
        let not_before = if peers.is_some() { Duration::ZERO } else { self.settings.unknown_replicas };
        let mut call = self
            .call_for_any(&self.replica)
            .arg(&format!("{:032x}:{run_id}", rand::random::<u128>()))
            .arg(run_id)
            .arg(over)
            .arg(&not_before.as_micros())
            .arg(&ALIVE.as_micros());
        for peer in peers.iter().flatten() {
            call = call.arg(peer);
        }
        let answer = tokio::time::timeout(PATIENCE, run(link, &self.scripts.begin, &call)).await;
        let answer = answer.map_err(|_| late())??;
        if may_begin {
            self.anew.store(false, Ordering::Release);
            *self.begun.lock() = Some(Instant::now());
        }
        if self.register.begin(answer.field(0)) && !known.is_empty() {
            self.has_warned.store(true, Ordering::Release);
            tracing::warn!(
                "Redis has lost its memory: budgets wait until every replica has told what it holds"
            );
        }
        self.generation.send_replace(self.register.generation());
        Ok(if answer.field(1) == "1" { not_before } else { Duration::ZERO })
    }

    /// Tells everything that Redis does not know.
    async fn tell(&self, link: &Link) -> Result<(), RedisError> {
        let generation = self.register.generation();
        let reports = self.register.untold();
        if !reports.is_empty() {
            let load = self.scripts.report.load();
            tokio::time::timeout(PATIENCE, link.ask(&load)).await.map_err(|_| late())??;
        }
        for reports in reports.chunks(CHUNK) {
            let mut commands = Pipeline::with_capacity(reports.len());
            for report in reports {
                commands.add_command(self.report(report));
            }
            let answers = tokio::time::timeout(PATIENCE, link.ask_all(&commands)).await;
            for answer in answers.map_err(|_| late())?? {
                if is_refused(&answer.extract_error()?) {
                    // Lost once more: found out at the next try.
                    return Err((ErrorKind::Extension, "another generation").into());
                }
            }
            self.register.told(&generation, reports);
        }
        Ok(())
    }

    fn report(&self, report: &Report) -> redis::Cmd {
        let prefix = &self.settings.prefix;
        let ago = format!("{:.0}", self.now() - report.begun);
        let call = self.call(&report.request_id).arg(report.what.as_str()).arg(&report.nano).arg(&ago);
        self.scripts
            .report
            .run(&report.subjects.iter().fold(call, |call, subject| call.subject(prefix, subject)))
    }
}

/// Whether a script refuses because of the generation, or says nothing that can be read.
pub(super) fn is_refused(answer: &Value) -> bool {
    let Value::Array(fields) = answer else { return true };
    let why = fields.get(2).map(|why| matches!(why, Value::BulkString(why) if why == b"generation"));
    why.unwrap_or(true)
}

fn late() -> RedisError {
    (ErrorKind::Io, "no answer in time").into()
}
