//! The headers by which a client asks for another treatment of its request.

use std::sync::Arc;

use gw_engine::DryRun;
use gw_engine::error::{Error, Kind, Result};
use gw_wire::money::{Money, Price};
use gw_wire::request::fields::{Path, invalid_value};
use http::header::{HeaderMap, HeaderName, HeaderValue};

/// `true` leaves the gateway's own members out of the answer, for clients that refuse unknown members.
const PLAIN: HeaderName = HeaderName::from_static("x-gateway-plain");
/// `true` asks for the plan of the request instead of its answer.
const DRY_RUN: HeaderName = HeaderName::from_static("x-gateway-dry-run");
/// The most that the request may cost.
const MAX_COST: HeaderName = HeaderName::from_static("x-gateway-max-cost-usd");
/// Femto-USD of a nano-USD.
const FEMTOS_PER_NANO: i128 = 1_000_000;

/// The wishes of a client that its headers name.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) is_plain: bool,
    /// Takes the report of a dry run. None: the request is to be served.
    pub(crate) dry_run: Option<Arc<DryRun>>,
    pub(crate) max_cost: Option<Money>,
}

/// Refuses the header of dry runs at the handshake of a WebSocket: a turn's answer is events, and a dry run's is a report.
///
/// # Errors
/// `unsupported_parameter`.
pub(crate) fn refuse_dry_run(headers: &HeaderMap) -> Result<()> {
    if !headers.contains_key(&DRY_RUN) {
        return Ok(());
    }
    let message = format!("The header {DRY_RUN} does not apply to WebSockets. POST /v1/responses takes it.");
    Err(Error::new(Kind::UnsupportedParameter, message))
}

/// Refuses the headers of dry runs and of the highest cost, for a pass-through route: the gateway does not plan its requests.
///
/// # Errors
/// `unsupported_parameter`.
pub(crate) fn refuse(headers: &HeaderMap) -> Result<()> {
    match [&DRY_RUN, &MAX_COST].into_iter().find(|name| headers.contains_key(*name)) {
        None => Ok(()),
        Some(name) => {
            let message = format!("The header {name} does not apply to pass-through routes.");
            Err(Error::new(Kind::UnsupportedParameter, message))
        }
    }
}

impl Wishes {
    /// Reads the headers in one pass: few requests have one of them.
    ///
    /// # Errors
    /// `invalid_value`.
    pub(crate) fn read(headers: &HeaderMap) -> Result<Self> {
        let mut wishes = Self::default();
        for (name, value) in headers {
            // Two bytes tell nearly every other name apart.
            if !matches!(name.as_str().as_bytes(), [b'x', b'-', b'g', ..]) {
                continue;
            }
            if *name == PLAIN {
                wishes.is_plain = value == "true";
            } else if *name == DRY_RUN {
                if value != "true" || wishes.dry_run.is_some() {
                    return Err(invalid("x-gateway-dry-run", "expected 'true', once."));
                }
                wishes.dry_run = Some(Arc::default());
            } else if *name == MAX_COST {
                let most = amount(value).filter(|_| wishes.max_cost.is_none());
                let expected = "expected an amount in USD that is not negative, once, such as 0.05.";
                wishes.max_cost = Some(most.ok_or_else(|| invalid("x-gateway-max-cost-usd", expected))?);
            }
        }
        Ok(wishes)
    }
}

fn amount(value: &HeaderValue) -> Option<Money> {
    let text = value.to_str().ok()?.trim();
    let price = Price::parse(text).ok().filter(|_| !text.starts_with('-'))?;
    Some(Money::from_femtos(i128::from(price.nanos()) * FEMTOS_PER_NANO))
}

fn invalid(name: &'static str, expected: &str) -> Error {
    invalid_value(&Path::Top(name), expected).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &[(&'static str, &str)]) -> Result<Wishes> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        Wishes::read(&map)
    }

    #[test]
    fn a_wish_is_read_or_refused() {
        let none = read(&[("accept", "*/*"), ("x-gateway-user", "true")]).unwrap();
        assert!(!none.is_plain && none.dry_run.is_none() && none.max_cost.is_none());
        let all =
            [("x-gateway-dry-run", "true"), ("x-gateway-plain", "true"), ("x-gateway-max-cost-usd", "0.5")];
        let all = read(&all).unwrap();
        assert!(all.is_plain && all.dry_run.is_some());
        assert_eq!(all.max_cost, Some(Money::from_femtos(500_000_000_000_000)));
        for (name, values) in [
            ("x-gateway-dry-run", &["false", "1", "", "TRUE"][..]),
            ("x-gateway-max-cost-usd", &["", "-1", "-0", "x", "1,5", "nan", "inf", "$1", "1e99"]),
        ] {
            for value in values {
                let error = read(&[(name, value)]).unwrap_err();
                assert_eq!((error.status(), error.code()), (400, "invalid_value"), "{name}: {value}");
            }
            assert!(read(&[(name, "true"), (name, "true")]).is_err(), "{name}");
        }
    }
}
