//! Prepares the cases of a measurement, each program on each input, for sampling.
//!
//! Every step does what fits into the time and keeps a reason for what does not.

use std::time::Duration;

use wingbeat_bpf_loader::{
    ProgramType,
    spec::{Linked, ProgramSpec},
};
use wingbeat_text::duration_of;

use super::{
    BenchError,
    batch::{FixedPart, estimate_ns},
    counts::{INPUTS_MAX, count},
    error::explained,
    feeding::Feeding,
    kernel::MAPS_TIME_OVER,
    runner::{Form, Given, Pace, Runner, Subject},
    session::{CLOCKING_UNTIL, COUNTING_UNTIL, PAIRING_UNTIL, Session},
    slot::Slot,
    subject::{add, pays, within},
};
use crate::{
    analyse::{RawCase, RawRun},
    input::Input,
    result::{Failure, Verified},
};

/// Load time of other forms relative to the plain program: with counters, with a clock, with the baseline.
const COUNTED_LOAD: f64 = 1.6;
const OTHER_LOAD: f64 = 1.3;

/// Relative run time with counters.
const COUNTED_RUN: f64 = 1.5;

/// Minimum time of each program for its first runs, regardless of how many are left.
const SHARE_MIN: Duration = Duration::from_millis(500);

/// Prefix of timeout reasons.
const TIME_OVER: &str = "the time ran out";

/// Everything to measure: baselines first, then programs, and a slot for each case.
pub(super) struct Cases<'a, R: Runner<'a>> {
    pub(super) subjects: Vec<R::Subject>,
    pub(super) slots: Vec<Slot<R::Alternation>>,
    pub(super) raw: Vec<RawCase>,
    pub(super) failures: Vec<Failure>,
    /// Programs that were loaded and could not be run.
    pub(super) verified: Vec<Verified>,
    /// Number of baselines among the subjects, and their slots.
    baselines: usize,
    pub(super) baseline_slots: Vec<Slot<R::Alternation>>,
    /// Total loading time of all programs.
    loading: Duration,
    /// Maximum time to create the maps of one program.
    maps_time: Duration,
}

impl<'a, R: Runner<'a>> Cases<'a, R> {
    /// Starts with baselines only. Earlier failures are in `failures`.
    pub(super) fn new(baselines: Vec<R::Subject>, failures: Vec<Failure>) -> Self {
        Self {
            baselines: baselines.len(),
            subjects: baselines,
            slots: Vec::new(),
            raw: Vec::new(),
            failures,
            verified: Vec::new(),
            baseline_slots: Vec::new(),
            loading: Duration::ZERO,
            maps_time: Duration::ZERO,
        }
    }

    /// Measures the fixed cost of a call for each type of program.
    pub(super) fn add_baselines(&mut self, session: &mut Session<'a, R>) {
        if session.plan.samples == Some(0) {
            return;
        }
        let input = Input::default_packet();
        for (number, subject) in self.subjects[..self.baselines].iter_mut().enumerate() {
            let given = (&input, session.baseline_context(subject.r#type()));
            if session.runner.is_over() {
                break;
            }
            // A required context may be missing: then there is no baseline.
            let Ok(first) = subject.run_first(given) else { continue };
            let r#type = subject.r#type();
            let fixed = FixedPart::measure(r#type, |runs| subject.run(given, runs));
            let Ok(fixed) = fixed else { continue };
            session.fixed.push((r#type, fixed));
            let run = || subject.run(given, 1);
            let Ok(run_ns) = estimate_ns(r#type, &first, subject.pace(), run) else { continue };
            self.baseline_slots.push(Slot::new(number, 0, r#type, run_ns));
        }
    }

    /// Loads a program, runs it once on each input, and takes a batch on the first.
    pub(super) fn add(
        &mut self,
        session: &mut Session<'a, R>,
        linked: &'a Linked,
        source: R::Source,
        (index, count): (usize, usize),
    ) {
        let name = &linked.program.name;
        if let Some(reason) = session.why_over("it was loaded") {
            self.failures.push(Failure::new(name, reason));
            return;
        }
        if self.maps_time > MAPS_TIME_OVER && self.maps_time > session.budget.left(session.now()) {
            let takes = self.maps_time.as_secs_f64();
            let reason = format!(
                "creating maps takes up to {takes:.1} s, which are not left; increase --time"
            );
            self.failures.push(Failure::new(name, reason));
            return;
        }
        session.show(&format!("{name}: loading ({} of {count})", index + 1));
        let mut subject = match session.runner.load(linked, source) {
            Ok(subject) => subject,
            Err(error) => {
                self.failures.push(error.failure(name));
                return;
            }
        };
        self.loading += subject.whole_load_time();
        let maps_time = subject.whole_load_time().saturating_sub(subject.load_time());
        self.maps_time = self.maps_time.max(maps_time);
        session.extend_for(self.loading);
        let (cases_before, failures_before) = (self.raw.len(), self.failures.len());
        // The remaining time is shared by all programs that are left.
        let share = session.budget.left(session.now()).div_f64((count - index).max(1) as f64);
        let share = share.max(SHARE_MIN);
        let runner = session.runner;
        runner.within(share, || self.begin_all(session, linked, &mut subject));
        if !runner.is_over() {
            for failure in &mut self.failures[failures_before..] {
                if failure.reason.starts_with(TIME_OVER) {
                    failure.reason += &format!(
                        "; that was its share of the time, {}: measure it alone, or increase --time",
                        duration_of(share)
                    );
                }
            }
        }
        if self.raw.len() == cases_before {
            let verified = subject.facts().loaded_only(linked, "it could not be run");
            self.verified.push(verified);
        }
        self.subjects.push(subject);
    }

    /// Begins the cases of a program: one for each input.
    fn begin_all(
        &mut self,
        session: &mut Session<'a, R>,
        linked: &'a Linked,
        subject: &mut R::Subject,
    ) {
        for (index, input) in session.plan.inputs.iter().enumerate() {
            let name = session.plan.case_name(&linked.program, input);
            if let Some(reason) = session.why_over("its first run") {
                self.failures.push(Failure::new(name, reason));
                continue;
            }
            session.show(&format!("{name}: first run"));
            match self.begin(session, subject, (index, input), &name) {
                Ok((case, slot)) => {
                    self.raw.push(case);
                    self.slots.push(slot);
                }
                Err(error) => self.failures.push(error.failure(&name)),
            }
        }
    }

    /// First run of a case, and a batch if it is on the first input.
    fn begin(
        &self,
        session: &mut Session<'a, R>,
        subject: &mut R::Subject,
        (index, input): (usize, &Input),
        name: &str,
    ) -> Result<(RawCase, Slot<R::Alternation>), BenchError> {
        let plan = session.plan;
        let (case, run_ns) = begin(subject, (input, &plan.context), name)?;
        let mut slot = Slot::new(self.subjects.len(), index, subject.r#type(), run_ns);
        if subject.pace() == Pace::Long {
            slot.keep(&case.first);
        } else if index == 0 && plan.samples != Some(0) {
            session.show(&format!("{name}: first batch"));
            let context = subject.context(&plan.context);
            session.take_batch(subject, &mut slot, (input, context))?;
        }
        Ok((case, slot))
    }

    /// Counts the instructions of each case, with a form that has counters.
    pub(super) fn count(&mut self, session: &mut Session<'a, R>) {
        let plan = session.plan;
        let mut is_loaded = vec![false; self.subjects.len()];
        let mut cases: Vec<_> = self.raw.iter_mut().zip(&mut self.slots).collect();
        // Long-running programs come last, so that they do not take the others' time.
        cases.sort_by_key(|(_, slot)| self.subjects[slot.subject].pace() == Pace::Long);
        let mut had_short = false;
        for (case, slot) in cases {
            let subject = &mut self.subjects[slot.subject];
            if subject.pace() == Pace::Short {
                had_short = true;
            } else if let Err(reason) = fits_counted(session, slot.run_ns, had_short) {
                case.instructions = Err(reason);
                continue;
            }
            if !std::mem::replace(&mut is_loaded[slot.subject], true) {
                session.show(&format!("{}: loading with counters", case.program));
                add(session, subject, Form::Counted, COUNTED_LOAD, COUNTING_UNTIL);
            }
            session.show(&format!("{}: counting", case.name));
            let given = (&plan.inputs[slot.input], subject.context(&plan.context));
            let over = session.why_over("its instructions were counted");
            case.instructions = match &over {
                Some(reason) => Err(reason.clone()),
                None => count(session, subject, given, case, slot.run_ns)
                    .unwrap_or_else(|error| Err(error.to_string())),
            };
            let feeding = match over {
                None if plan.inputs.len() <= INPUTS_MAX => {
                    Feeding::find(subject, given, &case.first, slot.run_ns).ok()
                }
                _ => None,
            };
            let feeding = feeding.unwrap_or_else(|| Feeding::of_first(subject, given, &case.first));
            slot.leaves = feeding.leaves();
            (case.settled, case.own_output) = (feeding.settled, feeding.own_output);
            if plan.samples != Some(0) {
                // The first batch ran on its own output; take one with the packet in case time runs out.
                let fixed = session.fixed_part(subject.r#type());
                _ = slot.take_calls(subject, given, fixed);
            }
        }
    }

    /// Adds a clock to each program.
    pub(super) fn put_clocks(&mut self, session: &mut Session<'a, R>) {
        for subject in &mut self.subjects[self.baselines..] {
            session.show(&format!("{}: loading with a clock", subject.name()));
            add(session, subject, Form::Clocked, OTHER_LOAD, CLOCKING_UNTIL);
        }
        for (case, slot) in self.raw.iter_mut().zip(&self.slots) {
            case.no_clock = self.subjects[slot.subject].missing(Form::Clocked).map(str::to_owned);
        }
    }

    /// Alternates each case with the baseline of its type, where possible and worthwhile.
    pub(super) fn pair_with_baselines(&mut self, session: &mut Session<'a, R>) {
        let (baselines, programs) = self.subjects.split_at_mut(self.baselines);
        let cases = self.raw.len();
        if session.plan.samples == Some(0) {
            return;
        }
        for (done, slot) in self.slots.iter_mut().enumerate() {
            let subject = &mut programs[slot.subject - baselines.len()];
            let baseline = self
                .baseline_slots
                .iter()
                .map(|it| &baselines[it.subject])
                .find(|baseline| baseline.r#type() == subject.r#type());
            let Some(baseline) = baseline else { continue };
            let name = &subject.name();
            session.show(&format!("{name}: loading with the empty program"));
            let context = subject.context(&session.plan.context);
            let given = (&session.plan.inputs[slot.input], context);
            let (run, runner) = ((slot.run_ns, slot.leaves), session.runner);
            let mut random = session.random.clone();
            let tried = within(session, subject, OTHER_LOAD, PAIRING_UNTIL, |subject| {
                runner.alternate([baseline, subject], given, run, &mut random)
            });
            session.random = random;
            let left = session.budget.left(session.now()).div_f64((cases - done).max(1) as f64);
            slot.alternate(tried.and_then(|found| found).and_then(|it| pays(it, left)));
        }
    }
}

/// Whether there is time to count a run of a long-running program. `are_others` reserves time for others.
fn fits_counted<'a, R: Runner<'a>>(
    session: &Session<'a, R>,
    run_ns: f64,
    are_others: bool,
) -> Result<(), String> {
    let estimate = Duration::from_nanos((run_ns * COUNTED_RUN) as u64);
    let share = if are_others { COUNTING_UNTIL } else { 1.0 };
    match session.budget.allows(session.now(), estimate, share) {
        true => Ok(()),
        false => Err(format!(
            "counting them in one run takes about {}, for which the time is too short; increase --time",
            duration_of(estimate)
        )),
    }
}

/// First run of a case, and its approximate run time.
fn begin<'a>(
    subject: &mut impl Subject<'a>,
    (input, given): Given<'_>,
    name: &str,
) -> Result<(RawCase, f64), BenchError> {
    let context = subject.context(given);
    subject.reset()?;
    let linked = subject.linked();
    let first = subject.run_first((input, context));
    let first = first.map_err(|error| explained(error, linked, context))?;
    let run_again = || subject.run((input, context), 1);
    let run_ns = estimate_ns(subject.r#type(), &first, subject.pace(), run_again)?;
    let facts = subject.facts();
    let case = RawCase {
        name: name.to_owned(),
        program: subject.name().to_owned(),
        input: input.name.clone(),
        input_data: input.data.clone(),
        made_up_context: facts.made_up_context.filter(|_| given.is_empty()),
        seen_bytes_max: seen_bytes_max(&subject.linked().program),
        r#type: subject.r#type(),
        first,
        instructions: Err("the time ran out before".to_owned()),
        reached: None,
        calls: Vec::new(),
        tail_calls: subject.tail_calls(None),
        settled: None,
        own_output: None,
        variation: None,
        other_return_values: Vec::new(),
        unpredictable_calls: Vec::new(),
        profile: None,
        verifier: facts.verifier,
        size: facts.size,
        no_clock: None,
        run: RawRun::default(),
    };
    Ok((case, run_ns))
}

/// Approximate maximum packet bytes visible to a program; `None` if all. To an XDP program without
/// frags, the kernel shows only what fits into a page with its bookkeeping (`max_linear_sz` in
/// `bpf_prog_test_run_xdp` of net/bpf/test_run.c, Linux 6.12), and silently drops the rest.
fn seen_bytes_max(program: &ProgramSpec) -> Option<usize> {
    /// `XDP_PACKET_HEADROOM`.
    const HEADROOM_BYTES: usize = 256;
    /// `skb_shared_info`, aligned; its size depends on the kernel configuration.
    const TAILROOM_BYTES: usize = 320;
    let is_whole = program.r#type != ProgramType::XDP || program.has_frags();
    (!is_whole).then(|| rustix::param::page_size() - HEADROOM_BYTES - TAILROOM_BYTES)
}
