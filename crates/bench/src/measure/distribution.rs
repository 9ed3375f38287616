//! Time of single runs: batches of the program with a clock around it, and what the clock has written.

use std::os::fd::AsFd as _;

use super::{
    BenchError,
    subject::{Subject, run_form},
};
use crate::{
    input::Input,
    instrument::wrapper::{Recorded, read_histogram},
};

/// Runs of the program with a clock, so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Clockings {
    /// Added up over all batches; `None` before the first.
    pub(super) recorded: Option<Recorded>,
}

impl Clockings {
    /// Runs one batch and adds what the clock saw.
    pub(super) fn batch(
        &mut self,
        subject: &Subject<'_>,
        input: &Input,
        context: &[u8],
        runs: u32,
    ) -> Result<(), BenchError> {
        let Ok(clocked) = &subject.state().clocked else { return Ok(()) };
        clocked.notebook.clear_notebook()?;
        run_form(clocked.program.as_fd(), subject.r#type(), input, context, runs)?;
        let value = clocked.notebook.read_notebook()?;
        let found =
            read_histogram(&value).map_err(|error| BenchError::NotMeasurable(error.to_string()))?;
        self.recorded = Some(match self.recorded.take() {
            Some(before) => added(before, &found),
            None => found,
        });
        Ok(())
    }
}

fn added(mut sum: Recorded, more: &Recorded) -> Recorded {
    if more.count == 0 {
        return sum;
    }
    for (bucket, more) in sum.buckets.iter_mut().zip(&more.buckets) {
        *bucket = bucket.saturating_add(*more);
    }
    sum.min_ns = if sum.count == 0 { more.min_ns } else { sum.min_ns.min(more.min_ns) };
    sum.max_ns = sum.max_ns.max(more.max_ns);
    sum.count = sum.count.saturating_add(more.count);
    sum.sum_ns = sum.sum_ns.saturating_add(more.sum_ns);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_add_up() {
        let recorded = |value: u64, count: u64| Recorded {
            buckets: vec![count],
            count,
            sum_ns: value * count,
            min_ns: value,
            max_ns: value,
        };
        let sum = added(added(recorded(0, 0), &recorded(20, 2)), &recorded(10, 1));
        let (min, max) = (sum.min_ns, sum.max_ns);
        assert_eq!((sum.count, sum.sum_ns, min, max, sum.buckets[0]), (3, 50, 10, 20, 3));
    }
}
