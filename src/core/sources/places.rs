//! Limit of the sign-ins of one network that wait for the same source.

use std::sync::{Mutex, PoisonError};

use crate::password::QueueKey;

/// Sign-ins of unknown browsers that wait for a source, by network, so that no network takes all
/// places of the source.
#[derive(Default)]
pub(super) struct Places(Mutex<Vec<QueueKey>>);

/// Maximum number of waiting sign-ins of one network: a quarter of the places of a source.
const MAX_PLACES: usize = 16;

/// Place of a waiting sign-in. Freed on drop.
pub(super) struct TakenPlace<'a>(&'a Places, QueueKey);

impl Places {
    /// Takes a place. Returns `None` if the network has all its places in use.
    pub(super) fn take(&self, sender: QueueKey) -> Option<TakenPlace<'_>> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sender != QueueKey::Trusted && taken.iter().filter(|other| **other == sender).count() >= MAX_PLACES {
            return None;
        }
        taken.push(sender);
        Some(TakenPlace(self, sender))
    }
}

impl Drop for TakenPlace<'_> {
    fn drop(&mut self) {
        let mut taken = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = taken.iter().position(|sender| *sender == self.1) {
            taken.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_a_share_of_the_places_and_known_browsers_have_no_limit() {
        let (places, one, other) = (Places::default(), QueueKey::Stranger([1; 16]), QueueKey::Stranger([2; 16]));
        let mut taken: Vec<_> = (0..MAX_PLACES).map(|_| places.take(one).unwrap()).collect();
        assert!(places.take(one).is_none());
        assert!(places.take(other).is_some());
        let trusted: Vec<_> = (0..=MAX_PLACES).map(|_| places.take(QueueKey::Trusted)).collect();
        assert!(trusted.iter().all(Option::is_some));
        taken.pop();
        assert!(places.take(one).is_some());
    }
}
