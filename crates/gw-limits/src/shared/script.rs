//! The Lua scripts, how they are called and what they answer.

use std::sync::Arc;

use gw_store::Limits;
use redis::Cmd;

use crate::minute::Past;
use crate::subject::Subject;

/// A script and its name in Redis.
#[derive(Debug)]
pub(crate) struct Script {
    code: &'static str,
    hash: String,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) enter: Script,
    pub(crate) reserve: Script,
    pub(crate) settle: Script,
    pub(crate) leave: Script,
    pub(crate) learn: Script,
    pub(crate) forget: Script,
    pub(crate) beat: Script,
    pub(crate) circuits: Script,
    pub(crate) gather: Script,
    pub(crate) report: Script,
    pub(crate) begin: Script,
    /// What the period of a budget is, for tests.
    #[cfg(test)]
    pub(crate) window: Script,
}

macro_rules! script {
    ($file:literal) => {
        Script::new(concat!(include_str!("limits.lua"), include_str!($file)))
    };
}

impl Default for Scripts {
    fn default() -> Self {
        Self {
            enter: script!("enter.lua"),
            reserve: script!("reserve.lua"),
            settle: script!("settle.lua"),
            leave: script!("leave.lua"),
            learn: script!("learn.lua"),
            forget: script!("forget.lua"),
            beat: script!("beat.lua"),
            circuits: script!("circuits.lua"),
            gather: script!("gather.lua"),
            report: script!("report.lua"),
            begin: script!("begin.lua"),
            #[cfg(test)]
            window: script!("window.lua"),
        }
    }
}

impl Scripts {
    pub(crate) fn all(&self) -> [&Script; 11] {
        let Self { enter, reserve, settle, leave, learn, forget, beat, circuits, .. } = self;
        let Self { gather, report, begin, .. } = self;
        [enter, reserve, settle, leave, learn, forget, beat, circuits, gather, report, begin]
    }
}

impl Script {
    fn new(code: &'static str) -> Self {
        Self { code, hash: redis::Script::new(code).get_hash().to_owned() }
    }

    /// Puts it into Redis's memory.
    pub(crate) fn load(&self) -> Cmd {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(self.code);
        command
    }

    /// Runs it by name.
    pub(crate) fn run(&self, call: &Call) -> Cmd {
        call.write("EVALSHA", &self.hash)
    }

    /// Runs it, and puts it into Redis's memory.
    pub(crate) fn run_and_load(&self, call: &Call) -> Cmd {
        call.write("EVAL", self.code)
    }
}

/// Keys and arguments of a call.
#[derive(Debug, Default)]
pub(crate) struct Call {
    keys: Vec<String>,
    args: Vec<String>,
    /// The last key.
    place: String,
    /// What Redis remembers, as far as the caller knows; empty when that does not matter. The last argument.
    generation: Arc<str>,
}

impl Call {
    /// A call with its arguments in the order that `limits.lua` has. `time` is only set by tests, microseconds since
    /// 1970.
    pub(crate) fn new(
        time: Option<f64>,
        request_id: &str,
        lease: std::time::Duration,
        place: String,
        generation: Arc<str>,
    ) -> Self {
        let time = time.map(|micros| format!("{micros:.0}")).unwrap_or_default();
        let args = vec![time, request_id.to_owned(), lease.as_micros().to_string()];
        Self { keys: Vec::new(), args, place, generation }
    }

    /// The generation that it asks about.
    pub(crate) fn generation(&self) -> &str {
        &self.generation
    }

    pub(crate) fn key(mut self, key: String) -> Self {
        self.keys.push(key);
        self
    }

    pub(crate) fn arg(mut self, arg: &(impl ToString + ?Sized)) -> Self {
        self.args.push(arg.to_string());
        self
    }

    /// The keys and the limits of a subject. Its name is the keys' hash tag.
    pub(crate) fn subject(mut self, prefix: &str, subject: &Subject) -> Self {
        let name = format!("{prefix}{{{}:{}}}", subject.whose(), subject.id());
        for part in [":leases", ":late", ":flying"] {
            self.keys.push(format!("{name}{part}"));
        }
        // The hash comes first.
        let first = self.keys.len() - 3;
        self.keys.insert(first, name);
        let Limits { rpm, burst, tpm, max_in_flight, budget, on_budget: _ } = *subject.limits();
        self.args.extend([
            optional(rpm.map(|limit| limit.max(1))),
            optional(tpm.map(|limit| limit.max(1))),
            optional(max_in_flight),
            optional(budget.map(|budget| budget.nano.min(EXACT))),
            optional(budget.map(|budget| budget.period.as_str())),
            optional(rpm.and(burst).map(|burst| burst.clamp(1, rpm.unwrap_or(burst).max(1)))),
        ]);
        self
    }

    fn write(&self, how: &str, script: &str) -> Cmd {
        let mut command = redis::cmd(how);
        command.arg(script).arg(self.keys.len() + 1).arg(&self.keys).arg(&self.place);
        command.arg(&self.args).arg(&*self.generation);
        command
    }
}

fn optional(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// The largest whole number that Lua counts exactly.
pub(crate) const EXACT: u64 = (1 << 53) - 1;

/// Femto-USD as Redis has them: nano-USD, rounded up.
pub(crate) fn nano(femtos: i128) -> u64 {
    let nano = femtos.max(0).saturating_add(999_999) / 1_000_000;
    u64::try_from(nano).unwrap_or(EXACT).min(EXACT)
}

/// What a script answers.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Redis's clock, as rates count it.
    pub(crate) now: f64,
    /// The subject that refuses, counted from 0, and why.
    pub(crate) refused: Option<(usize, Why)>,
    fields: Vec<String>,
}

/// Why a script refuses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Why {
    Requests,
    Flight,
    /// The seconds until the next period.
    Budget(Option<u64>),
    /// The begin of the period that the ledger is to be asked about.
    Unknown(i64),
    /// The same, but the ledger is not to be asked yet: replicas have not told what they hold.
    Rebuilding,
    /// Redis has lost its memory.
    Generation,
    /// Too many tokens now: `next`.
    Tokens(f64),
    /// More tokens than there ever are.
    Never,
}

impl Answer {
    /// Reads an answer; None when it is none of ours.
    pub(crate) fn read(fields: Vec<String>) -> Option<Self> {
        let [now, number, why, detail, ..] = fields.as_slice() else { return None };
        let why = match why.as_str() {
            "" => None,
            "requests" => Some(Why::Requests),
            "flight" => Some(Why::Flight),
            "budget" if detail.is_empty() => Some(Why::Budget(None)),
            "budget" => Some(Why::Budget(Some(detail.parse().ok()?))),
            "unknown" => Some(Why::Unknown(detail.parse().ok()?)),
            "rebuilding" => Some(Why::Rebuilding),
            "generation" => Some(Why::Generation),
            "tokens" => Some(Why::Tokens(detail.parse().ok()?)),
            "never" => Some(Why::Never),
            _ => return None,
        };
        let number: usize = number.parse().ok()?;
        let refused = match why {
            Some(why) => Some((number.checked_sub(1)?, why)),
            None => None,
        };
        let now = now.parse().ok().filter(|now: &f64| now.is_finite())?;
        Some(Self { now, refused, fields })
    }

    /// What a script says in detail when it does not refuse.
    pub(crate) fn detail(&self) -> Option<u64> {
        self.fields.get(3)?.parse().ok()
    }

    /// The script's own fields from this one on.
    pub(crate) fn fields_from(&self, index: usize) -> &[String] {
        self.fields.get(4 + index..).unwrap_or_default()
    }

    /// A field of the script's own, counted from 0.
    pub(crate) fn field(&self, index: usize) -> &str {
        self.fields.get(4 + index).map(String::as_str).unwrap_or_default()
    }

    /// How a last minute of requests stands, if the script looked.
    pub(crate) fn past(&self, index: usize) -> Option<Past> {
        let mut parts = self.field(index).split(' ');
        let mut number = || parts.next()?.parse().ok().filter(|number: &f64| number.is_finite());
        let (sum, newest, oldest) = (number()?, number()?, number()?);
        Some(Past { sum: sum as u64, newest, oldest })
    }

    /// A `next`, if the script looked.
    pub(crate) fn next(&self, index: usize) -> Option<f64> {
        self.field(index).parse().ok().filter(|next: &f64| next.is_finite())
    }
}
