//! Keys: their form, their randomness, and the parts of them that reach the file.

use proptest::prelude::*;

use super::*;

fn from_bytes(mut next: impl FnMut() -> u8) -> NewKey {
    NewKey::from_random(PREFIX, |bytes| {
        bytes.fill_with(&mut next);
        Ok::<(), std::convert::Infallible>(())
    })
    .unwrap()
}

#[test]
fn k01_a_key_has_a_prefix_a_public_id_and_more_than_192_secret_bits() {
    let key = NewKey::generate().unwrap();
    assert_eq!(key.expose().len(), 52);
    assert!(key.expose().starts_with("sk-gw-"));
    assert_eq!(key.id(), &key.expose()[..12]);
    let secret = (PREFIX.len() + RANDOM - ID) as f64;
    assert!(secret * 62_f64.log2() > 192.0);
    assert!(is_well_formed(key.expose()));
}

#[test]
fn every_character_is_equally_likely() {
    let mut seen = std::collections::BTreeMap::<char, u32>::new();
    for byte in 0..=255_u8 {
        if let Some(character) = unbiased(byte) {
            *seen.entry(character).or_default() += 1;
        }
    }
    assert_eq!(seen.len(), 62);
    assert!(seen.values().all(|&count| count == 4));
}

#[test]
fn two_keys_are_never_the_same() {
    let keys: std::collections::BTreeSet<String> =
        (0..1000).map(|_| NewKey::generate().unwrap().expose().to_owned()).collect();
    assert_eq!(keys.len(), 1000);
}

#[test]
fn a_rotated_key_keeps_only_its_id() {
    let first = NewKey::generate().unwrap();
    let second = NewKey::successor(first.id()).unwrap();
    assert_eq!(first.id(), second.id());
    assert!(is_well_formed(second.expose()));
    assert_ne!(first.expose()[12..46], second.expose()[12..46]);
}

#[test]
fn a_new_key_and_a_stored_one_do_not_print_the_secret() {
    let key = NewKey::generate().unwrap();
    let stored = key.stored("first", Role::Admin, 1);
    let printed = format!("{key:?} {stored:?}");
    assert!(!printed.contains(&key.expose()[12..]), "{printed}");
    assert!(!printed.contains("hash"), "{printed}");
}

#[test]
fn the_checksum_of_a_known_key_is_stable() {
    // The form is public: changing it would make every issued key look mistyped.
    let mut counter = 0_u8;
    let key = from_bytes(|| {
        counter = counter.wrapping_add(7);
        counter
    });
    assert_eq!(key.expose(), "sk-gw-7ELSZgnu18FMTahov29GNUbipw3AHOVcjqx3AHOVbVGvWG");
}

#[test]
fn roles_read_back() {
    for role in [Role::Inference, Role::Admin] {
        assert_eq!(Role::parse(role.as_str()), Some(role));
    }
    assert_eq!(Role::parse("root"), None);
}

proptest! {
    #[test]
    fn keys_are_well_formed_for_any_random_bytes(seed in proptest::collection::vec(0..=247_u8, 1..200)) {
        let mut bytes = seed.iter().copied().cycle();
        let key = from_bytes(|| bytes.next().unwrap());
        prop_assert_eq!(key.expose().len(), 52);
        prop_assert!(is_well_formed(key.expose()));
    }

    #[test]
    fn one_wrong_character_is_noticed(at in 0_usize..52, with in "[0-9A-Za-z]") {
        let key = NewKey::generate().unwrap();
        let mut wrong = key.expose().to_owned();
        wrong.replace_range(at..=at, &with);
        prop_assert_eq!(is_well_formed(&wrong), wrong == key.expose());
    }

    #[test]
    fn checking_any_text_never_panics(text in "\\PC*") {
        prop_assert!(!is_well_formed(&text));
    }
}
