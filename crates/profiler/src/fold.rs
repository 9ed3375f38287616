//! Folds frames that say nothing about the program: how threads are started, how a runtime calls closures. In Rust
//! code they may be half of a stack, and hide the rest in a flame graph.
//!
//! A pure transformation of the stacks of a [`Profile`]. Two or more adjacent such functions become one frame,
//! `[runtime]`, so that the next callee does not appear to be called by user code. A single one stays: replacing a
//! frame by a frame gains nothing and loses a name. The innermost function is never folded, since the time is its
//! own. Samples, blocks and their weights are unchanged.

mod rules;

use std::{cmp::Reverse, collections::BTreeMap};

use rustc_hash::FxHashMap;
use serde::Serialize;

use self::rules::Kind;
use crate::model::{
    BinaryKind, Blocked, Frame, FrameId, Function, FunctionId, Line, Profile, Stack, StackId,
};

/// Name of folded functions.
pub const RUNTIME: &str = "[runtime]";

/// Statistics of the folding.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Folded {
    /// Samples and blocks with folded stacks.
    pub samples: u64,
    /// Total functions of these stacks before.
    pub functions_before: u64,
    /// Total functions after, `[runtime]` included.
    pub functions_after: u64,
    /// Folded functions, most frequent first.
    pub names: Vec<FoldedName>,
}

/// A folded function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FoldedName {
    pub name: String,
    /// Occurrences in the stacks of samples and blocks.
    pub count: u64,
}

/// Length of a name without its variable parts, for the fuzz target.
pub(crate) fn plain_len(name: &str) -> usize {
    let _ = rules::kind(name);
    rules::plain(name).path.len()
}

/// Position of a function in a stack: the frame and the line within it.
#[derive(Debug, Clone, Copy)]
struct Place {
    frame: usize,
    line: usize,
    function: FunctionId,
    kind: Kind,
}

/// Folds runtime functions in all stacks, and merges stacks that become equal.
pub fn fold_runtime(profile: &mut Profile) -> Folded {
    let kinds: Vec<Kind> =
        profile.functions.iter().map(|function| rules::kind(&function.name)).collect();
    let runtime = profile.functions.len() as FunctionId;
    let mut frames = FrameTable::new(&profile.frames);
    let mut ids: FxHashMap<Stack, StackId> = FxHashMap::default();
    let mut stacks = Vec::new();
    let mut counts = count_stacks(profile).into_iter();
    let mut folded = Folded::default();
    let mut by_function: BTreeMap<FunctionId, u64> = BTreeMap::new();
    let mut moved = Vec::with_capacity(profile.stacks.len());
    for stack in &profile.stacks {
        let count = counts.next().unwrap_or(0);
        let places = places(profile, stack, &kinds);
        let runs = runs(&places);
        let mut stack = stack.clone();
        if !runs.is_empty() {
            stack.frames = frames.rebuild(&stack.frames, &places, &runs, runtime);
            let gone: usize = runs.iter().map(|run| run.len() - 1).sum();
            folded.samples += count;
            folded.functions_before += count * places.len() as u64;
            folded.functions_after += count * (places.len() - gone) as u64;
            for place in runs.into_iter().flat_map(|run| &places[run]) {
                *by_function.entry(place.function).or_default() += count;
            }
        }
        moved.push(*ids.entry(stack).or_insert_with_key(|stack| {
            stacks.push(stack.clone());
            stacks.len() as StackId - 1
        }));
    }
    folded.names = names(profile, by_function);
    profile.frames = frames.frames;
    profile.functions.push(Function { name: RUNTIME.to_owned(), is_symbol: true });
    profile.stacks = stacks;
    for stack in profile.samples.iter_mut().map(|sample| &mut sample.stack) {
        move_to(&moved, stack);
    }
    for stack in profile.blocked.iter_mut().map(|blocked| &mut blocked.stack) {
        move_to(&moved, stack);
    }
    for stack in profile.sums.iter_mut().map(|sum| &mut sum.stack) {
        move_to(&moved, stack);
    }
    merge_blocked(profile);
    folded
}

/// Merges blocks of a thread whose stack and state have become equal.
fn merge_blocked(profile: &mut Profile) {
    let mut rows: Vec<Blocked> = Vec::with_capacity(profile.blocked.len());
    let mut ids = FxHashMap::default();
    let mut moved = Vec::with_capacity(profile.blocked.len());
    for blocked in profile.blocked.drain(..) {
        let next = rows.len() as u32;
        let id = *ids.entry((blocked.thread, blocked.stack, blocked.state)).or_insert(next);
        match rows.get_mut(id as usize) {
            Some(row) => row.merge(&blocked),
            None => rows.push(blocked),
        }
        moved.push(id);
    }
    profile.blocked = rows;
    for interval in &mut profile.intervals {
        move_to(&moved, &mut interval.blocked);
    }
}

/// Leaves an invalid id as it is: exporters reject such a profile.
fn move_to(moved: &[u32], id: &mut u32) {
    *id = moved.get(*id as usize).copied().unwrap_or(*id);
}

/// Counts the samples and blocks of each stack.
fn count_stacks(profile: &Profile) -> Vec<u64> {
    let mut counts = vec![0_u64; profile.stacks.len()];
    let samples = profile.samples.iter().map(|sample| (sample.stack, 1));
    let blocks = profile.blocked.iter().map(|blocked| (blocked.stack, blocked.count));
    let sums = profile.sums.iter().map(|sum| (sum.stack, sum.weight.samples + sum.weight.blocks));
    for (stack, count) in samples.chain(blocks).chain(sums) {
        if let Some(sum) = counts.get_mut(stack as usize) {
            *sum += count;
        }
    }
    counts
}

fn names(profile: &Profile, by_function: BTreeMap<FunctionId, u64>) -> Vec<FoldedName> {
    let name = |id: FunctionId| Some(profile.functions.get(id as usize)?.name.clone());
    let counted = by_function.into_iter().filter(|(_, count)| *count > 0);
    let mut names: Vec<FoldedName> =
        counted.filter_map(|(id, count)| Some(FoldedName { name: name(id)?, count })).collect();
    names.sort_by_key(|name| Reverse(name.count));
    names
}

/// The functions of a stack, innermost first.
fn places(profile: &Profile, stack: &Stack, kinds: &[Kind]) -> Vec<Place> {
    let mut places = Vec::new();
    // Off-CPU stacks have their state in the innermost position.
    let mut is_innermost = true;
    for (position, &id) in stack.frames.iter().enumerate() {
        let Some(frame) = profile.frames.get(id as usize) else { continue };
        let binary = frame.binary.and_then(|id| profile.binaries.get(id as usize));
        let is_code = binary.is_none_or(|binary| matches!(binary.kind, BinaryKind::User));
        for (number, line) in frame.lines.iter().enumerate() {
            let mut kind = kinds.get(line.function as usize).copied().unwrap_or(Kind::Own);
            if is_innermost || !is_code {
                kind = Kind::Own;
            }
            places.push(Place { frame: position, line: number, function: line.function, kind });
            is_innermost = binary.is_some_and(|binary| binary.kind == BinaryKind::State);
        }
    }
    settle(profile, &mut places);
    places
}

/// Classifies functions that depend on their neighbours.
fn settle(profile: &Profile, places: &mut [Place]) {
    // From the outermost, since outer functions decide first.
    let mut is_outermost = true;
    for index in (0..places.len()).rev() {
        let inner = index.checked_sub(1).and_then(|index| places.get(index));
        let is_runtime = match places[index].kind {
            Kind::Runtime => true,
            Kind::Outermost => is_outermost,
            Kind::Main => inner.is_some_and(|inner| {
                let function = profile.functions.get(inner.function as usize);
                function.is_some_and(|function| rules::is_start_of_rust(&function.name))
            }),
            Kind::Glue => {
                let next = places[..index].iter().rev().find(|place| place.kind != Kind::Glue);
                let is_inside = places.get(index + 1).is_some_and(|it| it.kind == Kind::Runtime);
                is_inside && next.is_some_and(|next| next.kind == Kind::Runtime)
            }
            Kind::Own => false,
        };
        places[index].kind = if is_runtime { Kind::Runtime } else { Kind::Own };
        is_outermost &= is_runtime;
    }
}

/// Ranges of two or more adjacent runtime functions.
fn runs(places: &[Place]) -> Vec<std::ops::Range<usize>> {
    let mut runs = Vec::new();
    let mut start = 0;
    for chunk in places.chunk_by(|one, next| one.kind == next.kind) {
        if chunk.len() > 1 && chunk[0].kind == Kind::Runtime {
            runs.push(start..start + chunk.len());
        }
        start += chunk.len();
    }
    runs
}

/// Old and new frames.
struct FrameTable {
    frames: Vec<Frame>,
    ids: FxHashMap<(FrameId, Vec<Option<usize>>), FrameId>,
}

impl FrameTable {
    fn new(frames: &[Frame]) -> Self {
        Self { frames: frames.to_vec(), ids: FxHashMap::default() }
    }

    /// Rebuilds the frames of a stack with its runs folded. The replacement of a run is in the frame of its
    /// outermost function. Frames without functions are removed.
    fn rebuild(
        &mut self,
        stack: &[FrameId],
        places: &[Place],
        runs: &[std::ops::Range<usize>],
        runtime: FunctionId,
    ) -> Vec<FrameId> {
        // The remaining lines of each frame, with `None` for `[runtime]`.
        let mut kept: Vec<Vec<Option<usize>>> = vec![Vec::new(); stack.len()];
        let mut runs = runs.iter().peekable();
        for (index, place) in places.iter().enumerate() {
            while runs.next_if(|run| run.end <= index).is_some() {}
            match runs.peek() {
                Some(run) if run.contains(&index) => {
                    if index + 1 == run.end {
                        kept[place.frame].push(None);
                    }
                }
                _ => kept[place.frame].push(Some(place.line)),
            }
        }
        let kept = stack.iter().zip(kept).filter(|(_, lines)| !lines.is_empty());
        kept.map(|(&frame, lines)| self.with_lines(frame, lines, runtime)).collect()
    }

    fn with_lines(
        &mut self,
        frame: FrameId,
        lines: Vec<Option<usize>>,
        runtime: FunctionId,
    ) -> FrameId {
        let Some(old) = self.frames.get(frame as usize) else { return frame };
        let is_whole = lines.len() == old.lines.len() && lines.iter().all(Option::is_some);
        if is_whole {
            return frame;
        }
        if let Some(&id) = self.ids.get(&(frame, lines.clone())) {
            return id;
        }
        let line = |line: &Option<usize>| match line {
            Some(line) => old.lines.get(*line).cloned(),
            None => Some(Line { function: runtime, file: None, line: None }),
        };
        let new = Frame { lines: lines.iter().filter_map(line).collect(), ..old.clone() };
        self.frames.push(new);
        let id = self.frames.len() as FrameId - 1;
        self.ids.insert((frame, lines), id);
        id
    }
}

/// Stacks before and after folding, and normalized names.
#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use proptest::prelude::*;

    use super::{
        fold_runtime,
        rules::{self, Kind},
    };
    use crate::fold::rules::{Plain, plain};
    use crate::model::{
        Binary, BinaryKind, Blocked, Completeness, Durations, Frame, Function, FunctionId,
        Interval, Line, Meta, Mode, Process, Profile, Sample, Stack, State, Thread,
    };

    const KINDS: [BinaryKind; 3] = [BinaryKind::User, BinaryKind::Kernel, BinaryKind::State];

    /// A profile with a sample of each stack. Functions are listed outermost first. The prefix `+` means inlined into
    /// the previous one, the suffix `_[k]` a kernel function, brackets a state.
    fn profile(stacks: &[&[&str]]) -> Profile {
        let system = "Linux".to_owned();
        let (start, target) = (SystemTime::UNIX_EPOCH, "a".to_owned());
        let binary = |kind| Binary {
            kind,
            path: "/a".to_owned(),
            build_id: Vec::new(),
            text: (0, 1),
            text_offset: 0,
        };
        let mut profile = Profile {
            binaries: KINDS.map(binary).into(),
            processes: vec![Process {
                pid: 1,
                parent: None,
                name: "a".to_owned(),
                start_ns: 0,
                end_ns: None,
            }],
            threads: vec![Thread {
                process: 0,
                tid: 1,
                name: "a".to_owned(),
                start_ns: 0,
                end_ns: None,
                on_cpu_ns: None,
            }],
            ..Profile::new(Meta {
                mode: Mode::OnCpu,
                target,
                start,
                start_ns: 0,
                duration_ns: 1,
                frequency_hz: 1,
                period: 1,
                fault_bytes: 0,
                system,
            })
        };
        for names in stacks {
            let frames = frames(&mut profile, names);
            let stack = profile.stacks.len() as u32;
            profile.stacks.push(Stack { frames, completeness: Completeness::Complete });
            profile.samples.push(Sample { time_ns: 0, thread: 0, stack, cpu: 0 });
        }
        profile
    }

    fn frames(profile: &mut Profile, names: &[&str]) -> Vec<u32> {
        let mut frames: Vec<Frame> = Vec::new();
        for name in names {
            let bare = name.trim_start_matches('+');
            let function = Function { name: bare.to_owned(), is_symbol: true };
            let known = profile.functions.iter().position(|known| *known == function);
            let id = known.unwrap_or_else(|| {
                profile.functions.push(function);
                profile.functions.len() - 1
            });
            let line = Line { function: id as FunctionId, file: None, line: None };
            let binary = match bare {
                name if name.ends_with("_[k]") => 1,
                name if name.starts_with('[') => 2,
                _ => 0,
            };
            match frames.last_mut() {
                // Innermost first.
                Some(frame) if name.starts_with('+') => frame.lines.insert(0, line),
                _ => frames.push(Frame {
                    binary: Some(binary),
                    address: id as u64,
                    lines: vec![line],
                }),
            }
        }
        let first = profile.frames.len() as u32;
        let ids: Vec<u32> = (first..first + frames.len() as u32).rev().collect();
        profile.frames.extend(frames);
        ids
    }

    /// Names of a sample's stack, outermost first.
    fn names(profile: &Profile, sample: usize) -> Vec<String> {
        let frames = profile.frames_of(profile.samples[sample].stack);
        let mut names: Vec<String> = frames
            .flat_map(|frame| profile.functions_at(frame).map(|function| function.name.clone()))
            .collect();
        names.reverse();
        names
    }

    fn check(stack: &[&str], expected: &[&str]) {
        let mut profile = profile(&[stack]);
        let folded = fold_runtime(&mut profile);
        assert_eq!(names(&profile, 0), expected);
        let is_changed = stack.len() != expected.len();
        assert_eq!(folded.samples, u64::from(is_changed));
        if is_changed {
            assert_eq!(folded.functions_before, stack.len() as u64);
            assert_eq!(folded.functions_after, expected.len() as u64);
        }
    }

    const THREAD: &[&str] = &[
        "clone3",
        "start_thread",
        "<std::sys::thread::unix::Thread>::new::thread_start",
        "<alloc::boxed::Box<dyn core::ops::function::FnOnce<(), Output = ()> + core::marker::Send> as core::ops::function::FnOnce<()>>::call_once",
        "+core::ops::function::FnOnce::call_once{{vtable.shim}}",
        "std::thread::lifecycle::spawn_unchecked::{{closure}}",
        "+std::panic::catch_unwind",
        "+std::panicking::catch_unwind::do_call",
        "<core::panic::unwind_safe::AssertUnwindSafe<F> as core::ops::function::FnOnce<()>>::call_once",
        "std::sys::backtrace::__rust_begin_short_backtrace",
    ];

    #[test]
    fn how_threads_and_programs_begin() {
        check(
            &[THREAD, &["a::worker", "a::work"]].concat(),
            &["[runtime]", "a::worker", "a::work"],
        );
        // The function that a closure was inlined into is the runtime's; the closure is not.
        check(
            &[THREAD, &["+a::main::{{closure}}"]].concat(),
            &["[runtime]", "a::main::{{closure}}"],
        );
        check(
            &[
                "_start",
                "__libc_start_main@@GLIBC_2.34",
                "__libc_start_call_main",
                "main",
                "std::rt::lang_start_internal",
                "std::panic::catch_unwind::<std::rt::lang_start_internal::{closure#0}, isize>",
                "core::ops::function::impls::<impl core::ops::function::FnOnce<A> for &F>::call_once",
                "std::rt::lang_start::{{closure}}",
                "a::main",
                "a::work",
            ],
            &["[runtime]", "a::main", "a::work"],
        );
        // The `main` of C is user code.
        check(
            &["_start", "__libc_start_call_main", "main", "work"],
            &["[runtime]", "main", "work"],
        );
        check(&["main", "work"], &["main", "work"]);
    }

    #[test]
    fn from_a_thread_of_tokio_to_a_task() {
        let worker = [
            "tokio::runtime::blocking::pool::Inner::run",
            "tokio::runtime::task::UnownedTask<S>::run",
            "tokio::runtime::task::raw::RawTask::poll",
            "<tokio::runtime::blocking::task::BlockingTask<T> as core::future::future::Future>::poll",
            "tokio::runtime::scheduler::multi_thread::worker::run",
            "tokio::runtime::context::set_scheduler",
            "+std::thread::local::LocalKey<T>::with",
            "+std::thread::local::LocalKey<T>::try_with",
            "+tokio::runtime::context::set_scheduler::{{closure}}",
            "tokio::runtime::scheduler::multi_thread::worker::Context::run",
        ];
        let task = [
            "tokio::runtime::scheduler::multi_thread::worker::Context::run_task",
            "+tokio::task::coop::budget",
            "tokio::runtime::task::harness::Harness<T,S>::poll",
            "std::panicking::try",
            "tokio::runtime::task::core::Core<T,S>::poll::{{closure}}",
            "+<core::pin::Pin<P> as core::future::future::Future>::poll",
            "+<futures_util::future::future::map::Map<Fut,F> as core::future::future::Future>::poll",
        ];
        let own = ["+a::serve::{{closure}}", "a::parse"];
        check(
            &[THREAD, &worker[..], &task[..], &own[..]].concat(),
            &["[runtime]", "a::serve::{{closure}}", "a::parse"],
        );
        // A runtime's own work is not folded.
        let park = ["tokio::runtime::scheduler::multi_thread::worker::Context::park", "epoll_wait"];
        check(&[THREAD, &worker[..], &park[..]].concat(), &["[runtime]", park[0], park[1]]);
        // A future of the program that awaits another of its own.
        let inner = "<a::Timed<F> as core::future::future::Future>::poll";
        check(
            &[&task[..], &["a::serve::{{closure}}", inner, "a::parse"]].concat(),
            &["[runtime]", "a::serve::{{closure}}", inner, "a::parse"],
        );
    }

    #[test]
    fn the_innermost_function_stays_and_so_does_one_alone() {
        check(
            &["_start", "__libc_start_main", "__libc_start_call_main"],
            &["[runtime]", "__libc_start_call_main"],
        );
        check(
            &["std::panicking::try", "std::panic::catch_unwind"],
            &["std::panicking::try", "std::panic::catch_unwind"],
        );
        let alone = ["a::main", "core::ops::function::FnOnce::call_once", "a::work"];
        check(&alone, &alone);
        let last = ["clone3", "start_thread", "std::panicking::try", "futex_[k]", "[sleeping]"];
        check(&last, &["[runtime]", "futex_[k]", "[sleeping]"]);
        check(
            &["clone3", "start_thread", "std::panicking::try", "[sleeping]"],
            &["[runtime]", "std::panicking::try", "[sleeping]"],
        );
        check(&[], &[]);
    }

    #[test]
    fn only_what_is_unmistakable_is_the_runtimes() {
        let own = [
            "a::clone3",
            "a::start_thread",
            "my::tokio::runtime::task::raw::poll",
            "tokio::runtime::time::Driver::park",
            "tokio::sync::mpsc::chan::Rx<T>::recv",
            "std::thread::park",
            "std::panicking::begin_panic",
            "std::panicking::tryout",
            "<a::Catch as a::Run>::catch_unwind",
            "core::iter::traits::iterator::Iterator::fold",
            "_PyEval_EvalFrameDefault",
            "node::Start",
        ];
        for name in own {
            assert_eq!(rules::kind(name), Kind::Own, "{name}");
        }
        // A program with inner functions of these names.
        check(
            &["_start", "main", "clone", "start_thread", "work"],
            &["_start", "main", "clone", "start_thread", "work"],
        );
    }

    #[test]
    fn names_are_alike_in_all_their_forms() {
        let check = |name, path: &str, of: Option<&str>| {
            assert_eq!(plain(name), Plain { path: path.to_owned(), of: of.map(str::to_owned) });
        };
        check("a::b::h0123456789abcdef", "a::b", None);
        check("a::b::hello", "a::b::hello", None);
        check("a::B<T,S>::c", "a::B::c", None);
        check("a::b::<fn(u8) -> <T as D>::E>::{closure#12}", "a::b::{closure}", None);
        check("<a::B<T>>::c::<u8>", "a::B::c", None);
        check("<a::B<C<D>> as e::F<G>>::h", "e::F::h", Some("a::B"));
        check("<&a::B as e::F>::h{{vtable.shim}}", "e::F::h", Some("a::B"));
        check("f@@GLIBC_2.34", "f", None);
        check("", "", None);
        check("<", "", None);
        check("operator->", "operator-", None);
    }

    #[test]
    fn stacks_that_become_equal_become_one_and_nothing_else_changes() {
        let one = ["a::f", "std::panicking::try", "std::panic::catch_unwind", "a::g"];
        let other = ["a::f", "std::panicking::try", "std::panic::catch_unwind", "a::h"];
        let mut profile = profile(&[&one, &other, &one]);
        // Equal addresses again.
        profile.stacks[2] = profile.stacks[0].clone();
        let blocked = |stack| Blocked {
            thread: 0,
            stack,
            state: State::Sleeping,
            count: 2,
            total_ns: 7,
            histogram: Durations::default(),
        };
        profile.blocked = [0, 1, 2].map(blocked).into();
        let interval = |blocked| Interval { blocked, start_ns: 1, end_ns: 2 };
        profile.intervals = [2, 1].map(interval).into();
        let samples = profile.samples.len();
        let folded = fold_runtime(&mut profile);
        assert_eq!((profile.samples.len(), profile.stacks.len()), (samples, 2));
        assert_eq!(names(&profile, 2), ["a::f", "[runtime]", "a::g"]);
        let counts: Vec<_> =
            folded.names.iter().map(|name| (name.name.as_str(), name.count)).collect();
        // A sample and two blocks of each stack.
        assert_eq!(counts, [("std::panicking::try", 9), ("std::panic::catch_unwind", 9)]);
        let rows: Vec<_> = profile.blocked.iter().map(|row| (row.count, row.total_ns)).collect();
        assert_eq!(rows, [(4, 14), (2, 7)]);
        assert_eq!(profile.intervals.iter().map(|it| it.blocked).collect::<Vec<_>>(), [0, 1]);
    }

    proptest! {
        #[test]
        fn any_name_is_read(name in "([a-z:<>{}&@ -]|<|>| as |::|\\{\\{closure\\}\\}|\\PC){0,24}") {
            let Plain { path, of } = plain(&name);
            prop_assert!(path.len() <= name.len() && of.is_none_or(|of| of.len() <= name.len()));
            let _ = rules::kind(&name);
        }

        #[test]
        fn own_functions_stay_in_their_order(picks in prop::collection::vec(0..8_usize, 0..24)) {
            let pool = [
                "a::f", "a::g", "std::panicking::try", "clone3", "main", "std::rt::lang_start",
                "std::thread::local::LocalKey<T>::with", "+core::ops::function::FnOnce::call_once",
            ];
            let stack: Vec<&str> = picks.iter().map(|&pick| pool[pick]).collect();
            let mut profile = profile(&[&stack]);
            let before = names(&profile, 0);
            fold_runtime(&mut profile);
            let after = names(&profile, 0);
            let own = |names: &[String]| -> Vec<String> {
                names.iter().filter(|name| name.starts_with("a::")).cloned().collect()
            };
            prop_assert_eq!(own(&before), own(&after));
            prop_assert_eq!(before.last(), after.last());
            prop_assert!(!after.windows(2).any(|pair| pair.iter().all(|name| name == "[runtime]")));
        }
    }
}
