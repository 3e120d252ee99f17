//! Chooses a git store for a new repository: at random, by weight and free space.

use std::collections::HashMap;

use rand::Rng;

use super::StoreStatus;
use crate::error::RepoError;
use crate::store::OpenStore;

/// Draws one of `stores`, with a probability proportional to its weight times its free space. Skips
/// stores that are unreachable, not writable, or have at most `reserve_bytes` free. Also skips
/// stores without a status, unless none has one: then only the weight counts. A single store is
/// always chosen; it rejects what it cannot take.
pub(super) fn choose(
    stores: &[OpenStore],
    statuses: &HashMap<String, StoreStatus>,
    reserve_bytes: u64,
    rng: &mut impl Rng,
) -> Result<String, RepoError> {
    match stores {
        [] => return Err(RepoError::NoOpenStore),
        [only] => return Ok(only.name.clone()),
        _ => {}
    }
    let known: Vec<_> = stores.iter().filter_map(|store| Some((store, statuses.get(&store.name)?))).collect();
    if known.is_empty() {
        let by_weight = stores.iter().map(|store| (store, share(store, 1)));
        return draw(by_weight.collect(), rng).ok_or(RepoError::NoOpenStore);
    }
    let reachable: Vec<_> = known.into_iter().filter(|(_, status)| status.is_reachable).collect();
    if reachable.is_empty() {
        return Err(RepoError::StoreUnavailable);
    }
    let with_space =
        reachable.into_iter().filter(|(_, status)| status.is_writable && status.free_bytes > reserve_bytes);
    let by_space = with_space.map(|(store, status)| (store, share(store, status.free_bytes)));
    draw(by_space.collect(), rng).ok_or(RepoError::NoStoreSpace)
}

fn share(store: &OpenStore, free_bytes: u64) -> u128 {
    u128::from(store.weight.unsigned_abs()) * u128::from(free_bytes)
}

/// Draws a store with a probability proportional to its share; `None` if all shares are zero.
fn draw(shares: Vec<(&OpenStore, u128)>, rng: &mut impl Rng) -> Option<String> {
    let total: u128 = shares.iter().map(|(_, share)| share).sum();
    if total == 0 {
        return None;
    }
    let mut left = rng.random_range(0..total);
    for (store, share) in shares {
        if left < share {
            return Some(store.name.clone());
        }
        left -= share;
    }
    None
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    const GIB: u64 = 1 << 30;
    const DRAWS: u32 = 20_000;

    fn stores(weights: &[(&str, i64)]) -> Vec<OpenStore> {
        weights.iter().map(|(name, weight)| OpenStore { name: (*name).to_owned(), weight: *weight }).collect()
    }

    fn with_free(free_gib: u64) -> StoreStatus {
        let total_bytes = 1_000 * GIB;
        let free_bytes = free_gib * GIB;
        StoreStatus { is_reachable: true, missed: 0, is_writable: true, free_bytes, total_bytes, seen_us: 1 }
    }

    fn statuses(of: &[(&str, StoreStatus)]) -> HashMap<String, StoreStatus> {
        of.iter().map(|(name, status)| ((*name).to_owned(), *status)).collect()
    }

    /// Returns how often the stores `a`, `b` and `c` are chosen, in percent.
    fn percentages(stores: &[OpenStore], statuses: &HashMap<String, StoreStatus>) -> [u32; 3] {
        let mut rng = StdRng::seed_from_u64(7);
        let mut counts = [0_u32; 3];
        for _ in 0..DRAWS {
            let chosen = choose(stores, statuses, GIB, &mut rng).unwrap();
            counts[["a", "b", "c"].iter().position(|name| *name == chosen).unwrap()] += 1;
        }
        counts.map(|count| (count * 100 + DRAWS / 2) / DRAWS)
    }

    fn is_near(found: [u32; 3], expected: [u32; 3]) -> bool {
        found.iter().zip(expected).all(|(found, expected)| found.abs_diff(expected) <= 2)
    }

    #[test]
    fn new_repositories_spread_by_weight_and_free_space() {
        let equal = stores(&[("a", 100), ("b", 100), ("c", 100)]);
        let same = statuses(&[("a", with_free(50)), ("b", with_free(50)), ("c", with_free(50))]);
        assert!(is_near(percentages(&equal, &same), [33, 33, 33]));
        let weighted = stores(&[("a", 50), ("b", 25), ("c", 25)]);
        assert!(is_near(percentages(&weighted, &same), [50, 25, 25]));
        let different = statuses(&[("a", with_free(100)), ("b", with_free(60)), ("c", with_free(40))]);
        assert!(is_near(percentages(&equal, &different), [50, 30, 20]));
        // 50 × 100, 25 × 60 and 25 × 40.
        assert!(is_near(percentages(&weighted, &different), [67, 20, 13]));
    }

    #[test]
    fn stores_without_a_response_or_space_are_left_out() {
        let all = stores(&[("a", 100), ("b", 100), ("c", 100)]);
        let gone = with_free(50).unreachable();
        let seen = statuses(&[("a", with_free(50)), ("b", gone), ("c", with_free(1))]);
        assert_eq!(percentages(&all, &seen), [100, 0, 0], "the reserve of one GiB is kept");
        let read_only = StoreStatus { is_writable: false, ..with_free(50) };
        let seen = statuses(&[("a", with_free(50)), ("b", read_only)]);
        assert_eq!(percentages(&all, &seen), [100, 0, 0], "about `c` nothing is known yet");
    }

    #[test]
    fn before_the_first_response_the_weight_alone_decides() {
        let weighted = stores(&[("a", 10), ("b", 30), ("c", 60)]);
        assert!(is_near(percentages(&weighted, &HashMap::new()), [10, 30, 60]));
    }

    #[test]
    fn the_reason_is_told_when_no_store_can_be_chosen() {
        let mut rng = StdRng::seed_from_u64(7);
        let two = stores(&[("a", 100), ("b", 100)]);
        let mut refused = |stores: &[OpenStore], seen: &[(&str, StoreStatus)]| {
            choose(stores, &statuses(seen), GIB, &mut rng).unwrap_err()
        };
        assert!(matches!(refused(&[], &[]), RepoError::NoOpenStore));
        let gone = with_free(50).unreachable();
        assert!(matches!(refused(&two, &[("a", gone), ("b", gone)]), RepoError::StoreUnavailable));
        assert!(matches!(refused(&two, &[("a", gone), ("b", with_free(0))]), RepoError::NoStoreSpace));
    }

    #[test]
    fn the_only_store_is_chosen_however_it_is() {
        let mut rng = StdRng::seed_from_u64(7);
        for status in [with_free(0), with_free(50).unreachable()] {
            let chosen = choose(&stores(&[("a", 1)]), &statuses(&[("a", status)]), GIB, &mut rng);
            assert_eq!(chosen.unwrap(), "a");
        }
    }
}
