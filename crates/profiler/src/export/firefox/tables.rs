//! The document as written: version 55 of
//! <https://github.com/firefox-devtools/profiler/blob/main/src/types/profile.ts>, and how the tables of a thread are
//! filled.
//!
//! A table is an object of columns of equal length.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::model::{
    Binary, BinaryId, BinaryKind, Frame, FrameId, FunctionId, Profile, StackId, State,
};

/// A list that is always empty.
type Empty = [(); 0];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Document<'a> {
    pub meta: serde_json::Value,
    pub libs: Vec<Library<'a>>,
    pub threads: Vec<Thread<'a>>,
    pub pages: Empty,
    pub profiler_overhead: Empty,
    pub counters: Empty,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Library<'a> {
    pub name: &'a str,
    pub path: &'a str,
    pub debug_name: &'a str,
    pub debug_path: &'a str,
    pub breakpad_id: String,
    pub code_id: Option<String>,
    pub arch: Option<()>,
}

/// Times are in milliseconds since the start.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Thread<'a> {
    pub name: &'a str,
    pub is_main_thread: bool,
    pub pid: String,
    pub tid: String,
    pub process_name: &'a str,
    pub process_type: &'static str,
    pub process_startup_time: f64,
    pub process_shutdown_time: Option<f64>,
    pub register_time: f64,
    pub unregister_time: Option<f64>,
    pub paused_ranges: Empty,
    pub show_markers_in_timeline: bool,
    pub samples: Samples,
    pub markers: Markers,
    pub stack_table: Stacks,
    pub frame_table: Frames,
    pub func_table: Functions,
    pub resource_table: Resources,
    pub native_symbols: NativeSymbols,
    pub string_array: Strings<'a>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Samples {
    pub length: usize,
    pub weight_type: &'static str,
    /// Index into the table of stacks.
    pub stack: Vec<Option<usize>>,
    /// Milliseconds since the previous sample.
    pub time_deltas: Vec<f64>,
    pub weight: Vec<Amount>,
    /// In microseconds.
    #[serde(rename = "threadCPUDelta")]
    pub thread_cpu_delta: Vec<u64>,
}

/// The weight of a sample.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Amount {
    /// Samples or bytes.
    Count(u64),
    /// Milliseconds.
    Ms(f64),
}

/// The nodes of the tree of stacks. A stack is a node.
#[derive(Default, Serialize)]
pub(super) struct Stacks {
    pub length: usize,
    pub frame: Vec<usize>,
    /// The caller.
    pub prefix: Vec<Option<usize>>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Frames {
    pub length: usize,
    pub address: Vec<i64>,
    /// 0 for the outermost function, which the others were inlined into.
    pub inline_depth: Vec<usize>,
    pub category: Vec<usize>,
    pub subcategory: Vec<u32>,
    pub func: Vec<usize>,
    pub native_symbol: Vec<Option<()>>,
    #[serde(rename = "innerWindowID")]
    pub inner_window_id: Vec<u32>,
    pub line: Vec<Option<u32>>,
    pub column: Vec<Option<()>>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Functions {
    pub length: usize,
    pub name: Vec<usize>,
    #[serde(rename = "isJS")]
    pub is_js: Vec<bool>,
    #[serde(rename = "relevantForJS")]
    pub relevant_for_js: Vec<bool>,
    /// Index into the table of resources, or -1.
    pub resource: Vec<i64>,
    pub file_name: Vec<Option<usize>>,
    pub line_number: Vec<Option<()>>,
    pub column_number: Vec<Option<()>>,
}

#[derive(Default, Serialize)]
pub(super) struct Resources {
    pub length: usize,
    /// Index into the document's libraries.
    pub lib: Vec<usize>,
    pub name: Vec<usize>,
    pub host: Vec<Option<()>>,
    #[serde(rename = "type")]
    pub kind: Vec<u32>,
}

/// Empty: frames have their functions.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NativeSymbols {
    length: usize,
    address: Empty,
    function_size: Empty,
    lib_index: Empty,
    name: Empty,
}

/// The markers of a thread.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Markers {
    pub length: usize,
    pub category: Vec<usize>,
    pub data: Vec<Marker>,
    pub start_time: Vec<f64>,
    pub end_time: Vec<f64>,
    pub name: Vec<usize>,
    pub phase: Vec<u32>,
}

#[derive(Serialize)]
pub(super) struct Marker {
    #[serde(rename = "type")]
    pub schema: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// Text of the waiting function.
    #[serde(rename = "where")]
    pub place: usize,
}

#[derive(Serialize)]
pub(super) struct Cause {
    pub stack: usize,
}

/// Interner texts.
#[derive(Default, Serialize)]
#[serde(transparent)]
pub(super) struct Strings<'a> {
    #[serde(skip)]
    indices: FxHashMap<&'a str, usize>,
    texts: Vec<&'a str>,
}

impl<'a> Strings<'a> {
    pub(super) fn index(&mut self, text: &'a str) -> usize {
        *self.indices.entry(text).or_insert_with(|| {
            self.texts.push(text);
            self.texts.len() - 1
        })
    }
}

/// The document's "none" in columns that are never null.
const NONE: i64 = -1;
/// `resourceTable.type` of a library.
const RESOURCE_LIBRARY: u32 = 1;

/// The document's list of libraries, shared by all threads.
#[derive(Default)]
pub(super) struct Libraries<'a> {
    indices: FxHashMap<BinaryId, usize>,
    pub list: Vec<Library<'a>>,
}

/// Identity of a function: name, file and library.
type FunctionKey<'a> = (FunctionId, Option<&'a str>, Option<BinaryId>);

pub(super) struct Tables<'a, 'l> {
    profile: &'a Profile,
    libraries: &'l mut Libraries<'a>,
    pub strings: Strings<'a>,
    pub resources: Resources,
    pub functions: Functions,
    pub frames: Frames,
    pub stacks: Stacks,
    resource_ids: FxHashMap<BinaryId, i64>,
    function_ids: FxHashMap<FunctionKey<'a>, usize>,
    /// First row of each frame of the thread.
    frame_ids: FxHashMap<FrameId, usize>,
}

impl<'a, 'l> Tables<'a, 'l> {
    pub(super) fn new(profile: &'a Profile, libraries: &'l mut Libraries<'a>) -> Self {
        Self {
            profile,
            libraries,
            strings: Strings::default(),
            resources: Resources::default(),
            functions: Functions::default(),
            frames: Frames::default(),
            stacks: Stacks::default(),
            resource_ids: FxHashMap::default(),
            function_ids: FxHashMap::default(),
            frame_ids: FxHashMap::default(),
        }
    }

    /// Adds stacks to the tree. Returns the node of each, `None` for an empty one.
    ///
    /// In depth-first order, stacks with the same outer frames are adjacent: a node is new if it is beyond the
    /// prefix shared with the previous stack.
    pub(super) fn add_stacks(
        &mut self,
        stacks: BTreeSet<StackId>,
    ) -> FxHashMap<StackId, Option<usize>> {
        let profile = self.profile;
        let outermost_first = |stack: StackId| profile.stacks[stack as usize].frames.iter().rev();
        let mut stacks: Vec<StackId> = stacks.into_iter().collect();
        stacks.sort_by(|&a, &b| outermost_first(a).cmp(outermost_first(b)));
        let mut nodes = FxHashMap::default();
        // The frames of the last branch added, with the node of each.
        let mut branch: Vec<(FrameId, Option<usize>)> = Vec::new();
        for stack in stacks {
            let frames = outermost_first(stack);
            let shared =
                branch.iter().zip(frames.clone()).take_while(|((a, _), b)| a == *b).count();
            branch.truncate(shared);
            let mut node = branch.last().and_then(|&(_, node)| node);
            for &id in frames.skip(shared) {
                for row in self.frame(id) {
                    self.stacks.frame.push(row);
                    self.stacks.prefix.push(node);
                    node = Some(self.stacks.length);
                    self.stacks.length += 1;
                }
                branch.push((id, node));
            }
            nodes.insert(stack, node);
        }
        nodes
    }

    /// Rows of a frame, one per function, outermost first.
    fn frame(&mut self, id: FrameId) -> std::ops::Range<usize> {
        let frame = &self.profile.frames[id as usize];
        let first = self.frames.length;
        let first = *self.frame_ids.entry(id).or_insert(first);
        if first == self.frames.length {
            let category = category(self.profile, frame);
            for (depth, line) in frame.lines.iter().rev().enumerate() {
                let func = self.function((line.function, line.file.as_deref(), frame.binary));
                let frames = &mut self.frames;
                frames.length += 1;
                frames.address.push(address(self.profile, frame));
                frames.inline_depth.push(depth);
                frames.category.push(category);
                frames.subcategory.push(0);
                frames.func.push(func);
                frames.native_symbol.push(None);
                frames.inner_window_id.push(0);
                frames.line.push(line.line);
                frames.column.push(None);
            }
        }
        first..first + frame.lines.len()
    }

    fn function(&mut self, key: FunctionKey<'a>) -> usize {
        if let Some(&function) = self.function_ids.get(&key) {
            return function;
        }
        let (function, file, binary) = key;
        let name = self.strings.index(&self.profile.functions[function as usize].name);
        let file = file.map(|file| self.strings.index(file));
        let resource = binary.map_or(NONE, |binary| self.resource(binary));
        let functions = &mut self.functions;
        functions.length += 1;
        functions.name.push(name);
        functions.is_js.push(false);
        functions.relevant_for_js.push(false);
        functions.resource.push(resource);
        functions.file_name.push(file);
        functions.line_number.push(None);
        functions.column_number.push(None);
        self.function_ids.insert(key, functions.length - 1);
        functions.length - 1
    }

    fn resource(&mut self, id: BinaryId) -> i64 {
        let binary = &self.profile.binaries[id as usize];
        if binary.kind == BinaryKind::State {
            return NONE;
        }
        if let Some(&resource) = self.resource_ids.get(&id) {
            return resource;
        }
        let Libraries { indices, list } = &mut *self.libraries;
        let library = *indices.entry(id).or_insert_with(|| {
            list.push(library(binary));
            list.len() - 1
        });
        let resources = &mut self.resources;
        resources.lib.push(library);
        resources.name.push(self.strings.index(binary.name()));
        resources.host.push(None);
        resources.kind.push(RESOURCE_LIBRARY);
        let resource = resources.length as i64;
        resources.length += 1;
        self.resource_ids.insert(id, resource);
        resource
    }
}

/// Categories by kind of code: the colours of the activity graph. The states follow.
pub(super) const CODE: [(&str, &str); 5] = [
    ("Other", "grey"),
    ("User", "yellow"),
    ("Kernel", "blue"),
    ("BPF", "green"),
    ("JIT", "purple"),
];
/// Index of the default category.
const OTHER: usize = 0;

pub(super) fn category_of_state(wanted: impl Fn(State) -> bool) -> usize {
    State::ALL.into_iter().position(wanted).map_or(OTHER, |position| CODE.len() + position)
}

fn category(profile: &Profile, frame: &Frame) -> usize {
    let Some(binary) = frame.binary else { return OTHER };
    match profile.binaries[binary as usize].kind {
        BinaryKind::User | BinaryKind::Vdso => 1,
        BinaryKind::Kernel => 2,
        BinaryKind::Bpf => 3,
        BinaryKind::Anonymous => 4,
        // `[woken by …]` has no state.
        BinaryKind::State => match frame.lines.first() {
            Some(line) if profile.meta.mode.blocks() => {
                let name = &profile.functions[line.function as usize].name;
                category_of_state(|state| state.frame() == name)
            }
            _ => OTHER,
        },
    }
}

/// Address relative to the file, if there is one.
fn address(profile: &Profile, frame: &Frame) -> i64 {
    let kind = frame.binary.map(|binary| profile.binaries[binary as usize].kind);
    match kind {
        Some(BinaryKind::User | BinaryKind::Vdso) => i64::try_from(frame.address).unwrap_or(NONE),
        _ => NONE,
    }
}

fn library(binary: &Binary) -> Library<'_> {
    // The first 16 bytes of a build id, padded, as a GUID with age 0: Breakpad's rule for ELF. The first three
    // parts of a GUID are integers, with bytes in the reverse order of the build id's.
    let id = |position: usize| binary.build_id.get(position).copied().unwrap_or(0);
    let guid = [3, 2, 1, 0, 5, 4, 7, 6].into_iter().chain(8..16);
    let breakpad_id =
        guid.map(|position| format!("{:02X}", id(position))).collect::<String>() + "0";
    let code_id: String = binary.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    Library {
        name: binary.name(),
        path: &binary.path,
        debug_name: binary.name(),
        debug_path: &binary.path,
        breakpad_id,
        code_id: (!code_id.is_empty()).then_some(code_id),
        arch: None,
    }
}
