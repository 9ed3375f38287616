//! Exact counts: one run of the program with counters, and its result.

use std::sync::atomic::AtomicBool;

use wingbeat_bpf_loader::{
    loader::{Loader, LoaderOptions},
    spec::{Linked, ObjectTypes, Spec},
};

use super::{
    BenchError,
    case_counts::{INPUTS_MAX, RUNS, RUNS_UNPREDICTABLE, TIME_MAX},
    contents::contents,
    error::explained,
    kernel,
    link::link_one,
    runner::{Form, Given, Runner, Subject},
    target,
    verified::NOT_RUN,
};
use crate::{
    Warning, analyse,
    counts::{Counts, Variation},
    plan::{Plan, find},
    result::Failure,
};

/// Instructions executed by one program, over all inputs of a plan.
#[derive(Debug)]
pub struct CountedProgram {
    pub linked: Linked,
    /// The object's types, with file names and source lines.
    pub types: ObjectTypes,
    /// Executions of each instruction over one run on each input.
    pub counts: Counts,
    /// Name of each input and the return value.
    pub outcomes: Vec<(String, u32)>,
    /// Inputs on which it could not be run, with reasons.
    pub left_out: Vec<Failure>,
    /// Warnings about how it was loaded.
    pub warnings: Vec<Warning>,
}

/// Counts the instructions of `program`: one run on each input of `plan`, each on fresh maps. Fails
/// if it cannot be linked, loaded, instrumented, or run on any input.
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
        let mut varying = Vec::new();
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
                    let first = found.instructions();
                    let is_looked_at = plan.inputs.len() <= INPUTS_MAX;
                    let found = is_looked_at
                        .then(|| again(kernel, &mut subject, (input, context), first))
                        .flatten();
                    varying.extend(found.map(|found| format!("{} ({found})", input.name)));
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
        let mut warnings = analyse::remarks(&loader.remarks());
        let effect = "the counts shown are those of one run on each input";
        warnings.extend(analyse::counts_vary(&varying, effect));
        let types = loader.types().clone();
        Ok(CountedProgram { linked, types, counts, outcomes, left_out, warnings })
    })
}

/// Describes how the instructions of further fresh starts differ from the `first`.
fn again<'a, R: Runner<'a>>(
    runner: R,
    subject: &mut R::Subject,
    given: Given<'_>,
    first: u64,
) -> Option<String> {
    let calls = subject.unpredictable_calls();
    let wanted = if calls.is_empty() { RUNS } else { RUNS_UNPREDICTABLE };
    let begun = runner.now();
    let mut instructions = vec![first];
    while instructions.len() < wanted
        && runner.now().saturating_duration_since(begun) < TIME_MAX
        && !runner.is_over()
    {
        subject.reset().ok()?;
        instructions.push(subject.first_counts(given).ok()?.1.instructions());
    }
    Some(Variation::of(&instructions)?.text(&calls))
}
