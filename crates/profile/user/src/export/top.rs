//! The functions with the most samples, or the most time: what a table after a run shows.

use super::count::{add_up, total};
use crate::model::{FunctionId, Profile};

/// The functions with most samples; with most nanoseconds where time off the CPU was measured. There
/// the innermost "function" of a stack is its state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Top {
    /// Samples or nanoseconds that these are parts of.
    pub total: u64,
    /// Most in the function itself first. Functions without any are left out.
    pub by_self: Vec<Row>,
    /// Most in the function or what it called first.
    pub by_total: Vec<Row>,
}

/// A function and its samples, or nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The function, an inlined one too.
    pub function: FunctionId,
    pub name: String,
    /// Where it was the innermost function.
    pub own: u64,
    /// Where it was in the stack, however often.
    pub total: u64,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    own: u64,
    total: u64,
    /// One more than the position of the stack that was counted last: recursion counts once.
    seen: usize,
    /// Fewest calls between it and the innermost function.
    distance: usize,
}

impl Top {
    /// The `rows_max` functions with most samples, each way. What is equal to a tenth of a percent
    /// is ordered by nearness to the innermost function, then by name: the dozen functions that
    /// every stack begins with tell nobody anything.
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
        let total = total(profile).value(profile.meta.mode);
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
    // Rounded as it is printed.
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
