//! The document as written: version 55 of
//! <https://github.com/firefox-devtools/profiler/blob/main/src/types/profile.ts>.
//!
//! A table is an object of columns of equal length.

use rustc_hash::FxHashMap;
use serde::Serialize;

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
