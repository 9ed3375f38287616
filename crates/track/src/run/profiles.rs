//! Profiles of what was measured. Exact ones are those that the command left. For others each benchmark runs once
//! more, alone, while a sampler watches: the run that counts stays undisturbed, and samples of one benchmark are not
//! those of another.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fmt, io,
    path::Path,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use wingbeat_text::{first_few, plural};

use super::{
    Benchmark, Echo, Finding, Request, filter,
    left_profiles::{self, VARIABLE},
};
use crate::{
    adapter::Adapter,
    model::{BenchmarkName, PROFILE_BYTES_MAX, Profile, ProfileKind},
};

/// Which profiles are wanted.
#[derive(Clone, Copy, Default)]
pub struct Profiling<'s> {
    /// Exact ones, as far as the command leaves some.
    pub takes_exact: bool,
    /// Takes others, unless there are exact ones.
    pub sampler: Option<&'s dyn Sampler>,
}

impl fmt::Debug for Profiling<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.sampler.map(Sampler::kind);
        f.debug_struct("Profiling").field("exact", &self.takes_exact).field("kind", &kind).finish()
    }
}

/// Where the command may leave exact profiles; gone with this value.
#[derive(Debug)]
pub(super) struct Folder(Option<io::Result<TempDir>>);

impl Profiling<'_> {
    pub(super) fn folder(&self) -> Folder {
        let make = || tempfile::Builder::new().prefix("wingbeat-profiles-").tempdir();
        Folder(self.takes_exact.then(make))
    }
}

impl Folder {
    pub(super) fn path(&self) -> Option<&Path> {
        self.0.as_ref()?.as_ref().ok().map(TempDir::path)
    }
}

/// Runs commands while it samples them.
pub trait Sampler {
    fn kind(&self) -> ProfileKind;

    /// Runs a command to its end; why not, as the end of a sentence.
    fn sample(&self, words: &[OsString]) -> Result<Sampled, String>;
}

/// A profile that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sampled {
    /// gzip'd.
    pub pprof: Vec<u8>,
    pub samples: u64,
}

/// No benchmark is begun once all of them took so long.
const LIMIT: Duration = Duration::from_mins(5);

/// Takes the profiles that are wanted, as far as there are any. What has none is a remark.
pub(super) fn take(
    finding: &mut Finding,
    request: &Request,
    (profiling, folder): (Profiling<'_>, &Folder),
    echo: &mut Echo<'_>,
) {
    if let Folder(Some(folder)) = folder {
        take_exact(finding, folder, profiling.sampler.is_none());
    }
    // Who counts exactly spends its time elsewhere: `wingbeat bench` in the kernel, another tool under valgrind.
    if let Some(sampler) = profiling.sampler.filter(|_| finding.profiles.is_empty()) {
        sample_all(finding, request, sampler, echo);
    }
}

/// Takes the exact profiles that the command left. Where there are none, that is said if no others are wanted.
fn take_exact(finding: &mut Finding, folder: &io::Result<TempDir>, is_all: bool) {
    let Finding { report, profiles, remarks, .. } = finding;
    let found = match folder {
        Ok(folder) => left_profiles::read(folder.path(), report, remarks),
        Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
    };
    match found {
        Ok(found) if found.is_empty() && is_all => remarks.push(format!(
            "no instructions profile: the command left none in the folder that the variable {VARIABLE} names; \
             `wingbeat bench` does, and under sudo needs --preserve-env={VARIABLE}"
        )),
        Ok(found) => profiles.extend(found),
        Err(error) => remarks.push(format!("no instructions profile: a folder for it: {error}")),
    }
}

/// Profiles what was measured: suspects first, while there is time. What cannot be profiled is a remark.
fn sample_all(
    finding: &mut Finding,
    request: &Request,
    sampler: &dyn Sampler,
    echo: &mut Echo<'_>,
) {
    let Some(command) = &request.source.command else {
        let remark = "results without a command cannot be profiled";
        finding.remarks.push(remark.to_owned());
        return;
    };
    // What was measured before is to be stored all the same.
    request.interrupt.keep_results();
    let runs = plan(command, adapter(finding, request), &benchmarks(finding));
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

/// The adapter, or the tool that `magic` must have found: only Criterion leaves samples behind.
fn adapter(finding: &Finding, request: &Request) -> Adapter {
    let has_samples = || finding.report.metrics().any(|(.., metric)| !metric.samples.is_empty());
    match request.adapter {
        Adapter::Magic if has_samples() => Adapter::RustCriterion,
        adapter => adapter,
    }
}

/// What to run: each benchmark alone, or all of them where they cannot be told apart.
fn plan(
    command: &Benchmark,
    adapter: Adapter,
    benchmarks: &[BenchmarkName],
) -> Vec<(Option<BenchmarkName>, Benchmark)> {
    if let [only] = benchmarks {
        let alone = filter::one(command, adapter, only).unwrap_or_else(|| command.clone());
        return vec![(Some(only.clone()), alone)];
    }
    let alone =
        |name: &BenchmarkName| Some((Some(name.clone()), filter::one(command, adapter, name)?));
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
    use super::*;

    fn command(words: &[&str]) -> Benchmark {
        Benchmark::Exec(words.iter().map(OsString::from).collect())
    }

    #[test]
    fn each_benchmark_alone_if_they_can_be_told_apart() {
        let check = |words: &[&str], names: &[&str], expected: &[(Option<&str>, &[&str])]| {
            let names: Vec<_> =
                names.iter().map(|name| BenchmarkName::new(*name).expect("a name")).collect();
            let planned = plan(&command(words), Adapter::Magic, &names);
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
                (Some("a"), &["cargo", "bench", "--", "--exact", "a"]),
                (Some("b"), &["cargo", "bench", "--", "--exact", "b"]),
            ],
        );
        check(&["make"], &["a"], &[(Some("a"), &["make"])]);
        check(&["make"], &["a", "b"], &[(None, &["make"])]);
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
