//! Two objects, program by program: batches of both take turns, over many loads of each.
//!
//! The unit is a *pair of loads*: where the kernel's JIT compiler puts a program differs from load to
//! load and shifts its time by as much as a small change does, for as long as it is loaded. So each
//! pair loads both anew, in random order, runs their batches as ABBA or BAAB, and gives one number, the
//! difference of the logarithms of their times. docs/how-numbers-are-judged.md has the rule.

use std::time::Duration;

use wingbeat_bpf::{
    loader::{Loader, LoaderOptions},
    spec::{Linked, ProgramSpec, Spec},
};
use wingbeat_stats::{random::Random, sample::Sample};

use super::{
    BenchError, Progress, Watcher,
    alternation::{Alternation, Side},
    batch::{FixedPart, Length, estimate_ns, time_per_run_ns},
    budget::Budget,
    contents::{Contents, contents},
    link::link,
    place,
    ruler::empty_program,
    runner::Runner,
    session::{bench, case_name},
    subject::Subject,
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

/// Share of the whole time that goes to measuring the object under test by itself, and what that takes
/// at least, of which a short time has no more than the greater share.
const REPORT_SHARE: f64 = 0.25;
const REPORT_TIME_MIN: Duration = Duration::from_secs(1);
const REPORT_SHARE_MAX: f64 = 0.4;

/// Share of the whole time in which the other one has to be loaded and counted.
const OTHER_UNTIL: f64 = 0.6;

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
    let budget = Budget::new(plan.time_for(cases, WEIGHT));
    let share = |share| budget.total().mul_f64(share);
    let time = share(REPORT_SHARE).max(REPORT_TIME_MIN).min(share(REPORT_SHARE_MAX));
    let alone = Plan { time: Some(time), ..plan.clone() };
    let report = bench(new, &alone, watcher)?;
    // No batches: its outcome, counts and verifier figures.
    let mut programs = in_both(&report, old);
    let verified = report.verified.iter().map(|program| program.name.clone());
    programs.extend(verified.filter(|name| old.program(name).is_ok()));
    let time = Some(budget.left_until(OTHER_UNTIL));
    let old_plan = Plan { samples: Some(0), time, programs, ..plan.clone() };
    let before = match old_plan.programs.as_slice() {
        [] => None,
        _ => Some(bench(old, &old_plan, watcher)?),
    };
    let contested = place::on_thread_of_its_own(plan.cpu, watcher.stop, |runner| {
        Contest::run(new, old, &report, plan, budget, watcher, runner)
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
    sides: [Subject<'a>; 2],
    lengths: [Length; 2],
    pairs: Vec<Pair>,
}

impl<'a> Match<'a> {
    /// Loads both sides, and finds out how they can take turns.
    fn new(
        sides: [Side<'a>; 2],
        input: &'a Input,
        plan: &'a Plan,
        runner: Runner<'a>,
        random: &mut Random,
    ) -> Result<Self, BenchError> {
        let [mut a, mut b] = [sides[0].subject(runner)?, sides[1].subject(runner)?];
        let context = a.context(&plan.context);
        let mut run_ns = [0.0; 2];
        let mut changes_packet = false;
        for (subject, run_ns) in [&mut a, &mut b].into_iter().zip(&mut run_ns) {
            let first = subject.run_first(input, context)?;
            changes_packet |= has_changed_packet(subject.r#type(), &input.data, &first.data);
            *run_ns = estimate_ns(subject.r#type(), &first, subject.pace(), || {
                subject.run(input, context, 1)
            })?;
        }
        let sides = [a.side(), b.side()];
        let alternation = match changes_packet {
            // The other would get it.
            true => Err("one of them changes the packet that the other would get".to_owned()),
            false => {
                let longest_ns = run_ns[0].max(run_ns[1]);
                Alternation::new(sides, (input, context), longest_ns, runner, random)
            }
        };
        let lengths = [Length::of(a.r#type(), run_ns[0]), Length::of(b.r#type(), run_ns[1])];
        let name = case_name(&a.linked.program, input, plan);
        Ok(Self { name, input, alternation, sides: [a, b], lengths, pairs: Vec::new() })
    }
}

struct Contest<'a> {
    plan: &'a Plan,
    watcher: &'a Watcher<'a>,
    runner: Runner<'a>,
    budget: Budget,
    random: Random,
}

impl Contest<'_> {
    fn run(
        new: &Spec,
        old: &Spec,
        report: &Report,
        plan: &Plan,
        budget: Budget,
        watcher: &Watcher<'_>,
        runner: Runner<'_>,
    ) -> Result<Vec<Contested>, BenchError> {
        runner.alarm.set(budget.deadline());
        let linked = [link(old)?, link(new)?];
        let mut loaders = [
            Loader::new(old, LoaderOptions::default())?,
            Loader::new(new, LoaderOptions::default())?,
        ];
        for (loader, spec) in loaders.iter_mut().zip([old, new]) {
            loader.make_up_contexts(spec.programs().iter());
        }
        let contents = [contents(old, plan)?, contents(new, plan)?];
        let mut contest = Contest { plan, watcher, runner, budget, random: Random::new(plan.seed) };
        let mut matches = Vec::new();
        for program in in_both(report, old) {
            for input in &plan.inputs {
                let side = |side: usize| {
                    let linked = linked[side].iter().find(|linked| linked.program.name == program);
                    linked.map(|linked| Side {
                        linked,
                        loader: &loaders[side],
                        contents: &contents[side],
                        maps: None,
                    })
                };
                let (Some(before), Some(after)) = (side(0), side(1)) else { continue };
                if runner.alarm.is_over() {
                    break;
                }
                match Match::new([before, after], input, plan, runner, &mut contest.random) {
                    Ok(found) => matches.push(found),
                    Err(_) if runner.alarm.is_over() => break,
                    Err(error) => return Err(error),
                }
            }
        }
        contest.take_turns(&mut matches)?;
        let contested = matches.into_iter().map(|it| Contested {
            name: it.name,
            no_bursts: it.alternation.err(),
            pairs: it.pairs,
        });
        Ok(contested.collect())
    }

    fn take_turns(&mut self, matches: &mut [Match<'_>]) -> Result<(), BenchError> {
        let fixed: Vec<_> = matches
            .iter()
            .map(|it| fixed_part(&it.sides[0].linked.program, self.runner))
            .collect::<Result<_, _>>()?;
        let mut order: Vec<usize> = (0..matches.len()).collect();
        for _ in 0..PAIRS_MAX {
            self.random.shuffle(&mut order);
            for &index in &order {
                let it = &mut matches[index];
                (self.watcher.show)(&Progress {
                    doing: format!("{}: pair {} of loads", it.name, it.pairs.len() + 1),
                    elapsed: self.budget.elapsed(),
                    total: self.budget.total(),
                });
                match self.pair(it, fixed[index]) {
                    Ok(pair) => it.pairs.extend(pair),
                    Err(_) if self.runner.alarm.is_over() => {}
                    Err(error) => return Err(error),
                }
                if self.runner.alarm.is_over() {
                    return Ok(());
                }
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
        for number in 0..FOURS_PER_PAIR {
            match self.four(it, fixed) {
                Ok(four) => {
                    times.iter_mut().zip(four).for_each(|(times, more)| times.extend(more));
                }
                // What was measured is a pair all the same.
                Err(_) if number > 0 && self.runner.alarm.is_over() => break,
                Err(error) => return Err(error),
            }
        }
        let middle = |times: Vec<f64>| Sample::new(times).ok().map(|it| it.trimmed_mean(TRIMMED));
        let [before, after] = times.map(middle);
        Ok(before.zip(after).map(|(before_ns, after_ns)| Pair { before_ns, after_ns }))
    }

    /// Four batches in turns, as ABBA or BAAB: times per run of each side.
    fn four(&mut self, it: &mut Match<'_>, fixed: FixedPart) -> Result<[[f64; 2]; 2], BenchError> {
        let first = usize::from(self.random.coin());
        let mut times = [[0.0; 2]; 2];
        for (number, side) in [first, 1 - first, 1 - first, first].into_iter().enumerate() {
            let subject = &mut it.sides[side];
            subject.reset()?;
            let context = subject.context(&self.plan.context);
            let run = subject.run(it.input, context, it.lengths[side].runs)?;
            it.lengths[side].learn(subject.r#type(), &run);
            times[side][number / 2] = time_per_run_ns(subject.r#type(), &run, fixed);
        }
        Ok(times)
    }
}

/// What a call costs besides the runs, for the type of this program; 0 where it cannot be found out.
fn fixed_part(like: &ProgramSpec, runner: Runner<'_>) -> Result<FixedPart, BenchError> {
    let empty: Linked = empty_program(like);
    let loader = Loader::without_object();
    let nothing = Contents::new();
    let mut subject = Subject::new(&empty, &loader, &nothing, runner)?;
    let input = Input::default_packet();
    // Where an empty program cannot be run, nothing is known of it.
    if subject.run_first(&input, &[]).is_err() {
        return Ok(FixedPart::default());
    }
    Ok(FixedPart::measure(|runs| subject.run(&input, &[], runs)).unwrap_or_default())
}
