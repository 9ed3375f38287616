//! Profiles of the measured benchmarks. Exact ones are those that the command left. For others each benchmark runs once
//! more, alone, under a sampler: the measured run stays undisturbed, and the samples of benchmarks do not mix.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fmt, io,
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use tempfile::TempDir;
use wingbeat_text::{first_few, plural};

use super::{Benchmark, Echo, Finding, Request, filter, left_profiles, tool_files};
use crate::{
    adapter::Adapter,
    model::{BenchmarkName, PROFILE_BYTES_MAX, Profile, ProfileKind},
};

/// The requested profiles.
#[derive(Clone, Copy, Default)]
pub struct Profiling<'s> {
    /// Whether to read exact ones, if the command leaves some.
    pub takes_exact: bool,
    /// Takes the other profiles if there are no exact ones.
    pub sampler: Option<&'s dyn Sampler>,
}

impl fmt::Debug for Profiling<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.sampler.map(Sampler::kind);
        f.debug_struct("Profiling").field("exact", &self.takes_exact).field("kind", &kind).finish()
    }
}

/// Folder for the command's exact profiles and its start time. Deleted on drop.
#[derive(Debug)]
pub(super) struct Folder(Option<(io::Result<TempDir>, SystemTime)>);

impl Profiling<'_> {
    pub(super) fn folder(&self) -> Folder {
        let make = || tempfile::Builder::new().prefix("wingbeat-profiles-").tempdir();
        Folder(self.takes_exact.then(|| (make(), SystemTime::now())))
    }
}

impl Folder {
    pub(super) fn path(&self) -> Option<&Path> {
        self.0.as_ref()?.0.as_ref().ok().map(TempDir::path)
    }
}

/// Runs commands while sampling them.
pub trait Sampler {
    fn kind(&self) -> ProfileKind;

    /// Runs a command to completion. The error is the end of a sentence.
    fn sample(&self, words: &[OsString]) -> Result<Sampled, String>;
}

/// A profile that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sampled {
    /// gzip'd.
    pub pprof: Vec<u8>,
    pub samples: u64,
}

/// Total time after which no further benchmark is started.
const LIMIT: Duration = Duration::from_mins(5);

/// Takes the requested profiles, if there are any. Missing ones become remarks.
pub(super) fn take(
    finding: &mut Finding,
    request: &Request,
    (profiling, folder): (Profiling<'_>, &Folder),
    echo: &mut Echo<'_>,
) {
    if let Folder(Some((folder, started))) = folder {
        take_exact(finding, request, (folder, *started));
        if finding.profiles.is_empty() && profiling.sampler.is_none() {
            let has_command = request.source.command.is_some();
            finding.remarks.push(if has_command { NO_EXACT } else { NO_COMMAND }.to_owned());
        }
    }
    if let Some(sampler) = profiling.sampler {
        sample_all(finding, request, sampler, echo);
    }
}

const NO_COMMAND: &str = "results without a command cannot be profiled";

/// Remark if only exact profiles are requested, and there are none.
const NO_EXACT: &str = "no instructions profile: the command left none in the folder that the variable WINGBEAT_PROFILES names, \
                        nor files of Callgrind in target/gungraun; `wingbeat bench` does the former, and under sudo needs \
                        --preserve-env=WINGBEAT_PROFILES";

/// Reads the exact profiles that the command left since it began.
fn take_exact(
    finding: &mut Finding,
    request: &Request,
    (folder, started): (&io::Result<TempDir>, SystemTime),
) {
    let Finding { report, profiles, remarks, .. } = finding;
    match folder {
        Ok(folder) => match left_profiles::read(folder.path(), report, remarks) {
            Ok(found) => profiles.extend(found),
            Err(error) => {
                remarks.push(format!("cannot read the profiles that the command left: {error}"));
            }
        },
        Err(error) => remarks.push(format!("cannot make a folder for exact profiles: {error}")),
    }
    let mut failed = Vec::new();
    for (name, found) in tool_files::profiles(report, &request.directory, started) {
        match found.and_then(|pprof| left_profiles::checked(report, &name, pprof)) {
            Ok(profile) => profiles.push(profile),
            Err(why) => failed.push(format!("{name}: {why}")),
        }
    }
    remarks.extend(left_profiles::failed(failed));
}

/// Profiles the measured benchmarks: suspects first, within the time limit. Failures become remarks.
fn sample_all(
    finding: &mut Finding,
    request: &Request,
    sampler: &dyn Sampler,
    echo: &mut Echo<'_>,
) {
    let Some(command) = &request.source.command else {
        finding.remarks.push(NO_COMMAND.to_owned());
        return;
    };
    // Earlier measurements are to be stored in any case.
    request.interrupt.keep_results();
    let runs = plan(command, adapter(finding, request), &benchmarks(finding), &finding.profiles);
    let begun = Instant::now();
    let (mut failed, mut late) = (Vec::new(), Vec::new());
    for (at, (benchmark, command)) in runs.iter().enumerate() {
        if request.interrupt.is_raised() || begun.elapsed() > LIMIT {
            late.push(named(benchmark.as_ref()));
            continue;
        }
        let (name, count) = (named(benchmark.as_ref()), runs.len());
        echo(format!("profiling {name} ({} of {count})\n", at + 1).as_bytes());
        match profile(finding, sampler, benchmark.clone(), command) {
            Ok(profile) => finding.profiles.push(profile),
            Err(why) => failed.push(format!("{name}: {why}")),
        }
    }
    finding.remarks.extend(summary(sampler.kind(), &finding.profiles, &failed, &late));
}

fn profile(
    finding: &Finding,
    sampler: &dyn Sampler,
    benchmark: Option<BenchmarkName>,
    command: &Benchmark,
) -> Result<Profile, String> {
    let Sampled { pprof, samples } = sampler.sample(&command.words())?;
    if samples == 0 {
        return Err("no sample was taken".to_owned());
    }
    if pprof.len() > PROFILE_BYTES_MAX {
        let (bytes, limit) = (pprof.len(), PROFILE_BYTES_MAX);
        return Err(format!("its profile has {bytes} bytes, and {limit} can be stored"));
    }
    Ok(Profile::new(finding.report.uuid, benchmark, sampler.kind(), samples, pprof))
}

/// The benchmarks, suspects first.
fn benchmarks(finding: &Finding) -> Vec<BenchmarkName> {
    let report = &finding.report;
    let alerts = report.alerts.iter().map(|alert| &alert.benchmark);
    let looks = finding.looks.iter().filter_map(|look| report.verdicts.get(look.place));
    let suspects: BTreeSet<_> = alerts.chain(looks.map(|verdict| &verdict.benchmark)).collect();
    let all: BTreeSet<_> = report.metrics().map(|(_, results, ..)| &results.name).collect();
    let others = all.difference(&suspects).copied();
    suspects.iter().copied().chain(others).cloned().collect()
}

/// The adapter, or the one that `magic` must have found: only Criterion writes samples to files.
fn adapter(finding: &Finding, request: &Request) -> Adapter {
    let has_samples = || finding.report.metrics().any(|(.., metric)| !metric.samples.is_empty());
    match request.adapter {
        Adapter::Magic if has_samples() => Adapter::RustCriterion,
        adapter => adapter,
    }
}

/// What to run: each benchmark without a profile separately, or all of them if they cannot be filtered.
fn plan(
    command: &Benchmark,
    adapter: Adapter,
    benchmarks: &[BenchmarkName],
    profiles: &[Profile],
) -> Vec<(Option<BenchmarkName>, Benchmark)> {
    let alone =
        |name: &BenchmarkName| Some((Some(name.clone()), filter::one(command, adapter, name)?));
    if !profiles.is_empty() {
        // A counting tool spends its time elsewhere: in the kernel, or under Valgrind.
        let is_counted = |name: &&BenchmarkName| {
            profiles.iter().any(|profile| profile.about.benchmark.as_ref() == Some(*name))
        };
        return benchmarks.iter().filter(|name| !is_counted(name)).filter_map(alone).collect();
    }
    if let [only] = benchmarks {
        let alone = filter::one(command, adapter, only).unwrap_or_else(|| command.clone());
        return vec![(Some(only.clone()), alone)];
    }
    let each: Option<Vec<_>> = benchmarks.iter().map(alone).collect();
    each.unwrap_or_else(|| vec![(None, command.clone())])
}

fn named(benchmark: Option<&BenchmarkName>) -> String {
    benchmark.map_or_else(|| "the command".to_owned(), ToString::to_string)
}

fn summary(
    kind: ProfileKind,
    profiles: &[Profile],
    failed: &[String],
    late: &[String],
) -> Vec<String> {
    let mut remarks = Vec::new();
    if let [profile] = profiles
        && profile.about.benchmark.is_none()
    {
        remarks.push(
            "all benchmarks share one profile: this harness has no filter that wingbeat knows"
                .to_owned(),
        );
    }
    if !failed.is_empty() {
        let failed = first_few(failed.iter().cloned());
        remarks.push(format!("no {kind} profile of {failed}"));
    }
    if !late.is_empty() {
        let count = plural(late.len(), "benchmark");
        let minutes = LIMIT.as_secs() / 60;
        let names = first_few(late.iter().cloned());
        remarks.push(format!("{count} not profiled after {minutes} minutes or a signal: {names}"));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn command(words: &[&str]) -> Benchmark {
        Benchmark::Exec(words.iter().map(OsString::from).collect())
    }

    #[test]
    fn each_benchmark_alone_if_they_can_be_told_apart() {
        let check = |words: &[&str], names: &[&str], expected: &[(Option<&str>, &[&str])]| {
            let names: Vec<_> =
                names.iter().map(|name| BenchmarkName::new(*name).expect("a name")).collect();
            let planned = plan(&command(words), Adapter::Magic, &names, &[]);
            let planned: Vec<_> = planned
                .iter()
                .map(|(name, run)| (name.as_ref().map(BenchmarkName::as_str), run.clone()))
                .collect();
            let expected: Vec<_> =
                expected.iter().map(|(name, words)| (*name, command(words))).collect();
            assert_eq!(planned, expected);
        };
        let bench = ["cargo", "bench"];
        check(
            &bench,
            &["a", "b"],
            &[
                (Some("a"), &["env", "DIVAN_MIN_TIME=3", "cargo", "bench", "--", "--exact", "a"]),
                (Some("b"), &["env", "DIVAN_MIN_TIME=3", "cargo", "bench", "--", "--exact", "b"]),
            ],
        );
        check(&["make"], &["a"], &[(Some("a"), &["make"])]);
        check(&["make"], &["a", "b"], &[(None, &["make"])]);
    }

    #[test]
    fn what_was_counted_does_not_run_again() {
        let names = ["a", "b"].map(|name| BenchmarkName::new(name).expect("a name"));
        let kind = ProfileKind::Instructions;
        let counted = Profile::new(Uuid::nil(), Some(names[0].clone()), kind, 1, Vec::new());
        let planned = |words: &[&str], names: &[BenchmarkName]| {
            plan(&command(words), Adapter::Magic, names, std::slice::from_ref(&counted))
        };
        let alone = command(&["env", "DIVAN_MIN_TIME=3", "cargo", "bench", "--", "--exact", "b"]);
        assert_eq!(planned(&["cargo", "bench"], &names), [(Some(names[1].clone()), alone)]);
        assert_eq!(planned(&["cargo", "bench"], &names[..1]), []);
        assert_eq!(planned(&["wingbeat", "bench", "x.o"], &names), []);
    }

    #[test]
    fn what_was_not_profiled_is_said() {
        let late = ["c".to_owned()];
        let failed = ["a: it failed with status 1".to_owned()];
        let remarks = summary(ProfileKind::Wall, &[], &failed, &late);
        assert_eq!(
            remarks,
            [
                "no wall profile of a: it failed with status 1",
                "1 benchmark not profiled after 5 minutes or a signal: c",
            ]
        );
        assert_eq!(summary(ProfileKind::Wall, &[], &[], &[]), Vec::<String>::new());
    }
}
