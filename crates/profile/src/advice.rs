//! What a user should know about a recording before believing it. Each warning says what happened,
//! what it does to the figures, and what to do next.

use std::fmt;

use crate::summary::Summary;

/// Something to know about a recording.
#[derive(Debug, Clone, PartialEq)]
pub enum Warning {
    /// Nothing was sampled.
    NoSamples(NoSamples),
    /// Samples were lost because the ring buffer was full.
    Lost {
        /// How many.
        lost: u64,
        /// Of how many that met a target.
        wanted: u64,
    },
    /// Samples failed in the kernel.
    Failed {
        /// How many.
        failed: u64,
        /// The most frequent error.
        error: String,
    },
    /// Stacks are short because code keeps no frame pointers.
    Broken {
        /// Broken stacks.
        broken: u64,
        /// Of how many.
        samples: u64,
        /// The files to blame, with their counts, most first.
        modules: Vec<(String, u64)>,
    },
    /// Stacks were cut at the limit of depth.
    Truncated {
        /// How many.
        truncated: u64,
        /// Of how many.
        samples: u64,
    },
    /// Events about mappings were lost.
    EventsLost(u64),
    /// Pieces of stack were lost because the ring buffer was full.
    TailsLost(u64),
    /// Children were not followed.
    ChildrenLost(u64),
}

/// Why there are no samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NoSamples {
    /// The recording was shorter than the time between two ticks or little more.
    TooShort {
        /// Its length, seconds.
        duration_s: f64,
        /// A frequency that gives some samples.
        frequency_hz: u64,
    },
    /// The targets hardly ran.
    Slept {
        /// Their CPU time, seconds.
        cpu_s: f64,
        /// Length of the recording, seconds.
        duration_s: f64,
    },
    /// There were some, all lost or failed.
    NoneKept,
    /// Only samples of the other half of the stacks.
    OtherHalf,
}

/// Broken stacks below this share are ordinary: first instructions of programs, hand-written
/// assembly.
const BROKEN_SHARE_MIN: f64 = 0.05;

/// The warnings that a run deserves, the gravest first.
pub fn warnings(summary: &Summary, samples_kept: u64) -> Vec<Warning> {
    let ticks = &summary.ticks;
    let stacks = &summary.stacks;
    let mut warnings = Vec::new();
    if samples_kept == 0 {
        warnings.push(Warning::NoSamples(why_none(summary)));
    }
    if ticks.lost > 0 {
        let wanted = ticks.lost + ticks.sampled;
        warnings.push(Warning::Lost { lost: ticks.lost, wanted });
    }
    if let Some((error, _)) = ticks.failed.iter().max_by_key(|(_, count)| **count) {
        let failed = ticks.failed_total();
        warnings.push(Warning::Failed { failed, error: error.clone() });
    }
    let share = |part: u64| part as f64 / samples_kept.max(1) as f64;
    if summary.tails_lost > 0 {
        warnings.push(Warning::TailsLost(summary.tails_lost));
    }
    let blamed = stacks.broken_by_module.iter().map(|(_, samples)| samples).sum();
    if share(blamed) >= BROKEN_SHARE_MIN {
        warnings.push(Warning::Broken {
            broken: blamed,
            samples: samples_kept,
            modules: stacks.broken_by_module.clone(),
        });
    }
    if stacks.truncated > 0 {
        let truncated = stacks.truncated;
        warnings.push(Warning::Truncated { truncated, samples: samples_kept });
    }
    if summary.events_lost > 0 {
        warnings.push(Warning::EventsLost(summary.events_lost));
    }
    if summary.children_lost > 0 {
        warnings.push(Warning::ChildrenLost(summary.children_lost));
    }
    warnings
}

fn why_none(summary: &Summary) -> NoSamples {
    let ticks = &summary.ticks;
    let duration_s = summary.duration_ns as f64 / 1e9;
    let cpu_s = summary.target_cpu_time_ns as f64 / 1e9;
    if ticks.sampled > 0 {
        NoSamples::OtherHalf
    } else if ticks.lost + ticks.failed_total() > 0 {
        NoSamples::NoneKept
    } else if duration_s * (summary.frequency_hz as f64) < 5.0 {
        let wanted = (50.0 / duration_s.max(1e-3)).ceil() as u64;
        NoSamples::TooShort { duration_s, frequency_hz: wanted.clamp(99, 9_999) }
    } else {
        NoSamples::Slept { cpu_s, duration_s }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSamples(why) => write!(f, "no samples, so nothing was written: {why}"),
            Self::Lost { lost, wanted } => write!(
                f,
                "{lost} of {wanted} samples ({}) were lost because the buffer was full: shares are \
                 those of the others; give a larger --buffer-size or a lower --frequency",
                percent(*lost, *wanted)
            ),
            Self::Failed { failed, error } => write!(
                f,
                "{failed} samples failed in the kernel, most with \"{error}\": shares are those of \
                 the others"
            ),
            Self::Broken { broken, samples, modules } => {
                let named: Vec<String> = modules
                    .iter()
                    .take(4)
                    .map(|(module, count)| format!("{module} ({})", percent(*count, *broken)))
                    .collect();
                write!(
                    f,
                    "{} of the stacks end too early, for want of frame pointers in {}: callers are \
                     missing there. Rebuild it with frame pointers: \
                     RUSTFLAGS=\"-C force-frame-pointers=yes\" for Rust, -fno-omit-frame-pointer \
                     -mno-omit-leaf-frame-pointer for C and C++",
                    percent(*broken, *samples),
                    named.join(", ")
                )
            }
            Self::Truncated { truncated, samples } => write!(
                f,
                "{} of the stacks are deeper than {} frames and were cut: their outermost callers \
                 are missing",
                percent(*truncated, *samples),
                wingbeat_profile_common::USER_FRAMES_MAX
            ),
            Self::EventsLost(lost) => write!(
                f,
                "{lost} of the kernel's notes on mappings and processes were lost: some frames may \
                 lack names"
            ),
            Self::TailsLost(lost) => write!(
                f,
                "{lost} pieces of stack were lost because the buffer was full: stacks may end too \
                 early for want of them; give a larger --buffer-size or a lower --frequency"
            ),
            Self::ChildrenLost(lost) => write!(
                f,
                "{lost} child processes could not be followed: the table of targets was full"
            ),
        }
    }
}

impl fmt::Display for NoSamples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { duration_s, frequency_hz } => write!(
                f,
                "the recording took only {:.1} ms; record for longer (a process in the background: --pid), \
                 or sample more often, for example -F {frequency_hz}",
                duration_s * 1e3
            ),
            Self::Slept { cpu_s, duration_s } => write!(
                f,
                "the target slept {:.1} % of {duration_s:.1} s (it ran for {:.1} ms), and a sleeping \
                 process is not sampled; record while it works, for longer (-d), or more often (-F)",
                100.0 * (1.0 - cpu_s / duration_s).clamp(0.0, 1.0),
                cpu_s * 1e3
            ),
            Self::NoneKept => f.write_str("all of them were lost or failed, see below"),
            Self::OtherHalf => {
                f.write_str("all of them lie in the other half of the stacks; try --stacks both")
            }
        }
    }
}

/// A share for humans: never "0 %" of something.
fn percent(part: u64, whole: u64) -> String {
    let percent = 100.0 * part as f64 / whole.max(1) as f64;
    match percent {
        percent if percent >= 9.95 => format!("{percent:.0} %"),
        percent if percent >= 0.095 => format!("{percent:.1} %"),
        _ => "less than 0.1 %".to_owned(),
    }
}
