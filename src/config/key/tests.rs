//! What holds for every key.

use super::*;

#[test]
fn no_key_is_the_beginning_of_another() {
    for short in &KEYS {
        for long in &KEYS {
            assert!(!long.name.starts_with(&format!("{}.", short.name)));
        }
    }
}

#[test]
fn names_are_unique() {
    for (index, key) in KEYS.iter().enumerate() {
        assert!(KEYS[..index].iter().all(|other| other.name != key.name));
    }
}

#[test]
fn numbers_end_in_their_unit() {
    for key in &KEYS {
        if let Kind::Integer { unit: unit @ ("ms" | "bytes"), .. } = key.kind {
            assert!(key.name.ends_with(&format!(".{unit}")), "{}", key.name);
        }
    }
}

#[test]
fn defaults_are_good_values() {
    for key in &KEYS {
        if let Some(default) = key.default {
            assert!(key.kind.check_default(default).is_ok(), "{}", key.name);
        }
    }
}
