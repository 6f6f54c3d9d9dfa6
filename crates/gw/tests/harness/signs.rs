//! Metrics, log lines and addresses of a running gateway.

use std::net::SocketAddr;

use gw_testkit::{Gateway, eventually};

use super::ADMIN;

/// The value of a metric.
pub(crate) async fn metric(gateway: &Gateway, name: &str) -> f64 {
    let text = gateway.client().with_key(ADMIN).get("/metrics").await.ok().text();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"));
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}

/// The number of log lines with this message.
pub(crate) fn count_log_lines(gateway: &Gateway, what: &str) -> usize {
    let lines = gateway.logs();
    lines.iter().filter(|line| line["message"].as_str().is_some_and(|text| text.contains(what))).count()
}

/// The address of the admin listener, as the log tells it.
pub(crate) async fn admin_address(gateway: &Gateway) -> SocketAddr {
    let told = || {
        let lines = gateway.logs().into_iter();
        let mut told = lines.filter_map(|line| {
            let (_, address) = line["message"].as_str()?.split_once("metrics and management on http")?;
            address.split_once("://")?.1.parse().ok()
        });
        told.next_back()
    };
    eventually("the admin listener has an address", told).await
}
