//! Token counts as upstreams write them: usually whole numbers, but always checked.

use gw_wire::usage::MAX_BELIEVABLE;
use serde_json::value::RawValue;

/// A plausible count; None when it is absent or not a count. A value that had to be corrected sets `is_odd`.
pub(super) fn count(raw: Option<&RawValue>, is_odd: &mut bool) -> Option<u64> {
    let text = raw?.get();
    let number = text.trim_matches('"').trim().parse::<f64>().ok().filter(|number| !number.is_nan());
    let Some(number) = number else {
        *is_odd = true;
        return None;
    };
    let believable = number.clamp(0.0, MAX_BELIEVABLE as f64);
    *is_odd |= text.starts_with('"') || believable.to_bits() != number.to_bits() || believable.fract() > 0.0;
    Some(believable as u64)
}

#[cfg(test)]
mod tests {
    use gw_wire::usage::MAX_BELIEVABLE;
    use serde_json::value::RawValue;

    #[test]
    fn u24_impossible_counts_are_corrected_and_flagged() {
        for (text, expected, odd) in [
            ("7", Some(7), false),
            ("0", Some(0), false),
            ("7.0", Some(7), false),
            ("7.5", Some(7), true),
            ("-1", Some(0), true),
            ("1e300", Some(MAX_BELIEVABLE), true),
            ("18446744073709551616", Some(MAX_BELIEVABLE), true),
            ("\"12\"", Some(12), true),
            ("\"NaN\"", None, true),
            ("true", None, true),
            ("[]", None, true),
            ("{}", None, true),
        ] {
            let raw = RawValue::from_string(text.to_owned()).unwrap();
            let mut is_odd = false;
            assert_eq!((super::count(Some(&raw), &mut is_odd), is_odd), (expected, odd), "{text}");
        }
        let mut is_odd = false;
        assert_eq!((super::count(None, &mut is_odd), is_odd), (None, false));
    }
}
