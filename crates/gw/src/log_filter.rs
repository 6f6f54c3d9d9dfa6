//! The options that choose rows of the request log, for every command that reads it.

use clap::Args;
use gw_wire::operation::Operation;

/// The rows of the log that a command reads.
#[derive(Debug, Args)]
pub struct LogFilter {
    /// First time of the requests: 7d, 24h, 2026-11-21 or 2026-11-21T09:00:00Z [default: the beginning]
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// End of the requests, in the same forms as --since [default: now]
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only requests of this key: its id, or its name if no other key has this name
    #[arg(long, value_name = "ID|NAME")]
    pub key: Option<String>,
    /// Only requests of this team
    #[arg(long)]
    team: Option<String>,
    /// Only requests of this model
    #[arg(long)]
    model: Option<String>,
    /// Only requests of this provider
    #[arg(long)]
    provider: Option<String>,
    /// Only requests of this session
    #[arg(long)]
    session: Option<String>,
    #[arg(long, help = surface_help())]
    surface: Option<String>,
    /// Only requests for this end user
    #[arg(long)]
    end_user: Option<String>,
    /// Only requests with this tag
    #[arg(long)]
    tag: Option<String>,
    /// Only requests of this repository
    #[arg(long)]
    repository: Option<String>,
    /// Only requests of this branch
    #[arg(long)]
    branch: Option<String>,
    /// Only requests of this pull request
    #[arg(long)]
    pull_request: Option<String>,
}

/// The help of `--surface`, with the names of all surfaces.
fn surface_help() -> String {
    let names = Operation::ALL.map(|operation| operation.row().surface);
    format!("Only requests through this API: {}", names.join(", "))
}

impl LogFilter {
    /// The parameters of a query of the management API. `key_id` is the id of the key that `key` names.
    #[must_use]
    pub fn parameters<'a>(&'a self, key_id: Option<&'a str>) -> Vec<(&'static str, Option<&'a str>)> {
        vec![
            ("since", self.since.as_deref()),
            ("until", self.until.as_deref()),
            ("key", key_id),
            ("team", self.team.as_deref()),
            ("model", self.model.as_deref()),
            ("provider", self.provider.as_deref()),
            ("session", self.session.as_deref()),
            ("surface", self.surface.as_deref()),
            ("end_user", self.end_user.as_deref()),
            ("tag", self.tag.as_deref()),
            ("repository", self.repository.as_deref()),
            ("branch", self.branch.as_deref()),
            ("pull_request", self.pull_request.as_deref()),
        ]
    }
}
