//! The calls that the pages of the console make.

use super::content::Content;

/// A call of a page.
pub(super) struct View {
    pub(super) page: &'static str,
    /// The content of the call.
    pub(super) what: &'static str,
    /// The call in each round. The rounds ask for different keys, models and requests.
    pub(super) path: fn(&Content, u64) -> String,
}

const fn view(page: &'static str, what: &'static str, path: fn(&Content, u64) -> String) -> View {
    View { page, what, path }
}

fn requests(query: &str) -> String {
    format!("/admin/v1/requests?limit=200{query}")
}

fn usage(by: &str, since: &str, query: &str) -> String {
    format!("/admin/v1/usage?by={by}&since={since}&{query}")
}

fn overview(query: &str) -> String {
    format!("/admin/v1/overview?{query}")
}

fn key(round: u64) -> String {
    format!("sk-gw-{:06}", round % 25)
}

fn model(round: u64) -> String {
    format!("acme/model-{}", round % 7)
}

/// Every call that depends on the size of the store.
pub(super) const VIEWS: [View; 44] = [
    view("Overview", "last hour", |_, _| overview("since=1h&by=model")),
    view("Overview", "24 hours, compared", |_, _| overview("since=24h&by=model&compare=true")),
    view("Overview", "7 days, compared", |_, _| overview("since=7d&by=model&compare=true")),
    view("Overview", "30 days, compared", |_, _| overview("since=30d&by=model&compare=true")),
    view("Overview", "30 days by key, compared", |_, _| overview("since=30d&by=key&compare=true")),
    view("Overview", "30 days by surface, compared", |_, _| overview("since=30d&by=surface&compare=true")),
    view("Overview", "90 days by model, compared", |_, _| overview("since=90d&by=model&compare=true")),
    view("Overview", "90 days by surface", |_, _| overview("since=90d&by=surface")),
    view("Requests", "newest", |_, _| requests("")),
    view("Requests", "a page further back", |content, round| {
        requests(&format!("&until={}", content.moment(round)))
    }),
    view("Requests", "status ok", |_, _| requests("&status=ok")),
    view("Requests", "status failed", |_, _| requests("&status=failed")),
    view("Requests", "status of 1 % of the rows", |_, _| requests("&status=upstream_error")),
    view("Requests", "status of ten rows", |_, _| requests("&status=upstream_quota_exceeded")),
    view("Requests", "status that is not there", |_, _| requests("&status=gateway_shutdown")),
    view("Requests", "model", |_, round| requests(&format!("&model={}", model(round)))),
    view("Requests", "rare model", |_, _| requests("&model=acme/model-99")),
    view("Requests", "model that is not there", |_, _| requests("&model=acme/none")),
    view("Requests", "provider", |_, _| requests("&provider=other")),
    view("Requests", "key", |_, round| requests(&format!("&key={}", key(round)))),
    view("Requests", "team", |_, round| requests(&format!("&team=team-{}", round % 5))),
    view("Requests", "surface", |_, _| requests("&surface=messages")),
    view("Requests", "surface that is not there", |_, _| requests("&surface=embeddings")),
    view("Requests", "session", |content, round| requests(&format!("&session={}", content.session(round)))),
    view("Requests", "failures of a key", |_, round| requests(&format!("&status=failed&key={}", key(round)))),
    view("Requests", "an error of a key", |_, round| {
        requests(&format!("&status=upstream_timeout&key={}", key(round)))
    }),
    view("Requests", "an error that a model never had", |_, _| {
        requests("&status=upstream_quota_exceeded&model=acme/model-99")
    }),
    view("Requests", "failures of a rare model", |_, _| requests("&status=failed&model=acme/model-99")),
    view("Requests", "cost that many have", |_, _| requests("&cost_min=0.0000005")),
    view("Requests", "cost that none has", |_, _| requests("&cost_min=5")),
    view("Requests", "latency that none has", |_, _| requests("&latency_min_ms=60000")),
    view("Requests", "text of an error", |_, _| requests("&error=own%20words")),
    view("Requests", "text of no error", |_, round| requests(&format!("&error=nothing{round}"))),
    view("Requests", "text of no error, failed", |_, round| {
        requests(&format!("&status=failed&error=nothing{round}"))
    }),
    view("A request", "payload and neighbours", |content, round| {
        format!("/admin/v1/requests/{}", content.request_with_session(round))
    }),
    view("A request", "old", |content, round| format!("/admin/v1/requests/{}", content.old_request(round))),
    view("Sessions", "30 days", |_, _| "/admin/v1/usage?by=session&since=30d".to_owned()),
    view("Sessions", "one", |content, round| {
        format!("/admin/v1/usage?by=session&session={}", content.session(round))
    }),
    view("Models", "usage of 30 days", |_, _| "/admin/v1/usage?by=model&since=30d".to_owned()),
    view("My key", "own figures", |_, _| "/v1/me".to_owned()),
    view("Keys", "60 keys with budgets", |_, _| "/admin/v1/keys?limit=100".to_owned()),
    view("Teams", "all", |_, _| "/admin/v1/teams".to_owned()),
    view("Cache", "figures", |_, _| "/admin/v1/cache".to_owned()),
    view("Audit", "newest", |_, _| "/admin/v1/audit?limit=100".to_owned()),
];

/// The calls of reports by name, which need a store whose rows have names.
pub(super) const NAME_VIEWS: [View; 17] = [
    view("Overview", "24 hours by end user, compared", |_, _| overview("since=24h&by=end_user&compare=true")),
    view("Overview", "7 days by end user, compared", |_, _| overview("since=7d&by=end_user&compare=true")),
    view("Overview", "30 days by end user, compared", |_, _| overview("since=30d&by=end_user&compare=true")),
    view("Overview", "90 days by end user", |_, _| overview("since=90d&by=end_user")),
    view("Overview", "30 days by tag, compared", |_, _| overview("since=30d&by=tag&compare=true")),
    view("Overview", "90 days by tag", |_, _| overview("since=90d&by=tag")),
    view("Overview", "30 days by repository, compared", |_, _| {
        overview("since=30d&by=repository&compare=true")
    }),
    view("Requests", "end user", |_, round| requests(&format!("&end_user=user-{}", round * 7))),
    view("Requests", "end user that is not there", |_, round| requests(&format!("&end_user=none-{round}"))),
    view("Requests", "tag, failed", |_, round| requests(&format!("&status=failed&tag=app-{}", round % 20))),
    view("Requests", "tag, rare model", |_, round| {
        requests(&format!("&tag=app-{}&model=acme/model-99", round % 20))
    }),
    view("Requests", "tag and repository", |_, round| {
        requests(&format!("&tag=app-{}&repository=acme/repository-{}", round % 20, round % 200))
    }),
    view("Usage", "30 days by model, one end user", |_, round| {
        usage("model", "30d", &format!("end_user=user-{round}"))
    }),
    view("Usage", "30 days by model, one tag", |_, round| {
        usage("model", "30d", &format!("tag=app-{}", round % 20))
    }),
    view("Usage", "24 hours by hour, one tag", |_, round| {
        usage("hour", "24h", &format!("tag=app-{}", round % 20))
    }),
    view("Usage", "30 days by hour, one tag", |_, round| {
        usage("hour", "30d", &format!("tag=app-{}", round % 20))
    }),
    view("Usage", "24 hours by end user, one tag", |_, round| {
        usage("end_user", "24h", &format!("tag=app-{}", round % 20))
    }),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_an_address() {
        let content = Content::new(5_000, 0, 100, 1_795_000_000_000);
        for View { path, .. } in VIEWS.iter().chain(&NAME_VIEWS) {
            let path = path(&content, 3);
            assert!(
                ["/admin/v1/", "/v1/"].iter().any(|start| path.starts_with(start)) && !path.contains(' '),
                "{path}"
            );
        }
    }
}
