//! The faults of a certificate's times, in words for operators.

use gw_admin::time::format_millis;
use gw_server::{TlsSettings, Validity, certificate_validity};
use gw_wire::calendar;

/// A note about the listener's certificate, if clients refuse it today because of its times. It reads the files, so an async caller
/// runs it in a thread of its own. Files that cannot be used have no note: their own error tells it.
pub(crate) fn note(tls: &TlsSettings) -> Option<String> {
    let validity = certificate_validity(&tls.cert, &tls.key).ok().flatten()?;
    let fault = fault(validity, calendar::unix_seconds().unsigned_abs())?;
    Some(format!("server.tls: clients refuse the certificate {}: it {fault}", tls.cert.display()))
}

/// The fault of a certificate's times at this moment, in unix seconds.
pub(crate) fn fault(Validity { not_before, not_after }: Validity, now: u64) -> Option<String> {
    if now > not_after {
        return Some(format!("expired at {}", in_words(not_after)));
    }
    (now < not_before).then(|| format!("is not valid before {}", in_words(not_before)))
}

/// A time of a certificate in words.
pub(crate) fn in_words(seconds: u64) -> String {
    format_millis(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000))
}
