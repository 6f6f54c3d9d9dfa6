//! The two text formats of `/metrics`: OpenMetrics, and the older format of Prometheus for readers that ask for it.

use http::HeaderMap;
use http::header::ACCEPT;

/// Whether the reader asks for the older format: it names `text/plain` and not OpenMetrics.
pub(crate) fn wants_prometheus_text(headers: &HeaderMap) -> bool {
    let names = |media: &str| {
        let mut lines = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        lines.any(|line| line.to_ascii_lowercase().contains(media))
    };
    names("text/plain") && !names("application/openmetrics-text")
}

/// Rewrites OpenMetrics as Prometheus' text format 0.0.4: the names of counters end with `_total` everywhere, and there are neither
/// units nor exemplars nor an end mark.
pub(crate) fn prometheus_text(open_metrics: &str) -> String {
    let mut out = String::with_capacity(open_metrics.len());
    let mut help = "";
    for line in open_metrics.lines() {
        if line.starts_with("# HELP ") {
            // The line for the type comes next and tells the name of the samples.
            help = line;
        } else if let Some(family) = line.strip_prefix("# TYPE ") {
            let suffix = if family.ends_with(" counter") { "_total" } else { "" };
            for comment in [help, line] {
                let mut words = comment.splitn(4, ' ');
                let mut word = || words.next().unwrap_or_default();
                let (mark, kind, name, rest) = (word(), word(), word(), word());
                out.extend([mark, " ", kind, " ", name, suffix, " ", rest, "\n"]);
            }
        } else if !line.starts_with('#') {
            let sample = line.rsplit_once(" # {").map_or(line, |(sample, _)| sample);
            out.extend([sample, "\n"]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_reader_chooses_the_format() {
        for (accept, expected) in [
            (None, false),
            (Some("*/*"), false),
            (Some("text/plain"), true),
            (Some("Text/Plain;version=0.0.4;q=0.5,*/*;q=0.1"), true),
            (Some("application/openmetrics-text;version=1.0.0;q=0.6,text/plain;q=0.5"), false),
        ] {
            let mut headers = HeaderMap::new();
            headers.extend(accept.map(|accept| (ACCEPT, HeaderValue::from_static(accept))));
            assert_eq!(wants_prometheus_text(&headers), expected, "{accept:?}");
        }
    }

    #[test]
    fn the_older_format_has_no_units_exemplars_and_end() {
        let open_metrics = concat!(
            "# HELP a_calls Calls of A\n# TYPE a_calls counter\na_calls_total{b=\"c # d\"} 2\n",
            "# HELP a_time_seconds Time of A\n# TYPE a_time_seconds histogram\n# UNIT a_time_seconds seconds\n",
            "a_time_seconds_bucket{le=\"1.0\"} 1 # {trace_id=\"7\"} 0.5\n# EOF\n"
        );
        let expected = concat!(
            "# HELP a_calls_total Calls of A\n# TYPE a_calls_total counter\na_calls_total{b=\"c # d\"} 2\n",
            "# HELP a_time_seconds Time of A\n# TYPE a_time_seconds histogram\n",
            "a_time_seconds_bucket{le=\"1.0\"} 1\n"
        );
        assert_eq!(prometheus_text(open_metrics), expected);
    }
}
