//! JIT-compiled and interpreted code, and its names.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use serde::Serialize;

use crate::{
    model::{
        BinaryId, BinaryKind, Completeness, Frame, FunctionId, ProcessId, Profile, Stack, StackId,
        ThreadId,
    },
    symbolize::Refused,
};

/// Code of JIT compilers, and programs that an interpreter runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Jit {
    /// Symbol files that were not used.
    pub refused: Vec<Refused>,
    /// Processes with unnamed code, most first.
    pub nameless: Vec<Nameless>,
    /// Processes running in an interpreter, of which samples show only the interpreter, most first.
    pub interpreted: Vec<Interpreted>,
    /// Runtime that generated the code in which most stacks break, if any and if known.
    #[serde(skip)]
    pub unframed: Option<Runtime>,
}

/// A process with unnamed code in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Nameless {
    pub pid: u32,
    pub process: String,
    /// Runtime that generated the code, if known.
    pub runtime: Option<Runtime>,
    /// Samples and blocks of the process.
    pub samples: u64,
    /// Those with unnamed code.
    pub nameless: u64,
}

/// A process whose stacks have the loop of an interpreter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Interpreted {
    pub pid: u32,
    pub process: String,
    pub runtime: Runtime,
    /// Major and minor, if in a file name.
    pub version: Option<(u32, u32)>,
    /// Function with the loop.
    pub function: String,
    /// Samples and blocks of the process.
    pub samples: u64,
    /// Those in functions without names.
    pub interpreted: u64,
}

/// A runtime that names its functions only on request, or that has its own profiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Runtime {
    Node,
    Python,
    Java,
    Dotnet,
    Ruby,
    Php,
    Perl,
    Erlang,
    LuaJit,
}

impl Runtime {
    /// Executables and libraries by runtime, without version and suffix.
    const FILES: [(&str, Self); 20] = [
        ("node", Self::Node),
        ("nodejs", Self::Node),
        ("libnode", Self::Node),
        ("python", Self::Python),
        ("libpython", Self::Python),
        ("java", Self::Java),
        ("libjvm", Self::Java),
        ("dotnet", Self::Dotnet),
        ("libcoreclr", Self::Dotnet),
        ("ruby", Self::Ruby),
        ("libruby", Self::Ruby),
        ("libruby-", Self::Ruby),
        ("php", Self::Php),
        ("php-fpm", Self::Php),
        ("libphp", Self::Php),
        ("perl", Self::Perl),
        ("libperl", Self::Perl),
        ("beam.smp", Self::Erlang),
        ("luajit", Self::LuaJit),
        ("libluajit-", Self::LuaJit),
    ];

    /// Prefixes of interpreter loop functions by runtime.
    const LOOPS: [(&str, Self); 8] = [
        ("_PyEval_EvalFrameDefault", Self::Python),
        ("rb_vm_exec", Self::Ruby),
        ("vm_exec_core", Self::Ruby),
        ("execute_ex", Self::Php),
        ("Perl_runops_", Self::Perl),
        ("process_main", Self::Erlang),
        ("lj_BC_", Self::LuaJit),
        ("lj_vm_", Self::LuaJit),
    ];

    /// Detects the runtime from the name of an executable or library: `python3.12`, `libjvm.so`.
    fn of(name: &str) -> Option<Self> {
        // Debian's `luajit-2.1.0-beta3`.
        let name = if name.starts_with("luajit-") { "luajit" } else { name };
        let is_named = |file: &str| {
            let rest = name.strip_prefix(file)?;
            let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
            (rest.is_empty() || rest.starts_with("so")).then_some(())
        };
        Self::FILES.iter().find_map(|(file, runtime)| is_named(file).map(|()| *runtime))
    }

    /// User-visible name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Node => "Node",
            Self::Python => "Python",
            Self::Java => "Java",
            Self::Dotnet => ".NET",
            Self::Ruby => "Ruby",
            Self::Php => "PHP",
            Self::Perl => "Perl",
            Self::Erlang => "Erlang",
            Self::LuaJit => "LuaJIT",
        }
    }
}

/// The first two numbers in a file name: `libpython3.12.so.1.0`.
fn version(name: &str) -> Option<(u32, u32)> {
    let mut numbers = name.trim_start_matches(|c: char| !c.is_ascii_digit()).split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Counts of a process.
#[derive(Default)]
struct Counts {
    samples: u64,
    nameless: u64,
    broken: u64,
    /// By loop function.
    interpreted: BTreeMap<(Runtime, FunctionId), u64>,
    /// Files with frames in such stacks.
    files: BTreeSet<BinaryId>,
}

impl Jit {
    pub(super) fn of(profile: &Profile, refused: Vec<Refused>) -> Self {
        // The properties of a stack do not depend on the thread.
        let stacks: Vec<OfStack> =
            profile.stacks.iter().map(|it| OfStack::of(profile, it)).collect();
        let mut counts: BTreeMap<ProcessId, Counts> = BTreeMap::new();
        let mut add = |thread: ThreadId, stack: StackId, count: u64| {
            let Some(thread) = profile.threads.get(thread as usize) else { return };
            let Some(of_stack) = stacks.get(stack as usize) else { return };
            let counts = counts.entry(thread.process).or_default();
            counts.samples += count;
            counts.nameless += if of_stack.is_nameless { count } else { 0 };
            counts.broken += if of_stack.is_unframed { count } else { 0 };
            if let Some(of_loop) = of_stack.of_loop {
                *counts.interpreted.entry(of_loop).or_default() += count;
            }
            if of_stack.is_nameless || of_stack.is_unframed || of_stack.of_loop.is_some() {
                let frames = profile.frames_of(stack);
                counts.files.extend(frames.filter_map(|frame| frame.binary));
            }
        };
        for sample in &profile.samples {
            add(sample.thread, sample.stack, 1);
        }
        for blocked in profile.blocked.iter().filter(|blocked| blocked.state.has_stack()) {
            add(blocked.thread, blocked.stack, blocked.count);
        }
        let mut jit = Self { refused, ..Self::default() };
        let mut unframed = 0;
        for (id, counts) in counts {
            let Some(process) = profile.processes.get(id as usize) else { continue };
            let files = counts.files.iter().filter_map(|id| profile.binaries.get(*id as usize));
            let names = [process.name.as_str()].into_iter().chain(files.map(|it| it.name()));
            let names: Vec<&str> = names.collect();
            let runtime = names.iter().find_map(|name| Runtime::of(name));
            let Counts { samples, nameless, broken, interpreted, .. } = counts;
            let (pid, process) = (process.pid, process.name.clone());
            if broken > unframed {
                (unframed, jit.unframed) = (broken, runtime);
            }
            let most = interpreted.iter().max_by_key(|(_, count)| **count);
            if let Some((&(runtime, function), _)) = most {
                let version =
                    |name: &&str| version(name).filter(|_| Runtime::of(name) == Some(runtime));
                let of_runtime = |((it, _), _): &(&(Runtime, _), _)| *it == runtime;
                jit.interpreted.push(Interpreted {
                    pid,
                    process: process.clone(),
                    runtime,
                    version: names.iter().find_map(version),
                    function: profile.functions[function as usize].name.clone(),
                    samples,
                    interpreted: interpreted.iter().filter(of_runtime).map(|(_, it)| it).sum(),
                });
            }
            if nameless > 0 {
                jit.nameless.push(Nameless { pid, process, runtime, samples, nameless });
            }
        }
        jit.nameless.sort_by_key(|process| Reverse(process.nameless));
        jit.interpreted.sort_by_key(|process| Reverse(process.interpreted));
        jit
    }
}

/// Properties of a stack.
struct OfStack {
    /// It has unnamed code in memory.
    is_nameless: bool,
    /// It breaks in code in memory.
    is_unframed: bool,
    /// The innermost interpreter loop, unless code in memory has names of interpreted functions.
    of_loop: Option<(Runtime, FunctionId)>,
}

impl OfStack {
    fn of(profile: &Profile, stack: &Stack) -> Self {
        let frames: Vec<&Frame> =
            stack.frames.iter().filter_map(|id| profile.frames.get(*id as usize)).collect();
        let is_anonymous = |frame: &Frame| {
            let binary = frame.binary.and_then(|id| profile.binaries.get(id as usize));
            binary.is_some_and(|binary| binary.kind == BinaryKind::Anonymous)
        };
        let is_broken = matches!(stack.completeness, Completeness::Broken(_));
        let in_memory = || frames.iter().filter(|frame| is_anonymous(frame));
        let is_named = in_memory().any(|frame| !is_nameless(profile, frame));
        let of_loop = frames.iter().flat_map(|frame| &frame.lines).find_map(|line| {
            let name = &profile.functions.get(line.function as usize)?.name;
            let (_, runtime) = Runtime::LOOPS.iter().find(|(it, _)| name.starts_with(it))?;
            Some((*runtime, line.function))
        });
        Self {
            is_nameless: in_memory().any(|frame| is_nameless(profile, frame)),
            is_unframed: is_broken && frames.last().is_some_and(|frame| is_anonymous(frame)),
            of_loop: of_loop.filter(|_| !is_named),
        }
    }
}

/// Whether a frame is unnamed code in memory.
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
        check("libruby-3.1.so.3.1.2", Some(Runtime::Ruby));
        check("php8.2", Some(Runtime::Php));
        check("beam.smp", Some(Runtime::Erlang));
        check("luajit-2.1.0-beta3", Some(Runtime::LuaJit));
        check("libluajit-5.1.so.2.1.0", Some(Runtime::LuaJit));
        check("perl", Some(Runtime::Perl));
        check("perlbrew", None);
        check("node_exporter", None);
        check("javac-wrapper", None);
        check("ld-linux-x86-64.so.2", None);
        check("", None);
    }

    #[test]
    fn versions_in_names_of_files() {
        let check = |name, expected| assert_eq!(version(name), expected, "{name}");
        check("python3.11", Some((3, 11)));
        check("libpython3.12.so.1.0", Some((3, 12)));
        check("libruby-3.1.so.3.1.2", Some((3, 1)));
        check("python3", None);
        check("perl", None);
    }
}
