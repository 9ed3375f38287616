//! Blocks as markers on a thread's timeline.
//!
//! Each long block is an interval with its stack. Summed blocks have no position in time and are left out.

use serde_json::{Value, json};

use super::format::{Cause, Marker, Markers, Strings};
use super::{category_of_state, ms};
use crate::export::places;
use crate::model::{Interval, Profile, State};

/// Threads visible by default: as many as the Profiler itself selects.
const VISIBLE_THREADS_MAX: usize = 15;
/// Name of the only schema.
const TYPE: &str = "OffCpu";
/// `phase` of a marker with start and end.
const INTERVAL: u32 = 1;

/// The markers of a thread for its intervals; `node` returns the stack of each.
pub(super) fn markers<'a>(
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
pub(super) fn schema() -> Value {
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

pub(super) fn color(state: State) -> &'static str {
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
pub(super) fn visible_threads(profile: &Profile, order: &[usize]) -> Vec<usize> {
    let mut times: Vec<(u64, usize)> = (0..order.len()).map(|id| (0, id)).collect();
    for ((_, thread), weight) in profile.weights() {
        let time = &mut times[thread as usize].0;
        *time = time.saturating_add(weight.value(profile.meta.mode));
    }
    times.sort_by_key(|&(time_ns, id)| (std::cmp::Reverse(time_ns), id));
    let visible = times.iter().take(VISIBLE_THREADS_MAX);
    visible.filter_map(|(_, id)| order.iter().position(|other| other == id)).collect()
}
