//! The last table of `./bench`: a line for each kind of request, with the ratio to nginx and the counts of one request.

use std::path::Path;

use crate::callgrind::Counts;
use crate::error::Result;
use crate::{Row, instructions, system_calls};

/// Number of connections of the ratio and of the memory.
pub(crate) const CONNECTIONS: usize = 32;
/// Number of counts, and of requests of each.
const COUNTS: [usize; 2] = [3, 200];

/// Counts the measured kinds. The counted streams have 64 texts, in one write of the upstream.
pub(crate) async fn table(rows: &[Row], binary: &Path, key: &str) -> Result<String> {
    let mut table = format!(
        "\n| kind | CPU ÷ nginx at {CONNECTIONS} | instructions | allocations | copies | clock readings | system calls | RSS MiB |\n\
         |---|---|---|---|---|---|---|---|\n"
    );
    let mut named = String::new();
    for Row { kind, ratio, rss_mib, .. } in rows {
        let name = kind.name();
        let directory = Path::new("target/callgrind");
        let (counts, _) = instructions::count(*kind, COUNTS, None, directory, binary, key).await?;
        let Counts { instructions, allocations, copies, clocks } = counts;
        let (calls, names) = system_calls::count(*kind, binary, key).await?;
        table.push_str(&format!(
            "| {name} | {ratio:.2} | {instructions} | {allocations} | {copies} | {clocks} | {calls:.1} | {rss_mib:.1} |\n"
        ));
        named.push_str(&format!("- {name}: {names}\n"));
    }
    Ok(format!("{table}\nSystem calls of a request:\n\n{named}"))
}
