//! pprof's `profile.proto`, gzip'd: the format of `go tool pprof`, Pyroscope, Parca and speedscope.
//!
//! Samples are merged by stack and thread. Processes, threads and states are labels, so that `-tagfocus
//! thread=worker` and `-tagroot process` work. The values of a sample depend on the mode: see [`Value`].

use std::io::Write;
use std::time::UNIX_EPOCH;

use rustc_hash::FxHashMap;
use wingbeat_pprof::pprof::{Strings, pack};
use wingbeat_pprof::proto;

use super::{Checked, ExportError, add_up};
use crate::model::{
    BinaryId, BinaryKind, Frame, FrameId, FunctionId, Mode, Profile, StackId, State, ThreadId,
    Weight,
};

/// Label with the process name; `wingbeat diff` reads it back.
pub(crate) const PROCESS_LABEL: &str = "process";

/// A value type of the samples.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Value {
    /// `wingbeat diff` reads it back.
    pub(crate) name: &'static str,
    /// `wingbeat diff` reads it back.
    pub(crate) unit: &'static str,
    /// Its part of a weight; `None` for the sum of others.
    of: Option<fn(&mut Weight) -> &mut u64>,
}

const COUNT: &str = "count";
const BYTES: &str = "bytes";
const NANOSECONDS: &str = "nanoseconds";

impl Value {
    pub(crate) const SAMPLES: Self = Self::new("samples", COUNT, |it| &mut it.samples);
    const CPU: Self = Self::new("cpu", NANOSECONDS, |it| &mut it.on_cpu_ns);
    /// Number of times that a thread left the CPU.
    const BLOCKS: Self = Self::new("blocks", COUNT, |it| &mut it.blocks);
    pub(crate) const OFF_CPU: Self = Self::new("off_cpu", NANOSECONDS, |it| &mut it.off_cpu_ns);
    /// Time on and off the CPU.
    pub(crate) const WALL: Self = Self { name: "wall", unit: NANOSECONDS, of: None };
    /// Allocated blocks and bytes.
    const ALLOCATED_OBJECTS: Self = Self::new("alloc_objects", COUNT, |it| &mut it.allocated.0);
    const ALLOCATED_SPACE: Self = Self::new("alloc_space", BYTES, |it| &mut it.allocated.1);
    /// Blocks and bytes not freed.
    const LIVE_OBJECTS: Self = Self::new("inuse_objects", COUNT, |it| &mut it.live.0);
    pub(crate) const LIVE_SPACE: Self = Self::new("inuse_space", BYTES, |it| &mut it.live.1);
    /// Page faults, and the memory that they made resident.
    const FAULTS: Self = Self::new("page_faults", COUNT, |it| &mut it.live.0);
    pub(crate) const GROWN: Self = Self::new("touched_space", BYTES, |it| &mut it.live.1);
    /// Calls that requested address space, their bytes, and the bytes not released.
    const MAPPINGS: Self = Self::new("mappings", COUNT, |it| &mut it.mapped.0);
    const MAPPED_SPACE: Self = Self::new("mapped_space", BYTES, |it| &mut it.mapped.1);
    const KEPT_SPACE: Self = Self::new("kept_space", BYTES, |it| &mut it.kept_bytes);

    const fn new(name: &'static str, unit: &'static str, of: fn(&mut Weight) -> &mut u64) -> Self {
        Self { name, unit, of: Some(of) }
    }

    /// The values of a mode. `has_space` says whether the page mode recorded address space. The last value is the
    /// default of tools.
    pub(crate) fn of(mode: Mode, has_space: bool) -> &'static [Self] {
        match mode {
            Mode::OnCpu => &[Self::SAMPLES, Self::CPU],
            Mode::OffCpu => &[Self::BLOCKS, Self::OFF_CPU],
            Mode::Wall => &[Self::SAMPLES, Self::CPU, Self::BLOCKS, Self::OFF_CPU, Self::WALL],
            Mode::Pages if !has_space => &[Self::FAULTS, Self::GROWN],
            Mode::Pages => {
                &[Self::MAPPINGS, Self::MAPPED_SPACE, Self::KEPT_SPACE, Self::FAULTS, Self::GROWN]
            }
            // As in Go (runtime/pprof/protomem.go).
            Mode::Heap => &[
                Self::ALLOCATED_OBJECTS,
                Self::ALLOCATED_SPACE,
                Self::LIVE_OBJECTS,
                Self::LIVE_SPACE,
            ],
        }
    }

    /// Whether a sample type is this one.
    pub(crate) fn is(self, name: &str, unit: &str) -> bool {
        (self.name, self.unit) == (name, unit)
    }

    /// Stores a value that was read in a weight.
    pub(crate) fn put(self, weight: &mut Weight, value: u64) {
        if let Some(of) = self.of {
            *of(weight) = value;
        }
    }

    fn in_weight(self, mut weight: Weight) -> i64 {
        let value = match self.of {
            Some(of) => *of(&mut weight),
            None => weight.on_cpu_ns.saturating_add(weight.off_cpu_ns),
        };
        clamped(value.into())
    }
}

/// Identity of a sample in the file. The state follows from the stack, and is separate only for the label.
type Key = (StackId, ThreadId, Option<State>);

pub(super) fn write(
    profile: Checked<'_>,
    has_labels: bool,
    writer: &mut dyn Write,
) -> Result<(), ExportError> {
    Ok(pack(&Builder { has_labels, ..Builder::new(profile.profile()) }.build(), writer)?)
}

/// The message being built, and the ids assigned so far.
struct Builder<'a> {
    profile: &'a Profile,
    /// Distinguish processes and threads.
    has_labels: bool,
    message: proto::Profile,
    strings: Strings<'a>,
    mappings: FxHashMap<BinaryId, u64>,
    locations: FxHashMap<FrameId, u64>,
    functions: FxHashMap<(FunctionId, Option<&'a str>), u64>,
}

impl<'a> Builder<'a> {
    fn new(profile: &'a Profile) -> Self {
        Self {
            profile,
            has_labels: true,
            message: proto::Profile::default(),
            strings: Strings::default(),
            mappings: FxHashMap::default(),
            locations: FxHashMap::default(),
            functions: FxHashMap::default(),
        }
    }

    fn values(&self) -> &'static [Value] {
        Value::of(self.profile.meta.mode, self.profile.mapped.is_some())
    }

    fn build(mut self) -> proto::Profile {
        self.circumstances();
        let profile = self.profile;
        let running = (profile.meta.mode == Mode::Wall).then_some(State::Running);
        let states = profile.samples.iter().map(|_| running);
        let states = states.chain(profile.blocked.iter().map(|blocked| Some(blocked.state)));
        let states = states.chain(profile.sites.iter().chain(profile.mapped_sites()).map(|_| None));
        let states = states.chain(profile.sums.iter().map(|_| None));
        let weights = profile.weights().zip(states);
        let sums = add_up(weights.map(|(((stack, thread), weight), state)| {
            let thread = if self.has_labels { thread } else { 0 };
            ((stack, thread, state), weight)
        }));
        // Tools take the first mapping to be the program.
        if let Some(binary) = main_binary(profile, &sums) {
            self.mapping(binary);
        }
        for (key, weight) in sums {
            let sample = self.sample(key, weight);
            self.message.sample.push(sample);
        }
        self.message.string_table = self.strings.into_table();
        self.message
    }

    /// Writes the types of the values, and when and how they were measured.
    fn circumstances(&mut self) {
        let meta = &self.profile.meta;
        let values = self.values();
        let types = values.iter().map(|&value| self.value_type(value)).collect();
        self.message.sample_type = types;
        self.message.default_sample_type =
            values.last().map_or(0, |last| self.strings.number(last.name));
        let (period_of, period) = match meta.mode {
            Mode::OnCpu | Mode::Wall => (Value::CPU, clamped(meta.period.into())),
            // Every block is recorded, to the nanosecond.
            Mode::OffCpu => (Value::OFF_CPU, 1),
            // Bytes between samples; 1 for exact recordings.
            Mode::Heap => (Value::LIVE_SPACE, clamped(meta.period.max(1).into())),
            Mode::Pages => (Value::GROWN, clamped(meta.period.into())),
        };
        self.message.period_type = Some(self.value_type(period_of));
        self.message.period = period;
        self.message.time_nanos = match meta.start.duration_since(UNIX_EPOCH) {
            Ok(since) => clamped(since.as_nanos()),
            Err(before) => -clamped(before.duration().as_nanos()),
        };
        self.message.duration_nanos = clamped(meta.duration_ns.into());
        let tool = self.strings.number(concat!("wingbeat ", env!("CARGO_PKG_VERSION")));
        self.message.comment =
            vec![tool, self.strings.number(&meta.target), self.strings.number(&meta.system)];
    }

    fn value_type(&mut self, value: Value) -> proto::ValueType {
        proto::ValueType {
            r#type: self.strings.number(value.name),
            unit: self.strings.number(value.unit),
        }
    }

    fn sample(&mut self, (stack, thread, state): Key, weight: Weight) -> proto::Sample {
        let frames = &self.profile.stacks[stack as usize].frames;
        let location_id = frames.iter().map(|&frame| self.location(frame)).collect();
        let values = self.values();
        let value = values.iter().map(|value| value.in_weight(weight)).collect();
        if !self.has_labels {
            return proto::Sample { location_id, value, label: Vec::new() };
        }
        let thread = &self.profile.threads[thread as usize];
        let process = &self.profile.processes[thread.process as usize];
        let mut label = vec![self.text_label(PROCESS_LABEL, &process.name)];
        // Several processes together have no PID.
        if process.pid != 0 {
            label.extend([
                self.number_label("pid", process.pid),
                self.text_label("thread", &thread.name),
                self.number_label("tid", thread.tid),
            ]);
        }
        if let Some(state) = state {
            label.push(self.text_label("state", state.name()));
        }
        proto::Sample { location_id, value, label }
    }

    fn text_label(&mut self, key: &'static str, text: &'a str) -> proto::Label {
        proto::Label {
            key: self.strings.number(key),
            str: self.strings.number(text),
            ..Default::default()
        }
    }

    fn number_label(&mut self, key: &'static str, number: u32) -> proto::Label {
        let key = self.strings.number(key);
        // Without a unit, pprof formats numbers as bytes. With the key as the unit, it prints them unchanged.
        proto::Label { key, num: number.into(), num_unit: key, ..Default::default() }
    }

    fn location(&mut self, id: FrameId) -> u64 {
        if let Some(&location) = self.locations.get(&id) {
            return location;
        }
        let frame = &self.profile.frames[id as usize];
        // A state is in no file, and tools would look for one.
        let file = frame.binary.filter(|&binary| !is_state(self.profile, binary));
        let mapping_id = file.map_or(0, |binary| self.mapping(binary));
        self.note_symbols(mapping_id, frame);
        let line = frame
            .lines
            .iter()
            .map(|line| proto::Line {
                function_id: self.function(line.function, line.file.as_deref()),
                line: line.line.unwrap_or(0).into(),
            })
            .collect();
        let id_given = self.message.location.len() as u64 + 1;
        let address = frame.address;
        self.message.location.push(proto::Location { id: id_given, mapping_id, address, line });
        self.locations.insert(id, id_given);
        id_given
    }

    fn mapping(&mut self, id: BinaryId) -> u64 {
        if let Some(&mapping) = self.mappings.get(&id) {
            return mapping;
        }
        let binary = &self.profile.binaries[id as usize];
        let build_id: String = binary.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        let id_given = self.message.mapping.len() as u64 + 1;
        let mapping = proto::Mapping {
            id: id_given,
            // ELF addresses, like those of the locations, as if each file were mapped at its preferred address.
            // Disassemblers then need not know the actual address.
            memory_start: binary.text.0,
            memory_limit: binary.text.1,
            file_offset: binary.text_offset,
            filename: self.strings.number(&binary.path),
            build_id: self.strings.number_of_own(build_id),
            ..Default::default()
        };
        self.message.mapping.push(mapping);
        self.mappings.insert(id, id_given);
        id_given
    }

    /// Sets a mapping's flags by the symbols of its frames. Tools look up the rest.
    fn note_symbols(&mut self, mapping_id: u64, frame: &Frame) {
        let Some(position) = mapping_id.checked_sub(1) else { return };
        let mapping = &mut self.message.mapping[position as usize];
        mapping.has_functions |=
            frame.lines.iter().any(|line| self.profile.functions[line.function as usize].is_symbol);
        mapping.has_filenames |= frame.lines.iter().any(|line| line.file.is_some());
        mapping.has_line_numbers |= frame.lines.iter().any(|line| line.line.is_some());
        mapping.has_inline_frames |= frame.lines.len() > 1;
    }

    fn function(&mut self, id: FunctionId, file: Option<&'a str>) -> u64 {
        if let Some(&function) = self.functions.get(&(id, file)) {
            return function;
        }
        let name = self.strings.number(&self.profile.functions[id as usize].name);
        let filename = self.strings.number(file.unwrap_or(""));
        let id_given = self.message.function.len() as u64 + 1;
        // If the system name were the same, pprof would take it to be mangled and simplify `<T as Trait>::next` to
        // `::next`.
        let function = proto::Function { id: id_given, name, system_name: 0, filename };
        self.message.function.push(function);
        self.functions.insert((id, file), id_given);
        id_given
    }
}

/// The program: the executable with most samples or time, excluding shared libraries.
fn main_binary(profile: &Profile, sums: &[(Key, Weight)]) -> Option<BinaryId> {
    let mut value_of: FxHashMap<BinaryId, u64> = FxHashMap::default();
    for &((stack, _, _), weight) in sums {
        let innermost = profile.stacks[stack as usize]
            .frames
            .iter()
            .filter_map(|&frame| profile.frames[frame as usize].binary)
            .find(|&binary| is_program(profile, binary));
        if let Some(binary) = innermost {
            let sum = value_of.entry(binary).or_default();
            *sum = u64::saturating_add(*sum, weight.value(profile.meta.mode));
        }
    }
    value_of.into_iter().max_by_key(|&(id, value)| (value, u32::MAX - id)).map(|(id, _)| id)
}

fn is_program(profile: &Profile, id: BinaryId) -> bool {
    let binary = &profile.binaries[id as usize];
    binary.kind == BinaryKind::User && !binary.name().contains(".so")
}

fn is_state(profile: &Profile, id: BinaryId) -> bool {
    profile.binaries[id as usize].kind == BinaryKind::State
}

/// Converts to the schema's signed integers.
fn clamped(value: u128) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
