//! The vendors' own examples, and the recognition of names.

use gw_wire::request::{Detail, Medium};
use proptest::prelude::*;

use super::MediaSizes;
use crate::adapter::Adapter;
use crate::adapters::openai::OpenAi;
use crate::adapters::{anthropic, cohere, gemini};
use crate::presets;

fn image(name: &str, width: u32, height: u32, detail: Detail) -> u64 {
    MediaSizes::of([name, ""], MediaSizes::default()).tokens(&Medium::Image { width, height, detail })
}

fn auto(name: &str, width: u32, height: u32) -> u64 {
    image(name, width, height, Detail::Auto)
}

fn page(name: &str) -> u64 {
    MediaSizes::of([name, ""], MediaSizes::default()).tokens(&Medium::Pages(1))
}

fn second(name: &str) -> u64 {
    let sizes = MediaSizes::of([name, ""], MediaSizes::default());
    sizes.tokens(&Medium::Audio { milliseconds: 1_000 })
}

#[test]
fn openai_tiles_match_its_examples() {
    assert_eq!(auto("gpt-4o", 1024, 1024), 765);
    assert_eq!(auto("gpt-4o", 2048, 4096), 1_105);
    assert_eq!(image("gpt-4o", 4096, 8192, Detail::Low), 85);
    assert_eq!((auto("gpt-4o", 1, 1), auto("gpt-4o", 0, 0), auto("gpt-4o", u32::MAX, 1)), (255, 1_445, 765));
    assert_eq!(auto("gpt-4o-mini", 1024, 1024), 2_833 + 4 * 5_667);
    assert_eq!(image("gpt-4o-mini", 1024, 1024, Detail::Low), 2_833);
    assert_eq!(auto("gpt-5", 1024, 1024), 70 + 4 * 140);
    assert_eq!(auto("o3", 1024, 1024), 75 + 4 * 150);
    for name in
        ["gpt-4.1", "gpt-4o-2024-08-06", "chatgpt-4o-latest", "gpt-4-turbo-2024-04-09", "gpt-35-turbo"]
    {
        assert_eq!(auto(name, 1024, 1024), 765, "{name}");
    }
}

#[test]
fn openai_patches_match_its_examples() {
    // 1,024 patches; and 1,452 patches after scaling, which count as the bound.
    assert_eq!(auto("gpt-4.1-mini", 1024, 1024), 1_659);
    assert_eq!(auto("gpt-5-mini-2025-08-07", 1800, 2400), 2_489);
    assert_eq!(auto("gpt-5.4-nano", 1024, 1024), 2_520);
    assert_eq!(auto("o4-mini", 1024, 1024), 1_762);
    // GPT-5.4 sees the original size on request, GPT-5.5 by default, and later models without a bound.
    let details = [Detail::Low, Detail::High, Detail::Auto, Detail::Original];
    for (name, expected) in [
        ("gpt-5.4", [231, 3_000, 3_000, 12_000]),
        ("gpt-5.5-2026-04-23", [231, 3_000, 12_000, 12_000]),
        ("gpt-5.6-sol", [231, 3_000, 14_364, 14_364]),
        ("openai.gpt-6.1-terra", [231, 3_000, 14_364, 14_364]),
    ] {
        assert_eq!(details.map(|detail| image(name, 4032, 3024, detail)), expected, "{name}");
    }
    assert_eq!(image("gpt-6-astra", 640, 480, Detail::High), 360);
    assert_eq!(image("gpt-6-astra", 640, 480, Detail::Low), 231);
    assert_eq!(image("gpt-6-astra", 3200, 960, Detail::Original), 3_600);
    assert_eq!((auto("gpt-6-astra", 0, 0), auto("gpt-5.4", 0, 0)), (15_000, 3_000));
    assert_eq!(auto("gpt-6-astra", u32::MAX, u32::MAX), 36_000);
}

#[test]
fn other_vendors_sizes_match_their_documents() {
    // "Vision": scaled to 1456 x 819, the image has 1,560 tokens.
    assert_eq!(auto("claude-sonnet-4-5-20250929", 1920, 1080), 1_600);
    assert_eq!(auto("claude-opus-4-7", 1920, 1080), 2_691);
    assert_eq!(auto("us.anthropic.claude-opus-5-v1:0", 3840, 2160), 4_784);
    assert_eq!(auto("claude-sonnet-4-6", 200, 200), 64);
    assert_eq!((auto("claude-haiku-4-5", 0, 0), auto("claude-opus-latest", 0, 0)), (1_600, 4_784));
    assert_eq!(auto("gemini-2.5-pro", 384, 384), 258);
    // "Image understanding": 960 x 540 has 3 x 2 tiles of 360 pixels.
    assert_eq!(auto("gemini-2.5-flash", 960, 540), 6 * 258);
    assert_eq!(auto("models/gemini-2.0-flash-001", 1536, 1536), 4 * 258);
    assert_eq!((auto("gemini-2.5-pro", 0, 0), auto("gemini-2.5-pro", 9_000, 9_000)), (4_128, 4_128));
    for name in ["gemini-3-pro-preview", "gemini-3.1-flash-lite", "gemini-4-argon", "gemini-flash-latest"] {
        assert_eq!((auto(name, 4000, 3000), page(name)), (1_120, 560), "{name}");
    }
    assert_eq!((auto("mistral-large-2512", 1540, 1540), auto("mistral-large-2512", 0, 0)), (3_080, 3_080));
    assert_eq!((auto("mistral-small", 280, 56), auto("pixtral-12b", 4000, 4000)), (22, 4_160));
    assert_eq!((auto("nova-pro", 1, 1), auto("nova-pro", 9_000, 9_000)), (2_000, 2_000));
}

#[test]
fn pages_audio_and_video_have_documented_sizes() {
    let pages = ["gpt-4o", "gpt-4o-mini", "gpt-5.6-sol", "gpt-5-nano", "claude-opus-4-5", "claude-opus-5"];
    assert_eq!(pages.map(page), [3_000, 38_335, 4_500, 5_279, 3_100, 6_284]);
    let pages = ["gemini-2.5-pro", "gemini-3-flash", "mistral-small", "command-a"];
    assert_eq!(pages.map(page), [258, 560, 3_080, 3_000]);
    assert_eq!(MediaSizes::default().tokens(&Medium::Pages(100)), 300_000);
    let seconds = ["gpt-audio", "gemini-2.5-pro", "voxtral-small", "nova-sonic", "claude-opus-5"];
    assert_eq!(seconds.map(second), [10, 32, 13, 32, 32]);
    assert_eq!(MediaSizes::default().tokens(&Medium::Audio { milliseconds: 1 }), 1);
    assert_eq!(MediaSizes::default().tokens(&Medium::Video { milliseconds: 10_000 }), 3_320);
}

#[test]
fn an_unknown_name_gets_the_usual_sizes_of_its_dialect() {
    let medium = Medium::Image { width: 1024, height: 1024, detail: Detail::Auto };
    let tokens = |adapter: &dyn Adapter, name: &str, id: &str| adapter.media_sizes(name, id).tokens(&medium);
    let openai = OpenAi::new(presets::find("openai").unwrap().quirks);
    assert_eq!(tokens(&openai, "my-deployment", "house/model"), 765);
    assert_eq!(tokens(&openai, "my-deployment", "azure/gpt-4o-mini"), 25_501);
    assert_eq!(tokens(&openai, "anthropic/claude-sonnet-4.5", "x"), 1_369);
    assert_eq!(tokens(&*anthropic::adapter(), "glm-4.6", "x"), 1_369);
    assert_eq!(tokens(&*gemini::adapter(), "learnlm", "x"), 1_120);
    assert_eq!(tokens(&*cohere::adapter(), "command-a-vision", "x"), 2_000);
}

proptest! {
    #[test]
    fn any_media_size_gives_a_bounded_token_count(
        name in "(gpt-|o|claude-|gemini-|pixtral|)[0-9a-z.-]{0,12}",
        width in any::<u32>(),
        height in any::<u32>(),
        long in any::<u64>(),
    ) {
        for detail in [Detail::Low, Detail::High, Detail::Auto, Detail::Original] {
            let tokens = image(&name, width, height, detail);
            prop_assert!((1..=48_169).contains(&tokens), "{}", tokens);
        }
        let sizes = MediaSizes::of([&name, ""], MediaSizes::openai());
        for medium in [
            Medium::Pages(width),
            Medium::Audio { milliseconds: long },
            Medium::Video { milliseconds: long },
        ] {
            let _ = sizes.tokens(&medium);
        }
    }
}
