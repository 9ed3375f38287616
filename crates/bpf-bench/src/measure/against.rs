//! Compares two objects, program by program: alternating batches, over many loads of each.
//!
//! The unit is a *pair of loads*: the address that the kernel's JIT compiler chooses differs from
//! load to load and shifts a program's time as much as a small change does, for as long as it is
//! loaded. So each pair loads both again, in random order, runs their batches as ABBA or BAAB, and
//! gives one number, the difference of the logarithms of their times. docs/judging-appendix.md
//! documents the rule.

use std::time::{Duration, Instant};

use wingbeat_bpf_loader::{
    loader::Loader,
    spec::{Linked, Spec},
};
use wingbeat_stats::sample::Sample;

use super::{
    BenchError, Watcher,
    batch::{FixedPart, Length, estimate_ns, time_per_run_ns},
    contents::{Contents, contents},
    counts,
    empty_baseline::baselines,
    feeding::Feeding,
    kernel::{self, Kernel},
    runner::{Alternation as _, Leaves, Runner, Subject as _},
    schedule::bench,
    session::{Budget, Session},
    slot::calls_of,
    subject::link,
    target,
};
use crate::{
    analyse::compare::{self, Contested, Pair, Thresholds},
    input::Input,
    plan::Plan,
    result::{BenchReport, Comparison, Failure, Method, RunCounts},
};

/// Sequences of four batches per pair of loads.
const FOURS_PER_PAIR: usize = 3;

/// More pairs add no information.
const PAIRS_MAX: usize = 4_000;

/// Duration of a comparison relative to a measurement.
const WEIGHT: u32 = 4;

/// Share of the total time for measuring the object under test alone, and the minimum time for
/// that, which is capped at the larger share.
const REPORT_SHARE: f64 = 0.25;
const REPORT_TIME_MIN: Duration = Duration::from_secs(1);
const REPORT_SHARE_MAX: f64 = 0.4;

/// Share of the total time by which the other object must be loaded and counted.
const OTHER_UNTIL: f64 = 0.6;

/// Share trimmed at each end of a load's sorted batches.
const TRIMMED: f64 = 0.25;

/// Measures `new` and compares it with `old`. Fails if one of them cannot be measured at all.
pub fn against(
    new: &Spec,
    old: &Spec,
    plan: &Plan,
    thresholds: Thresholds,
    watcher: &Watcher<'_>,
) -> Result<Comparison, BenchError> {
    let [new, old] = [new, old].map(|spec| target::measured(spec, plan));
    let (new, old) = (&*new, &*old);
    let cases = plan.choose(new)?.len() * plan.inputs.len();
    let budget = Budget::new(Instant::now(), plan.time_for(cases, WEIGHT));
    let share = |share| budget.total().mul_f64(share);
    let time = share(REPORT_SHARE).max(REPORT_TIME_MIN).min(share(REPORT_SHARE_MAX));
    let alone = Plan { time: Some(time), ..plan.clone() };
    let report = bench(new, &alone, watcher)?;
    // No batches: only its outcome, counts and verifier figures.
    let mut programs = in_both(&report, old);
    let verified = report.verified.iter().map(|program| program.name.clone());
    programs.extend(verified.filter(|name| old.program(name).is_ok()));
    let time = Some(budget.left_until(Instant::now(), OTHER_UNTIL));
    let old_plan = Plan { samples: Some(0), time, programs, profiles: false, ..plan.clone() };
    let before = match old_plan.programs.as_slice() {
        [] => None,
        _ => Some(bench(old, &old_plan, watcher)?),
    };
    let varying = may_vary(&report, before.as_ref());
    let contested = kernel::on_thread_of_its_own(plan.cpu, watcher.stop, |kernel| {
        let session = Session::new(plan, watcher, kernel, budget);
        on_kernel(session, [old, new], &in_both(&report, old), &varying)
    })?;
    let unmatched = unmatched(&report, new, old, plan);
    let old_file = old.file().to_owned();
    let before = before.as_ref();
    let verified = before.map_or(&[][..], |before| &before.verified);
    let verified = compare::verified(verified, &report.verified, thresholds.exact);
    let before = before.map_or(&[][..], |before| &before.cases);
    let mut found =
        compare::comparison(report, old_file, before, &contested, unmatched, thresholds, plan.seed);
    found.cases.extend(verified);
    Ok(found)
}

/// Programs of a report, without duplicates.
fn programs(report: &BenchReport) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for case in &report.cases {
        if !names.contains(&&*case.program) {
            names.push(&case.program);
        }
    }
    names
}

/// Cases whose instruction count may vary between runs on at least one side.
fn may_vary(report: &BenchReport, before: Option<&BenchReport>) -> Vec<String> {
    let cases = report.cases.iter().chain(before.iter().flat_map(|before| &before.cases));
    let varying = cases.filter(|case| case.counts.measured().is_some_and(RunCounts::may_vary));
    varying.map(|case| case.name.clone()).collect()
}

/// Programs of the report that `old` has too.
fn in_both(report: &BenchReport, old: &Spec) -> Vec<String> {
    let both = programs(report).into_iter().filter(|name| old.program(name).is_ok());
    both.map(str::to_owned).collect()
}

fn unmatched(report: &BenchReport, new: &Spec, old: &Spec, plan: &Plan) -> Vec<Failure> {
    let only = |name: &str, file: &str| {
        Failure::new(name, format!("only {file} has it, so there is nothing to compare"))
    };
    let gone = programs(report).into_iter().filter(|name| old.program(name).is_err());
    let mut names: Vec<Failure> = gone.map(|name| only(name, &report.object)).collect();
    if plan.programs.is_empty() {
        let others = old.programs().iter().filter(|it| new.program(&it.name).is_err());
        names.extend(others.map(|program| only(&program.name, old.file())));
    }
    names
}

/// Alternates the named programs of the first object with those of the second.
fn on_kernel(
    session: Session<'_, Kernel<'_>>,
    specs: [&Spec; 2],
    names: &[String],
    varying: &[String],
) -> Result<Vec<Contested>, BenchError> {
    let linked = [link(specs[0])?, link(specs[1])?];
    let mut loaders = [Loader::new(specs[0])?, Loader::new(specs[1])?];
    for (loader, spec) in loaders.iter_mut().zip(specs) {
        loader.make_up_contexts(spec.programs().iter());
    }
    let [old, new] = &mut loaders;
    let contents = [contents(specs[0], session.plan, old)?, contents(specs[1], session.plan, new)?];
    let (no_object, nothing) = (Loader::without_object(), Contents::default());
    let find = |side: usize, name: &String| linked[side].iter().find(|it| it.program.name == *name);
    let both = names.iter().filter_map(|name| Some([find(0, name)?, find(1, name)?]));
    let programs: Vec<[&Linked; 2]> = both.collect();
    contest(
        session,
        &Contestants {
            baselines: &baselines(programs.iter().map(|sides| sides[0])),
            programs: &programs,
            varying,
            sources: [(&loaders[0], &contents[0]), (&loaders[1], &contents[1])],
            no_source: (&no_object, &nothing),
        },
    )
}

/// Alternating programs, each in two versions.
pub(super) struct Contestants<'a, S> {
    pub(super) baselines: &'a [Linked],
    pub(super) programs: &'a [[&'a Linked; 2]],
    /// Names of cases whose counts may vary.
    pub(super) varying: &'a [String],
    pub(super) sources: [S; 2],
    /// Source of baselines, which belong to no object.
    pub(super) no_source: S,
}

/// Alternates both versions of all programs until the time is over.
pub(super) fn contest<'a, R: Runner<'a>>(
    mut session: Session<'a, R>,
    contestants: &Contestants<'a, R::Source>,
) -> Result<Vec<Contested>, BenchError> {
    let mut matches = Vec::new();
    for &sides in contestants.programs {
        for input in &session.plan.inputs {
            if session.runner.is_over() {
                break;
            }
            match Match::new(&mut session, sides, contestants.sources, input) {
                Ok(found) => matches.push(found),
                Err(_) if session.runner.is_over() => break,
                Err(error) => return Err(error),
            }
        }
    }
    for baseline in contestants.baselines {
        match fixed_part(session.runner, baseline, contestants.no_source) {
            Ok(fixed) => session.fixed.push((baseline.program.r#type, fixed)),
            Err(_) if session.runner.is_over() => break,
            Err(error) => return Err(error),
        }
    }
    let is_varying = |it: &&mut Match<'a, R>| contestants.varying.contains(&it.name);
    let cases = matches.iter_mut().filter(is_varying).count();
    for it in matches.iter_mut().filter(is_varying) {
        it.count(&mut session, cases)?;
    }
    sample_pairs(&mut session, &mut matches)?;
    let contested = matches.into_iter().map(|it| Contested {
        name: it.name,
        method: match (&it.alternation, it.leaves) {
            (Ok(_), _) => Method::Bursts,
            (Err(_), Leaves::AsItWas) => Method::Batches,
            (Err(_), Leaves::Changed { .. }) => Method::Calls,
        },
        no_bursts: it.alternation.err(),
        pairs: it.pairs,
        counts: it.counts,
    });
    Ok(contested.collect())
}

/// Fixed cost of a call, for the type of this empty program; 0 if it cannot be run.
fn fixed_part<'a, R: Runner<'a>>(
    runner: R,
    baseline: &'a Linked,
    source: R::Source,
) -> Result<FixedPart, BenchError> {
    let mut subject = runner.load(baseline, source)?;
    let input = Input::default_packet();
    if subject.run_first((&input, &[])).is_err() {
        return Ok(FixedPart::default());
    }
    let run = |runs| subject.run((&input, &[]), runs);
    Ok(FixedPart::measure(subject.r#type(), run).unwrap_or_default())
}

fn sample_pairs<'a, R: Runner<'a>>(
    session: &mut Session<'a, R>,
    matches: &mut [Match<'a, R>],
) -> Result<(), BenchError> {
    let mut order: Vec<usize> = (0..matches.len()).collect();
    for _ in 0..PAIRS_MAX {
        session.random.shuffle(&mut order);
        for &index in &order {
            let it = &mut matches[index];
            session.show(&format!("{}: pair {} of loads", it.name, it.pairs.len() + 1));
            match it.pair(session) {
                Ok(pair) => it.pairs.extend(pair),
                Err(_) if session.runner.is_over() => {}
                Err(error) => return Err(error),
            }
            if session.runner.is_over() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// One case of both objects.
struct Match<'a, R: Runner<'a>> {
    name: String,
    input: &'a Input,
    /// Both in one image, or why that is impossible.
    alternation: Result<R::Alternation, String>,
    sides: [R::Subject; 2],
    lengths: [Length; 2],
    leaves: Leaves,
    run_ns: [f64; 2],
    pairs: Vec<Pair>,
    /// Executed instructions of both, if they may vary.
    counts: [Vec<u64>; 2],
}

impl<'a, R: Runner<'a>> Match<'a, R> {
    /// Loads both sides, and determines how to alternate them.
    fn new(
        session: &mut Session<'a, R>,
        sides: [&'a Linked; 2],
        sources: [R::Source; 2],
        input: &'a Input,
    ) -> Result<Self, BenchError> {
        let runner = session.runner;
        let [mut a, mut b] =
            [runner.load(sides[0], sources[0])?, runner.load(sides[1], sources[1])?];
        let given = (input, a.context(&session.plan.context));
        let mut run_ns = [0.0; 2];
        let mut leaves = Leaves::AsItWas;
        for (subject, run_ns) in [&mut a, &mut b].into_iter().zip(&mut run_ns) {
            let first = subject.run_first(given)?;
            let run_again = || subject.run(given, 1);
            *run_ns = estimate_ns(subject.r#type(), &first, subject.pace(), run_again)?;
            // One program gets the other's output.
            let found = Feeding::find(subject, given, &first, *run_ns)?.leaves();
            // The return value of the second one is checked.
            if found.is_changed() || leaves.is_changed() {
                let returns = if let Leaves::Changed { returns } = found { returns } else { None };
                leaves = Leaves::Changed { returns };
            }
            subject.reset()?;
        }
        let longest_ns = run_ns[0].max(run_ns[1]);
        let run = (longest_ns, leaves);
        let alternation = runner.alternate([&a, &b], given, run, &mut session.random);
        let lengths = [Length::of(a.r#type(), run_ns[0]), Length::of(b.r#type(), run_ns[1])];
        let name = session.plan.case_name(&a.linked().program, input);
        let (sides, pairs, counts) = ([a, b], Vec::new(), [Vec::new(), Vec::new()]);
        Ok(Self { name, input, alternation, sides, lengths, leaves, run_ns, pairs, counts })
    }

    /// Counts both alternately; `cases` share the time.
    fn count(&mut self, session: &mut Session<'a, R>, cases: usize) -> Result<(), BenchError> {
        session.show(&format!("{}: counting", self.name));
        let given = (self.input, self.sides[0].context(&session.plan.context));
        match counts::count_alternately(session, &mut self.sides, given, cases) {
            Ok(counts) => self.counts = counts,
            Err(_) if session.runner.is_over() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Loads both again and alternates their batches.
    fn pair(&mut self, session: &mut Session<'a, R>) -> Result<Option<Pair>, BenchError> {
        if let Ok(alternation) = &self.alternation {
            return Ok(alternation.run_bursts(&mut session.random)?.pair());
        }
        let first = usize::from(session.random.coin());
        for side in [first, 1 - first] {
            self.sides[side].reload()?;
        }
        let mut times = [Vec::new(), Vec::new()];
        for number in 0..FOURS_PER_PAIR {
            match self.four(session) {
                Ok(four) => {
                    times.iter_mut().zip(four).for_each(|(times, more)| times.extend(more));
                }
                // The measured part is still a valid pair.
                Err(_) if number > 0 && session.runner.is_over() => break,
                Err(error) => return Err(error),
            }
        }
        let middle = |times: Vec<f64>| Sample::new(times).ok().map(|it| it.trimmed_mean(TRIMMED));
        let [before, after] = times.map(middle);
        Ok(before.zip(after).map(|(before_ns, after_ns)| Pair { before_ns, after_ns }))
    }

    /// Four batches as ABBA or BAAB: times per run of each side.
    fn four(&mut self, session: &mut Session<'a, R>) -> Result<[[f64; 2]; 2], BenchError> {
        let first = usize::from(session.random.coin());
        let mut times = [[0.0; 2]; 2];
        for (number, side) in [first, 1 - first, 1 - first, first].into_iter().enumerate() {
            let subject = &mut self.sides[side];
            subject.reset()?;
            let given = (self.input, subject.context(&session.plan.context));
            if self.leaves.is_changed() {
                let r#type = subject.r#type();
                let (calls, run) = (calls_of(self.run_ns[side]), |runs| subject.run(given, runs));
                let (run_ns, _) = session.fixed_part(r#type).time_calls(r#type, calls, run)?;
                times[side][number / 2] = run_ns;
                continue;
            }
            let run = subject.run(given, self.lengths[side].runs)?;
            let r#type = subject.r#type();
            self.lengths[side].learn(r#type, &run);
            times[side][number / 2] = time_per_run_ns(r#type, &run, session.fixed_part(r#type));
        }
        Ok(times)
    }
}
