//! Scope lists: a serialized scope parses to the same scope, and scopes behave as sets.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sealgate_fuzz::domain::scope::Scope;
use sealgate_fuzz::two;

fuzz_target!(|text: &str| {
    let (one, other) = two(text);
    let (Ok(one), Ok(other)) = (Scope::parse(one), Scope::parse(other)) else { return };
    assert_eq!(Scope::parse(&one.to_string()).ok(), Some(one));
    assert!(one.intersection(other).is_subset_of(one) && one.is_subset_of(one.union(other)));
    assert!(other.values().all(|value| one.union(other).contains(value) && !one.without(value).contains(value)));
});
