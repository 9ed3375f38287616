//! What a benchmark found: the model that every report is written from, and the JSON that docs/bench.md
//! describes. Data only.

use serde::{Serialize, Serializer};
pub use wingbeat_stats::paired::PairedVerdict;

use crate::{
    Warning, conditions,
    counts::{Calls, TailCalls, Variation},
};

/// Version of the JSON. Fields are added without changing it; it changes when one is renamed, removed
/// or gets another meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// The result of `wingbeat bench OBJECT`.
#[derive(Debug, Clone, Serialize)]
pub struct BenchReport {
    pub schema_version: u32,
    pub wingbeat: String,
    /// The object file, as it was given.
    pub object: String,
    /// Seed of everything random: order of batches, resampling.
    pub seed: u64,
    pub cpu: usize,
    /// Steps that the clock of single runs moves in, where they are coarse; percentiles are spread over
    /// them. `None` if they are finer than 4 ns, or nothing tells.
    pub clock_step_ns: Option<f64>,
    pub duration_ns: u64,
    /// Whether a signal ended it early.
    pub is_interrupted: bool,
    /// Empty programs of the types that occur: what measuring alone shows.
    pub rulers: Vec<Ruler>,
    /// One per program and input, in the order of the file and of the inputs.
    pub cases: Vec<Case>,
    /// Programs that were asked for, or all of the file, of which nothing could be measured.
    pub failures: Vec<Failure>,
    /// Programs that were not asked for by name and that only an event can run: no failure.
    pub skipped: Vec<Failure>,
    /// Programs that only an event can run, as far as loading them tells; each is also in `skipped`, or
    /// in `failures` if it was asked for by name.
    pub verified: Vec<Verified>,
    /// The machine before and after.
    pub conditions: Circumstances,
    /// What to know before believing the figures.
    pub warnings: Vec<Warning>,
}

/// What the machine was like.
#[derive(Debug, Clone, Serialize)]
pub struct Circumstances {
    pub before: conditions::Conditions,
    pub after: conditions::Conditions,
    /// Load in between.
    pub load: Option<conditions::Load>,
    /// System calls that a signal interrupted and that were made again.
    pub retries: u64,
}

/// What could not be measured at all, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Name of the case: `PROGRAM` or `PROGRAM/INPUT`.
    pub name: String,
    pub reason: String,
    /// Whether it is the verifier that stands in the way.
    pub is_rejected: bool,
    /// What the verifier counted until it rejected the program.
    pub verifier: Option<Verifier>,
    /// The verifier's whole log, for people: up to 64 MiB, of which `reason` has the end.
    #[serde(skip)]
    pub log: Option<String>,
}

impl Failure {
    /// A failure that is not the verifier's.
    pub fn new(name: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { name: name.into(), reason: reason.into(), ..Self::default() }
    }
}

/// A program that was loaded and cannot be run on demand: the verifier's figures are all there is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verified {
    pub name: String,
    pub r#type: String,
    pub reason: String,
    pub verifier: Verifier,
    pub size: Size,
}

/// An empty program of one type, measured like the others.
#[derive(Debug, Clone, Serialize)]
pub struct Ruler {
    pub r#type: String,
    /// Its time: the test-run loop, the call, the return.
    pub latency: Part<Latency>,
    /// What the timing wrapper shows for it: the cost of two clock reads.
    pub distribution: Part<Distribution>,
}

/// A figure, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part<T> {
    Measured(T),
    Unavailable(String),
}

impl<T> Part<T> {
    /// The figure, if there is one.
    pub fn measured(&self) -> Option<&T> {
        match self {
            Self::Measured(value) => Some(value),
            Self::Unavailable(_) => None,
        }
    }

    /// Why there is none.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Measured(_) => None,
            Self::Unavailable(reason) => Some(reason),
        }
    }
}

/// One program on one input.
#[derive(Debug, Clone, Serialize)]
pub struct Case {
    /// `PROGRAM` when there is one input, else `PROGRAM/INPUT`.
    pub name: String,
    pub program: String,
    pub input: String,
    pub input_bytes: usize,
    pub r#type: String,
    /// What the program answered, and what it did to the packet.
    pub outcome: RunOutcome,
    /// Time of a run, by batches.
    pub latency: Part<Latency>,
    pub distribution: Part<Distribution>,
    pub counts: Part<RunCounts>,
    /// A run that gets what the one before left of its packet, where that makes a difference: the figures
    /// above are on the packet that was asked for, unless `latency` says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_output: Option<OwnOutput>,
    #[serde(skip_serializing_if = "TailCalls::is_empty")]
    pub tail_calls: TailCalls,
    pub verifier: Verifier,
    pub size: Size,
    /// What each line executed in the first run, as gzip'd pprof, if it was asked for and is known.
    #[serde(skip)]
    pub profile: Option<Vec<u8>>,
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunOutcome {
    /// Return value of the first run.
    pub return_value: u32,
    /// Those of other runs on fresh maps, where they differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_return_values: Vec<u32>,
    /// Its name, such as `XDP_PASS`, for types whose values have names.
    pub return_name: Option<String>,
    /// What `--expect` wanted, if it was given and was not met.
    pub unmet_expectation: Option<u32>,
    /// The name that it was given by, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmet_name: Option<String>,
    /// Bytes of the packet after the first run; `None` for types that give none back.
    pub output_bytes: Option<usize>,
    /// Return value of the timed runs, by their last one, if it is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub later_return_value: Option<u32>,
    /// Whether the first run changed the packet.
    pub has_changed_packet: bool,
    /// The packet after the first run in hexadecimal, if it was changed; at most 256 bytes of it.
    pub output_hex: Option<String>,
}

/// A run among thousands, each of which got what the one before left of its packet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OwnOutput {
    /// `None` without counters, and where they differ from time to time.
    pub instructions: Option<u64>,
    /// `None` if there was no time for it.
    pub return_value: Option<u32>,
    pub return_name: Option<String>,
    /// Median of batches that the kernel repeated, per run.
    pub median_ns: Option<f64>,
    /// The same without the ruler.
    pub net_ns: Option<f64>,
}

/// How the timed runs got their packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PacketSource {
    /// The program leaves it as it is, or there is none.
    #[default]
    Unchanged,
    /// Each run got it as it was asked for: it was put back, or the kernel built it anew.
    Restored,
    /// Each run got what the one before had left.
    OwnOutput,
}

/// How the times of runs were taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Short bursts of calls that take turns with those of another program within one run.
    Bursts,
    /// Long batches of runs that the kernel repeats.
    #[default]
    Batches,
    /// Many calls with one run each, for which the kernel builds the packet.
    Calls,
}

/// Time of a run, from many batches.
///
/// With [`Method::Bursts`] a batch is all bursts of the program in one run, for which it was loaded
/// anew.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Latency {
    pub method: Method,
    /// Why not in bursts; `None` if they were.
    pub reason: Option<String>,
    pub packet: PacketSource,
    pub batches: usize,
    /// Runs in each batch; in each burst where there are bursts.
    pub runs_per_batch: u32,
    /// Median of the batches, per run.
    pub median_ns: f64,
    /// Mean of the batches, per run.
    pub mean_ns: f64,
    /// Lower end of the interval of the median.
    pub lower_ns: f64,
    /// Upper end of the interval of the median.
    pub upper_ns: f64,
    /// Confidence of the interval, 0 to 1; it is a bootstrap one.
    pub confidence: f64,
    /// Without the ruler of its type; 0 at least. From bursts the median of the differences of
    /// neighbours, else the median less the ruler's. The ruler's own is 0. `None` without a ruler.
    pub net_ns: Option<f64>,
    /// What a run takes while nothing disturbs: the 5th percentile of each batch's bursts, and of these
    /// the 10th. It stands still where the median follows what else the machine does. Without bursts,
    /// the 10th percentile of the batches.
    pub floor_ns: f64,
    /// Median absolute deviation of the batches, scaled to a standard deviation.
    pub spread_ns: f64,
    pub min_ns: f64,
    pub max_ns: f64,
    /// Median of what the kernel itself reports, in whole nanoseconds; 0 for types it does not time.
    pub kernel_ns: u32,
    /// Batches that lie apart, as Criterion names them.
    pub outliers: Outliers,
    /// All batches in the order they were taken, per run.
    pub samples_ns: Vec<f64>,
}

impl Latency {
    /// Whether the times are not of the packet that was asked for.
    pub fn is_on_own_output(&self) -> bool {
        self.packet == PacketSource::OwnOutput
    }
}

/// Batches beyond Tukey's fences: 1.5 (mild) or 3 (severe) times the quartiles' distance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Outliers {
    pub low_severe: usize,
    pub low_mild: usize,
    pub high_mild: usize,
    pub high_severe: usize,
}

impl Outliers {
    pub fn total(self) -> usize {
        self.low_severe + self.low_mild + self.high_mild + self.high_severe
    }
}

/// Time of single runs, as a wrapper around the program saw them, its clock included.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Distribution {
    pub runs: u64,
    /// Half of the runs took no longer.
    pub p50_ns: f64,
    /// Interval of the median over batches with a clock, each loaded anew where that takes no time.
    /// `None` with fewer than six.
    pub p50_lower_ns: Option<f64>,
    pub p50_upper_ns: Option<f64>,
    pub p90_ns: f64,
    pub p99_ns: f64,
    pub p999_ns: f64,
    pub max_ns: u64,
    pub min_ns: u64,
    pub mean_ns: f64,
    /// What the same wrapper shows for an empty program: the clock itself. Not subtracted above. `None`
    /// without a ruler.
    pub clock_ns: Option<f64>,
    /// p50 less the clock: the median of the differences of neighbouring batches; with fewer than six
    /// the difference of the two figures, 0 at least. `None` without a ruler.
    pub net_p50_ns: Option<f64>,
    /// Interval of it, which covers what loads and moments differ by. `None` with fewer than six batches.
    pub net_p50_lower_ns: Option<f64>,
    pub net_p50_upper_ns: Option<f64>,
    /// Mean of these runs less the median of the batches without a clock; 0 at least.
    pub wrapper_ns: f64,
}

impl RunCounts {
    /// Instructions that every run executes on fresh maps, if that is one number.
    pub fn exact(&self) -> Option<u64> {
        self.variation.is_none().then_some(self.instructions)
    }

    /// Whether another measurement may count something else.
    pub fn may_vary(&self) -> bool {
        self.variation.is_some() || !self.unpredictable_calls.is_empty()
    }
}

/// What one run executes, exactly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunCounts {
    /// Instructions that the first run executed, as written in the object.
    pub instructions: u64,
    /// Calls of helpers and kfuncs in the first run.
    pub calls: Vec<Calls>,
    /// Instructions of runs after thousands on the same maps, each with the packet that was asked for, in the
    /// mean, where that differs: the runs feed each other, and the time is that of this later state.
    pub steady_instructions: Option<u64>,
    /// Where the first run is not like the first run on other fresh maps, so that nothing is exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variation: Option<Variation>,
    /// Helpers and kfuncs in the program that may give something else on every run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unpredictable_calls: Vec<String>,
}

/// What the verifier told when it accepted the program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verifier {
    pub processed_instructions: Option<u64>,
    pub total_states: Option<u64>,
    pub peak_states: Option<u64>,
    /// Most states at one instruction.
    pub max_states_per_instruction: Option<u64>,
    /// Longest chain of states marked as read.
    pub mark_read: Option<u64>,
    /// Stack of all functions together.
    pub stack_depth_bytes: u32,
    /// Time of verification; the shortest of the loads.
    pub duration_us: Option<u64>,
}

/// Sizes in the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Size {
    /// Instructions in the object, with all functions that it calls.
    pub object_instructions: usize,
    /// Bytes after the verifier's rewriting.
    pub xlated_bytes: u32,
    pub jited_bytes: u32,
    /// Memory of all maps of the object.
    pub map_memory_bytes: Option<u64>,
}

/// The result of `wingbeat bench OBJECT --against OTHER`.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The object under test, measured by itself in a quarter of the time. The times that are compared
    /// are those of `cases`, from batches that took turns.
    pub report: BenchReport,
    /// The other object's file: what it is compared with.
    pub against: String,
    /// One per case that both have.
    pub cases: Vec<CaseComparison>,
    /// Names of programs that only one of them has, with which.
    pub unmatched: Vec<Failure>,
    /// Change of time that counts, as a share.
    pub time_threshold: f64,
    /// Change of an exact measure that counts, as a share.
    pub exact_threshold: f64,
}

/// One case, compared.
#[derive(Debug, Clone, Serialize)]
pub struct CaseComparison {
    pub name: String,
    /// How the times that are compared were taken; `None` where nothing was run.
    pub method: Option<Method>,
    /// Why not in bursts; `None` if they were.
    pub reason: Option<String>,
    /// Measures, time first.
    pub measures: Vec<MeasureComparison>,
}

/// One measure of one case, compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MeasureComparison {
    /// `latency`, `instructions`, `verified-instructions`, `jited-size`, …
    pub measure: String,
    /// Unit: `ns`, `instructions`, `bytes`, …
    pub unit: String,
    pub before: f64,
    /// Value of the object under test.
    pub after: f64,
    /// `after / before − 1`; for exact measures `None` when `before` is 0 and `after` is not.
    pub change: Option<f64>,
    /// For time: the interval of the change.
    pub interval: Option<ChangeInterval>,
    #[serde(serialize_with = "verdict")]
    pub verdict: PairedVerdict,
    /// Whether it is worse beyond the threshold.
    pub is_beyond_threshold: bool,
    /// Runs of each side whose counts were compared, because they vary: the values are their means.
    /// `None` for times and for what is exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<usize>,
}

/// Interval of a change in time, as shares.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ChangeInterval {
    pub lower: f64,
    pub upper: f64,
    /// Confidence, 0 to 1.
    pub confidence: f64,
    /// Pairs of loads that it comes from.
    pub pairs: usize,
    /// Smallest change that would have been seen nine times in ten.
    pub smallest_visible: Option<f64>,
}

/// The name of a verdict. What is not decided has one name, whatever the reason.
fn verdict<S: Serializer>(verdict: &PairedVerdict, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match verdict {
        PairedVerdict::Better => "better",
        PairedVerdict::Worse => "worse",
        PairedVerdict::NoChangeSeen => "no_change_seen",
        PairedVerdict::Same => "same",
        PairedVerdict::Changed | PairedVerdict::TooFewPairs | PairedVerdict::NotJudged => "unknown",
    })
}
