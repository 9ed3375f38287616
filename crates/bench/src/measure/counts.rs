//! Exact counts: one run of the program with counters, and what they say.

use std::sync::atomic::AtomicBool;

use std::os::fd::AsFd as _;
use wingbeat_bpf::{
    live::{Loader, LoaderOptions, Run},
    spec::{Linked, ObjectTypes, Spec},
};

use super::{
    BenchError,
    contents::contents,
    link::link_one,
    place,
    subject::{Counted, Forms, Subject, run_form},
};
use crate::{
    counts::Counts,
    input::Input,
    plan::{Plan, find},
};

/// Runs after which the maps are taken to be in the state that the batches see.
const SETTLING_RUNS: u32 = 4_096;

/// What one program executed, over all inputs of a plan.
#[derive(Debug)]
pub struct CountedProgram {
    /// The program.
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
    let count = || {
        place::settle(plan.cpu)?;
        let linked = link_one(spec, &find(spec, program)?.name)?;
        let loader = Loader::new(spec, LoaderOptions::default())?;
        let contents = contents(spec, plan)?;
        let mut counts = Counts { executed: vec![0; linked.code.insns.len()], ..Counts::default() };
        let mut outcomes = Vec::new();
        let mut subject = Subject::new(&linked, &loader, &contents, Forms::COUNTED)?;
        for input in &plan.inputs {
            if stop.load(std::sync::atomic::Ordering::Relaxed) {
                break;
            }
            subject.reset()?;
            let (run, found) = first_run(&subject, input, &plan.context)?;
            counts.add(&found);
            outcomes.push((input.name.clone(), run.return_value));
        }
        drop(subject);
        Ok(CountedProgram { types: loader.types().clone(), linked, counts, outcomes })
    };
    // A thread of its own, because it binds itself to a CPU and blocks signals.
    std::thread::scope(|scope| scope.spawn(count).join().unwrap_or(Err(BenchError::Thread)))
}

/// Counts one run on maps that were just reset.
pub(super) fn first_run(
    subject: &Subject<'_>,
    input: &Input,
    context: &[u8],
) -> Result<(Run, Counts), BenchError> {
    let counted = subject.state().counted.as_ref();
    let counted = counted.map_err(|reason| {
        BenchError::NotMeasurable(format!("{}: {reason}", subject.linked.program.name))
    })?;
    one_run(subject, counted, input, context)
}

/// Counts one run after thousands on the same maps: what a batch sees.
pub(super) fn settled_run(
    subject: &Subject<'_>,
    input: &Input,
    context: &[u8],
) -> Result<Counts, BenchError> {
    let counted =
        subject.state().counted.as_ref().map_err(|r| BenchError::NotMeasurable(r.clone()))?;
    run_form(counted.program.as_fd(), subject.r#type(), input, context, SETTLING_RUNS)?;
    Ok(one_run(subject, counted, input, context)?.1)
}

fn one_run(
    subject: &Subject<'_>,
    counted: &Counted,
    input: &Input,
    context: &[u8],
) -> Result<(Run, Counts), BenchError> {
    counted.clear()?;
    let run = run_form(counted.program.as_fd(), subject.r#type(), input, context, 1)?;
    let counts = counted.read(&subject.linked.program.name, &subject.state().maps, 1)?;
    Ok((run, counts))
}
