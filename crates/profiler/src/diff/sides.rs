//! Compares the functions of two profiles, with source lines if both are pprof.

use wingbeat_pprof::{Explanation, Metric, Side, compare};

use super::{DiffError, Stacks, Unit, is_collapsed, read_stacks};

/// Compares the functions of two profiles, in units of their totals, and returns that unit.
pub fn functions(files: [(&str, &[u8]); 2]) -> Result<(Explanation, String), DiffError> {
    let [before, after] = read_sides(files)?;
    let metric = Metric::of_totals(&before, &after);
    let explanation = compare(&before, &after, metric).map_err(|source| DiffError::Compare {
        before: files[0].0.to_owned(),
        after: files[1].0.to_owned(),
        source,
    })?;
    Ok((explanation, after.unit().to_owned()))
}

/// Reads two profiles with their names. If either is collapsed, both are read as counted stacks.
fn read_sides(files: [(&str, &[u8]); 2]) -> Result<[Side; 2], DiffError> {
    let [before, after] = files;
    if is_collapsed(before.0, before.1)? || is_collapsed(after.0, after.1)? {
        let of =
            |(name, bytes): (&str, &[u8])| Ok::<_, DiffError>(side(&read_stacks(name, bytes)?));
        return Ok([of(before)?, of(after)?]);
    }
    let of = |side, (name, bytes): (&str, &[u8])| {
        Side::read(side, bytes).map_err(|source| DiffError::Side { name: name.to_owned(), source })
    };
    Ok([of("earlier", before)?, of("later", after)?])
}

fn side(stacks: &Stacks) -> Side {
    let kind = match stacks.unit {
        Unit::Samples => "samples count",
        Unit::Nanoseconds => "time nanoseconds",
        Unit::Bytes => "heap bytes",
    };
    Side::of_stacks(kind, stacks.counts.iter().map(|(stack, count)| (stack.as_str(), *count)))
}
