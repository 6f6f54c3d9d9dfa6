//! The keys and arguments of a script call, in the order that `prelude.lua` expects.

use std::sync::Arc;
use std::time::Duration;

use gw_store::Limits;
use redis::Cmd;

use super::amount::MAX_EXACT_INTEGER;
use crate::subject::Subject;

/// One call of a script.
#[derive(Debug, Default)]
pub(crate) struct ScriptCall {
    keys: Vec<String>,
    args: Vec<String>,
    /// The last key, which holds the generation.
    generation_key: String,
    /// The generation that the caller knows. Empty if it does not matter. The last argument.
    generation: Arc<str>,
}

impl ScriptCall {
    /// A call with the common arguments. Only tests set `time`, in microseconds since 1970. Everything else uses the
    /// clock of Redis.
    pub(crate) fn new(
        time: Option<f64>,
        request_id: &str,
        lease: Duration,
        generation_key: String,
        generation: Arc<str>,
    ) -> Self {
        let time = time.map(|micros| format!("{micros:.0}")).unwrap_or_default();
        let args = vec![time, request_id.to_owned(), lease.as_micros().to_string()];
        Self { keys: Vec::new(), args, generation_key, generation }
    }

    /// The generation that the call is about.
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

    /// Adds the keys and the limits of subjects. The name of a subject is the hash tag of its keys.
    pub(crate) fn subjects<'a>(
        self,
        prefix: &str,
        subjects: impl IntoIterator<Item = &'a Arc<Subject>>,
    ) -> Self {
        subjects.into_iter().fold(self, |call, subject| call.subject(prefix, subject))
    }

    pub(crate) fn subject(mut self, prefix: &str, subject: &Subject) -> Self {
        let state = format!("{prefix}{{{}:{}}}", subject.kind(), subject.id());
        let sets = [":leases", ":late", ":flying"].map(|set| format!("{state}{set}"));
        self.keys.push(state);
        self.keys.extend(sets);
        let Limits { rpm, burst, tpm, max_in_flight, budget: _, on_budget: _, unpriced: _ } =
            *subject.limits();
        let budget = subject.shared_budget();
        self.args.extend([
            text_or_empty(rpm.map(|limit| limit.max(1))),
            text_or_empty(tpm.map(|limit| limit.max(1))),
            text_or_empty(max_in_flight),
            text_or_empty(budget.map(|budget| budget.nano.min(MAX_EXACT_INTEGER))),
            text_or_empty(budget.map(|budget| budget.period.as_str())),
            text_or_empty(rpm.and(burst).map(|burst| burst.clamp(1, rpm.unwrap_or(burst).max(1)))),
        ]);
        self
    }

    /// The command that runs a script: `EVALSHA` and a hash, or `EVAL` and the code.
    pub(crate) fn command(&self, verb: &str, script: &str) -> Cmd {
        let mut command = redis::cmd(verb);
        command.arg(script).arg(self.keys.len() + 1).arg(&self.keys).arg(&self.generation_key);
        command.arg(&self.args).arg(&*self.generation);
        command
    }
}

fn text_or_empty(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}
