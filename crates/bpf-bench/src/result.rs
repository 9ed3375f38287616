//! Benchmark results: the model of every report, and of the JSON in docs/bench.md. Data only.

use serde::{Serialize, Serializer};
pub use wingbeat_stats::paired::PairedVerdict;

use crate::{
    Warning, conditions,
    counts::{Calls, TailCalls, Variation},
};

/// Version of the JSON schema. New fields do not change it; renaming, removing or redefining one does.
pub const SCHEMA_VERSION: u32 = 1;

/// The result of `wingbeat bench OBJECT`.
#[derive(Debug, Clone, Serialize)]
pub struct BenchReport {
    pub schema_version: u32,
    pub wingbeat: String,
    /// Path of the object file, as given.
    pub object: String,
    /// Random seed: order of batches, resampling.
    pub seed: u64,
    pub cpu: usize,
    /// Step of the clock for single runs, if it is coarse; percentiles are interpolated. `None` if
    /// it is finer than 4 ns, or unknown.
    pub clock_step_ns: Option<f64>,
    pub duration_ns: u64,
    /// Whether a signal ended it early.
    pub is_interrupted: bool,
    /// Empty programs of the types that occur: the overhead of measuring.
    pub baselines: Vec<Baseline>,
    /// One per program and input, in the order of the file and of the inputs.
    pub cases: Vec<Case>,
    /// Requested programs, or all of the file, that could not be measured.
    pub failures: Vec<Failure>,
    /// Programs that were not requested by name and that only an event can run. Not failures.
    pub skipped: Vec<Failure>,
    /// Programs that only an event can run, with figures from loading; each is also in `skipped`,
    /// or in `failures` if it was requested by name.
    pub verified: Vec<Verified>,
    /// The machine before and after.
    pub conditions: Circumstances,
    /// Warnings about the reliability of the figures.
    pub warnings: Vec<Warning>,
}

/// Machine conditions.
#[derive(Debug, Clone, Serialize)]
pub struct Circumstances {
    pub before: conditions::Conditions,
    pub after: conditions::Conditions,
    /// Load in between.
    pub load: Option<conditions::Load>,
    /// System calls that were interrupted by a signal and repeated.
    pub retries: u64,
}

/// A case that could not be measured, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Name of the case: `PROGRAM` or `PROGRAM/INPUT`.
    pub name: String,
    pub reason: String,
    /// Whether the verifier rejected the program.
    pub is_rejected: bool,
    /// Verifier figures until it rejected the program.
    pub verifier: Option<Verifier>,
    /// The complete verifier log, up to 64 MiB; `reason` has its end.
    #[serde(skip)]
    pub log: Option<String>,
}

impl Failure {
    /// A failure other than a verifier rejection.
    pub fn new(name: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { name: name.into(), reason: reason.into(), ..Self::default() }
    }
}

/// A program that was loaded but cannot be run on demand: it has only verifier figures.
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
pub struct Baseline {
    pub r#type: String,
    /// Its time: the test-run loop, the call, the return.
    pub latency: Part<Latency>,
    /// Its times under the timing wrapper: the cost of two clock reads.
    pub distribution: Part<Distribution>,
}

/// A figure, or the reason why it is missing.
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

    /// Why it is missing.
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
    /// `PROGRAM` if there is one input, else `PROGRAM/INPUT`.
    pub name: String,
    pub program: String,
    pub input: String,
    pub input_bytes: usize,
    pub r#type: String,
    /// Return value, and changes to the packet.
    pub outcome: RunOutcome,
    /// Time of a run, from batches.
    pub latency: Part<Latency>,
    pub distribution: Part<Distribution>,
    pub counts: Part<RunCounts>,
    /// Result of a run on the previous run's output packet, if that makes a difference: the figures
    /// above are on the requested packet, unless `latency` says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_output: Option<OwnOutput>,
    #[serde(skip_serializing_if = "TailCalls::is_empty")]
    pub tail_calls: TailCalls,
    pub verifier: Verifier,
    pub size: Size,
    /// Executed instructions by line of the first run, as gzip'd pprof, if requested and known.
    #[serde(skip)]
    pub profile: Option<Vec<u8>>,
}

/// Outcome of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RunOutcome {
    /// Return value of the first run.
    pub return_value: u32,
    /// Differing return values of other runs on fresh maps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_return_values: Vec<u32>,
    /// Its name, such as `XDP_PASS`, for types whose values have names.
    pub return_name: Option<String>,
    /// Value of `--expect`, if it was not met.
    pub unmet_expectation: Option<u32>,
    /// The name used for it, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmet_name: Option<String>,
    /// Bytes of the packet after the first run; `None` for types that return none.
    pub output_bytes: Option<usize>,
    /// Last return value of the timed runs, if it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub later_return_value: Option<u32>,
    /// Whether the first run changed the packet.
    pub has_changed_packet: bool,
    /// The changed packet after the first run in hexadecimal, truncated to 256 bytes.
    pub output_hex: Option<String>,
}

/// A run among thousands, each on the output packet of the previous one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OwnOutput {
    /// `None` without counters, or if they vary.
    pub instructions: Option<u64>,
    /// `None` if there was no time for it.
    pub return_value: Option<u32>,
    pub return_name: Option<String>,
    /// Median of kernel-repeated batches, per run.
    pub median_ns: Option<f64>,
    /// Median minus that of the baseline.
    pub net_ns: Option<f64>,
}

/// How the timed runs got their packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PacketSource {
    /// The program does not change it, or there is none.
    #[default]
    Unchanged,
    /// Each run got the requested packet: it was restored, or the kernel built it again.
    Restored,
    /// Each run got the output of the previous one.
    OwnOutput,
}

/// How run times were measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Short bursts of calls that alternate with those of another program within one run.
    Bursts,
    /// Long batches of runs repeated by the kernel.
    #[default]
    Batches,
    /// Many single-run calls, for which the kernel builds the packet.
    Calls,
}

/// Time of a run, from many batches.
///
/// With [`Method::Bursts`] a batch is all bursts of the program in one run, which uses a fresh load.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Latency {
    pub method: Method,
    /// Why not in bursts; `None` if they were.
    pub reason: Option<String>,
    pub packet: PacketSource,
    pub batches: usize,
    /// Runs in each batch, or in each burst.
    pub runs_per_batch: u32,
    /// Median of the batches, per run.
    pub median_ns: f64,
    /// Mean of the batches, per run.
    pub mean_ns: f64,
    /// Lower bound of the median's interval.
    pub lower_ns: f64,
    /// Upper bound of the median's interval.
    pub upper_ns: f64,
    /// Confidence level of the bootstrap interval, 0 to 1.
    pub confidence: f64,
    /// Time minus that of the baseline of its type; at least 0. With bursts the median difference of
    /// neighbours, else the difference of medians. The baseline's own is 0. `None` without a baseline.
    pub net_ns: Option<f64>,
    /// Undisturbed time of a run: the 10th percentile over batches of the 5th percentile of each
    /// batch's bursts. More stable than the median, which follows other activity on the machine.
    /// Without bursts, the 10th percentile of the batches.
    pub floor_ns: f64,
    /// Median absolute deviation of the batches, scaled to a standard deviation.
    pub spread_ns: f64,
    pub min_ns: f64,
    pub max_ns: f64,
    /// Median of the kernel's own figures, in whole nanoseconds; 0 for types that it does not time.
    pub kernel_ns: u32,
    /// Outlying batches, with Criterion's classes.
    pub outliers: Outliers,
    /// All batches in measurement order, per run.
    pub samples_ns: Vec<f64>,
}

impl Latency {
    /// Whether the times are not on the requested packet.
    pub fn is_on_own_output(&self) -> bool {
        self.packet == PacketSource::OwnOutput
    }
}

/// Batches beyond Tukey's fences: 1.5 (mild) or 3 (severe) times the interquartile range.
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

/// Time of single runs, measured by a wrapper around the program, including its clock.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Distribution {
    pub runs: u64,
    /// Median.
    pub p50_ns: f64,
    /// Interval of the median over clocked batches, each on a fresh load if loading is fast enough.
    /// `None` with fewer than six.
    pub p50_lower_ns: Option<f64>,
    pub p50_upper_ns: Option<f64>,
    pub p90_ns: f64,
    pub p99_ns: f64,
    pub p999_ns: f64,
    pub max_ns: u64,
    pub min_ns: u64,
    pub mean_ns: f64,
    /// Time of an empty program in the same wrapper: the clock itself. Not subtracted above. `None` without a baseline.
    pub clock_ns: Option<f64>,
    /// p50 minus the clock: the median difference of neighbouring batches; with fewer than six the
    /// difference of the two figures, at least 0. `None` without a baseline.
    pub net_p50_ns: Option<f64>,
    /// Its interval, which covers variation between loads and over time. `None` with fewer than six batches.
    pub net_p50_lower_ns: Option<f64>,
    pub net_p50_upper_ns: Option<f64>,
    /// Mean of these runs minus the median of the batches without a clock; at least 0.
    pub wrapper_ns: f64,
}

impl RunCounts {
    /// Instructions that every run on fresh maps executes, if constant.
    pub fn exact(&self) -> Option<u64> {
        self.variation.is_none().then_some(self.instructions)
    }

    /// Whether another measurement may give a different count.
    pub fn may_vary(&self) -> bool {
        self.variation.is_some() || !self.unpredictable_calls.is_empty()
    }
}

/// Exact instruction counts of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RunCounts {
    /// Instructions executed by the first run, as written in the object.
    pub instructions: u64,
    /// Calls of helpers and kfuncs in the first run.
    pub calls: Vec<Calls>,
    /// Mean instructions after thousands of runs on the same maps, each with the requested packet,
    /// if different: the runs influence each other, and the time is that of this later state.
    pub steady_instructions: Option<u64>,
    /// Set if first runs on fresh maps differ, so that nothing is exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variation: Option<Variation>,
    /// Helpers and kfuncs in the program whose results may differ on every run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unpredictable_calls: Vec<String>,
}

/// Verifier statistics of an accepted program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verifier {
    pub processed_instructions: Option<u64>,
    pub total_states: Option<u64>,
    pub peak_states: Option<u64>,
    /// Maximum number of states at one instruction.
    pub max_states_per_instruction: Option<u64>,
    /// Longest chain of states marked as read.
    pub mark_read: Option<u64>,
    /// Total stack of all functions.
    pub stack_depth_bytes: u32,
    /// Verification time; the minimum over all loads.
    pub duration_us: Option<u64>,
}

/// Sizes in the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Size {
    /// Instructions in the object, including all called functions.
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
    /// The object under test, measured alone in a quarter of the time. The compared times are those
    /// of `cases`, from alternating batches.
    pub report: BenchReport,
    /// File of the other object, the baseline.
    pub against: String,
    /// One per case that both have.
    pub cases: Vec<CaseComparison>,
    /// Programs that only one of them has, and which.
    pub unmatched: Vec<Failure>,
    /// Minimum relevant change of time, as a share.
    pub time_threshold: f64,
    /// Minimum relevant change of an exact measure, as a share.
    pub exact_threshold: f64,
}

impl Comparison {
    /// Makes failures of programs that only their event runs skipped, if the verifier's figures of
    /// both objects are compared: even if requested by name, nothing about them failed.
    pub fn skip_compared(&mut self) {
        let BenchReport { verified, skipped, failures, .. } = &mut self.report;
        let compared = |failure: &mut Failure| {
            verified.iter().any(|program| program.name == failure.name)
                && self.cases.iter().any(|case| case.name == failure.name)
        };
        skipped.extend(failures.extract_if(.., compared));
    }
}

/// One case, compared.
#[derive(Debug, Clone, Serialize)]
pub struct CaseComparison {
    pub name: String,
    /// How the compared times were measured; `None` if nothing was run.
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
    /// `after / before − 1`; for exact measures `None` if `before` is 0 and `after` is not.
    pub change: Option<f64>,
    /// For time: the interval of the change.
    pub interval: Option<ChangeInterval>,
    #[serde(serialize_with = "verdict")]
    pub verdict: PairedVerdict,
    /// Whether it is worse beyond the threshold.
    pub is_beyond_threshold: bool,
    /// Number of runs of each side whose varying counts were compared: the values are their means.
    /// `None` for times and exact measures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<usize>,
}

/// Interval of a change in time, as shares.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ChangeInterval {
    pub lower: f64,
    pub upper: f64,
    /// Confidence level, 0 to 1.
    pub confidence: f64,
    /// Number of load pairs that it is derived from.
    pub pairs: usize,
    /// Smallest change that would be detected nine times in ten.
    pub smallest_visible: Option<f64>,
}

/// Serialized verdict. All undecided verdicts share one name, whatever the reason.
fn verdict<S: Serializer>(verdict: &PairedVerdict, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match verdict {
        PairedVerdict::Better => "better",
        PairedVerdict::Worse => "worse",
        PairedVerdict::NoChangeSeen => "no_change_seen",
        PairedVerdict::Same => "same",
        PairedVerdict::Changed | PairedVerdict::TooFewPairs | PairedVerdict::NotJudged => "unknown",
    })
}
