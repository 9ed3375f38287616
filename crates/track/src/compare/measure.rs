//! Builds both sides, then runs them alternately until the intervals are narrow enough or time is up.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use wingbeat_stats::{paired::PAIRS_MIN, random::Random};

use super::{
    CompareError, Event, Plan, SideName,
    command::{Output, Runner},
    judge,
    result::{End, Failed},
    series::{Collector, Series},
};
use crate::model::Results;

#[derive(Debug)]
pub(super) struct Measured {
    pub(super) series: Vec<Series>,
    pub(super) pairs: usize,
    pub(super) elapsed: Duration,
    pub(super) end: End,
    pub(super) failures: Vec<Failed>,
}

struct Session<'a> {
    plan: &'a Plan,
    /// Base and head.
    runners: &'a [Runner],
    stop: &'a AtomicBool,
    observe: &'a mut dyn FnMut(Event<'_>),
    collector: Collector,
    pairs: usize,
    failures: Vec<Failed>,
}

pub(super) fn measure(
    plan: &Plan,
    runners: &[Runner],
    stop: &AtomicBool,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Measured, CompareError> {
    let (collector, failures) = (Collector::default(), Vec::new());
    let mut session = Session { plan, runners, stop, observe, collector, pairs: 0, failures };
    for runner in runners {
        session.build(runner)?;
    }
    let start = Instant::now();
    let end = match session.take_turns(start) {
        Err(CompareError::Interrupted) if session.pairs > 0 => End::Interrupted,
        end => end?,
    };
    let Session { collector, pairs, failures, .. } = session;
    let series = collector.into_series();
    Ok(Measured { series, pairs, elapsed: start.elapsed(), end, failures })
}

impl Session<'_> {
    /// Builds. Without a separate build, does a first run, which does not count.
    fn build(&mut self, runner: &Runner) -> Result<(), CompareError> {
        (self.observe)(Event::Building(runner.side, &runner.first_line()));
        match runner.build(self.stop) {
            Some(built) => self.show(runner.side, built).map(drop),
            // Still parsed: without results in it, further runs are useless.
            None => self.run(runner).map(drop),
        }
    }

    fn take_turns(&mut self, start: Instant) -> Result<End, CompareError> {
        let mut order = Order::new(self.plan.seed);
        loop {
            let block = order.block();
            for pair in block.chunks_exact(block.len() / PAIRS_PER_BLOCK) {
                self.pair(pair)?;
                (self.observe)(Event::Pairs(self.pairs, start.elapsed()));
            }
            let (series, settings) = (self.collector.series(), &self.plan.settings);
            let is_enough = judge::is_exact(series)
                || (judge::is_look(self.pairs) && judge::is_narrow(series, settings));
            if is_enough {
                return Ok(End::Precise);
            }
            self.check_time(start.elapsed())?;
            if self.is_late(start.elapsed()) {
                return Ok(End::TimeSpent);
            }
        }
    }

    /// Fails if the pairs needed for a verdict cannot complete in time.
    fn check_time(&self, elapsed: Duration) -> Result<(), CompareError> {
        let Some(until) = self.plan.until else { return Ok(()) };
        let pair = elapsed / u32::try_from(self.pairs.max(1)).unwrap_or(u32::MAX);
        let missing = u32::try_from(PAIRS_MIN.saturating_sub(self.pairs)).unwrap_or(u32::MAX);
        let there_is = until.saturating_duration_since(Instant::now());
        match pair.saturating_mul(missing) {
            needed if missing > 0 && needed > there_is => Err(CompareError::Failed(format!(
                "a pair of runs takes {:.0} s, and there is no time for the {PAIRS_MIN} pairs that a verdict takes",
                pair.as_secs_f64()
            ))),
            _ => Ok(()),
        }
    }

    /// Whether another block would exceed the time limit, and there are enough pairs.
    fn is_late(&mut self, elapsed: Duration) -> bool {
        let pair = elapsed / u32::try_from(self.pairs.max(1)).unwrap_or(u32::MAX);
        let (block, least) = (pair * PAIRS_PER_BLOCK as u32, pair * PAIRS_MIN as u32);
        if self.pairs == PAIRS_PER_BLOCK && least > self.plan.time {
            let (pair, least) = (pair.as_secs_f64(), least.as_secs_f64());
            (self.observe)(Event::Notice(&format!(
                "a pair of runs takes {pair:.0} s, so that the {PAIRS_MIN} pairs that a verdict needs at \
                 least need {least:.0} s, which is more than --time"
            )));
        }
        self.pairs >= PAIRS_MIN && elapsed + block > self.plan.time
    }

    fn pair(&mut self, sides: &[SideName]) -> Result<(), CompareError> {
        let (mut base, mut head) = (Results::default(), Results::default());
        for &side in sides {
            if self.stop.load(Ordering::Relaxed) {
                return Err(CompareError::Interrupted);
            }
            let runners = self.runners;
            let Some(runner) = runners.iter().find(|runner| runner.side == side) else { continue };
            let results = self.run(runner)?;
            match side {
                SideName::Base => base = results,
                SideName::Head => head = results,
            }
        }
        self.collector.add(&base, &head);
        self.pairs += 1;
        Ok(())
    }

    fn run(&mut self, runner: &Runner) -> Result<Results, CompareError> {
        let side = runner.side;
        let output = self.show(side, runner.run(self.stop))?;
        let parsed = self.plan.adapter.parse(&output.stdout, self.plan.average);
        let failed = |source| {
            CompareError::Failed(format!(
                "the output of {}: {source}{}",
                side.name(),
                output.last_lines()
            ))
        };
        let results = parsed.map_err(failed)?;
        for failure in &results.failures {
            let is_it = |it: &Failed| it.side == side && it.benchmark == failure.name;
            if !self.failures.iter().any(is_it) {
                let (benchmark, reason) = (failure.name.clone(), failure.reason.clone());
                self.failures.push(Failed { side, benchmark, reason });
            }
        }
        Ok(results)
    }

    fn show(
        &mut self,
        side: SideName,
        output: Result<Output, CompareError>,
    ) -> Result<Output, CompareError> {
        if let Ok(Output { stdout, stderr }) = &output {
            (self.observe)(Event::Output(side, stdout, stderr));
        }
        output
    }
}

const BLOCK: usize = 4;

const PAIRS_PER_BLOCK: usize = 2;

/// The order of the runs: blocks of four, ABBA or BAAB at random. Linear drift of the machine affects both sides of a
/// block equally, and no periodic disturbance can align with it.
#[derive(Debug, Clone)]
pub struct Order(Random);

impl Order {
    /// The same seed gives the same order.
    pub fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    /// The next block. Its first two runs are a pair, and its last two.
    pub fn block(&mut self) -> [SideName; BLOCK] {
        use SideName::{Base, Head};
        if self.0.coin() { [Base, Head, Head, Base] } else { [Head, Base, Base, Head] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_comes_first_as_often() {
        let mut order = Order::new(1);
        let blocks: Vec<_> = (0..1000).map(|_| order.block()).collect();
        let base_first = blocks.iter().filter(|block| block[0] == SideName::Base).count();
        // Standard deviation 16.
        assert!(base_first.abs_diff(500) < 60, "{base_first}");
        for block in blocks {
            assert!(block[0] == block[3] && block[1] == block[2] && block[0] != block[1]);
        }
    }
}
