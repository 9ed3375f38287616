//! Target programs, whose functions an extension (freplace) replaces.
//!
//! They must be loaded before their extensions. By default they are searched in the object itself.

use std::{
    borrow::Cow,
    convert::Infallible,
    fmt,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    str::FromStr,
};

use rustix::fs::{FsWord, statfs};
use wingbeat_bpf_loader::{
    ProgramType,
    loader::{Extended, Loader},
    program,
    spec::{Attachment, Linked, ProgramSpec, Spec},
};

use super::{BenchError, subject::link};
use crate::plan::Plan;

/// `BPF_FS_MAGIC` (include/uapi/linux/magic.h, Linux 6.18).
const BPF_FS: FsWord = 0xcafe_4a11;

/// The program to be extended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetSource {
    Id(u32),
    /// An object file, or the pin of a loaded program.
    Path(PathBuf),
}

impl FromStr for TargetSource {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(text.parse().map_or_else(|_| Self::Path(text.into()), Self::Id))
    }
}

impl fmt::Display for TargetSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "program {id}"),
            Self::Path(path) => path.display().fmt(f),
        }
    }
}

/// The object as measured: without a specified target, an extension whose target is not in the
/// object becomes a standalone program.
pub(super) fn measured<'a>(spec: &'a Spec, plan: &Plan) -> Cow<'a, Spec> {
    let alone = if plan.target.is_none() { spec.with_extensions_alone() } else { None };
    alone.map_or(Cow::Borrowed(spec), Cow::Owned)
}

/// Passes the targets of an object's `programs` to `loader`, if they are other programs. Fails if
/// the targets specified by the plan cannot be loaded or have none of the functions. If the object
/// itself has none, the program that needs it reports that later.
pub(super) fn provide(
    loader: &mut Loader,
    programs: &[&ProgramSpec],
    own: (&Spec, &[Linked]),
    plan: &Plan,
) -> Result<(), BenchError> {
    let functions = wanted(programs, plan.target.is_some());
    if functions.is_empty() {
        return Ok(());
    }
    let Some(target) = &plan.target else {
        // Errors of the other program are reported with that one.
        for extended in in_object(own.0, own.1, &functions).unwrap_or_default() {
            loader.extend(extended);
        }
        return Ok(());
    };
    let failed = |reason: String| BenchError::Extended { target: target.to_string(), reason };
    let found = match target {
        TargetSource::Id(id) => vec![in_kernel(program::open(*id)).map_err(failed)?],
        TargetSource::Path(path) if is_pin(path) => {
            vec![in_kernel(program::open_pinned(path)).map_err(failed)?]
        }
        TargetSource::Path(path) => {
            let spec = Spec::read(path)?;
            let linked = link(&spec)?;
            let found = in_object(&spec, &linked, &functions)?;
            if found.is_empty() {
                let names = functions.join(", ");
                return Err(failed(format!("no program of it has a function {names}")));
            }
            found
        }
    };
    found.into_iter().for_each(|extended| loader.extend(extended));
    Ok(())
}

/// Functions of other programs that `programs` refer to. Programs that trace a function may refer
/// to another program only if a target is specified.
fn wanted(programs: &[&ProgramSpec], is_named: bool) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for program in programs {
        let name = match &program.attachment {
            Some(Attachment::Program(name)) => name,
            Some(Attachment::Function(name)) if is_named => name,
            None if program.r#type == ProgramType::EXT => &program.name,
            _ => continue,
        };
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// Loads the programs of an object that contain one of the `functions`, the first for each.
fn in_object(
    spec: &Spec,
    linked: &[Linked],
    functions: &[String],
) -> Result<Vec<Extended>, BenchError> {
    let mut loaded: Vec<&str> = Vec::new();
    let mut found = Vec::new();
    let loader = Loader::new(spec)?;
    for function in functions {
        // An extension cannot be extended.
        let has_it = |it: &&Linked| {
            it.program.r#type != ProgramType::EXT
                && it.code.functions.iter().any(|own| own.name == *function)
        };
        let Some(target) = linked.iter().find(has_it) else { continue };
        if loaded.contains(&target.program.name.as_str()) {
            continue;
        }
        loaded.push(&target.program.name);
        let maps = loader.create_maps()?;
        let program = loader.load(&target.program, &target.code, &maps.descriptors())?;
        let extended = Extended::new(&program).map_err(|error| BenchError::Extended {
            target: format!("{} of {}", target.program.name, spec.file()),
            reason: error.to_string(),
        });
        found.push(extended?);
    }
    Ok(found)
}

fn in_kernel(program: std::io::Result<OwnedFd>) -> Result<Extended, String> {
    let program = program.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "no such program is loaded".to_owned(),
        _ => error.to_string(),
    })?;
    Extended::new(program.as_fd()).map_err(|error| error.to_string())
}

fn is_pin(path: &Path) -> bool {
    statfs(path).is_ok_and(|found| found.f_type == BPF_FS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_target() {
        let check = |text: &str, expected: TargetSource| {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        };
        check("12", TargetSource::Id(12));
        check("12.o", TargetSource::Path("12.o".into()));
        check("/sys/fs/bpf/main", TargetSource::Path("/sys/fs/bpf/main".into()));
    }

    #[test]
    fn functions_of_other_programs() {
        let program = |r#type, attachment| ProgramSpec {
            name: "own".to_owned(),
            section: String::new(),
            r#type,
            attach_type: 0,
            flags: 0,
            attachment,
            insn_count: 2,
        };
        let check = |r#type, attachment, is_named, expected: &[&str]| {
            assert_eq!(wanted(&[&program(r#type, attachment)], is_named), expected);
        };
        let replaced = Some(Attachment::Program("f".to_owned()));
        check(ProgramType::EXT, replaced.clone(), false, &["f"]);
        check(ProgramType::EXT, None, false, &["own"]);
        check(ProgramType::XDP, None, true, &[]);
        let traced = Some(Attachment::Function("f".to_owned()));
        check(ProgramType::TRACING, traced.clone(), false, &[]);
        check(ProgramType::TRACING, traced, true, &["f"]);
        let twice = program(ProgramType::EXT, replaced);
        assert_eq!(wanted(&[&twice, &twice], false), ["f"]);
    }
}
