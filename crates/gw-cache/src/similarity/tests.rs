//! Matches, thresholds and bounds.

use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::doubles::key;

fn unit(vector: &[f32]) -> UnitVector {
    UnitVector::of(vector).unwrap()
}

/// A direction in the plane, in degrees.
fn at(degrees: f32) -> UnitVector {
    unit(&[degrees.to_radians().cos() * 7.0, degrees.to_radians().sin() * 7.0])
}

/// The nearest match.
fn find(similar: &SimilarityIndex, context: &str, vector: &UnitVector) -> Option<Match> {
    similar.find(&key(context), vector, 1).pop()
}

fn answering() -> SimilarityIndex {
    SimilarityIndex::new(SimilaritySettings { mode: SimilarityMode::Answer, ..SimilaritySettings::default() })
}

#[test]
fn the_nearest_question_above_the_threshold_is_found() {
    let similar = answering();
    similar.add(key("context"), at(0.0), key("east"));
    similar.add(key("context"), at(90.0), key("north"));
    // The cosine of 14 degrees is 0.9703, that of 15 is 0.9659.
    let found = find(&similar, "context", &at(14.0)).unwrap();
    assert_eq!((found.key, found.is_usable), (key("east"), true));
    assert!((found.similarity - 0.970_296).abs() < 1e-5, "{}", found.similarity);
    assert_eq!(find(&similar, "context", &at(80.0)).unwrap().key, key("north"));
    for far in [15.0, 45.0, 180.0, -15.0] {
        assert_eq!(find(&similar, "context", &at(far)), None, "{far}");
    }
    assert_eq!(find(&similar, "another context", &at(0.0)), None);
    assert_eq!(find(&similar, "context", &unit(&[1.0, 0.0, 0.0])), None, "another model's vector");
    similar.record_lookup(&key("context"), Some(&found));
    similar.record_lookup(&key("context"), None);
    let figures = similar.figures();
    assert_eq!((figures.looks, figures.matches, figures.shadows, figures.vectors), (2, 1, 0, 2));
}

#[test]
fn a_match_in_shadow_mode_is_counted_and_not_used() {
    let similar = SimilarityIndex::new(SimilaritySettings::default());
    similar.add(key("context"), at(0.0), key("a"));
    let found = find(&similar, "context", &at(1.0)).unwrap();
    assert!(!found.is_usable);
    similar.record_lookup(&key("context"), Some(&found));
    assert_eq!((similar.figures().matches, similar.figures().shadows), (0, 1));
}

#[test]
fn a_removed_answer_is_not_found() {
    let similar = answering();
    similar.add(key("context"), at(0.0), key("a"));
    similar.add(key("context"), at(3.0), key("b"));
    similar.remove(&key("context"), &key("a"));
    assert_eq!(find(&similar, "context", &at(0.0)).unwrap().key, key("b"));
    similar.remove(&key("context"), &key("b"));
    similar.remove(&key("context"), &key("b"));
    assert_eq!(find(&similar, "context", &at(0.0)), None);
    assert_eq!((similar.figures().vectors, similar.figures().bytes), (0, 0));
}

#[test]
fn a_renewed_answer_has_one_vector() {
    let similar = answering();
    similar.add(key("context"), at(0.0), key("a"));
    similar.add(key("context"), at(90.0), key("a"));
    assert_eq!(similar.figures().vectors, 1);
    assert_eq!(find(&similar, "context", &at(0.0)), None);
}

#[test]
fn a_vector_without_a_direction_is_refused() {
    for vector in [&[][..], &[0.0, 0.0], &[f32::NAN, 1.0], &[f32::INFINITY, 1.0], &[1e-39, 0.0]] {
        assert_eq!(UnitVector::of(vector), None, "{vector:?}");
    }
    // The squares of these exceed single precision.
    let large = unit(&[f32::MAX, f32::MAX]);
    assert!((large.cosine(&unit(&[1.0, 1.0])).unwrap() - 1.0).abs() < 1e-6);
}

#[test]
fn a_full_context_drops_its_least_recently_used_vector() {
    let settings = SimilaritySettings {
        mode: SimilarityMode::Answer,
        max_vectors_per_context: 3,
        ..SimilaritySettings::default()
    };
    let similar = SimilarityIndex::new(settings);
    for degrees in [0.0, 30.0, 60.0_f32] {
        similar.add(key("context"), at(degrees), key(&degrees.to_string()));
    }
    let used = find(&similar, "context", &at(1.0)).unwrap();
    similar.record_lookup(&key("context"), Some(&used));
    similar.add(key("context"), at(90.0), key("90"));
    let found = |degrees| find(&similar, "context", &at(degrees)).is_some();
    assert!(found(0.0) && !found(30.0) && found(60.0) && found(90.0));
}

#[test]
fn the_index_stays_in_bounds_and_keeps_contexts_in_use() {
    let max_bytes = 100_000;
    let settings =
        SimilaritySettings { mode: SimilarityMode::Answer, max_bytes, ..SimilaritySettings::default() };
    let similar = SimilarityIndex::new(settings);
    let mut rng = StdRng::seed_from_u64(6);
    let random = |rng: &mut StdRng| {
        let vector: Vec<f32> = (0..64).map(|_| rng.random_range(-1.0..1.0)).collect();
        unit(&vector)
    };
    let kept = random(&mut rng);
    similar.add(key("kept"), kept.clone(), key("kept"));
    for n in 0..5000 {
        let context = key(&rng.random_range(0..300).to_string());
        similar.add(context, random(&mut rng), key(&n.to_string()));
        assert!(find(&similar, "kept", &kept).is_some());
        let figures = similar.figures();
        assert!(figures.bytes <= max_bytes as u64 && figures.bytes >= figures.vectors * 256, "{figures:?}");
    }
    assert!(similar.figures().bytes > max_bytes as u64 * 8 / 10);
    // A single context stays in bounds too, and a vector that exceeds the bound alone is not added.
    let alone = SimilarityIndex::new(settings);
    (0..5000).for_each(|n| alone.add(key("context"), random(&mut rng), key(&n.to_string())));
    assert!(alone.figures().bytes <= max_bytes as u64);
    let huge = unit(&vec![1.0; max_bytes]);
    alone.add(key("huge"), huge.clone(), key("huge"));
    assert_eq!(find(&alone, "huge", &huge), None);
}

proptest! {
    #[test]
    fn the_cosine_agrees_with_a_slow_and_exact_computation(
        pairs in prop::collection::vec((-100.0_f32..100.0, -100.0_f32..100.0), 1..70),
    ) {
        let (one, other): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
        let (Some(a), Some(b)) = (UnitVector::of(&one), UnitVector::of(&other)) else { return Ok(()) };
        let dot = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
        let exact = dot(&one, &other) / (dot(&one, &one) * dot(&other, &other)).sqrt();
        prop_assert!((f64::from(a.cosine(&b).unwrap()) - exact).abs() < 1e-5);
        prop_assert!((a.cosine(&a).unwrap() - 1.0).abs() < 1e-5);
    }
}
