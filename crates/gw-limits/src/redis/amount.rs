//! Amounts of money in the scripts: whole nano-USD.

/// The largest integer that a double, Lua's only number, represents exactly. A larger budget counts as this one
/// (9,007,199 USD).
pub(crate) const MAX_EXACT_INTEGER: u64 = (1 << 53) - 1;
/// Femto-USD of a nano-USD.
pub(crate) const FEMTOS_OF_NANO: i128 = 1_000_000;

/// Converts femto-USD to nano-USD, rounded up.
pub(crate) fn nano_usd(femtos: i128) -> u64 {
    let nano = femtos.max(0).saturating_add(FEMTOS_OF_NANO - 1) / FEMTOS_OF_NANO;
    u64::try_from(nano).unwrap_or(MAX_EXACT_INTEGER).min(MAX_EXACT_INTEGER)
}
