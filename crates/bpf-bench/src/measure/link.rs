//! Links programs for the running kernel; one that cannot be linked does not affect the others.

use wingbeat_bpf_loader::{
    KernelTypes,
    spec::{Linked, ProgramSpec, Spec, SpecError},
};

use super::BenchError;
use crate::result::Failure;

/// Links the programs of an object that can be linked. Fails if the object needs the kernel's types
/// and they are unavailable.
pub(super) fn link(spec: &Spec) -> Result<Vec<Linked>, BenchError> {
    Ok(spec.link_each(types(spec)?.as_ref()).into_iter().filter_map(Result::ok).collect())
}

/// Links one program. Fails if there is none of that name, or it cannot be linked.
pub(super) fn link_one(spec: &Spec, name: &str) -> Result<Linked, BenchError> {
    Ok(spec.link_program(name, types(spec)?.as_ref())?)
}

/// Programs of `chosen` that are not among the `linked`, with reasons.
pub(super) fn unlinked(spec: &Spec, chosen: &[&ProgramSpec], linked: &[Linked]) -> Vec<Failure> {
    let missing =
        |program: &&&ProgramSpec| !linked.iter().any(|linked| linked.program.name == program.name);
    let failures = chosen.iter().filter(missing).filter_map(|program| {
        let reason = match link_one(spec, &program.name).err()? {
            BenchError::Spec(SpecError::Link { reason, .. }) => {
                format!("it cannot be linked: {reason}")
            }
            other => other.to_string(),
        };
        Some(Failure::new(&program.name, reason))
    });
    failures.collect()
}

/// Types of the running kernel, if the object needs them.
fn types(spec: &Spec) -> Result<Option<KernelTypes>, BenchError> {
    if !spec.needs_target_types() {
        return Ok(None);
    }
    let types = KernelTypes::from_kernel().map_err(|error| BenchError::Target {
        file: spec.file().to_owned(),
        reason: error.to_string(),
    })?;
    Ok(Some(types))
}
