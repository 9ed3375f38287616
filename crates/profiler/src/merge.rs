//! Merges pprof files of many windows into one profile: bytes in, a [`Profile`] out.
//!
//! Missing information is not made up: there are no PIDs, threads or individual samples. A file is added as a
//! whole or not at all.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::ensure;
use rustc_hash::FxHashMap;
use wingbeat_pprof::{
    Interner,
    pprof::{BYTES_MAX, Dangling, Tables, decoded, unpacked},
    proto,
};

use crate::{
    export::pprof::Value,
    model::{
        Binary, BinaryKind, Completeness, Frame, FrameId, Function, Line, Meta, Mode, Process,
        Profile, Stack, StackId, State, Sum, Thread, ThreadId, Weight,
    },
};

/// Window and process of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part<'a> {
    /// Name of the process: the outermost frame.
    pub process: &'a str,
    pub start: SystemTime,
    pub duration: Duration,
}

/// A merge in progress.
#[derive(Debug)]
pub struct Merge {
    mode: Mode,
    /// Keep windows separate.
    has_timeline: bool,
    functions: Interner<Function>,
    binaries: Interner<Binary>,
    frames: Interner<Frame>,
    stacks: Interner<Stack>,
    /// A process, which is also its only thread.
    processes: Interner<String>,
    sums: FxHashMap<Key, Weight>,
    /// Durations of the windows by start time.
    windows: FxHashMap<SystemTime, Duration>,
    /// Minimum and maximum of all files.
    periods: Option<(u64, u64)>,
    system: String,
    /// Some files have address space as well as page faults.
    has_space: bool,
}

/// If windows are not kept separate, the time is the earliest start.
type Key = (SystemTime, ThreadId, StackId);

impl Merge {
    /// Creates a merge of files of one mode. With a timeline, windows are kept separate, which takes more memory.
    pub fn new(mode: Mode, has_timeline: bool) -> Self {
        Self {
            mode,
            has_timeline,
            functions: Interner::default(),
            binaries: Interner::default(),
            frames: Interner::default(),
            stacks: Interner::default(),
            processes: Interner::default(),
            sums: FxHashMap::default(),
            windows: FxHashMap::default(),
            periods: None,
            has_space: false,
            system: String::new(),
        }
    }

    /// Adds a pprof file, gzip'd or not.
    ///
    /// # Errors
    ///
    /// The file is damaged or of another mode. Nothing is added in that case.
    pub fn add(&mut self, bytes: &[u8], part: &Part<'_>) -> anyhow::Result<()> {
        let message = decoded(&unpacked(bytes, BYTES_MAX)?)?;
        let tables = Tables::new(&message);
        let (positions, has_space) = positions(&tables, self.mode)?;
        let frames = self.frames(&tables)?;
        let mut sums = Vec::with_capacity(message.sample.len());
        for sample in &message.sample {
            let frame = |id: &u64| {
                let missing = Dangling { table: "location", id: (*id).into() };
                frames.get(id).copied().ok_or(missing)
            };
            let frames = sample.location_id.iter().map(frame).collect::<Result<_, _>>()?;
            let stack = self.stacks.id(Stack { frames, completeness: Completeness::Complete });
            sums.push((stack, weight(&positions, sample)));
        }
        if let Some(system) = message.comment.get(2).filter(|_| self.system.is_empty()) {
            tables.string(*system)?.clone_into(&mut self.system);
        }
        self.has_space |= has_space;
        let thread = self.processes.id(part.process.to_owned());
        let window = if self.has_timeline { part.start } else { UNIX_EPOCH };
        for (stack, weight) in sums {
            *self.sums.entry((window, thread, stack)).or_default() += weight;
        }
        let longest = self.windows.entry(part.start).or_default();
        *longest = part.duration.max(*longest);
        let period = u64::try_from(message.period).unwrap_or(0).max(1);
        let (least, greatest) = self.periods.unwrap_or((period, period));
        self.periods = Some((least.min(period), greatest.max(period)));
        Ok(())
    }

    /// Number of windows and total time covered.
    pub fn windows(&self) -> (usize, Duration) {
        (self.windows.len(), self.windows.values().sum())
    }

    /// Returns the merged profile. Samples with different rates are scaled to the highest.
    pub fn finish(self, target: String) -> Profile {
        let meta = self.meta(target);
        let mut sums: Vec<(Key, Weight)> = self.sums.into_iter().collect();
        sums.sort_unstable_by_key(|(key, _)| *key);
        let has_rates = self.periods.is_some_and(|(least, greatest)| least != greatest);
        if self.mode == Mode::OnCpu && has_rates {
            let samples = |on_cpu_ns: u64| (on_cpu_ns + meta.period / 2) / meta.period;
            for (_, weight) in &mut sums {
                weight.samples = samples(weight.on_cpu_ns).max(weight.samples.min(1));
            }
        }
        let process =
            |name: String| Process { pid: 0, parent: None, name, start_ns: 0, end_ns: None };
        let processes: Vec<Process> = self.processes.entries.into_iter().map(process).collect();
        let thread = |(id, process): (u32, &Process)| Thread {
            process: id,
            tid: 0,
            name: process.name.clone(),
            start_ns: 0,
            end_ns: None,
            on_cpu_ns: None,
        };
        Profile {
            functions: self.functions.entries,
            binaries: self.binaries.entries,
            frames: self.frames.entries,
            stacks: self.stacks.entries,
            threads: (0..).zip(&processes).map(thread).collect(),
            processes,
            mapped: self.has_space.then(Vec::new),
            sums: spread(&sums, &self.windows, meta.start),
            ..Profile::new(meta)
        }
    }

    fn meta(&self, target: String) -> Meta {
        let start = self.windows.keys().min().copied().unwrap_or(UNIX_EPOCH);
        let ends = self.windows.iter().filter_map(|(start, length)| start.checked_add(*length));
        let period = self.periods.map_or(1, |(least, _)| least);
        Meta {
            mode: self.mode,
            target,
            start,
            start_ns: 0,
            duration_ns: ends.max().map_or(0, |end| since(start, end)),
            frequency_hz: (1_000_000_000 + period / 2) / period,
            period,
            fault_bytes: 0,
            system: self.system.clone(),
        }
    }

    /// Adds the frames of all locations.
    fn frames(&mut self, tables: &Tables<'_>) -> Result<FxHashMap<u64, FrameId>, Dangling> {
        let mappings: FxHashMap<u64, &proto::Mapping> =
            tables.message.mapping.iter().map(|it| (it.id, it)).collect();
        let mut frames = FxHashMap::default();
        for location in &tables.message.location {
            let file = tables.file(location.mapping_id)?;
            let module = file.rsplit('/').next().unwrap_or(file);
            let placeholder = format!("{module}+0x");
            let mut lines = Vec::with_capacity(location.line.len());
            for line in &location.line {
                let function = tables.function(line.function_id)?;
                let (name, path) =
                    (tables.string(function.name)?, tables.string(function.filename)?);
                lines.push(Line {
                    function: self.function(name, &placeholder),
                    file: (!path.is_empty()).then(|| path.to_owned()),
                    line: u32::try_from(line.line).ok().filter(|line| *line > 0),
                });
            }
            if lines.is_empty() {
                let name = format!("{placeholder}{:x}", location.address);
                let function = self.function(&name, &placeholder);
                lines.push(Line { function, file: None, line: None });
            }
            let binary = match mappings.get(&location.mapping_id) {
                Some(mapping) => Some(self.binaries.id(binary(tables, file, mapping)?)),
                None if self.is_state(&lines) => Some(self.binaries.id(states())),
                None => None,
            };
            let frame = Frame { binary, address: location.address, lines };
            frames.insert(location.id, self.frames.id(frame));
        }
        Ok(frames)
    }

    fn function(&mut self, name: &str, placeholder: &str) -> u32 {
        // At an unmapped address the name is the address alone; in unnamed memory, the mapping's name.
        let of_nothing =
            name.starts_with(placeholder) || placeholder.strip_suffix("+0x") == Some(name);
        let is_symbol = !of_nothing && !name.starts_with("0x");
        self.functions.id(Function { name: name.to_owned(), is_symbol })
    }

    /// Whether the lines are a state or a waker instead of code.
    fn is_state(&self, lines: &[Line]) -> bool {
        let name = |line: &Line| Some(&self.functions.entries.get(line.function as usize)?.name);
        self.mode.blocks()
            && lines.first().and_then(name).is_some_and(|name| {
                State::ALL.iter().any(|state| state.frame() == name)
                    || name.starts_with("[woken by ")
            })
    }
}

/// Positions of a mode's values in each sample, and whether some are about address space.
fn positions(tables: &Tables<'_>, mode: Mode) -> anyhow::Result<(Vec<(usize, Value)>, bool)> {
    let mut positions = Vec::new();
    for value in Value::of(mode, true) {
        for (position, it) in tables.message.sample_type.iter().enumerate() {
            if value.is(tables.string(it.r#type)?, tables.string(it.unit)?) {
                positions.push((position, *value));
            }
        }
    }
    let has = |values: &[Value]| {
        values.iter().all(|it| positions.iter().any(|(_, at)| at.name == it.name))
    };
    let has_space = mode == Mode::Pages && has(Value::of(mode, true));
    let values = Value::of(mode, has_space);
    ensure!(positions.len() == values.len() && has(values), "it has no values of {}", mode.name());
    Ok((positions, has_space))
}

fn weight(positions: &[(usize, Value)], sample: &proto::Sample) -> Weight {
    let mut weight = Weight::default();
    for (position, value) in positions {
        // Negative values are a difference of two profiles, and have no width.
        let found = sample.value.get(*position).and_then(|it| u64::try_from(*it).ok());
        value.put(&mut weight, found.unwrap_or(0));
    }
    weight
}

/// Spreads the sums of each window and thread over the window's time.
fn spread(
    sums: &[(Key, Weight)],
    windows: &FxHashMap<SystemTime, Duration>,
    start: SystemTime,
) -> Vec<Sum> {
    let mut spread = Vec::with_capacity(sums.len());
    for group in sums.chunk_by(|((a, of_a, _), _), ((b, of_b, _), _)| (a, of_a) == (b, of_b)) {
        for (number, ((window, thread, stack), weight)) in (1_u64..).zip(group) {
            let length_ns = windows.get(window).map_or(0, |it| it.as_nanos() as u64);
            let part_ns = u128::from(length_ns) * u128::from(number) / group.len() as u128;
            let time_ns = since(start, *window).saturating_add(part_ns as u64);
            spread.push(Sum { thread: *thread, stack: *stack, time_ns, weight: *weight });
        }
    }
    spread
}

fn since(start: SystemTime, time: SystemTime) -> u64 {
    time.duration_since(start).map_or(0, |it| u64::try_from(it.as_nanos()).unwrap_or(u64::MAX))
}

fn binary(tables: &Tables<'_>, path: &str, mapping: &proto::Mapping) -> Result<Binary, Dangling> {
    let kind = match path {
        "[kernel]" => BinaryKind::Kernel,
        "[bpf]" => BinaryKind::Bpf,
        "[vdso]" => BinaryKind::Vdso,
        path if path.is_empty() || path.starts_with('[') => BinaryKind::Anonymous,
        _ => BinaryKind::User,
    };
    let build_id = tables.string(mapping.build_id)?;
    Ok(Binary {
        kind,
        path: path.to_owned(),
        build_id: bytes_of(build_id).unwrap_or_default(),
        text: (mapping.memory_start, mapping.memory_limit),
        text_offset: mapping.file_offset,
    })
}

/// Decodes hexadecimal digits.
fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

fn states() -> Binary {
    let path = "[state]".to_owned();
    Binary { kind: BinaryKind::State, path, build_id: Vec::new(), text: (0, 0), text_offset: 0 }
}
