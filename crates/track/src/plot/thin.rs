//! Reduces points without a visible difference: keeps the first, lowest, highest and last point of each pixel column.

/// Indices of the points to draw, in order. `column` is non-decreasing; `value` is the height.
pub(super) fn thin(
    count: usize,
    column: impl Fn(usize) -> usize,
    value: impl Fn(usize) -> f64,
) -> Vec<usize> {
    let mut kept = Vec::new();
    let mut begin = 0;
    while begin < count {
        let own = column(begin);
        let mut end = begin + 1;
        let (mut low, mut high) = (begin, begin);
        while end < count && column(end) == own {
            if value(end) < value(low) {
                low = end;
            }
            if value(end) > value(high) {
                high = end;
            }
            end += 1;
        }
        let mut chosen = [begin, low, high, end - 1];
        chosen.sort_unstable();
        for index in chosen {
            if kept.last() != Some(&index) {
                kept.push(index);
            }
        }
        begin = end;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_keeps_its_ends_and_extremes() {
        let check = |values: &[f64], per_column: usize, expected: &[usize]| {
            let kept = thin(values.len(), |index| index / per_column, |index| values[index]);
            assert_eq!(kept, expected, "{values:?}");
        };
        check(&[], 1, &[]);
        check(&[1.0, 2.0, 3.0], 1, &[0, 1, 2]);
        check(&[5.0, 1.0, 9.0, 4.0, 3.0, 6.0], 6, &[0, 1, 2, 5]);
        check(&[1.0, 1.0, 1.0, 1.0, 1.0], 5, &[0, 4]);
        check(&[1.0, 2.0, 3.0, 4.0], 2, &[0, 1, 2, 3]);
    }
}
