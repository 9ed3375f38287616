//! Programs that only an event can run: loaded for what the verifier says of them, and not run.

use wingbeat_bpf::{
    loader::{Loader, RunError},
    spec::{Linked, ProgramSpec},
};

use super::{
    BenchError,
    runner::Runner,
    session::{Session, failure},
};
use crate::{
    plan::Plan,
    result::{Failure, Size, Verified, Verifier},
};

/// Why a program has the verifier's figures alone. The same for all types, so that it is told once.
const NOT_RUN: &str = "only its event runs such a program; attach it and use `wingbeat live` for \
                       its times";

/// What became of them.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) verified: Vec<Verified>,
    pub(super) skipped: Vec<Failure>,
    pub(super) failures: Vec<Failure>,
}

/// Loads `programs`. One that was asked for by name is no mere omission, and neither is one that the
/// verifier rejects or that the time was too short for.
pub(super) fn load(
    programs: &[&ProgramSpec],
    linked: &[Linked],
    loader: &Loader,
    plan: &Plan,
    session: &mut Session<'_>,
) -> Found {
    let mut found = Found::default();
    for program in programs {
        let Some(linked) = linked.iter().find(|it| it.program.name == program.name) else {
            continue;
        };
        if let Some(reason) = session.why_over("it was loaded") {
            found.failures.push(Failure::new(&program.name, reason));
            continue;
        }
        session.show(&format!("{}: loading", program.name));
        let left_out = match verify(linked, loader, session.runner) {
            Ok(verified) => {
                let reason = verified.reason.clone();
                found.verified.push(verified);
                Failure::new(&program.name, reason)
            }
            Err(error) => match failure(&program.name, &error) {
                rejected if rejected.is_rejected => {
                    found.failures.push(rejected);
                    continue;
                }
                over if session.runner.alarm.is_over() => {
                    found.failures.push(over);
                    continue;
                }
                other => {
                    let reason = RunError::NoHandler(program.r#type);
                    let reason = format!("{reason}; nor does the verifier tell: {}", other.reason);
                    Failure::new(&program.name, reason)
                }
            },
        };
        match plan.programs.is_empty() {
            true => found.skipped.push(left_out),
            false => found.failures.push(left_out),
        }
    }
    found
}

fn verify(linked: &Linked, loader: &Loader, runner: Runner<'_>) -> Result<Verified, BenchError> {
    let maps = loader.create_maps_for(&[&linked.code], false)?;
    let descriptors = maps.descriptors();
    let loaded = loader.load_with(&linked.program, &linked.code, &descriptors, runner.effort())?;
    Ok(Verified {
        name: linked.program.name.clone(),
        r#type: linked.program.r#type.name(),
        reason: NOT_RUN.to_owned(),
        verifier: Verifier::from(&loaded.verifier),
        size: Size {
            object_instructions: linked.code.insns.len(),
            xlated_bytes: loaded.info.xlated_bytes,
            jited_bytes: loaded.info.jited_bytes,
            map_memory_bytes: maps.memory_bytes(),
        },
    })
}
