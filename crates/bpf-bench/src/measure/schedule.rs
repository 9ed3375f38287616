//! The order of a measurement from beginning to end.
//!
//! The requested time is kept, however large the programs are. So the most important steps come
//! first: each program is loaded, run once, and timed by one batch; then instructions are counted,
//! then clocks are added to programs, then images are built for alternating with a baseline, each as
//! far as it fits. The rest of the time is for samples: all cases and baselines are sampled, in a new
//! random order each round, so that slow changes of the machine affect all of them equally.

use std::{path::Path, time::Duration};

use wingbeat_bpf_loader::{
    loader::Loader,
    spec::{Linked, ProgramSpec, Spec},
};

use super::{
    BenchError, Watcher,
    cases::Cases,
    contents::{Contents, contents},
    empty_baseline::{BASELINE, baselines},
    kernel::{self, Kernel},
    runner::{Form, Leaves, Pace, Runner, Subject as _},
    session::{Budget, Session},
    slot::{Slot, collect},
    subject::{link, unlinked},
    target,
};
use crate::{
    analyse::{self, Measured, Raw},
    conditions::{Conditions, Load, LoadReading, Observed},
    input::Input,
    plan::Plan,
    result::{BenchReport, Failure, Verified},
};

/// Rounds of batches per round of clocked single runs.
const ROUNDS_PER_CLOCKING: usize = 3;

/// The same if samples are bursts, which take much less time than batches.
const ROUNDS_PER_CLOCKING_OF_BURSTS: usize = 12;

/// Time limit of the final run, which checks whether the kernel counts runs.
const LAST_RUN_MAX: Duration = Duration::from_millis(100);

/// Measures the programs of `spec` that `plan` selects, on all its inputs. Fails if nothing can be
/// measured at all. Problems of single programs are in the report.
pub fn bench(spec: &Spec, plan: &Plan, watcher: &Watcher<'_>) -> Result<BenchReport, BenchError> {
    kernel::on_thread_of_its_own(plan.cpu, watcher.stop, |kernel| {
        on_kernel(spec, plan, watcher, kernel)
    })
}

fn on_kernel(
    spec: &Spec,
    plan: &Plan,
    watcher: &Watcher<'_>,
    kernel: Kernel<'_>,
) -> Result<BenchReport, BenchError> {
    let spec = &*target::measured(spec, plan);
    let root = Path::new("/");
    let number = u32::try_from(kernel.cpu).unwrap_or(0);
    let before = Conditions::read(root, number);
    let read_load = || LoadReading::read(root, number, &before.cpu_siblings);
    let load_before = read_load();
    if spec.programs().is_empty() {
        return Err(BenchError::no_programs(spec));
    }
    let chosen = plan.choose(spec)?;
    let runnable = chosen.iter().filter(|program| program.runs_on_demand()).count();
    let time = plan.time_for(runnable * plan.inputs.len(), 1);
    let session = Session::new(plan, watcher, kernel, Budget::new(kernel.now(), time));
    session.show("reading the object's types");
    let linked = link(spec)?;
    let mut loader = Loader::new(spec)?;
    loader.make_up_contexts(chosen.iter().copied());
    target::provide(&mut loader, &chosen, (spec, &linked), plan)?;
    let contents = contents(spec, plan, &mut loader)?;
    let (no_object, nothing) = (Loader::without_object(), Contents::default());
    let (wanted, others): (Vec<&Linked>, Vec<&Linked>) = chosen
        .iter()
        .filter_map(|program| linked.iter().find(|it| it.program.name == program.name))
        .partition(|linked| linked.program.runs_on_demand());
    let measured = session.measure(&Programs {
        baselines: &baselines(wanted.iter().copied()),
        wanted: &wanted,
        others: &others,
        source: (&loader, &contents),
        no_source: (&no_object, &nothing),
        unlinked: &unlinked(spec, &chosen, &linked),
    })?;
    let after = Conditions::read(root, number);
    let load = load_before.zip(read_load()).map(|(before, after)| Load::between(&before, &after));
    Ok(analyse::report(Raw {
        object: spec.file().to_owned(),
        extensions_alone: extensions_alone(&chosen),
        seed: plan.seed,
        cpu: kernel.cpu,
        is_interrupted: watcher.is_stopped(),
        expect: plan.expect,
        remarks: loader.remarks(),
        before,
        after,
        load,
        measured,
    }))
}

/// Describes the selected extensions that are measured as standalone programs.
fn extensions_alone(programs: &[&ProgramSpec]) -> Vec<String> {
    let alone = programs.iter().filter(|program| program.is_extension_alone());
    alone.map(|program| format!("{} as {}", program.name, program.r#type)).collect()
}

/// Programs of a measurement.
pub(super) struct Programs<'a, S> {
    /// An empty program for each type.
    pub(super) baselines: &'a [Linked],
    pub(super) wanted: &'a [&'a Linked],
    /// Programs that only an event can run.
    pub(super) others: &'a [&'a Linked],
    pub(super) source: S,
    /// Source of baselines, which belong to no object.
    pub(super) no_source: S,
    /// Programs that cannot be linked, with reasons.
    pub(super) unlinked: &'a [Failure],
}

impl<'a, R: Runner<'a>> Session<'a, R> {
    /// Runs all steps that execute programs.
    pub(super) fn measure(
        mut self,
        programs: &Programs<'a, R::Source>,
    ) -> Result<Measured, BenchError> {
        let subjects = self.load_baselines(programs)?;
        let counted_at_start = self.are_runs_counted(&subjects);
        if counted_at_start && !self.plan.allow_statistics {
            return Err(BenchError::StatisticsOn);
        }
        let mut cases = Cases::new(subjects, programs.unlinked.to_vec());
        for (index, linked) in programs.wanted.iter().enumerate() {
            let position = (index, programs.wanted.len());
            cases.add(&mut self, linked, programs.source, position);
        }
        cases.add_baselines(&mut self);
        let mut others =
            self.untimed(|session| load_only(programs.others, programs.source, session));
        others.verified.append(&mut cases.verified);
        cases.count(&mut self);
        cases.put_clocks(&mut self);
        cases.pair_with_baselines(&mut self);
        let Cases { mut subjects, slots, baseline_slots, raw, mut failures, .. } = cases;
        self.has_bursts = slots.iter().all(Slot::has_bursts);
        let mut slots: Vec<_> = baseline_slots.into_iter().chain(slots).collect();
        failures.append(&mut others.failures);
        // Baselines alone are useless.
        if !raw.is_empty() {
            self.sample_rounds(&mut subjects, &mut slots);
        }
        // An abandoned run may still occupy the CPU.
        self.runner.set_deadline(self.now().checked_add(LAST_RUN_MAX));
        let were_runs_counted = counted_at_start || self.are_runs_counted(&subjects);
        let is_timed = self.plan.samples != Some(0);
        let types: Vec<_> = subjects.iter().map(|subject| subject.r#type()).collect();
        let fixed = |r#type| self.fixed_part(r#type);
        let baselines = (programs.baselines.len(), &fixed as &dyn Fn(_) -> _);
        let (baselines, cases) = collect(&types, baselines, slots, raw, is_timed, &mut failures);
        Ok(Measured {
            duration: self.budget.elapsed(self.now()),
            baselines,
            cases,
            failures,
            skipped: others.skipped,
            verified: others.verified,
            observed: Observed {
                calls: self.calls,
                retries: self.retries,
                samples: 0,
                samples_wanted: 0,
                were_runs_counted,
            },
        })
    }

    fn load_baselines(
        &self,
        programs: &Programs<'a, R::Source>,
    ) -> Result<Vec<R::Subject>, BenchError> {
        let load = |baseline: &'a Linked| {
            let mut baseline = self.runner.load(baseline, programs.no_source)?;
            baseline.add(Form::Clocked);
            Ok(baseline)
        };
        programs.baselines.iter().map(load).collect()
    }

    /// Rounds until the time is over.
    fn sample_rounds(&mut self, subjects: &mut [R::Subject], slots: &mut [Slot<R::Alternation>]) {
        let rounds_max = self.plan.samples.unwrap_or(usize::MAX);
        let mut order: Vec<usize> = (0..slots.len()).collect();
        let mut spent = vec![Duration::ZERO; slots.len()];
        for round in 0..rounds_max {
            self.random.shuffle(&mut order);
            // Cases without samples come first.
            order.sort_by_key(|&index| slots[index].samples() > 0);
            let mut is_anybody_left = false;
            for &index in &order {
                if self.runner.is_over() {
                    return;
                }
                if slots[index].broken.is_some() || !self.is_due(index, subjects, slots, &spent) {
                    continue;
                }
                is_anybody_left = true;
                let slot = &mut slots[index];
                let begun = self.now();
                let taken = self.sample(&mut subjects[slot.subject], slot, round);
                spent[index] += self.now().saturating_duration_since(begun);
                if let Err(error) = taken
                    && !self.runner.is_over()
                {
                    slot.broken = Some(error.to_string());
                }
            }
            if !is_anybody_left {
                break;
            }
        }
    }

    /// Whether a slot is worth its time. A long-running program must leave the others as much time
    /// as it takes, and does not begin a run that cannot end.
    fn is_due(
        &self,
        index: usize,
        subjects: &[R::Subject],
        slots: &[Slot<R::Alternation>],
        spent: &[Duration],
    ) -> bool {
        let slot = &slots[index];
        if subjects[slot.subject].pace() == Pace::Short || slot.samples() == 0 {
            return true;
        }
        let mut others = slots.iter().enumerate().filter(|(other, _)| *other != index);
        let others_spent: Duration = spent.iter().sum::<Duration>() - spent[index];
        let is_alone = !others.any(|(_, other)| other.broken.is_none());
        let fits = self.budget.left(self.now()) > Duration::from_nanos(slot.run_ns as u64);
        fits && (is_alone || spent[index] <= others_spent)
    }

    /// Takes one sample, and single runs if they are due.
    fn sample(
        &mut self,
        subject: &mut R::Subject,
        slot: &mut Slot<R::Alternation>,
        round: usize,
    ) -> Result<(), BenchError> {
        let own = Input::default_packet();
        let is_baseline = subject.name() == BASELINE;
        let given = match is_baseline {
            true => (&own, self.baseline_context(subject.r#type())),
            false => (&self.plan.inputs[slot.input], subject.context(&self.plan.context)),
        };
        if !is_baseline {
            self.show(&format!("{}: sample {}", subject.name(), round + 1));
        }
        let has_bursts = slot.take_bursts(&mut self.random)?;
        self.calls += u64::from(has_bursts);
        // Bursts include their own baseline, so batches add little.
        let in_bursts = has_bursts || (is_baseline && self.has_bursts);
        let rounds = if in_bursts { ROUNDS_PER_CLOCKING_OF_BURSTS } else { ROUNDS_PER_CLOCKING };
        let is_clocking = round.is_multiple_of(rounds);
        if in_bursts && !is_clocking {
            return Ok(());
        }
        slot.take_calls(subject, given, self.fixed_part(subject.r#type()))?;
        // Some took their first batch at once. If batches are not samples, they measure runs on the
        // program's own output.
        let is_due = match slot.leaves {
            Leaves::Changed { .. } => is_clocking,
            Leaves::AsItWas => slot.batches() <= round,
        };
        if has_bursts || is_due {
            self.take_batch(subject, slot, given)?;
        }
        if is_clocking {
            if !is_baseline {
                subject.reset()?;
            }
            subject.move_clocked();
            slot.take_clocking(subject, given)?;
        }
        Ok(())
    }

    /// Whether the kernel counts runs, which it does only while statistics are enabled.
    fn are_runs_counted(&self, subjects: &[R::Subject]) -> bool {
        let Some(baseline) = subjects.first() else { return false };
        let before = baseline.run_count();
        let ran = baseline.run((&Input::default_packet(), &[]), 1).is_ok();
        ran && baseline.run_count() > before
    }
}

/// Why a program has only verifier figures. The same for all types, so that it is reported once.
pub(super) const NOT_RUN: &str = "only its event runs such a program; attach it and use `wingbeat live` for \
                       its times";

/// Programs that only an event can run: loaded for their verifier figures, and not run.
#[derive(Debug, Default)]
struct Found {
    verified: Vec<Verified>,
    skipped: Vec<Failure>,
    failures: Vec<Failure>,
}

/// Loads `programs`. Programs requested by name count as failures rather than skipped, and so do
/// those that the verifier rejects or that ran out of time.
fn load_only<'a, R: Runner<'a>>(
    programs: &[&'a Linked],
    source: R::Source,
    session: &Session<'a, R>,
) -> Found {
    let mut found = Found::default();
    for linked in programs {
        let name = &linked.program.name;
        if let Some(reason) = session.why_over("it was loaded") {
            found.failures.push(Failure::new(name, reason));
            continue;
        }
        session.show(&format!("{name}: loading"));
        let left_out = match session.runner.verify(linked, source) {
            Ok(facts) => {
                found.verified.push(facts.loaded_only(linked, NOT_RUN));
                Failure::new(name, NOT_RUN)
            }
            Err(error) => {
                let failure = error.failure(name);
                if failure.is_rejected || session.runner.is_over() {
                    found.failures.push(failure);
                    continue;
                }
                let reason =
                    format!("{NOT_RUN}; and the verifier has no figures: {}", failure.reason);
                Failure::new(name, reason)
            }
        };
        match session.plan.programs.is_empty() {
            true => found.skipped.push(left_out),
            false => found.failures.push(left_out),
        }
    }
    found
}
