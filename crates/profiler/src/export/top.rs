//! The functions with most samples or time: the table shown after a run.

use super::add_up;
use crate::model::{FunctionId, Profile};

/// The functions with most samples, or most nanoseconds if off-CPU time was measured. In the latter case the
/// innermost "function" of a stack is its state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Top {
    /// Total samples or nanoseconds.
    pub total: u64,
    /// By own count, most first. Functions with none are left out.
    pub by_self: Vec<Row>,
    /// By count including callees, most first.
    pub by_total: Vec<Row>,
}

/// A function and its samples or nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The function, possibly inlined.
    pub function: FunctionId,
    pub name: String,
    /// Count as the innermost function.
    pub own: u64,
    /// Count anywhere in the stack, once per stack.
    pub total: u64,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    own: u64,
    total: u64,
    /// Index plus one of the last stack counted, so that recursion counts once.
    seen: usize,
    /// Minimum distance to the innermost function.
    distance: usize,
}

impl Top {
    /// Returns the `rows_max` top functions of each ranking. Ties to a tenth of a percent are ordered by distance
    /// to the innermost function, then by name: the dozen entry functions common to all stacks say nothing.
    pub fn of(profile: &Profile, rows_max: usize) -> Self {
        let mut counts = vec![Counts::default(); profile.functions.len()];
        let by_stack = profile.weights().map(|((stack, _), weight)| (stack, weight));
        for (position, (stack, weight)) in add_up(by_stack).into_iter().enumerate() {
            let value = weight.value(profile.meta.mode);
            for (distance, function) in functions_of(profile, stack).enumerate() {
                let Some(counts) = counts.get_mut(function as usize) else { continue };
                if distance == 0 {
                    counts.own = counts.own.saturating_add(value);
                }
                if counts.seen == 0 || distance < counts.distance {
                    counts.distance = distance;
                }
                if counts.seen != position + 1 {
                    counts.seen = position + 1;
                    counts.total = counts.total.saturating_add(value);
                }
            }
        }
        let total = profile.total_weight().value(profile.meta.mode);
        let rows = |key: fn(&Counts) -> u64| rows(profile, total, &counts, rows_max, key);
        Self { total, by_self: rows(|counts| counts.own), by_total: rows(|counts| counts.total) }
    }
}

/// The functions of a stack, innermost first.
fn functions_of(profile: &Profile, stack: u32) -> impl Iterator<Item = FunctionId> {
    profile.frames_of(stack).flat_map(|frame| frame.lines.iter().map(|line| line.function))
}

fn rows(
    profile: &Profile,
    total: u64,
    counts: &[Counts],
    rows_max: usize,
    key: impl Fn(&Counts) -> u64,
) -> Vec<Row> {
    let total = u128::from(total.max(1));
    // Rounded as printed.
    let tenths = |counts: &Counts| (2_000 * u128::from(key(counts)) + total) / (2 * total);
    let mut ranking: Vec<(usize, &Counts)> =
        counts.iter().enumerate().filter(|(_, counts)| key(counts) > 0).collect();
    ranking.sort_unstable_by(|(a, a_counts), (b, b_counts)| {
        let names = profile.functions[*a].name.cmp(&profile.functions[*b].name);
        let shares = tenths(b_counts).cmp(&tenths(a_counts));
        let distances = a_counts.distance.cmp(&b_counts.distance);
        shares.then(distances).then(key(b_counts).cmp(&key(a_counts))).then(names).then(a.cmp(b))
    });
    ranking
        .into_iter()
        .take(rows_max)
        .map(|(function, counts)| Row {
            function: function as FunctionId,
            name: profile.functions[function].name.clone(),
            own: counts.own,
            total: counts.total,
        })
        .collect()
}
