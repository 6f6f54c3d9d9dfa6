//! The savings and surcharges of providers' prompt caches: in the row of a request, and their sums.

use gw_wire::money::Money;
use gw_wire::prompt_cache::{CacheMiss, MissCause, PromptCacheUse};
use serde::Deserialize;

use super::line_text::LineText;

/// The most that one request counts, in femto-USD: a million dollars.
const MAX_FEMTOS: i128 = 1_000_000_000_000_000_000_000;

/// The amounts of requests in femto-USD, as far as prices are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromptCacheSums {
    /// The cost that reads saved.
    pub saved: i128,
    /// The cost of writes above the price of plain input.
    pub surcharge: i128,
    /// The cost of prompts that were not in the cache.
    pub lost: i128,
}

impl PromptCacheSums {
    /// The amounts of one request.
    pub(super) fn of(used: &PromptCacheUse) -> Self {
        let femtos = |amount: Option<Money>| amount.map_or(0, Money::femtos).clamp(-MAX_FEMTOS, MAX_FEMTOS);
        let lost = femtos(used.miss.and_then(|miss| miss.lost));
        Self { saved: femtos(used.saved), surcharge: femtos(used.surcharge), lost }
    }

    /// Adds other amounts.
    pub fn add(&mut self, more: &Self) {
        self.saved += more.saved;
        self.surcharge += more.surcharge;
        self.lost += more.lost;
    }
}

/// Writes the use of a prompt cache at the end of a row, as an array without names.
pub(super) fn write(out: &mut LineText, used: &PromptCacheUse) {
    let PromptCacheUse { is_inserted, read_tokens, write_tokens, saved, surcharge, is_held, miss } = used;
    out.raw(if *is_inserted { ",[1" } else { ",[0" });
    out.next_number(u8::from(*is_held));
    out.next_number(*read_tokens);
    out.next_number(*write_tokens);
    amount(out, *saved);
    amount(out, *surcharge);
    if let Some(CacheMiss { cause, index, age_seconds, ttl_seconds, lost_tokens, lost }) = miss {
        out.next_text(cause.as_str());
        match index {
            Some(index) => out.next_number(*index),
            None => out.next_text_or_null(None),
        }
        out.next_number(*age_seconds);
        out.next_number(*ttl_seconds);
        out.next_number(*lost_tokens);
        amount(out, *lost);
    }
    out.character(']');
}

fn amount(out: &mut LineText, amount: Option<Money>) {
    match amount {
        Some(amount) => out.next_amount(amount.femtos()),
        None => out.next_text_or_null(None),
    }
}

/// The output of [`write()`].
#[derive(Deserialize)]
pub(super) struct EncodedPromptCache {
    inserted: u8,
    held: u8,
    read_tokens: u64,
    write_tokens: u64,
    saved: Option<i128>,
    surcharge: Option<i128>,
    #[serde(default)]
    cause: Option<String>,
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    age_seconds: u64,
    #[serde(default)]
    ttl_seconds: u64,
    #[serde(default)]
    lost_tokens: u64,
    #[serde(default)]
    lost: Option<i128>,
}

impl From<EncodedPromptCache> for PromptCacheUse {
    fn from(said: EncodedPromptCache) -> Self {
        let cause = said.cause.as_deref().and_then(MissCause::named);
        Self {
            is_inserted: said.inserted != 0,
            read_tokens: said.read_tokens,
            write_tokens: said.write_tokens,
            saved: said.saved.map(Money::from_femtos),
            surcharge: said.surcharge.map(Money::from_femtos),
            is_held: said.held != 0,
            miss: cause.map(|cause| CacheMiss {
                cause,
                index: said.index,
                age_seconds: said.age_seconds,
                ttl_seconds: said.ttl_seconds,
                lost_tokens: said.lost_tokens,
                lost: said.lost.map(Money::from_femtos),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::ledger::{Entry, Line};

    #[test]
    fn a_row_keeps_the_use_of_a_prompt_cache() {
        let usd = |femtos| Some(Money::from_femtos(femtos));
        let miss = CacheMiss {
            cause: MissCause::Message,
            index: Some(2),
            age_seconds: 400,
            ttl_seconds: 300,
            lost_tokens: 1_000,
            lost: usd(27),
        };
        let plain =
            PromptCacheUse { is_inserted: true, write_tokens: 9, saved: usd(0), ..Default::default() };
        let missed = PromptCacheUse { miss: Some(miss), is_held: true, ..plain };
        let unknown = CacheMiss { cause: MissCause::Tools, index: None, lost: None, ..miss };
        for used in [missed, PromptCacheUse { miss: Some(unknown), ..plain }, plain] {
            let entry = Entry { prompt_cache: Some(Arc::new(used)), ..Entry::default() };
            let line = Line::new(entry.clone());
            assert_eq!(super::super::read_json(line.json()).unwrap(), entry);
        }
    }
}
