//! Cycles of a directed graph.

/// Returns the strongly connected components of two or more nodes, largest first.
///
/// `next[n]` lists the successors of node `n`.
pub(crate) fn cycles(next: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut search =
        Search { next, order: vec![0; next.len()], low: vec![0; next.len()], ..Search::default() };
    for node in 0..next.len() {
        if search.order[node] == 0 {
            search.enter(node);
        }
    }
    search.found.iter_mut().for_each(|cycle| cycle.sort_unstable());
    search.found.sort_by_key(|cycle| (usize::MAX - cycle.len(), cycle[0]));
    search.found
}

/// Tarjan's search; as deep as the longest path, some hundred files.
#[derive(Default)]
struct Search<'a> {
    next: &'a [Vec<usize>],
    /// The turn of a node, from 1; 0 before it, and above all turns once its component is complete.
    order: Vec<usize>,
    /// The earliest open node that a node reaches.
    low: Vec<usize>,
    open: Vec<usize>,
    entered: usize,
    found: Vec<Vec<usize>>,
}

impl Search<'_> {
    fn enter(&mut self, node: usize) {
        self.entered += 1;
        (self.order[node], self.low[node]) = (self.entered, self.entered);
        self.open.push(node);
        let next = self.next;
        for &other in &next[node] {
            match self.order[other] {
                0 => {
                    self.enter(other);
                    self.low[node] = self.low[node].min(self.low[other]);
                }
                order => self.low[node] = self.low[node].min(order),
            }
        }
        if self.low[node] == self.order[node] {
            let first =
                self.open.iter().rposition(|&open| open == node).expect("it was pushed above");
            let component = self.open.split_off(first);
            for &node in &component {
                self.order[node] = usize::MAX;
            }
            if component.len() > 1 {
                self.found.push(component);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::cycles;

    #[test]
    fn a_graph_without_cycles_has_none() {
        assert!(cycles(&[vec![1, 2], vec![2], vec![]]).is_empty());
        assert!(cycles(&[vec![0]]).is_empty());
    }

    #[test]
    fn cycles_that_share_a_node_are_one() {
        let next = [vec![1], vec![0, 2], vec![3, 4], vec![2], vec![5], vec![2]];
        assert_eq!(cycles(&next), [vec![2, 3, 4, 5], vec![0, 1]]);
    }
}
