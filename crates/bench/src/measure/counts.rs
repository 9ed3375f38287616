//! Exact counts: one run of the program with counters, and what they say.

use std::sync::atomic::AtomicBool;

use wingbeat_bpf::{
    loader::{Loader, LoaderOptions},
    spec::{Linked, ObjectTypes, Spec},
};

use super::{
    BenchError,
    contents::contents,
    kernel,
    link::link_one,
    runner::{Form, Runner as _, Subject as _},
    target,
};
use crate::{
    counts::Counts,
    plan::{Plan, find},
};

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
/// Fails when it cannot be linked, loaded, given counters, or run.
pub fn count_program(
    spec: &Spec,
    program: &str,
    plan: &Plan,
    stop: &AtomicBool,
) -> Result<CountedProgram, BenchError> {
    kernel::on_thread_of_its_own(plan.cpu, stop, |kernel| {
        let spec = &*target::measured(spec, plan);
        let linked = link_one(spec, &find(spec, program)?.name)?;
        let mut loader = Loader::new(spec, LoaderOptions::default())?;
        loader.make_up_contexts(std::iter::once(&linked.program));
        let contents = contents(spec, plan)?;
        let mut counts = Counts { executed: vec![0; linked.code.insns.len()], ..Counts::default() };
        let mut outcomes = Vec::new();
        let mut subject = kernel.load(&linked, (&loader, &contents))?;
        subject.add(Form::Counted);
        for input in &plan.inputs {
            if kernel.is_over() {
                break;
            }
            subject.reset()?;
            let (run, found) = subject.first_counts((input, subject.context(&plan.context)))?;
            counts.add(&found);
            outcomes.push((input.name.clone(), run.return_value));
        }
        drop(subject);
        Ok(CountedProgram { types: loader.types().clone(), linked, counts, outcomes })
    })
}
