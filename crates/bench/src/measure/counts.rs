//! Exact counts: one run of the program with counters, and what they say.

use std::sync::atomic::AtomicBool;

use std::os::fd::AsFd as _;
use wingbeat_bpf::{
    loader::{Loader, LoaderOptions, ProgramRun},
    spec::{Linked, ObjectTypes, Spec},
};

use super::{
    BenchError,
    contents::contents,
    link::link_one,
    place,
    subject::{Counted, Subject},
};
use crate::{
    counts::Counts,
    input::Input,
    plan::{Plan, find},
};

/// Runs after which the maps are taken to be in the state that the batches see; fewer where they would
/// take longer than this, and none where not even so many fit.
const SETTLING_RUNS: u32 = 4_096;
const SETTLING_RUNS_MIN: u32 = 64;
const SETTLING_NS: f64 = 100e6;

/// What one program executed, over all inputs of a plan.
#[derive(Debug)]
pub struct CountedProgram {
    pub linked: Linked,
    /// The object's types: names of files, texts of lines.
    pub types: ObjectTypes,
    /// Executions of each instruction over one run on each input.
    pub counts: Counts,
    /// Name of each input and the return value.
    pub outcomes: Vec<(String, u32)>,
}

/// Counts what `program` executes: one run on each input of `plan`, each on fresh maps.
///
/// # Errors
///
/// When it cannot be linked, loaded, given counters, or run.
pub fn count_program(
    spec: &Spec,
    program: &str,
    plan: &Plan,
    stop: &AtomicBool,
) -> Result<CountedProgram, BenchError> {
    place::on_thread_of_its_own(plan.cpu, stop, |runner| {
        let linked = link_one(spec, &find(spec, program)?.name)?;
        let mut loader = Loader::new(spec, LoaderOptions::default())?;
        loader.make_up_contexts(std::iter::once(&linked.program));
        let contents = contents(spec, plan)?;
        let mut counts = Counts { executed: vec![0; linked.code.insns.len()], ..Counts::default() };
        let mut outcomes = Vec::new();
        let mut subject = Subject::new(&linked, &loader, &contents, runner)?;
        subject.add_counted();
        for input in &plan.inputs {
            if runner.alarm.is_over() {
                break;
            }
            subject.reset()?;
            let (run, found) = first_run(&subject, input, subject.context(&plan.context))?;
            counts.add(&found);
            outcomes.push((input.name.clone(), run.return_value));
        }
        drop(subject);
        Ok(CountedProgram { types: loader.types().clone(), linked, counts, outcomes })
    })
}

/// Counts one run on maps that were just reset.
pub(super) fn first_run(
    subject: &Subject<'_>,
    input: &Input,
    context: &[u8],
) -> Result<(ProgramRun, Counts), BenchError> {
    let counted = subject.state().counted.as_ref();
    let counted = counted.map_err(|reason| {
        BenchError::NotMeasurable(format!("{}: {reason}", subject.linked.program.name))
    })?;
    one_run(subject, counted, input, context)
}

/// Counts one run after thousands on the same maps, what a batch sees; `None` where runs of `run_ns`
/// are too long for that.
pub(super) fn settled_run(
    subject: &Subject<'_>,
    input: &Input,
    context: &[u8],
    run_ns: f64,
) -> Result<Option<Counts>, BenchError> {
    let Ok(counted) = &subject.state().counted else { return Ok(None) };
    // Within 0 and SETTLING_RUNS.
    let runs = (SETTLING_NS / run_ns).clamp(0.0, f64::from(SETTLING_RUNS)) as u32;
    if runs < SETTLING_RUNS_MIN {
        return Ok(None);
    }
    subject.run_form(counted.program.as_fd(), input, context, runs)?;
    Ok(Some(one_run(subject, counted, input, context)?.1))
}

fn one_run(
    subject: &Subject<'_>,
    counted: &Counted,
    input: &Input,
    context: &[u8],
) -> Result<(ProgramRun, Counts), BenchError> {
    counted.clear()?;
    let run = subject.run_form(counted.program.as_fd(), input, context, 1)?;
    let counts = counted.read(&subject.linked.program.name, &subject.state().maps, 1)?;
    Ok((run, counts))
}
