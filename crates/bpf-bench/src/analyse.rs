//! Turns measurements into reported results. Pure functions, no I/O.

pub(crate) mod clock;
pub mod compare;
mod outcome;
mod plausible;
mod warning;

use std::time::Duration;

use wingbeat_bpf_loader::{
    ProgramType,
    loader::{ProgramRun, Remarks, VerifierStatistics},
};
use wingbeat_stats::{
    bootstrap::Bootstrap,
    outliers,
    sample::{MAD_TO_STD_DEV, Sample, quantile_of_sorted},
};

#[cfg(feature = "testing")]
pub use self::clock::medians_ns;
pub(crate) use self::{
    outcome::has_changed_packet,
    warning::{counts_vary, remarks},
};
pub use self::{
    outcome::{Expectation, NotAnExpectation},
    plausible::FIGURES_DISAGREE,
};
use crate::{
    conditions::{Conditions, Load, Observed},
    counts::{Calls, TailCalls, Variation},
    instrument::wrapper::Recorded,
    result::{
        Baseline, BenchReport, Case, Circumstances, Distribution, Failure, Latency, Method,
        Outliers, PacketSource, Part, RunCounts, SCHEMA_VERSION, Size, Verified, Verifier,
    },
};

/// Confidence level of median intervals.
const CONFIDENCE: f64 = 0.95;

/// Quantile of the batches that serves as the floor.
const FLOOR: f64 = 0.1;

/// Minimum samples for a reliable interval.
const SAMPLES_WANTED: u64 = 20;

/// Why no time was measured.
pub(crate) const NO_SAMPLES: &str = "the time ran out before its first batch; increase --time";

/// All results of a measurement, before analysis.
#[derive(Debug)]
pub struct Raw {
    pub object: String,
    /// Extensions that were measured as standalone programs, by description.
    pub extensions_alone: Vec<String>,
    pub seed: u64,
    pub cpu: usize,
    pub is_interrupted: bool,
    /// Expected return value.
    pub expect: Option<Expectation>,
    /// Notes from loading the programs.
    pub remarks: Remarks,
    pub before: Conditions,
    pub after: Conditions,
    pub load: Option<Load>,
    pub measured: Measured,
}

/// Results per program.
#[derive(Debug)]
pub struct Measured {
    pub duration: Duration,
    /// Empty baseline programs by type.
    pub baselines: Vec<(ProgramType, RawRun)>,
    pub cases: Vec<RawCase>,
    pub failures: Vec<Failure>,
    pub skipped: Vec<Failure>,
    pub verified: Vec<Verified>,
    pub observed: Observed,
}

/// Batches of one program: bursts of calls within one run, alternating with the baseline, or runs repeated by the kernel.
#[derive(Debug, Clone, Default)]
pub struct RawRun {
    /// Why the samples are not bursts; `None` if they are.
    pub no_bursts: Option<String>,
    /// How each run got its packet.
    pub packet: PacketSource,
    /// Runs in each batch.
    pub runs_per_batch: u32,
    /// Time per run of each batch.
    pub samples_ns: Vec<f64>,
    /// What the kernel reported for batches that it repeated itself.
    pub kernel_ns: Vec<u32>,
    /// Time of a run minus that of the adjacent baseline run. Empty if the two could not alternate within one run.
    pub net_ns: Vec<f64>,
    /// The fastest burst of each run; empty without bursts.
    pub floor_ns: Vec<f64>,
    /// For baselines: time per run of kernel-repeated batches, when `samples_ns` holds batches within one run.
    pub repeated_ns: Vec<f64>,
    /// Time per run of kernel-repeated batches in which each run gets the output packet of the
    /// previous one. Only set when the samples were taken differently.
    pub own_output_ns: Vec<f64>,
    /// Return value of the last timed run of each sample.
    pub returned: Vec<u32>,
    /// Single runs, timed by the clock around the program.
    pub recorded: Option<Recorded>,
    /// Single runs by batch. The first batches each used a fresh load, if loading is fast enough.
    pub clockings: Vec<Recorded>,
}

/// Result of a run after thousands of others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Later {
    /// Instructions that it executed, if known.
    pub instructions: Option<u64>,
    pub return_value: Option<u32>,
    /// Whether the result differs between runs, by chance or as time passes.
    pub varies: bool,
}

/// One measured case.
#[derive(Debug)]
pub struct RawCase {
    pub name: String,
    pub program: String,
    pub input: String,
    pub input_data: Vec<u8>,
    /// Description of the synthesized context; `None` if none was needed or one was given.
    pub made_up_context: Option<String>,
    /// Approximate maximum packet bytes visible to the program; `None` if all.
    pub seen_bytes_max: Option<usize>,
    pub r#type: ProgramType,
    pub first: ProgramRun,
    /// Executed instructions of the first run, or why they are unknown.
    pub instructions: Result<u64, String>,
    /// How many different instructions of the program, without tail-called ones, the first run executed, if known.
    pub reached: Option<u64>,
    pub calls: Vec<Calls>,
    pub tail_calls: TailCalls,
    /// Result after thousands of runs that each got the requested packet; `None` if not determined.
    pub settled: Option<Later>,
    /// Result after thousands of runs that each got the output packet of the previous run; `None`
    /// if the packet makes no difference.
    pub own_output: Option<Later>,
    /// Set if instruction counts differ between fresh starts.
    pub variation: Option<Variation>,
    /// Differing return values of other runs on fresh maps.
    pub other_return_values: Vec<u32>,
    /// Helpers and kfuncs whose results may differ on every run.
    pub unpredictable_calls: Vec<String>,
    /// Instructions per source line of the first run, as gzip'd pprof.
    pub profile: Option<Vec<u8>>,
    pub verifier: Verifier,
    pub size: Size,
    /// Why no clock was placed around it.
    pub no_clock: Option<String>,
    pub run: RawRun,
}

impl RawRun {
    /// Times of kernel-repeated batches.
    fn repeated(&self) -> &[f64] {
        if self.repeated_ns.is_empty() { &self.samples_ns } else { &self.repeated_ns }
    }
}

/// Analyses a measurement.
pub fn report(mut raw: Raw) -> BenchReport {
    let measured = &mut raw.measured;
    let runs = measured
        .baselines
        .iter()
        .map(|(_, run)| run)
        .chain(measured.cases.iter().map(|case| &case.run));
    let step = clock::step_ns(runs.filter_map(|run| Some(&*run.recorded.as_ref()?.buckets)));
    let baselines: Vec<Baseline> = measured
        .baselines
        .iter()
        .map(|(r#type, run)| Baseline {
            r#type: r#type.name(),
            latency: latency(run, &|_| Some(0.0), raw.seed),
            distribution: clock::distribution(run, run, (step, raw.seed), None),
        })
        .collect();
    let nothing = RawRun::default();
    let baseline_of = |r#type: ProgramType| {
        let baseline = measured.baselines.iter().find(|(known, _)| *known == r#type);
        baseline.map_or(&nothing, |(_, run)| run)
    };
    let cases: Vec<Case> = measured
        .cases
        .iter()
        .map(|case| {
            let baseline = baseline_of(case.r#type);
            let median_ns = Sample::new(baseline.repeated().to_vec()).ok().map(|it| it.median());
            let net_of = |own_ns: f64| Some((own_ns - median_ns?).max(0.0));
            let latency = latency(&case.run, &net_of, raw.seed);
            let no_clock = case.no_clock.as_deref();
            let distribution = clock::distribution(&case.run, baseline, (step, raw.seed), no_clock);
            let own_output = outcome::own_output(case, &net_of);
            Case { own_output, ..analysed(case, latency, distribution, raw.expect) }
        })
        .collect();
    let fewest = measured.cases.iter().map(|case| case.run.samples_ns.len() as u64).min();
    measured.observed.samples = fewest.unwrap_or(SAMPLES_WANTED);
    measured.observed.samples_wanted = SAMPLES_WANTED;
    let warnings = warning::warnings(&raw, &baselines, &cases);
    let measured = raw.measured;
    BenchReport {
        schema_version: SCHEMA_VERSION,
        wingbeat: env!("CARGO_PKG_VERSION").to_owned(),
        object: raw.object,
        seed: raw.seed,
        cpu: raw.cpu,
        clock_step_ns: step,
        duration_ns: u64::try_from(measured.duration.as_nanos()).unwrap_or(u64::MAX),
        is_interrupted: raw.is_interrupted,
        baselines,
        cases,
        failures: measured.failures,
        skipped: measured.skipped,
        verified: measured.verified,
        conditions: Circumstances {
            before: raw.before,
            after: raw.after,
            load: raw.load,
            retries: measured.observed.retries,
        },
        warnings,
    }
}

fn analysed(
    case: &RawCase,
    latency: Part<Latency>,
    distribution: Part<Distribution>,
    expect: Option<Expectation>,
) -> Case {
    let counts = match &case.instructions {
        Ok(instructions) => Part::Measured(RunCounts {
            instructions: *instructions,
            calls: case.calls.clone(),
            steady_instructions: steady(case, *instructions),
            variation: case.variation.clone(),
            unpredictable_calls: case.unpredictable_calls.clone(),
        }),
        Err(reason) => Part::Unavailable(reason.clone()),
    };
    Case {
        name: case.name.clone(),
        program: case.program.clone(),
        input: case.input.clone(),
        input_bytes: case.input_data.len(),
        r#type: case.r#type.name(),
        outcome: outcome::of(case, expect),
        latency,
        distribution,
        counts,
        own_output: None,
        tail_calls: case.tail_calls.clone(),
        verifier: case.verifier.clone(),
        size: case.size.clone(),
        profile: case.profile.clone(),
    }
}

/// Instructions of later runs, unless fresh maps give the same count.
fn steady(case: &RawCase, instructions: u64) -> Option<u64> {
    let fresh = match &case.variation {
        Some(it) => it.lowest..=it.highest,
        None => instructions..=instructions,
    };
    let settled = case.settled.and_then(|settled| settled.instructions)?;
    (!fresh.contains(&settled)).then_some(settled)
}

/// Latency of a run. `net_of` subtracts the baseline from a median if a baseline of the type was measured.
fn latency(run: &RawRun, net_of: &dyn Fn(f64) -> Option<f64>, seed: u64) -> Part<Latency> {
    let Ok(sample) = Sample::new(run.samples_ns.clone()) else {
        return Part::Unavailable(NO_SAMPLES.to_owned());
    };
    let bootstrap = Bootstrap { confidence: CONFIDENCE, seed, ..Bootstrap::default() };
    let median = |values: &[f64]| quantile_of_sorted(values, 0.5);
    let interval = bootstrap.percentile(&sample, median);
    let median_ns = sample.median();
    let outliers = outliers::Outliers::of(&sample);
    let mut kernel_ns = run.kernel_ns.clone();
    kernel_ns.sort_unstable();
    Part::Measured(Latency {
        method: match (&run.no_bursts, run.packet) {
            (None, _) => Method::Bursts,
            (Some(_), PacketSource::Restored) => Method::Calls,
            (Some(_), _) => Method::Batches,
        },
        reason: run.no_bursts.clone(),
        packet: run.packet,
        batches: sample.len(),
        runs_per_batch: run.runs_per_batch,
        median_ns,
        mean_ns: sample.mean(),
        lower_ns: interval.map_or(sample.min(), |interval| interval.lower),
        upper_ns: interval.map_or(sample.max(), |interval| interval.upper),
        confidence: CONFIDENCE,
        net_ns: match Sample::new(run.net_ns.clone()) {
            Ok(net) => Some(net.median().max(0.0)),
            Err(_) => net_of(median_ns),
        },
        floor_ns: Sample::new(run.floor_ns.clone())
            .map_or(sample.quantile(FLOOR), |floors| floors.quantile(FLOOR)),
        // Converts to a standard deviation: 1 / Φ⁻¹(3/4).
        spread_ns: MAD_TO_STD_DEV * sample.mad(),
        min_ns: sample.min(),
        max_ns: sample.max(),
        kernel_ns: kernel_ns.get(kernel_ns.len() / 2).copied().unwrap_or(0),
        outliers: Outliers {
            low_severe: outliers.low_severe,
            low_mild: outliers.low_mild,
            high_mild: outliers.high_mild,
            high_severe: outliers.high_severe,
        },
        samples_ns: run.samples_ns.clone(),
    })
}

impl From<&VerifierStatistics> for Verifier {
    fn from(statistics: &VerifierStatistics) -> Self {
        Self {
            processed_instructions: statistics.processed_instructions,
            total_states: statistics.total_states,
            peak_states: statistics.peak_states,
            max_states_per_instruction: statistics.max_states_per_instruction,
            mark_read: statistics.mark_read,
            stack_depth_bytes: statistics.stack_depth(),
            duration_us: statistics.verification_time_us,
        }
    }
}
