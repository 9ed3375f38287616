//! Exact counts: one run of the program with counters, and what they say.

use std::sync::atomic::AtomicBool;

use wingbeat_bpf::{
    loader::{Loader, LoaderOptions},
    spec::{Linked, ObjectTypes, Spec},
};

use super::{
    BenchError,
    contents::contents,
    error::explained,
    kernel,
    link::link_one,
    runner::{Form, Runner as _, Subject as _},
    target,
    verified::NOT_RUN,
};
use crate::{
    Warning, analyse,
    counts::Counts,
    plan::{Plan, find},
    result::Failure,
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
    /// Inputs that it could not be run on, and why.
    pub left_out: Vec<Failure>,
    /// What is to be said about how it was loaded.
    pub warnings: Vec<Warning>,
}

/// Counts what `program` executes: one run on each input of `plan`, each on fresh maps.
/// Fails when it cannot be linked, loaded, given counters, or run on any of them.
pub fn count_program(
    spec: &Spec,
    program: &str,
    plan: &Plan,
    stop: &AtomicBool,
) -> Result<CountedProgram, BenchError> {
    kernel::on_thread_of_its_own(plan.cpu, stop, |kernel| {
        let spec = &*target::measured(spec, plan);
        let linked = link_one(spec, &find(spec, program)?.name)?;
        if linked.program.r#type.test_run().is_some() && !linked.program.runs_on_demand() {
            let name = &linked.program.name;
            return Err(BenchError::NotMeasurable(format!("{name} cannot be run: {NOT_RUN}")));
        }
        let mut loader = Loader::new(spec, LoaderOptions::default())?;
        loader.make_up_contexts(std::iter::once(&linked.program));
        let contents = contents(spec, plan, &mut loader)?;
        let mut counts = Counts { executed: vec![0; linked.code.insns.len()], ..Counts::default() };
        let (mut outcomes, mut left_out) = (Vec::new(), Vec::new());
        let mut subject = kernel.load(&linked, (&loader, &contents))?;
        subject.add(Form::Counted);
        for input in &plan.inputs {
            if kernel.is_over() {
                break;
            }
            subject.reset()?;
            let context = subject.context(&plan.context);
            match subject.first_counts((input, context)) {
                Ok((run, found)) => {
                    counts.add(&found);
                    outcomes.push((input.name.clone(), run.return_value));
                }
                Err(error) if plan.inputs.len() > 1 => {
                    left_out.push(Failure::new(&input.name, error.to_string()));
                }
                Err(error) => return Err(explained(error, &linked, context)),
            }
        }
        drop(subject);
        if let (true, Some(Failure { name, reason, .. })) = (outcomes.is_empty(), left_out.first())
        {
            return Err(BenchError::NotMeasurable(format!("input {name}: {reason}")));
        }
        let warnings = analyse::remarks(&loader.remarks());
        let types = loader.types().clone();
        Ok(CountedProgram { linked, types, counts, outcomes, left_out, warnings })
    })
}
