//! Programs linked for the running kernel; one that cannot be linked is in nobody's way.

use wingbeat_bpf::spec::{Linked, ProgramSpec, Spec, SpecError, TargetTypes};

use super::BenchError;
use crate::result::Failure;

/// The programs of an object that can be linked.
///
/// # Errors
///
/// When not one can.
pub(super) fn link(spec: &Spec) -> Result<Vec<Linked>, BenchError> {
    let (linked, errors): (Vec<_>, Vec<_>) =
        spec.link_each(types(spec)?.as_ref()).into_iter().partition(Result::is_ok);
    let linked: Vec<Linked> = linked.into_iter().flatten().collect();
    match errors.into_iter().find_map(Result::err) {
        Some(error) if linked.is_empty() => Err(error.into()),
        _ => Ok(linked),
    }
}

/// One program.
///
/// # Errors
///
/// When there is none of that name, or it cannot be linked.
pub(super) fn link_one(spec: &Spec, name: &str) -> Result<Linked, BenchError> {
    Ok(spec.link_program(name, types(spec)?.as_ref())?)
}

/// Those of `chosen` that are not among the `linked`, and why.
///
/// # Errors
///
/// When nothing else was chosen.
pub(super) fn unlinked(
    spec: &Spec,
    chosen: &[&ProgramSpec],
    linked: &[Linked],
) -> Result<Vec<Failure>, BenchError> {
    let missing =
        |program: &&&ProgramSpec| !linked.iter().any(|linked| linked.program.name == program.name);
    let errors = chosen.iter().filter(missing).filter_map(|program| {
        let error = link_one(spec, &program.name).err()?;
        Some((program.name.clone(), error))
    });
    let mut errors: Vec<_> = errors.collect();
    if errors.len() == chosen.len()
        && let Some((_, error)) = errors.pop()
    {
        return Err(error);
    }
    let failures = errors.into_iter().map(|(name, error)| match error {
        BenchError::Spec(SpecError::Link { reason, .. }) => {
            Failure::new(name, format!("it cannot be linked: {reason}"))
        }
        other => Failure::new(name, other.to_string()),
    });
    Ok(failures.collect())
}

/// The types of the running kernel, if the object has to know them.
fn types(spec: &Spec) -> Result<Option<TargetTypes>, BenchError> {
    if !spec.needs_target_types() {
        return Ok(None);
    }
    let types = TargetTypes::from_kernel().map_err(|error| BenchError::Target {
        file: spec.file().to_owned(),
        reason: error.to_string(),
    })?;
    Ok(Some(types))
}
