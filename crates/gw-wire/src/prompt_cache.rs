//! The use that a request made of the provider's prompt cache: `gateway.prompt_cache`.

use crate::json::ObjectWriter;
use crate::money::Money;

/// The use of the prompt cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptCacheUse {
    /// Whether the gateway put breakpoints into the request.
    pub is_inserted: bool,
    /// Tokens of the prompt that the provider read from its cache.
    pub read_tokens: u64,
    /// Tokens of the prompt that the provider wrote into its cache.
    pub write_tokens: u64,
    /// The cost that the reads saved; None = a price is unknown.
    pub saved: Option<Money>,
    /// The cost of the writes above the price of plain input; None = a price is unknown.
    pub surcharge: Option<Money>,
    /// Whether breakpoints are held back, because the cache cost the key more than it saved.
    pub is_held: bool,
    /// Why the cache had less of the prompt than the session's last request left in it.
    pub miss: Option<CacheMiss>,
}

/// A prompt that was not, or not whole, in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheMiss {
    /// The cause.
    pub cause: MissCause,
    /// The first message that changed, without system messages.
    pub index: Option<u64>,
    /// Seconds since the session's last request.
    pub age_seconds: u64,
    /// Seconds for which the provider keeps a prompt.
    pub ttl_seconds: u64,
    /// Tokens that the cache would have had.
    pub lost_tokens: u64,
    /// Their price as plain input above that of cached input; None = a price is unknown.
    pub lost: Option<Money>,
}

/// The cause of a miss. The first one that holds counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissCause {
    /// Another target served the request.
    Target,
    /// The tools changed.
    Tools,
    /// The system prompt changed.
    System,
    /// A message changed.
    Message,
    /// The provider keeps a prompt for a shorter time.
    Expired,
    /// None of these: the provider did not find the prompt.
    Provider,
}

impl MissCause {
    /// All causes, in their order.
    pub const ALL: [Self; 6] =
        [Self::Target, Self::Tools, Self::System, Self::Message, Self::Expired, Self::Provider];

    /// The name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Target => "target",
            Self::Tools => "tools",
            Self::System => "system",
            Self::Message => "message",
            Self::Expired => "expired",
            Self::Provider => "provider",
        }
    }

    /// The cause of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.as_str() == name)
    }
}

impl PromptCacheUse {
    /// Writes the object.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut object = ObjectWriter::begin(out);
        object.boolean("inserted", self.is_inserted);
        object.integer("read_tokens", self.read_tokens);
        object.integer("write_tokens", self.write_tokens);
        object.number_or_null("saved_usd", self.saved);
        object.number_or_null("surcharge_usd", self.surcharge);
        object.raw("reason", if self.is_held { "\"below_break_even\"" } else { "null" });
        match &self.miss {
            Some(miss) => object.object("miss", |object| miss.write(object)),
            None => object.raw("miss", "null"),
        }
        object.finish();
    }
}

impl CacheMiss {
    fn write(&self, object: &mut ObjectWriter<'_>) {
        object.string("cause", self.cause.as_str());
        object.number_or_null("index", self.index);
        object.integer("age_seconds", self.age_seconds);
        object.integer("ttl_seconds", self.ttl_seconds);
        object.integer("lost_tokens", self.lost_tokens);
        object.number_or_null("lost_usd", self.lost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_has_all_members() {
        let miss = CacheMiss {
            cause: MissCause::Message,
            index: Some(3),
            age_seconds: 7,
            ttl_seconds: 300,
            lost_tokens: 90,
            lost: None,
        };
        let used = PromptCacheUse {
            is_inserted: true,
            read_tokens: 10,
            saved: Some(Money::from_femtos(1_500_000_000_000)),
            is_held: true,
            miss: Some(miss),
            ..PromptCacheUse::default()
        };
        let mut out = Vec::new();
        used.write(&mut out);
        let expected = r#"{"inserted":true,"read_tokens":10,"write_tokens":0,"saved_usd":0.0015,"surcharge_usd":null,"reason":"below_break_even","miss":{"cause":"message","index":3,"age_seconds":7,"ttl_seconds":300,"lost_tokens":90,"lost_usd":null}}"#;
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert!(MissCause::ALL.iter().all(|cause| MissCause::named(cause.as_str()) == Some(*cause)));
    }
}
