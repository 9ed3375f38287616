//! What is known of code that compilers made while their process ran, and of its names.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::{
    model::{BinaryKind, Frame, Profile, StackId, ThreadId},
    symbolize::refused::Refused,
};

/// Code of JIT compilers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Jit {
    /// Files whose names were not used.
    pub refused: Vec<Refused>,
    /// Processes with code that has no names, most first.
    pub nameless: Vec<Nameless>,
}

/// A process with code in memory that has no names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Nameless {
    pub pid: u32,
    pub process: String,
    /// Who made the code, if that can be told.
    pub runtime: Option<Runtime>,
    /// Samples and blocks of the process.
    pub samples: u64,
    /// Those with such code.
    pub nameless: u64,
}

/// A runtime whose compiler tells names if it is asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Runtime {
    Node,
    Python,
    Java,
    Dotnet,
}

impl Runtime {
    /// The executables and libraries of each, without version and suffix.
    const FILES: [(&str, Self); 9] = [
        ("node", Self::Node),
        ("nodejs", Self::Node),
        ("libnode", Self::Node),
        ("python", Self::Python),
        ("libpython", Self::Python),
        ("java", Self::Java),
        ("libjvm", Self::Java),
        ("dotnet", Self::Dotnet),
        ("libcoreclr", Self::Dotnet),
    ];

    /// By the name of an executable or a library: `python3.12`, `libjvm.so`.
    fn of(name: &str) -> Option<Self> {
        let is_named = |file: &str| {
            let rest = name.strip_prefix(file)?;
            let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
            (rest.is_empty() || rest.starts_with("so")).then_some(())
        };
        Self::FILES.iter().find_map(|(file, runtime)| is_named(file).map(|()| *runtime))
    }
}

impl Jit {
    pub(super) fn of(profile: &Profile, refused: Vec<Refused>) -> Self {
        let mut counts: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        let mut files: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        let mut add = |thread: ThreadId, stack: StackId, count: u64| {
            let Some(thread) = profile.threads.get(thread as usize) else { return };
            let (samples, nameless) = counts.entry(thread.process).or_default();
            *samples += count;
            if profile.frames_of(stack).any(|frame| is_nameless(profile, frame)) {
                *nameless += count;
                let binaries = profile.frames_of(stack).filter_map(|frame| frame.binary);
                files.entry(thread.process).or_default().extend(binaries);
            }
        };
        for sample in &profile.samples {
            add(sample.thread, sample.stack, 1);
        }
        for blocked in profile.blocked.iter().filter(|blocked| blocked.state.has_stack()) {
            add(blocked.thread, blocked.stack, blocked.count);
        }
        let mut nameless: Vec<Nameless> = files
            .into_iter()
            .filter_map(|(id, binaries)| {
                let process = profile.processes.get(id as usize)?;
                let files = binaries.into_iter().filter_map(|id| profile.binaries.get(id as usize));
                let mut names =
                    [process.name.as_str()].into_iter().chain(files.map(|it| it.name()));
                let (samples, nameless) = counts.get(&id).copied().unwrap_or_default();
                let runtime = names.find_map(Runtime::of);
                let (pid, process) = (process.pid, process.name.clone());
                Some(Nameless { pid, process, runtime, samples, nameless })
            })
            .collect();
        nameless.sort_by_key(|process| std::cmp::Reverse(process.nameless));
        Self { refused, nameless }
    }
}

/// Is it code in memory that nobody named?
fn is_nameless(profile: &Profile, frame: &Frame) -> bool {
    let binary = frame.binary.and_then(|id| profile.binaries.get(id as usize));
    binary.is_some_and(|binary| binary.kind == BinaryKind::Anonymous)
        && profile.functions_at(frame).all(|function| !function.is_symbol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_by_their_files() {
        let check = |name, expected| assert_eq!(Runtime::of(name), expected, "{name}");
        check("node", Some(Runtime::Node));
        check("node20", Some(Runtime::Node));
        check("libnode.so.115", Some(Runtime::Node));
        check("python3.12", Some(Runtime::Python));
        check("libpython3.12.so.1.0", Some(Runtime::Python));
        check("java", Some(Runtime::Java));
        check("libjvm.so", Some(Runtime::Java));
        check("libcoreclr.so", Some(Runtime::Dotnet));
        check("node_exporter", None);
        check("javac-wrapper", None);
        check("ld-linux-x86-64.so.2", None);
        check("", None);
    }
}
