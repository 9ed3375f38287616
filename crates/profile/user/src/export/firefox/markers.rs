//! Blocks as markers: what a thread waited for, on its timeline.
//!
//! Each long block is an interval with its stack. The summed ones have no place in time.

use std::borrow::Cow;

use fxprof_processed_profile as fx;

use super::stacks::StackHandles;
use crate::export::places;
use crate::model::{Profile, State};

/// Threads that are shown without being asked for: as many as the Profiler shows by itself.
const VISIBLE_THREADS_MAX: usize = 15;

/// The handles of states as categories, by the order of [`State::ALL`].
pub(super) struct Categories([fx::CategoryHandle; State::ALL.len()]);

impl Categories {
    /// Adds one category for each state.
    pub(super) fn new(document: &mut fx::Profile) -> Self {
        Self(State::ALL.map(|state| document.add_category(state.title(), color(state))))
    }

    /// That of a state.
    pub(super) fn of(&self, state: State) -> fx::CategoryHandle {
        let position = State::ALL.iter().position(|other| *other == state);
        position.map_or(fx::CategoryHandle::OTHER, |position| self.0[position])
    }

    /// That of the frame with this name; `[woken by …]` belongs to no state.
    pub(super) fn of_frame(&self, name: &str) -> fx::CategoryHandle {
        let state = State::ALL.into_iter().find(|state| state.frame() == name);
        state.map_or(fx::CategoryHandle::OTHER, |state| self.of(state))
    }
}

fn color(state: State) -> fx::CategoryColor {
    match state {
        State::Sleeping => fx::CategoryColor::Purple,
        State::Uninterruptible => fx::CategoryColor::DarkGray,
        State::Io => fx::CategoryColor::LightBlue,
        State::Lock => fx::CategoryColor::Magenta,
        State::Preempted => fx::CategoryColor::Red,
        State::Stopped => fx::CategoryColor::Brown,
        State::Idle => fx::CategoryColor::Transparent,
        State::Short => fx::CategoryColor::LightRed,
        State::Running => fx::CategoryColor::Gray,
    }
}

/// One block.
struct Block {
    name: fx::StringHandle,
    place: fx::StringHandle,
    category: fx::CategoryHandle,
}

impl fx::StaticSchemaMarker for Block {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "OffCpu";
    const DESCRIPTION: Option<&'static str> = Some("The thread was not on a CPU.");
    const LOCATIONS: fx::MarkerLocations = fx::MarkerLocations::MARKER_CHART
        .union(fx::MarkerLocations::MARKER_TABLE)
        .union(fx::MarkerLocations::TIMELINE_OVERVIEW);
    const CHART_LABEL: Option<&'static str> = Some("{marker.data.where}");
    const TOOLTIP_LABEL: Option<&'static str> = Some("{marker.name}: {marker.data.where}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.name}: {marker.data.where}");
    const FIELDS: &'static [fx::StaticSchemaMarkerField] = &[fx::StaticSchemaMarkerField {
        key: "where",
        label: "Where",
        format: fx::MarkerFieldFormat::String,
        flags: fx::MarkerFieldFlags::SEARCHABLE,
    }];

    fn name(&self, _profile: &mut fx::Profile) -> fx::StringHandle {
        self.name
    }

    fn category(&self, _profile: &mut fx::Profile) -> fx::CategoryHandle {
        self.category
    }

    fn string_field_value(&self, _field_index: u32) -> fx::StringHandle {
        self.place
    }

    fn number_field_value(&self, _field_index: u32) -> f64 {
        unreachable!("the schema has no field with a number")
    }
}

/// Adds all intervals, each to the timeline of its thread.
pub(super) fn add(
    profile: &Profile,
    threads: &[fx::ThreadHandle],
    stacks: &StackHandles,
    categories: &Categories,
    document: &mut fx::Profile,
) {
    let at = fx::Timestamp::from_nanos_since_reference;
    let mut places: Vec<Option<fx::StringHandle>> = vec![None; profile.blocked.len()];
    for interval in &profile.intervals {
        let blocked = &profile.blocked[interval.blocked as usize];
        let place = *places[interval.blocked as usize]
            .get_or_insert_with(|| document.intern_string(&place(profile, blocked.stack)));
        let name = document.intern_string(blocked.state.title());
        let marker = Block { name, place, category: categories.of(blocked.state) };
        let end_ns = interval.end_ns.max(interval.start_ns);
        let timing = fx::MarkerTiming::Interval(at(interval.start_ns), at(end_ns));
        let thread = threads[blocked.thread as usize];
        let handle = document.add_marker(thread, timing, marker);
        let stack = stacks.get(&(blocked.thread, blocked.stack)).copied().flatten();
        document.set_marker_stack(thread, handle, stack);
    }
    for &thread in threads {
        document.set_thread_show_markers_in_timeline(thread, true);
    }
}

/// The function that waits.
fn place(profile: &Profile, stack: u32) -> Cow<'_, str> {
    places::innermost_user(profile, stack).map_or("no user code".into(), Cow::Borrowed)
}

/// Shows the threads with most time, on the CPU or off it: left alone, the Profiler hides those that
/// use little CPU, which are what such a profile is about.
pub(super) fn show_threads(
    profile: &Profile,
    threads: &[fx::ThreadHandle],
    document: &mut fx::Profile,
) {
    let mut times: Vec<(u64, usize)> = (0..threads.len()).map(|id| (0, id)).collect();
    for ((_, thread), weight) in profile.weights() {
        let time = &mut times[thread as usize].0;
        *time = time.saturating_add(weight.value(profile.meta.mode));
    }
    times.sort_by_key(|&(time_ns, id)| (std::cmp::Reverse(time_ns), id));
    for &(_, id) in times.iter().take(VISIBLE_THREADS_MAX) {
        document.add_initial_visible_thread(threads[id]);
    }
}
