//! The Firefox Profiler's processed profile: a timeline per thread of samples and blocks.
//!
//! [`tables`] has the document as written, which is filled thread by thread.

mod tables;

use std::{
    collections::HashMap,
    io::{self, BufWriter, Write},
    time::{Duration, UNIX_EPOCH},
};

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

use crate::{
    export::{
        Checked, ExportError,
        firefox::tables::{
            Amount, CODE, Cause, Document, Libraries, Marker, Markers, NativeSymbols, Samples,
            Strings, Tables, Thread, category_of_state,
        },
        places,
    },
    model::{Interval, Mode, Profile, Sample, State, Sum},
};

pub(super) fn write(
    profile: Checked<'_>,
    gzip: bool,
    writer: &mut dyn Write,
) -> Result<(), ExportError> {
    let document = document(profile.profile());
    // serde_json writes a few bytes at a time, so both the file and the compressor need a buffer.
    if gzip {
        let mut gzip = BufWriter::new(GzEncoder::new(writer, Compression::fast()));
        serde_json::to_writer(&mut gzip, &document).map_err(io::Error::from)?;
        gzip.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?.flush()?;
    } else {
        let mut writer = BufWriter::new(writer);
        serde_json::to_writer(&mut writer, &document).map_err(io::Error::from)?;
        writer.flush()?;
    }
    Ok(())
}

/// Contents of a thread's timeline.
#[derive(Default)]
struct Timeline<'a> {
    samples: Vec<&'a Sample>,
    intervals: Vec<&'a Interval>,
    sums: Vec<&'a Sum>,
}

fn document(profile: &Profile) -> Document<'_> {
    let mut timelines: Vec<Timeline<'_>> = Vec::new();
    timelines.resize_with(profile.threads.len(), Timeline::default);
    for sample in &profile.samples {
        timelines[sample.thread as usize].samples.push(sample);
    }
    for interval in &profile.intervals {
        let thread = profile.blocked[interval.blocked as usize].thread;
        timelines[thread as usize].intervals.push(interval);
    }
    for sum in &profile.sums {
        timelines[sum.thread as usize].sums.push(sum);
    }
    let pids = unique(profile.processes.iter().map(|process| process.pid));
    let tids = unique(profile.threads.iter().map(|thread| thread.tid));
    let order = order(profile, &pids, &tids);
    let mut libraries = Libraries::default();
    let threads = order
        .iter()
        .map(|&id| {
            let process = profile.threads[id].process as usize;
            let ids = (pids[process].clone(), tids[id].clone());
            thread(profile, id, ids, &timelines[id], &mut libraries)
        })
        .collect();
    Document {
        meta: meta(profile, &order),
        libs: libraries.list,
        threads,
        pages: [],
        profiler_overhead: [],
        counters: [],
    }
}

/// Formats the numbers. Duplicates get a suffix, since the Profiler uses the number as a key.
fn unique(ids: impl Iterator<Item = u32>) -> Vec<String> {
    let mut seen: HashMap<u32, u32> = HashMap::new();
    let text = |id| {
        let before = seen.entry(id).or_default();
        *before += 1;
        if *before == 1 { id.to_string() } else { format!("{id}.{}", *before - 1) }
    };
    ids.map(text).collect()
}

/// Threads in document order: by process, main thread first.
fn order(profile: &Profile, pids: &[String], tids: &[String]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..profile.threads.len()).collect();
    order.sort_by_key(|&id| {
        let thread = &profile.threads[id];
        let process = thread.process as usize;
        let of_process = (profile.processes[process].start_ns, pids[process].as_str());
        (of_process, !is_main(profile, id), thread.start_ns, thread.name.as_str(), &tids[id])
    });
    order
}

fn is_main(profile: &Profile, id: usize) -> bool {
    let thread = &profile.threads[id];
    thread.tid == profile.processes[thread.process as usize].pid
}

fn meta(profile: &Profile, order: &[usize]) -> Value {
    let meta = &profile.meta;
    let start = meta.start.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let mut value = json!({
        "categories": categories(profile),
        "debug": false,
        "extensions": { "length": 0, "baseURL": [], "id": [], "name": [] },
        // The Profiler divides by the interval.
        "interval": ms(meta.period.max(1)),
        "preprocessedProfileVersion": 55,
        "processType": 0,
        "product": meta.target,
        "oscpu": meta.system,
        "sampleUnits": { "time": "ms", "eventDelay": "ms", "threadCPUDelta": "µs" },
        "startTime": start.as_secs_f64() * 1000.0,
        "startTimeAsClockMonotonicNanosecondsSinceBoot": meta.start_ns,
        "profilingStartTime": 0,
        "profilingEndTime": ms(meta.duration_ns),
        "symbolicated": true,
        "pausedRanges": [],
        "version": 24,
        "usesOnlyOneStackType": true,
        "sourceCodeIsNotOnSearchfox": true,
        "markerSchema": [],
    });
    // An empty list would show no threads.
    if meta.mode.blocks() && !order.is_empty() {
        value["markerSchema"] = json!([marker_schema()]);
        value["initialVisibleThreads"] = visible_threads(profile, order).into();
    }
    value
}

/// Converts to milliseconds, the document's unit of time.
fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn categories(profile: &Profile) -> Vec<Value> {
    let states = State::ALL.map(|state| (state.title(), marker_color(state)));
    let states = states.into_iter().filter(|_| profile.meta.mode.blocks());
    CODE.into_iter()
        .chain(states)
        .map(|(name, color)| json!({ "name": name, "color": color, "subcategories": ["Other"] }))
        .collect()
}

fn thread<'a>(
    profile: &'a Profile,
    id: usize,
    (pid, tid): (String, String),
    timeline: &Timeline<'_>,
    libraries: &mut Libraries<'a>,
) -> Thread<'a> {
    let thread = &profile.threads[id];
    let process = &profile.processes[thread.process as usize];
    let is_main_thread = is_main(profile, id);
    let mut tables = Tables::new(profile, libraries);
    let of_intervals = timeline.intervals.iter();
    let stacks = (timeline.samples.iter().map(|sample| sample.stack))
        .chain(of_intervals.map(|interval| profile.blocked[interval.blocked as usize].stack))
        .chain(timeline.sums.iter().map(|sum| sum.stack))
        .collect();
    let nodes = tables.add_stacks(stacks);
    let node = |stack| nodes.get(&stack).copied().flatten();
    let mut rows = sample_rows(profile.meta.period, thread.start_ns, &timeline.samples, node);
    rows.extend(timeline.sums.iter().map(|sum| Row {
        time_ns: sum.time_ns,
        node: node(sum.stack),
        cpu_us: sum.weight.on_cpu_ns / 1000,
        weight: sum.weight.value(profile.meta.mode),
    }));
    let samples = samples(profile.meta.mode, rows);
    let markers = markers(profile, &timeline.intervals, node, &mut tables.strings);
    Thread {
        name: if is_main_thread { &process.name } else { &thread.name },
        is_main_thread,
        pid,
        tid,
        process_name: &process.name,
        process_type: "default",
        process_startup_time: ms(process.start_ns),
        process_shutdown_time: process.end_ns.map(ms),
        register_time: ms(thread.start_ns),
        unregister_time: thread.end_ns.map(ms),
        paused_ranges: [],
        show_markers_in_timeline: profile.meta.mode.blocks(),
        samples,
        markers,
        stack_table: tables.stacks,
        frame_table: tables.frames,
        func_table: tables.functions,
        resource_table: tables.resources,
        native_symbols: NativeSymbols::default(),
        string_array: tables.strings,
    }
}

/// A row of the sample table.
struct Row {
    time_ns: u64,
    /// `None`: the thread was idle until here.
    node: Option<usize>,
    cpu_us: u64,
    /// See [`crate::model::Weight::value`].
    weight: u64,
}

/// The samples of a thread, by their nodes in the tree of stacks.
fn sample_rows(
    period_ns: u64,
    start_ns: u64,
    samples: &[&Sample],
    node: impl Fn(u32) -> Option<usize>,
) -> Vec<Row> {
    let mut rows = Vec::with_capacity(samples.len());
    let mut busy_until = start_ns;
    for sample in samples {
        // A sample stands for the preceding period. If that does not reach back to the previous sample, the thread
        // was idle in between. Without this row the graph would spread the sample's CPU time over the gap.
        let busy_from = sample.time_ns.saturating_sub(period_ns);
        if busy_from.saturating_sub(busy_until) > period_ns / 2 {
            rows.push(Row { time_ns: busy_from, node: None, cpu_us: 0, weight: 0 });
        }
        busy_until = sample.time_ns;
        let (time_ns, node) = (sample.time_ns, node(sample.stack));
        rows.push(Row { time_ns, node, cpu_us: period_ns / 1000, weight: 1 });
    }
    rows
}

fn samples(mode: Mode, mut rows: Vec<Row>) -> Samples {
    rows.sort_by_key(|row| row.time_ns);
    let weight_type = match mode {
        // Blocks are markers, and samples are counted.
        Mode::OnCpu | Mode::Wall => "samples",
        Mode::OffCpu if rows.is_empty() => "samples",
        Mode::OffCpu => "tracing-ms",
        Mode::Heap | Mode::Pages => "bytes",
    };
    let mut table = Samples { weight_type, ..Samples::default() };
    let mut before_ns = 0;
    for Row { time_ns, node, cpu_us, weight } in rows {
        table.length += 1;
        table.stack.push(node);
        table.time_deltas.push(ms(time_ns - before_ns));
        table.weight.push(match mode {
            Mode::OffCpu => Amount::Ms(ms(weight)),
            _ => Amount::Count(weight),
        });
        table.thread_cpu_delta.push(cpu_us);
        before_ns = time_ns;
    }
    table
}

// Blocks as markers on a thread's timeline.
//
// Each long block is an interval with its stack. Summed blocks have no position in time and are left out.

/// Threads visible by default: as many as the Profiler itself selects.
const VISIBLE_THREADS_MAX: usize = 15;
/// Name of the only schema.
const TYPE: &str = "OffCpu";
/// `phase` of a marker with start and end.
const INTERVAL: u32 = 1;

/// The markers of a thread for its intervals; `node` returns the stack of each.
fn markers<'a>(
    profile: &'a Profile,
    intervals: &[&Interval],
    node: impl Fn(u32) -> Option<usize>,
    strings: &mut Strings<'a>,
) -> Markers {
    let mut markers = Markers::default();
    for interval in intervals {
        let blocked = &profile.blocked[interval.blocked as usize];
        let place = places::innermost_user(profile, blocked.stack).unwrap_or("no user code");
        markers.length += 1;
        markers.category.push(category_of_state(|state| state == blocked.state));
        markers.data.push(Marker {
            schema: TYPE,
            cause: node(blocked.stack).map(|stack| Cause { stack }),
            place: strings.index(place),
        });
        markers.start_time.push(ms(interval.start_ns));
        markers.end_time.push(ms(interval.end_ns.max(interval.start_ns)));
        markers.name.push(strings.index(blocked.state.title()));
        markers.phase.push(INTERVAL);
    }
    markers
}

/// Display schema of the markers.
fn marker_schema() -> Value {
    json!({
        "name": TYPE,
        "display": ["marker-chart", "marker-table", "timeline-overview"],
        "chartLabel": "{marker.data.where}",
        "tooltipLabel": "{marker.name}: {marker.data.where}",
        "tableLabel": "{marker.name}: {marker.data.where}",
        "description": "The thread was not on a CPU.",
        "fields": [
            { "key": "where", "label": "Where", "format": "unique-string", "searchable": true },
        ],
    })
}

fn marker_color(state: State) -> &'static str {
    match state {
        State::Sleeping => "purple",
        State::Uninterruptible => "darkgray",
        State::Io => "lightblue",
        State::Lock => "magenta",
        State::Preempted => "red",
        State::Stopped => "brown",
        State::Idle => "transparent",
        State::Short => "lightred",
        State::Running => "grey",
    }
}

/// Document positions of the threads with most time, on or off the CPU. By default the Profiler hides threads with
/// little CPU time, which are the subject of such a profile.
fn visible_threads(profile: &Profile, order: &[usize]) -> Vec<usize> {
    let mut times: Vec<(u64, usize)> = (0..order.len()).map(|id| (0, id)).collect();
    for ((_, thread), weight) in profile.weights() {
        let time = &mut times[thread as usize].0;
        *time = time.saturating_add(weight.value(profile.meta.mode));
    }
    times.sort_by_key(|&(time_ns, id)| (std::cmp::Reverse(time_ns), id));
    let visible = times.iter().take(VISIBLE_THREADS_MAX);
    visible.filter_map(|(_, id)| order.iter().position(|other| other == id)).collect()
}
