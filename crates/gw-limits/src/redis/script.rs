//! The Lua scripts, and how they are loaded and run.

use gw_redis::{CallError, Connection};
use gw_store::{Period, PeriodLength, ROLLING_STEPS};
use redis::{Cmd, ErrorKind, FromRedisValue, ServerErrorKind};

use super::answer::Answer;
use super::script_call::ScriptCall;
use crate::part::PART;

/// A script and the hash under which Redis stores it.
#[derive(Debug)]
pub(crate) struct Script {
    code: String,
    hash: String,
}

/// All scripts. Each file describes its script.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) admit: Script,
    pub(crate) reserve: Script,
    pub(crate) settle: Script,
    pub(crate) release: Script,
    pub(crate) take_back: Script,
    pub(crate) learn_spending: Script,
    pub(crate) forget_spending: Script,
    pub(crate) heartbeat: Script,
    pub(crate) circuits: Script,
    pub(crate) list_requests: Script,
    pub(crate) report_holding: Script,
    pub(crate) begin_generation: Script,
    pub(crate) enter_session: Script,
    pub(crate) charge_session: Script,
    pub(crate) inspect: Script,
    #[cfg(test)]
    pub(crate) period: Script,
}

macro_rules! script {
    ($($file:literal),+) => {
        Script::new(concat!(include_str!("prelude.lua"), $(include_str!($file)),+))
    };
}

/// The lengths of the periods that end, as a table of Lua, the number of steps of a rolling period, and the character before the number of
/// a further reservation.
fn periods() -> String {
    let row = |period: Period| {
        let length = match period.length() {
            PeriodLength::Days { count, first } => format!("days = {count}, first = {first}"),
            PeriodLength::Months(count) => format!("months = {count}"),
            PeriodLength::Endless | PeriodLength::Rolling(_) => return None,
        };
        Some(format!("  {} = {{ {length} }},\n", period.as_str()))
    };
    let rows: String = Period::ALL.into_iter().filter_map(row).collect();
    format!("local PERIODS = {{\n{rows}}}\nlocal ROLLING_STEPS = {ROLLING_STEPS}\nlocal PART = '{PART}'\n")
}

impl Default for Scripts {
    fn default() -> Self {
        Self {
            admit: script!("window.lua", "admit.lua"),
            reserve: script!("reserve.lua"),
            settle: script!("settle.lua"),
            release: script!("release.lua"),
            take_back: script!("window.lua", "take_back.lua"),
            learn_spending: script!("learn_spending.lua"),
            forget_spending: script!("forget_spending.lua"),
            heartbeat: script!("heartbeat.lua"),
            circuits: script!("circuits.lua"),
            list_requests: script!("list_requests.lua"),
            report_holding: script!("report_holding.lua"),
            begin_generation: script!("begin_generation.lua"),
            enter_session: script!("enter_session.lua"),
            charge_session: script!("charge_session.lua"),
            inspect: script!("window.lua", "inspect.lua"),
            #[cfg(test)]
            period: script!("period.lua"),
        }
    }
}

impl Scripts {
    pub(crate) fn all(&self) -> [&Script; 15] {
        let Self { admit, reserve, settle, release, learn_spending, forget_spending, .. } = self;
        let Self { heartbeat, circuits, list_requests, report_holding, begin_generation, .. } = self;
        let Self { enter_session, charge_session, inspect, take_back, .. } = self;
        [
            admit,
            reserve,
            settle,
            release,
            learn_spending,
            forget_spending,
            heartbeat,
            circuits,
            list_requests,
            report_holding,
            begin_generation,
            enter_session,
            charge_session,
            inspect,
            take_back,
        ]
    }
}

impl Script {
    fn new(code: &'static str) -> Self {
        let code = periods() + code;
        Self { hash: redis::Script::new(&code).get_hash().to_owned(), code }
    }

    /// The command that stores the script in Redis.
    pub(crate) fn load_command(&self) -> Cmd {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(&self.code);
        command
    }

    /// The command that runs the stored script.
    pub(crate) fn run_command(&self, call: &ScriptCall) -> Cmd {
        call.command("EVALSHA", &self.hash)
    }

    /// Runs the script, and stores it first if Redis has forgotten it. The caller sets the time limit.
    ///
    /// # Errors
    /// Redis did not answer, or not as this script does.
    pub(crate) async fn run(&self, connection: &Connection, call: &ScriptCall) -> Result<Answer, CallError> {
        let value = match connection.ask(&self.run_command(call)).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                connection.ask(&call.command("EVAL", &self.code)).await?
            }
            other => other?,
        };
        let fields = Vec::<String>::from_redis_value(value).map_err(|_| CallError::UnexpectedAnswer)?;
        Answer::parse(fields).ok_or(CallError::UnexpectedAnswer)
    }
}
