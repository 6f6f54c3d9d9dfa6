//! Money: exact decimal arithmetic on integers, never binary floating point.
//!
//! A price is in nano-USD per million tokens and an amount in femto-USD (1e-15), so tokens × price is exact.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

/// Decimal places of a price per million tokens.
const PRICE_DIGITS: usize = 9;
/// The decimal places of an amount, for sums with exponents.
const AMOUNT_DIGITS_I32: i32 = 15;
/// The most digits behind the point that are read.
const MAX_FRACTION: usize = 18;
/// The largest amount of a report.
const MAX_AMOUNT_FEMTOS: i128 = 1_000_000_000_000_000_000_000_000_000_000;
/// Decimal places of an amount.
const AMOUNT_DIGITS: usize = 15;
/// Femto-USD of a dollar.
const FEMTOS: u64 = 1_000_000_000_000_000;

/// A price per million tokens, in nano-units of its currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(u64);

/// A price of one unit other than a token, in femto-units of its currency. It is finer than a [`Price`], because a pixel costs less
/// than a nano-dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitPrice(u64);

/// An amount in femto-USD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Money(i128);

/// Why a text is not a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PriceError {
    /// Not a decimal number.
    #[error("is not a decimal number")]
    Malformed,
    /// Below zero.
    #[error("cannot be negative")]
    Negative,
    /// More than nine digits before or after the point.
    #[error("has more than 9 digits before or 9 after the point")]
    OutOfRange,
    /// A price of a unit above 1,000, or with more than 15 digits after the point.
    #[error("is above 1000 or has more than 15 digits after the point")]
    UnitOutOfRange,
}

impl Price {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// From nano-units per million tokens.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nano-units per million tokens.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Parses a plain or exponent decimal (`0.15`, `3`, `1e-2`).
    ///
    /// # Errors
    /// If the text is not a number, is negative, above 10^9 or finer than 10^-9.
    pub fn parse(text: &str) -> Result<Self, PriceError> {
        parse_decimal::<PRICE_DIGITS>(text).map(Self)
    }

    /// A price that a configuration or a catalogue gives as a binary float, read by its shortest decimal spelling.
    ///
    /// # Errors
    /// As [`Price::parse`].
    pub fn from_f64(value: f64) -> Result<Self, PriceError> {
        Self::parse(&value.to_string())
    }

    /// This price times a multiplier (1.0 = 10^9 nanos), rounded half up to a nano.
    #[must_use]
    pub fn times(self, multiplier: Self) -> Self {
        let product = u128::from(self.0) * u128::from(multiplier.0);
        Self(u64::try_from((product + 500_000_000) / 1_000_000_000).unwrap_or(u64::MAX))
    }

    /// Twice the price.
    #[must_use]
    pub fn doubled(self) -> Self {
        Self(self.0.saturating_mul(2))
    }

    /// The cost of this many tokens.
    #[must_use]
    pub fn cost(self, tokens: u64) -> Money {
        // The product of two numbers of 64 bits fits into 128. As signed numbers it would need the check of an overflow, which costs
        // more than the product.
        Money(i128::try_from(u128::from(self.0) * u128::from(tokens)).unwrap_or(i128::MAX))
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal::<PRICE_DIGITS>(f, u128::from(self.0))
    }
}

impl UnitPrice {
    /// From femto-units per unit.
    #[must_use]
    pub const fn from_femtos(femtos: u64) -> Self {
        Self(femtos)
    }

    /// Parses a plain or exponent decimal (`0.04`, `3.751e-8`).
    ///
    /// # Errors
    /// If the text is not a number, is negative, above 1,000 or finer than 10^-15.
    pub fn parse(text: &str) -> Result<Self, PriceError> {
        parse_decimal::<AMOUNT_DIGITS>(text).map(Self).map_err(|error| match error {
            PriceError::OutOfRange => PriceError::UnitOutOfRange,
            other => other,
        })
    }

    /// This price times a multiplier (1.0 = 10^9 nanos), rounded half up.
    #[must_use]
    pub fn times(self, multiplier: Price) -> Self {
        Self(Price(self.0).times(multiplier).0)
    }

    /// The cost of one unit.
    #[must_use]
    pub fn whole(self) -> Money {
        Money(self.0.into())
    }

    /// The cost of so many millionths of a unit, rounded half up to a femto-USD.
    #[must_use]
    pub fn cost_of_millionths(self, millionths: u64) -> Money {
        let product = u128::from(self.0) * u128::from(millionths);
        Money(i128::try_from((product + 500_000) / 1_000_000).unwrap_or(i128::MAX))
    }
}

impl fmt::Display for UnitPrice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal::<AMOUNT_DIGITS>(f, self.0.into())
    }
}

impl Money {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// From femto-USD.
    #[must_use]
    pub const fn from_femtos(femtos: i128) -> Self {
        Self(femtos)
    }

    /// Femto-USD.
    #[must_use]
    pub const fn femtos(self) -> i128 {
        self.0
    }

    /// Reads an amount of a provider's report: a plain or exponent decimal, also below zero, in units of `10^power` USD. Digits beyond a
    /// femto-USD are rounded half away from zero.
    ///
    /// # Errors
    /// The text is no number, or is above 10^15 USD.
    pub fn parse_rounded(text: &str, power: i32) -> Result<Self, PriceError> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => {
                (mantissa, exponent.parse::<i32>().map_err(|_| PriceError::Malformed)?)
            }
            None => (text, 0),
        };
        let (sign, mantissa) = mantissa.strip_prefix('-').map_or((1, mantissa), |rest| (-1, rest));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        // A float has at most 17 digits that count. What is below a femto-USD cannot change the sum.
        let digits: String = whole.chars().chain(fraction.chars().take(MAX_FRACTION)).collect();
        if whole.is_empty()
            || digits.len() > 2 * MAX_FRACTION
            || !digits.bytes().all(|digit| digit.is_ascii_digit())
        {
            return Err(PriceError::Malformed);
        }
        let value: i128 = digits.parse().map_err(|_| PriceError::Malformed)?;
        let given = i32::try_from(fraction.len().min(MAX_FRACTION)).map_err(|_| PriceError::OutOfRange)?;
        let shift = AMOUNT_DIGITS_I32.saturating_sub(given).saturating_add(exponent).saturating_add(power);
        let scale = 10_i128.checked_pow(shift.unsigned_abs());
        let femtos = match scale {
            _ if value == 0 => 0,
            Some(scale) if shift >= 0 => value.checked_mul(scale).ok_or(PriceError::OutOfRange)?,
            Some(scale) => (value + scale / 2) / scale,
            None if shift < 0 => 0,
            None => return Err(PriceError::OutOfRange),
        };
        if femtos > MAX_AMOUNT_FEMTOS { Err(PriceError::OutOfRange) } else { Ok(Self(sign * femtos)) }
    }

    /// Appends the same text as `Display`, without a formatter.
    pub fn write(self, out: &mut Vec<u8>) {
        struct Text<'a>(&'a mut Vec<u8>);

        impl fmt::Write for Text<'_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0.extend_from_slice(text.as_bytes());
                Ok(())
            }
        }

        match u64::try_from(self.0) {
            Ok(femtos) => write_amount(out, femtos),
            Err(_) => {
                // Writing to memory cannot fail.
                let _ = self.write_to(&mut Text(out));
            }
        }
    }

    fn write_to(self, out: &mut impl fmt::Write) -> fmt::Result {
        if self.0 < 0 {
            out.write_str("-")?;
        }
        write_decimal::<AMOUNT_DIGITS>(out, self.0.unsigned_abs())
    }

    /// As a float of USD, for metrics only.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a counter of a dashboard, not an account")]
    pub fn approx_usd(self) -> f64 {
        self.0 as f64 / 1e15
    }
}

impl Add for Money {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Money {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl AddAssign for Money {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Money {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_to(f)
    }
}

/// The largest price, in its smallest units.
const MAX_PRICE_UNITS: u128 = 1_000_000_000_000_000_000;

/// Reads a plain or exponent decimal as an integer of `10^-DIGITS`.
fn parse_decimal<const DIGITS: usize>(text: &str) -> Result<u64, PriceError> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((m, e)) => (m, e.parse::<i32>().map_err(|_| PriceError::Malformed)?),
        None => (text, 0),
    };
    if let Some(rest) = mantissa.strip_prefix('-') {
        let zero = !rest.is_empty() && rest.bytes().all(|b| b == b'0' || b == b'.');
        return if zero { Ok(0) } else { Err(PriceError::Negative) };
    }
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if whole.is_empty() || digits.len() > 30 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(PriceError::Malformed);
    }
    let value: u128 = digits.parse().map_err(|_| PriceError::Malformed)?;
    let fraction_digits = i32::try_from(fraction.len()).map_err(|_| PriceError::OutOfRange)?;
    let shift =
        i32::try_from(DIGITS).unwrap_or(i32::MAX).saturating_sub(fraction_digits).saturating_add(exponent);
    if value == 0 {
        return Ok(0);
    }
    let power = 10u128.checked_pow(shift.unsigned_abs()).ok_or(PriceError::OutOfRange)?;
    let units = if shift >= 0 {
        value.checked_mul(power).ok_or(PriceError::OutOfRange)?
    } else if value.is_multiple_of(power) {
        value / power
    } else {
        return Err(PriceError::OutOfRange);
    };
    if units > MAX_PRICE_UNITS {
        return Err(PriceError::OutOfRange);
    }
    u64::try_from(units).map_err(|_| PriceError::OutOfRange)
}

/// Writes `value / 10^digits` without trailing zeros and without an exponent, as a JSON number.
fn write_decimal<const DIGITS: usize>(f: &mut impl fmt::Write, value: u128) -> fmt::Result {
    let scale = const { 10_u64.pow(DIGITS as u32) };
    // Amounts of a single call fit 64 bits, whose division takes a tenth of the time.
    let (whole, fraction) = match u64::try_from(value) {
        Ok(value) => (u128::from(value / scale), value % scale),
        Err(_) => {
            let scale = u128::from(scale);
            (value / scale, u64::try_from(value % scale).unwrap_or(0))
        }
    };
    match u64::try_from(whole) {
        Ok(whole) => f.write_str(itoa::Buffer::new().format(whole))?,
        Err(_) => write!(f, "{whole}")?,
    }
    if fraction == 0 {
        return Ok(());
    }
    let mut buffer = itoa::Buffer::new();
    let shown = buffer.format(fraction);
    f.write_str(".")?;
    let zeros = DIGITS.saturating_sub(shown.len());
    f.write_str("000000000000000".get(..zeros).unwrap_or_default())?;
    let trailing = shown.bytes().rev().take_while(|digit| *digit == b'0').count();
    f.write_str(shown.get(..shown.len().saturating_sub(trailing)).unwrap_or_default())
}

/// Appends an amount as [`write_decimal`] does. Nearly all amounts are below a dollar, and all requests write theirs several times.
fn write_amount(out: &mut Vec<u8>, femtos: u64) {
    let (whole, fraction) = (femtos / FEMTOS, femtos % FEMTOS);
    match u8::try_from(whole) {
        Ok(digit @ 0..10) => out.push(b'0' + digit),
        _ => out.extend_from_slice(itoa::Buffer::new().format(whole).as_bytes()),
    }
    if fraction == 0 {
        return;
    }
    // The digit in front gives the fraction all its zeros, and makes room for the point.
    let mut buffer = itoa::Buffer::new();
    let shown = buffer.format(FEMTOS + fraction).as_bytes();
    let trailing = shown.iter().rev().take_while(|digit| **digit == b'0').count();
    let point = out.len();
    out.extend_from_slice(shown.get(..shown.len().saturating_sub(trailing)).unwrap_or_default());
    if let Some(place) = out.get_mut(point) {
        *place = b'.';
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn prices_are_parsed_from_decimals() {
        for (text, shown) in [
            ("0.15", "0.15"),
            ("3", "3"),
            ("1e-2", "0.01"),
            ("0", "0"),
            ("-0.0", "0"),
            ("2.50", "2.5"),
            ("1.5e1", "15"),
        ] {
            assert_eq!(Price::parse(text).map(|p| p.to_string()), Ok(shown.to_owned()), "{text}");
        }
        assert_eq!(Price::parse("-1"), Err(PriceError::Negative));
        for bad in ["", ".", "NaN", "inf", "1,5", "0x1", "1e999999999999"] {
            assert_eq!(Price::parse(bad), Err(PriceError::Malformed), "{bad}");
        }
        for far in ["1e300", "0.0000000001", "1e-300", "1e2147483647", "1e-2147483648"] {
            assert_eq!(Price::parse(far), Err(PriceError::OutOfRange), "{far}");
        }
    }

    #[test]
    fn a_cost_is_exact() {
        let price = Price::parse("0.075").unwrap();
        assert_eq!(price.cost(1).to_string(), "0.000000075");
        assert_eq!(price.cost(1_000_000).to_string(), "0.075");
        assert_eq!((price.cost(10) + Price::parse("0.6").unwrap().cost(5)).to_string(), "0.00000375");
    }

    #[test]
    fn amounts_of_reports_are_rounded_to_a_femto() {
        for (text, power, shown) in [
            ("0.06", 0, "0.06"),
            ("123.78912", -2, "1.2378912"),
            ("-5", -2, "-0.05"),
            ("1.5e-7", 0, "0.00000015"),
            ("0.1234567890123456789", 0, "0.123456789012346"),
            ("1e-300", 0, "0"),
            ("12", 3, "12000"),
        ] {
            assert_eq!(
                Money::parse_rounded(text, power).map(|it| it.to_string()),
                Ok(shown.to_owned()),
                "{text}"
            );
        }
        for bad in ["", "-", ".5", "1,5", "NaN", "--1", "1e"] {
            assert_eq!(Money::parse_rounded(bad, 0), Err(PriceError::Malformed), "{bad}");
        }
        assert_eq!(Money::parse_rounded("1e300", 0), Err(PriceError::OutOfRange));
    }

    #[test]
    fn a_multiplier_rounds_half_up() {
        let third = Price::parse("0.333333333").unwrap();
        assert_eq!(Price::parse("1.5").unwrap().times(third).to_string(), "0.5");
    }

    fn written(femtos: i128) -> String {
        let mut text = Vec::new();
        Money::from_femtos(femtos).write(&mut text);
        String::from_utf8(text).unwrap()
    }

    proptest! {
        #[test]
        fn an_amount_is_written_as_display_shows_it(femtos in any::<i128>(), cents in any::<u64>(), small in 0..1000i128) {
            for femtos in [femtos, cents.into(), small, small * 1_000_000_000_000, small * 10_000_000_000_000_000, -small] {
                prop_assert_eq!(written(femtos), Money::from_femtos(femtos).to_string());
            }
        }

        #[test]
        fn a_displayed_price_parses_to_itself(nanos in 0u64..1_000_000_000_000_000_000) {
            let price = Price::from_nanos(nanos);
            prop_assert_eq!(Price::parse(&price.to_string()), Ok(price));
        }

        #[test]
        fn cost_adds_up(nanos in 0u64..1_000_000_000_000, a in 0u64..1_000_000, b in 0u64..1_000_000) {
            let price = Price::from_nanos(nanos);
            prop_assert_eq!(price.cost(a) + price.cost(b), price.cost(a + b));
        }

        #[test]
        fn parsing_a_price_never_panics(text in "\\PC{0,40}") {
            let _ = Price::parse(&text);
        }
    }
}
