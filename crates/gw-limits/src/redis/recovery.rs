//! Recovery after Redis has lost its memory: every replica reports what it holds. After that budgets ask the ledger.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gw_redis::{CallError, Connection};
use redis::{ErrorKind, Pipeline, RedisError, Value};

use super::answer::is_generation_refusal;
use super::holdings::Report;
use super::replica::{REPLICA_TTL, Replica};

/// The number of reports in one pipeline.
const REPORTS_PER_PIPELINE: usize = 128;
/// The time limit of each step.
const STEP_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause between two generations that this replica begins because Redis has missed something.
const FORCED_GENERATION_INTERVAL: Duration = Duration::from_secs(5);

impl Replica {
    /// Learns the generation, begins one if there is none, and reports everything that Redis does not know. Returns how
    /// long budgets wait for replicas that Redis does not know of, if this replica began the generation.
    pub(crate) async fn catch_up(&self, connection: &Connection) -> Result<Duration, CallError> {
        self.is_in_sync.send_replace(false);
        let run_id = self.ask_run_id(connection).await?;
        let wait = self.join_generation(connection, &run_id).await?;
        self.report_holdings(connection).await?;
        self.is_in_sync.send_replace(true);
        self.reported_generation.send_replace(self.holdings.generation());
        Ok(wait)
    }

    /// The run id of the server process, which changes with a restart and a failover. Empty if the server does not tell
    /// it.
    async fn ask_run_id(&self, connection: &Connection) -> Result<String, CallError> {
        let mut command = redis::cmd("INFO");
        command.arg("server");
        let text = match within_limit(connection.ask(&command)).await {
            Ok(Value::BulkString(text)) => String::from_utf8_lossy(&text).into_owned(),
            Ok(Value::VerbatimString { text, .. } | Value::SimpleString(text)) => text,
            Ok(_) => String::new(),
            // Access rules of the server may forbid the command.
            Err(CallError::Redis(error)) if is_server_error(&error) => String::new(),
            Err(error) => return Err(error),
        };
        let run_id = text.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap_or_default();
        Ok(run_id.trim().to_owned())
    }

    async fn join_generation(&self, connection: &Connection, run_id: &str) -> Result<Duration, CallError> {
        let known = self.holdings.generation();
        let is_forced = self.is_generation_stale.load(Ordering::Acquire)
            && self.last_forced_generation.lock().is_none_or(|at| at.elapsed() >= FORCED_GENERATION_INTERVAL);
        let discarded = if is_forced { &*known } else { "" };
        let peers: Option<Vec<String>> =
            self.peers.lock().as_ref().map(|peers| peers.keys().cloned().collect());
        // A replica that knows no peers cannot name those to wait for, so budgets wait for a fixed time.
        let wait = if peers.is_some() { Duration::ZERO } else { self.settings.unknown_replicas };
        let mut call = self
            .call_in_any_generation(&self.id)
            .key(self.replicas_key())
            .arg(&format!("{:032x}:{run_id}", rand::random::<u128>()))
            .arg(run_id)
            .arg(discarded)
            .arg(&wait.as_micros())
            .arg(&REPLICA_TTL.as_micros());
        for peer in peers.iter().flatten() {
            call = call.arg(peer);
        }
        let answer = within_limit(self.scripts.begin_generation.run(connection, &call)).await?;
        if is_forced {
            self.is_generation_stale.store(false, Ordering::Release);
            *self.last_forced_generation.lock() = Some(Instant::now());
        }
        if self.holdings.enter_generation(answer.field(0)) && !known.is_empty() {
            self.has_warned.store(true, Ordering::Release);
            tracing::warn!(
                "Redis has lost its memory: budgets wait until every replica has told what it holds"
            );
        }
        self.generation.send_replace(self.holdings.generation());
        Ok(if answer.field(1) == "1" { wait } else { Duration::ZERO })
    }

    /// Renews the leases of requests that go on, once they are this old.
    pub(crate) async fn renew_leases(&self, connection: &Connection, age: Duration) -> Result<(), CallError> {
        self.send_reports(connection, self.holdings.leased_for(age)).await
    }

    /// Reports everything that Redis does not know.
    async fn report_holdings(&self, connection: &Connection) -> Result<(), CallError> {
        self.send_reports(connection, self.holdings.unreported()).await
    }

    pub(crate) async fn send_reports(
        &self,
        connection: &Connection,
        reports: Vec<Report>,
    ) -> Result<(), CallError> {
        let generation = self.holdings.generation();
        if !reports.is_empty() {
            within_limit(connection.ask(&self.scripts.report_holding.load_command())).await?;
        }
        for reports in reports.chunks(REPORTS_PER_PIPELINE) {
            let mut commands = Pipeline::with_capacity(reports.len());
            for report in reports {
                commands.add_command(self.report_command(report));
            }
            for answer in within_limit(connection.ask_all(&commands)).await? {
                if is_generation_refusal(&answer.extract_error()?) {
                    // Redis lost its memory once more. The next attempt finds the new generation.
                    return Err(RedisError::from((ErrorKind::Extension, "another generation")).into());
                }
            }
            self.holdings.mark_reported(&generation, reports);
        }
        Ok(())
    }

    fn report_command(&self, report: &Report) -> redis::Cmd {
        // Redis gets the age of the request, because the clocks of replicas may differ.
        let age_micros = format!("{:.0}", self.now() - report.begun);
        let call = self.call(&report.request_id).arg(report.kind.as_str()).arg(&report.nano).arg(&age_micros);
        self.scripts.report_holding.run_command(&call.subjects(&self.settings.prefix, &report.subjects))
    }
}

fn is_server_error(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension)
}

async fn within_limit<T, E>(answer: impl Future<Output = Result<T, E>>) -> Result<T, CallError>
where
    CallError: From<E>,
{
    let answer = tokio::time::timeout(STEP_TIMEOUT, answer).await.map_err(|_| CallError::TimedOut)?;
    answer.map_err(CallError::from)
}
