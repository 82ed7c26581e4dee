//! Cycles of waits.

/// Returns the cycles of a graph in which each node leads to at most one other.
pub fn cycles(next: &[Option<usize>]) -> Vec<Vec<usize>> {
    let mut cycles = Vec::new();
    // The start from which each node was reached first.
    let mut reached = vec![None; next.len()];
    for start in 0..next.len() {
        let mut path = Vec::new();
        let mut at = Some(start);
        while let Some(node) = at.filter(|&node| reached[node].is_none()) {
            reached[node] = Some(start);
            path.push(node);
            at = next[node];
        }
        if let Some(first) = at.and_then(|node| path.iter().position(|&other| other == node)) {
            cycles.push(path.split_off(first));
        }
    }
    cycles
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_found_without_the_waiters_that_lead_into_them() {
        let next =
            [Some(1), Some(2), Some(1), None, Some(3), Some(5), Some(0), Some(9), None, Some(7)];
        assert_eq!(cycles(&next), [vec![1, 2], vec![5], vec![7, 9]]);
        assert!(cycles(&[]).is_empty());
    }
}
