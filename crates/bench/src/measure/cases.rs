//! The cases of a measurement: each program on each input, brought to where its samples can be taken.
//!
//! Every step does what fits into the time and keeps a reason for what does not.

use std::time::{Duration, Instant};

use wingbeat_bpf::{
    ProgramType,
    loader::Loader,
    spec::{Linked, ProgramSpec},
};

use super::{
    BenchError,
    alternation::Alternation,
    batch::{FixedPart, estimate_ns},
    budget::{CLOCKING_UNTIL, COUNTING_UNTIL, PAIRING_UNTIL},
    contents::Contents,
    counts::{first_run, settled_run},
    session::{Session, case_name, failure, ruler_input},
    subject::Subject,
    turn::Turn,
};
use crate::{
    analyse::{RawCase, RawRun},
    input::Input,
    result::{Failure, Size, Verified, Verifier},
};

/// Inputs of one program up to which it is found out whether its runs feed each other.
const SETTLED_INPUTS_MAX: usize = 100;

/// How much longer than the plain program others may take to load: one with counters, one with a clock
/// around it, one beside the ruler. A load that takes several times as long is given up.
const COUNTED_LOAD: f64 = 1.6;
const OTHER_LOAD: f64 = 1.3;
const LOAD_PATIENCE: f64 = 4.0;

/// What every load may take, and what comes with it: maps, the first runs.
const LOAD_MIN: Duration = Duration::from_millis(40);

/// Samples that bursts have to be good for, or batches are better.
const BURST_SAMPLES_MIN: f64 = 6.0;

/// What there is to measure: rulers first, then programs, and a turn for each case.
pub(super) struct Cases<'a> {
    pub(super) subjects: Vec<Subject<'a>>,
    pub(super) turns: Vec<Turn<'a>>,
    pub(super) raw: Vec<RawCase>,
    pub(super) failures: Vec<Failure>,
    /// Programs that were loaded and could not be run.
    pub(super) verified: Vec<Verified>,
    /// How many of the subjects are rulers, and their turns.
    rulers: usize,
    pub(super) ruler_turns: Vec<Turn<'a>>,
    /// How long loading has taken, all programs together.
    loading: Duration,
}

impl<'a> Cases<'a> {
    /// None yet, beside these rulers. What failed before is in `failures`.
    pub(super) fn new(rulers: Vec<Subject<'a>>, failures: Vec<Failure>) -> Self {
        Self {
            rulers: rulers.len(),
            subjects: rulers,
            turns: Vec::new(),
            raw: Vec::new(),
            failures,
            verified: Vec::new(),
            ruler_turns: Vec::new(),
            loading: Duration::ZERO,
        }
    }

    /// Finds out what a call costs of each type of program.
    pub(super) fn add_rulers(&mut self, session: &mut Session<'a>) {
        if session.plan.samples == Some(0) {
            return;
        }
        let input = ruler_input();
        for (number, subject) in self.subjects[..self.rulers].iter_mut().enumerate() {
            if session.runner.alarm.is_over() {
                break;
            }
            // A context that the type cannot do without may be missing: then there is no ruler.
            let Ok(first) = subject.run_first(&input, &[]) else { continue };
            let Ok(fixed) = FixedPart::measure(|runs| subject.run(&input, &[], runs)) else {
                continue;
            };
            let r#type = subject.r#type();
            session.fixed.push((r#type, fixed));
            let run = || subject.run(&input, &[], 1);
            let Ok(run_ns) = estimate_ns(r#type, &first, subject.pace(), run) else { continue };
            self.ruler_turns.push(Turn::new(number, 0, r#type, run_ns));
        }
    }

    /// Loads a program, runs it once on each input, and takes a batch on the first.
    pub(super) fn add(
        &mut self,
        session: &mut Session<'a>,
        linked: &'a Linked,
        (loader, contents): (&'a Loader, &'a Contents),
        of_how_many: &str,
    ) {
        let name = &linked.program.name;
        if let Some(reason) = session.why_over("it was loaded") {
            self.failures.push(Failure::new(name, reason));
            return;
        }
        session.show(&format!("{name}: loading ({of_how_many})"));
        let mut subject = match Subject::new(linked, loader, contents, session.runner) {
            Ok(subject) => subject,
            Err(error) => {
                self.failures.push(failure(name, &error));
                return;
            }
        };
        self.loading += subject.whole_load_time();
        session.extend_for(self.loading);
        let plan = session.plan;
        let cases_before = self.raw.len();
        let number = self.subjects.len();
        for (index, input) in plan.inputs.iter().enumerate() {
            let name = case_name(&linked.program, input, plan);
            if let Some(reason) = session.why_over("its first run") {
                self.failures.push(Failure::new(name, reason));
                continue;
            }
            session.show(&format!("{name}: first run"));
            let mut begin = || {
                let (case, run_ns) = begin(&mut subject, (input, &plan.context), name.clone())?;
                let mut turn = Turn::new(number, index, subject.r#type(), run_ns);
                if index == 0 && plan.samples != Some(0) {
                    session.show(&format!("{name}: first batch"));
                    let context = subject.context(&plan.context);
                    session.take_batch(&mut subject, &mut turn, (input, context))?;
                }
                Ok::<_, BenchError>((case, turn))
            };
            match begin() {
                Ok((case, turn)) => {
                    self.raw.push(case);
                    self.turns.push(turn);
                }
                Err(error) => self.failures.push(failure(&name, &error)),
            }
        }
        if self.raw.len() == cases_before {
            self.verified.push(loaded_only(&subject));
        }
        self.subjects.push(subject);
    }

    /// Counts what each case executes, by a form with counters.
    pub(super) fn count(&mut self, session: &mut Session<'a>) {
        let plan = session.plan;
        let mut is_loaded = vec![false; self.subjects.len()];
        for (case, turn) in self.raw.iter_mut().zip(&self.turns) {
            let subject = &mut self.subjects[turn.subject];
            if !std::mem::replace(&mut is_loaded[turn.subject], true) {
                session.show(&format!("{}: loading with counters", case.program));
                let tried = within(session, subject, COUNTED_LOAD, COUNTING_UNTIL, |subject| {
                    subject.add_counted();
                });
                if let Err(reason) = tried {
                    subject.leave_uncounted(reason);
                }
            }
            session.show(&format!("{}: counting", case.name));
            let given = (&plan.inputs[turn.input], subject.context(&plan.context));
            case.instructions = match session.why_over("its instructions were counted") {
                Some(reason) => Err(reason),
                None => count(subject, given, case, plan.inputs.len(), turn.run_ns)
                    .unwrap_or_else(|error| Err(error.to_string())),
            };
        }
    }

    /// Puts a clock around each program.
    pub(super) fn put_clocks(&mut self, session: &mut Session<'a>) {
        for subject in &mut self.subjects[self.rulers..] {
            session.show(&format!("{}: loading with a clock", subject.linked.program.name));
            let tried = within(session, subject, OTHER_LOAD, CLOCKING_UNTIL, |subject| {
                subject.add_clocked();
            });
            if let Err(reason) = tried {
                subject.leave_unclocked(reason);
            }
        }
        for (case, turn) in self.raw.iter_mut().zip(&self.turns) {
            case.no_clock = self.subjects[turn.subject].state().clocked.as_ref().err().cloned();
        }
    }

    /// Lets each case take turns with the ruler of its type, where that can be and pays.
    pub(super) fn pair_with_rulers(&mut self, session: &mut Session<'a>) {
        let (rulers, programs) = self.subjects.split_at_mut(self.rulers);
        let cases = self.raw.len();
        if session.plan.samples == Some(0) {
            return;
        }
        for (done, turn) in self.turns.iter_mut().enumerate() {
            let subject = &mut programs[turn.subject - rulers.len()];
            let ruler = self
                .ruler_turns
                .iter()
                .map(|it| &rulers[it.subject])
                .find(|ruler| ruler.r#type() == subject.r#type());
            let Some(ruler) = ruler else { continue };
            let name = &subject.linked.program.name;
            session.show(&format!("{name}: loading with the empty program"));
            let sides = [ruler.side(), subject.side()];
            let context = subject.context(&session.plan.context);
            let given = (&session.plan.inputs[turn.input], context);
            let (run_ns, runner) = (turn.run_ns, session.runner);
            let mut random = session.random.clone();
            let tried = within(session, subject, OTHER_LOAD, PAIRING_UNTIL, |_| {
                Alternation::new(sides, given, run_ns, runner, &mut random)
            });
            session.random = random;
            let left = session.budget.left().div_f64((cases - done).max(1) as f64);
            turn.alternate(tried.and_then(|found| found).and_then(|it| pays(it, left)));
        }
    }
}

/// Whether there is time for enough samples.
fn pays(alternation: Alternation<'_>, left: Duration) -> Result<Alternation<'_>, String> {
    let sample = alternation.sample_time;
    let samples = left.as_secs_f64() / sample.as_secs_f64().max(1e-6);
    match samples >= BURST_SAMPLES_MIN {
        true => Ok(alternation),
        false => Err(format!(
            "loading and running it with the empty program takes {} ms, of which too few fit into the \
             time",
            sample.as_millis()
        )),
    }
}

/// Does something that loads the program once more, `factor` times as large, if that is over before
/// `share` of the time has passed; else says why not.
fn within<'a, T>(
    session: &Session<'a>,
    subject: &mut Subject<'a>,
    factor: f64,
    share: f64,
    job: impl FnOnce(&mut Subject<'a>) -> T,
) -> Result<T, String> {
    let estimate = subject.load_time.mul_f64(factor);
    if session.runner.alarm.is_stopped() {
        return Err("interrupted before".to_owned());
    }
    // What takes no time is done while there is any.
    let share = if estimate < LOAD_MIN { 1.0 } else { share };
    if !session.budget.allows(estimate, share) {
        return Err(format!(
            "loading it for that takes some {:.1} s, for which the time is too short; give more of it \
             with --time",
            estimate.as_secs_f64()
        ));
    }
    let limit = (subject.load_time.mul_f64(LOAD_PATIENCE) + LOAD_MIN)
        .min(session.budget.left_until(share).max(estimate));
    let begun = Instant::now();
    let done = session.runner.alarm.within(limit, || job(subject));
    match begun.elapsed() > limit {
        true => Err(format!(
            "it takes more than {:.1} s, several times as long as the program by itself",
            limit.as_secs_f64()
        )),
        false => Ok(done),
    }
}

/// The first run of a case, and how long a run takes, roughly.
fn begin(
    subject: &mut Subject<'_>,
    (input, given): (&Input, &[u8]),
    name: String,
) -> Result<(RawCase, f64), BenchError> {
    let context = subject.context(given);
    subject.reset()?;
    let first = subject.run_first(input, context)?;
    let run_ns =
        estimate_ns(subject.r#type(), &first, subject.pace(), || subject.run(input, context, 1))?;
    let state = subject.state();
    let case = RawCase {
        name,
        program: subject.linked.program.name.clone(),
        input: input.name.clone(),
        input_data: input.data.clone(),
        made_up_context: made_up_context(subject, given),
        seen_bytes_max: seen_bytes_max(&subject.linked.program),
        r#type: subject.r#type(),
        first,
        instructions: Err("the time was over before".to_owned()),
        calls: Vec::new(),
        tail_calls: state.tail_calls(None),
        settled_instructions: None,
        verifier: state.plain.verifier.clone(),
        info: state.plain.info.clone(),
        object_instructions: subject.linked.code.insns.len(),
        map_memory_bytes: state.maps.memory_bytes(),
        no_clock: None,
        run: RawRun::default(),
    };
    Ok((case, run_ns))
}

/// What was made up for the program to be run with, in words; `None` where nothing was.
fn made_up_context(subject: &Subject<'_>, given: &[u8]) -> Option<String> {
    let found = subject.loader.made_up_context(&subject.linked.program)?;
    given.is_empty().then(|| found.to_string())
}

/// Counts the first run of a case, and one that the batches see. The inner error is a reason why there
/// are no counts.
fn count(
    subject: &mut Subject<'_>,
    (input, context): (&Input, &[u8]),
    case: &mut RawCase,
    inputs: usize,
    run_ns: f64,
) -> Result<Result<u64, String>, BenchError> {
    if let Err(reason) = &subject.state().counted {
        return Ok(Err(reason.clone()));
    }
    subject.reset()?;
    let (run, counts) = first_run(subject, input, context)?;
    if (run.return_value, &run.data) != (case.first.return_value, &case.first.data) {
        return Ok(Err(format!(
            "with counters it returned {} instead of {}, or wrote another packet: its result depends on \
             something that changes from run to run (time, random numbers), or this is a defect of \
             wingbeat",
            run.return_value, case.first.return_value
        )));
    }
    if inputs <= SETTLED_INPUTS_MAX {
        let settled = settled_run(subject, input, context, run_ns)?;
        case.settled_instructions = settled.map(|counts| counts.instructions());
    }
    let kfunc = |index| subject.linked.kfunc_at(index).map(|kfunc| kfunc.name.clone());
    case.calls = counts.calls(&subject.linked.code, kfunc);
    case.tail_calls = subject.state().tail_calls(Some(&counts));
    Ok(counts.exact().map(|counts| counts.instructions()))
}

/// A program that could be loaded, and not run.
fn loaded_only(subject: &Subject<'_>) -> Verified {
    let state = subject.state();
    Verified {
        name: subject.linked.program.name.clone(),
        r#type: subject.r#type().name(),
        reason: "it could not be run".to_owned(),
        verifier: Verifier::from(&state.plain.verifier),
        size: Size {
            object_instructions: subject.linked.code.insns.len(),
            xlated_bytes: state.plain.info.xlated_bytes,
            jited_bytes: state.plain.info.jited_bytes,
            map_memory_bytes: state.maps.memory_bytes(),
        },
    }
}

/// What a program sees of a packet at most, in bytes, about; `None` if all of it. The kernel shows an
/// XDP program without frags what fits into a page beside its own bookkeeping (`max_linear_sz` in
/// `bpf_prog_test_run_xdp` of net/bpf/test_run.c, Linux 6.12), and drops no word about the rest.
fn seen_bytes_max(program: &ProgramSpec) -> Option<usize> {
    /// `XDP_PACKET_HEADROOM`.
    const HEADROOM_BYTES: usize = 256;
    /// `skb_shared_info`, aligned; its length depends on how the kernel was built.
    const TAILROOM_BYTES: usize = 320;
    let is_whole = program.r#type != ProgramType::XDP || program.has_frags();
    (!is_whole).then(|| rustix::param::page_size() - HEADROOM_BYTES - TAILROOM_BYTES)
}
