//! The prices of an entry: of tokens, of tokens in long prompts, and of other units.

use serde_json::{Value, json};

use super::super::draft::{Members, price_per_million};
use super::super::yaml::SourceNode;
use super::Import;

/// Prices per token and their keys here.
const TOKEN_PRICES: [(&str, &str); 8] = [
    ("input_cost_per_token", "official_input_per_m"),
    ("output_cost_per_token", "official_output_per_m"),
    ("cache_read_input_token_cost", "cached_input_per_m"),
    ("cache_creation_input_token_cost", "cache_write_per_m"),
    ("cache_creation_input_token_cost_above_1hr", "cache_write_1h_per_m"),
    ("input_cost_per_audio_token", "official_audio_input_per_m"),
    ("output_cost_per_audio_token", "official_audio_output_per_m"),
    ("output_cost_per_image_token", "official_image_output_per_m"),
];

/// Prices of other units and their keys here.
const UNIT_PRICES: [(&str, &str); 5] = [
    ("input_cost_per_second", "official_per_second"),
    ("input_cost_per_character", "official_per_character"),
    ("input_cost_per_query", "official_per_query"),
    ("output_cost_per_image", "official_per_image"),
    ("input_cost_per_pixel", "official_per_pixel"),
];

/// The most that `above_input_tokens` of a tier can be.
const MAX_TIER: u64 = 1_000_000_000;

/// The place of a price of LiteLLM.
struct PricePlace {
    /// The key here.
    member: &'static str,
    /// The price of one unit, as a part of the price here.
    of_one: f64,
    /// The unit here.
    per: &'static str,
    /// The tier: the price applies to prompts with more tokens than this. None: it is the base price.
    above: Option<u64>,
}

impl Import {
    /// Imports a price; whether the key is one.
    pub(super) fn price(&mut self, key: &str, name: &str, node: &SourceNode, members: &mut Members) -> bool {
        let Some(PricePlace { member, of_one, per, above }) = place(name) else { return false };
        let Some(price) = node.number().and_then(|number| price_per_million(number * of_one)) else {
            self.report.ignored(key, node, "it is no price");
            return true;
        };
        let pricing = members.entry("pricing").or_insert_with(|| json!({}));
        let prices = match above {
            Some(above) => tier(pricing, above),
            None => pricing.as_object_mut(),
        };
        if let Some(prices) = prices {
            prices.insert(member.to_owned(), price);
        }
        let note = match above {
            Some(above) => {
                format!("models.pricing.tiers: {member} of prompts with more than {above} tokens, {per}")
            }
            None => format!("models.pricing.{member}, {per}"),
        };
        self.report.exact(key, node, note);
        true
    }
}

/// The place of the price with this name. LiteLLM takes a price `…_above_200k_tokens` for the whole of a request whose prompt has
/// more tokens, as a tier here.
fn place(name: &str) -> Option<PricePlace> {
    let of = |prices: &[(&str, &'static str)], name: &str| {
        prices.iter().find(|(price, _)| *price == name).map(|(_, member)| *member)
    };
    if let Some(member) = of(&UNIT_PRICES, name) {
        return Some(PricePlace { member, of_one: 1e-6, per: "for each of them", above: None });
    }
    let of_tokens = |member, above| PricePlace { member, of_one: 1.0, per: "per million tokens", above };
    if let Some(member) = of(&TOKEN_PRICES, name) {
        return Some(of_tokens(member, None));
    }
    let (base, bound) = name.strip_suffix("_tokens")?.rsplit_once("_above_")?;
    let above: u64 = match bound.strip_suffix('k') {
        Some(thousands) => thousands.parse::<u64>().ok()?.checked_mul(1_000)?,
        None => bound.parse().ok()?,
    };
    let member = of(&TOKEN_PRICES, base)?;
    (1..=MAX_TIER).contains(&above).then(|| of_tokens(member, Some(above)))
}

/// The prices of the tier above this number of tokens. The bounds of the tiers rise, because the gateway takes no others.
fn tier(pricing: &mut Value, above: u64) -> Option<&mut Members> {
    let tiers = pricing.as_object_mut()?.entry("tiers").or_insert_with(|| json!([])).as_array_mut()?;
    let bound = |tier: &Value| tier.get("above_input_tokens").and_then(Value::as_u64);
    let at = tiers.partition_point(|tier| bound(tier) < Some(above));
    if tiers.get(at).and_then(bound) != Some(above) {
        tiers.insert(at, json!({ "above_input_tokens": above }));
    }
    tiers.get_mut(at)?.as_object_mut()
}
