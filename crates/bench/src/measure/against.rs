//! Two objects, program by program: batches of both take turns, over many loads of each.
//!
//! The unit is a *pair of loads*: where the kernel's JIT compiler puts a program differs from load to
//! load and shifts its time by as much as a small change does, for as long as it is loaded. So each
//! pair loads both anew, in random order, runs their batches as ABBA or BAAB, and gives one number, the
//! difference of the logarithms of their times. docs/how-numbers-are-judged.md has the rule.

use std::time::{Duration, Instant};

use wingbeat_bpf::{
    live::{Loader, LoaderOptions},
    spec::{Linked, Spec},
};
use wingbeat_stats::{random::Random, sample::Sample};

use super::{
    BenchError, Progress, Watcher,
    alternation::{Alternation, Side},
    batch::{FixedPart, calibrate, time_per_run_ns},
    contents::{Contents, contents},
    link::link,
    place,
    ruler::empty_program,
    session::{bench, case_name},
    subject::{Forms, Subject},
};
use crate::{
    analyse::{
        compare::{self, Contested, Pair, Thresholds},
        has_changed_packet,
    },
    input::Input,
    plan::Plan,
    result::{Comparison, Failure, Report},
};

/// Sequences of four batches in a pair of loads.
const FOURS_PER_PAIR: usize = 3;

/// More pairs say nothing new.
const PAIRS_MAX: usize = 4_000;

/// How much longer a comparison may take than a measurement.
const WEIGHT: u32 = 4;

/// Share of the whole time that goes to measuring the object under test by itself.
const REPORT_SHARE: f64 = 0.25;

/// Share of the middle values of a load's batches that counts: a quarter is cut off at each end.
const TRIMMED: f64 = 0.25;

/// Measures `new` and compares it with `old`.
///
/// # Errors
///
/// When one of them cannot be measured at all.
pub fn against(
    new: &Spec,
    old: &Spec,
    plan: &Plan,
    thresholds: Thresholds,
    watcher: &Watcher<'_>,
) -> Result<Comparison, BenchError> {
    let cases = plan.choose(new)?.len() * plan.inputs.len();
    let total = plan.time_for(cases, WEIGHT);
    let alone = Plan { time: Some(total.mul_f64(REPORT_SHARE)), ..plan.clone() };
    let report = bench(new, &alone, watcher)?;
    // No batches: its outcome, counts and verifier figures.
    let mut programs = in_both(&report, old);
    let verified = report.verified.iter().map(|program| program.name.clone());
    programs.extend(verified.filter(|name| old.program(name).is_ok()));
    let old_plan = Plan { samples: Some(0), programs, ..plan.clone() };
    let before = match old_plan.programs.as_slice() {
        [] => None,
        _ => Some(bench(old, &old_plan, watcher)?),
    };
    let contested = std::thread::scope(|scope| {
        let measure =
            || Contest::run(new, old, &report, plan, total.mul_f64(1.0 - REPORT_SHARE), watcher);
        scope.spawn(measure).join().unwrap_or(Err(BenchError::Thread))
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

/// Programs of the report that `old` has too.
fn in_both(report: &Report, old: &Spec) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for case in &report.cases {
        if !names.contains(&case.program) && old.program(&case.program).is_ok() {
            names.push(case.program.clone());
        }
    }
    names
}

fn unmatched(report: &Report, new: &Spec, old: &Spec, plan: &Plan) -> Vec<Failure> {
    let only = |name: &str, file: &str| {
        Failure::new(name, format!("only {file} has it, so there is nothing to compare"))
    };
    let mut names: Vec<Failure> = Vec::new();
    for case in &report.cases {
        let is_known = names.iter().any(|failure| failure.name == case.program);
        if !is_known && old.program(&case.program).is_err() {
            names.push(only(&case.program, &report.object));
        }
    }
    if plan.programs.is_empty() {
        let others = old.programs().iter().filter(|it| new.program(&it.name).is_err());
        names.extend(others.map(|program| only(&program.name, old.file())));
    }
    names
}

/// One case of both objects.
struct Match<'a> {
    name: String,
    input: &'a Input,
    /// Both in one image, or why that cannot be.
    alternation: Result<Alternation<'a>, String>,
    /// The old one, then the new one.
    sides: [Subject<'a>; 2],
    runs: [u32; 2],
    pairs: Vec<Pair>,
}

struct Contest<'a> {
    plan: &'a Plan,
    watcher: &'a Watcher<'a>,
    begun: Instant,
    total: Duration,
    random: Random,
}

impl Contest<'_> {
    fn run(
        new: &Spec,
        old: &Spec,
        report: &Report,
        plan: &Plan,
        total: Duration,
        watcher: &Watcher<'_>,
    ) -> Result<Vec<Contested>, BenchError> {
        place::settle(plan.cpu)?;
        let linked = [link(old)?, link(new)?];
        let loaders = [
            Loader::new(old, LoaderOptions::default())?,
            Loader::new(new, LoaderOptions::default())?,
        ];
        let contents = [contents(old, plan)?, contents(new, plan)?];
        let mut random = Random::new(plan.seed);
        let mut matches = Vec::new();
        for program in in_both(report, old) {
            for input in &plan.inputs {
                let side = |side: usize| {
                    let linked = linked[side].iter().find(|linked| linked.program.name == program);
                    linked.map(|linked| Side {
                        linked,
                        loader: &loaders[side],
                        contents: &contents[side],
                    })
                };
                let (Some(before), Some(after)) = (side(0), side(1)) else { continue };
                let (a, b) = (before.subject()?, after.subject()?);
                let alternation = match changes_packet(&[&a, &b], input, plan)? {
                    true => {
                        Err("one of them changes the packet that the other would get".to_owned())
                    }
                    false => Alternation::new([before, after], input, &plan.context, &mut random),
                };
                let name = case_name(&a.linked.program, input, plan);
                let runs = [length(&a, input, plan)?, length(&b, input, plan)?];
                matches.push(Match {
                    name,
                    input,
                    alternation,
                    sides: [a, b],
                    runs,
                    pairs: Vec::new(),
                });
            }
        }
        let mut contest = Contest { plan, watcher, begun: Instant::now(), total, random };
        contest.take_turns(&mut matches)?;
        let contested = matches.into_iter().map(|it| Contested {
            name: it.name,
            no_bursts: it.alternation.err(),
            pairs: it.pairs,
        });
        Ok(contested.collect())
    }

    fn take_turns(&mut self, matches: &mut [Match<'_>]) -> Result<(), BenchError> {
        let fixed = matches
            .iter()
            .map(|it| fixed_part(&it.sides[0].linked.program))
            .collect::<Result<Vec<_>, _>>()?;
        let mut order: Vec<usize> = (0..matches.len()).collect();
        for _ in 0..PAIRS_MAX {
            self.random.shuffle(&mut order);
            for &index in &order {
                let is_over = self.begun.elapsed() >= self.total;
                if is_over || self.watcher.is_stopped() {
                    return Ok(());
                }
                let it = &mut matches[index];
                (self.watcher.show)(&Progress {
                    doing: format!("{}: pair {} of loads", it.name, it.pairs.len() + 1),
                    elapsed: self.begun.elapsed(),
                    total: self.total,
                });
                let pair = self.pair(it, fixed[index])?;
                it.pairs.extend(pair);
            }
        }
        Ok(())
    }

    /// Loads both anew and lets their batches take turns.
    fn pair(&mut self, it: &mut Match<'_>, fixed: FixedPart) -> Result<Option<Pair>, BenchError> {
        if let Ok(alternation) = &it.alternation {
            return Ok(alternation.take_turns(&mut self.random)?.pair());
        }
        let first = usize::from(self.random.coin());
        for side in [first, 1 - first] {
            it.sides[side].reload()?;
        }
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..FOURS_PER_PAIR {
            let a = usize::from(self.random.coin());
            for side in [a, 1 - a, 1 - a, a] {
                let subject = &mut it.sides[side];
                subject.reset()?;
                let run = subject.run(it.input, &self.plan.context, it.runs[side])?;
                times[side].push(time_per_run_ns(subject.r#type(), &run, fixed));
            }
        }
        let middle = |times: Vec<f64>| Sample::new(times).ok().map(|it| it.trimmed_mean(TRIMMED));
        let [before, after] = times.map(middle);
        Ok(before.zip(after).map(|(before_ns, after_ns)| Pair { before_ns, after_ns }))
    }
}

/// Whether one of the programs writes into the packet, which the other one would then find changed.
fn changes_packet(
    subjects: &[&Subject<'_>],
    input: &Input,
    plan: &Plan,
) -> Result<bool, BenchError> {
    for subject in subjects {
        let run = subject.run(input, &plan.context, 1)?;
        if has_changed_packet(subject.r#type(), &input.data, &run.data) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Runs per batch of one side.
fn length(subject: &Subject<'_>, input: &Input, plan: &Plan) -> Result<u32, BenchError> {
    calibrate(subject.r#type(), |runs| subject.run(input, &plan.context, runs))
}

/// What a call costs besides the runs, for the type of this program; 0 where it cannot be found out.
fn fixed_part(like: &wingbeat_bpf::spec::ProgramSpec) -> Result<FixedPart, BenchError> {
    let empty: Linked = empty_program(like);
    let loader = Loader::without_object();
    let nothing = Contents::new();
    let subject = Subject::new(&empty, &loader, &nothing, Forms::PLAIN)?;
    let input = Input::default_packet();
    Ok(FixedPart::measure(|runs| subject.run(&input, &[], runs)).unwrap_or_default())
}
