//! Delta chains of a new pack: their depth, and the objects they start with. git accepts any depth,
//! but every read of the deepest object has to resolve the whole chain.

/// Limit on the depth of a chain. git itself never makes deeper ones, whatever its settings.
pub(super) const MAX_CHAIN_DEPTH: u32 = 4095;
/// Marks an entry without a delta base.
pub(super) const NO_BASE: u32 = u32::MAX;

/// Entries of one pack, by their position in it.
pub(super) struct DeltaChains {
    /// For each entry, the position of its delta base, or [`NO_BASE`].
    pub(super) bases: Vec<u32>,
}

impl DeltaChains {
    /// Returns the length of the longest chain to an entry without a base; `u32::MAX` for a cycle.
    pub(super) fn deepest(&self) -> u32 {
        let mut depths = vec![NO_BASE; self.bases.len()];
        let mut deepest = 0;
        let mut chain = Vec::new();
        for start in 0..self.bases.len() {
            let mut at = start;
            chain.clear();
            let mut depth = loop {
                if depths[at] != NO_BASE {
                    break depths[at];
                }
                match self.bases[at] as usize {
                    base if base < self.bases.len() && chain.len() <= self.bases.len() => {
                        chain.push(at);
                        at = base;
                    }
                    base if base < self.bases.len() => return u32::MAX,
                    _ => {
                        depths[at] = 0;
                        break 0;
                    }
                }
            };
            while let Some(at) = chain.pop() {
                depth += 1;
                depths[at] = depth;
            }
            deepest = deepest.max(depth);
        }
        deepest
    }

    /// Returns for each entry the position of the entry that its chain starts with: itself, if it
    /// is no delta. The chains must have no cycle.
    pub(super) fn roots(&self) -> Vec<u32> {
        let mut roots = vec![NO_BASE; self.bases.len()];
        let mut chain = Vec::new();
        for start in 0..self.bases.len() {
            let mut at = start;
            while roots[at] == NO_BASE && (self.bases[at] as usize) < self.bases.len() {
                chain.push(at);
                at = self.bases[at] as usize;
            }
            let root = if roots[at] == NO_BASE { u32::try_from(at).unwrap_or(NO_BASE) } else { roots[at] };
            roots[at] = root;
            chain.drain(..).for_each(|at| roots[at] = root);
        }
        roots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_measured_in_any_order() {
        let deepest = |bases: &[u32]| DeltaChains { bases: bases.to_vec() }.deepest();
        assert_eq!(deepest(&[]), 0);
        assert_eq!(deepest(&[NO_BASE, 0, 1, 0]), 2);
        assert_eq!(deepest(&[3, NO_BASE, 0, 1]), 3);
        assert_eq!(deepest(&[1, 0]), u32::MAX);
    }

    #[test]
    fn every_chain_leads_to_its_first_object() {
        let roots = |bases: &[u32]| DeltaChains { bases: bases.to_vec() }.roots();
        assert_eq!(roots(&[NO_BASE, 0, 1, NO_BASE, 3]), [0, 0, 0, 3, 3]);
        assert_eq!(roots(&[3, NO_BASE, 0, 1]), [1, 1, 1, 1]);
    }
}
