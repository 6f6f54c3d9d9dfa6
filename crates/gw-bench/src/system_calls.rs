//! The system calls of one request, counted by strace.

use std::path::Path;
use std::process::Command;

use crate::error::Result;
use crate::instructions::{CONNECTIONS, EVENTS};
use crate::load::{self, Kind};
use crate::process::Process;
use crate::upstream;

/// Numbers of requests of two runs. The difference of the runs has no start and no end of the program in it.
const RUNS: [usize; 2] = [200, 1_200];

/// The system calls of one request with their names, the most frequent first, and all of them together. The traced program is slower, so
/// fewer of its calls do the work of several requests at once.
pub(crate) async fn count(kind: Kind, binary: &Path, key: &str) -> Result<(f64, String)> {
    let [few, many] = RUNS;
    let (before, after) = (trace(kind, binary, key, few).await?, trace(kind, binary, key, many).await?);
    let number = (many - few) as f64;
    let of = |calls: &[(String, f64)], name: &str| {
        calls.iter().find(|(known, _)| known == name).map_or(0.0, |(_, calls)| *calls)
    };
    let names = after.iter().map(|(name, calls)| (name, (calls - of(&before, name)) / number));
    let mut names: Vec<_> = names.filter(|(_, calls)| *calls >= 0.05).collect();
    names.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let listed: Vec<_> = names.iter().map(|(name, calls)| format!("{name} {calls:.1}")).collect();
    Ok((names.iter().map(|(_, calls)| calls).sum(), listed.join(", ")))
}

/// The system calls of a program that serves this many requests.
async fn trace(kind: Kind, binary: &Path, key: &str, requests: usize) -> Result<Vec<(String, f64)>> {
    let upstream = upstream::start(EVENTS, None).await?;
    let data = tempfile::tempdir()?;
    let out = data.path().join("calls");
    // strace counts the calls, and writes them at the end.
    let mut strace = Command::new("strace");
    strace.arg("-f").arg("-c").arg("-o").arg(&out);
    let mut gateway = Process::under(strace, binary, data.path(), upstream, key, kind)?;
    load::run(kind, gateway.port, key, CONNECTIONS, requests).await?;
    gateway.stop()?;
    Ok(summary(&std::fs::read_to_string(out)?))
}

/// Reads strace's summary: `% time, seconds, usecs/call, calls, [errors,] syscall`.
fn summary(text: &str) -> Vec<(String, f64)> {
    let call = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let (calls, name) = (words.get(3)?.parse().ok()?, *words.last()?);
        (name != "total").then(|| (name.to_owned(), calls))
    };
    text.lines().filter_map(call).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_read_without_its_total() {
        let text = "% time     seconds  usecs/call     calls    errors syscall\n------ ----------- ----------- --------- --------- ------\n \
                    48.99    1.234567          12      1000        20 futex\n  1.00    0.000002           1         5           write\n\
                    ------ ----------- ----------- --------- --------- ------\n100.00    1.3                   1005        20 total\n";
        assert_eq!(summary(text), [("futex".to_owned(), 1_000.0), ("write".to_owned(), 5.0)]);
    }
}
