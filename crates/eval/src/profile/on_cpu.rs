//! How each tool samples a target, and what it then says.

use std::{
    fs::{self, File},
    io::BufReader,
    process::{Command, Stdio},
};

use anyhow::Context as _;
use flate2::bufread::GzDecoder;

use super::{
    attach::{Ready, attach},
    parse::{
        bpftrace_samples, firefox_samples, folded_samples, perf_stats, samply_lost, summary,
        svg_samples, wingbeat_samples,
    },
    process,
    record::{Outcome, Target},
    settings::{Paranoia, Tracefs},
    workload::Job,
};

type Found = anyhow::Result<(Target, Outcome)>;

/// From start to flame graph in one process.
pub(super) fn wingbeat(job: &Job<'_>) -> Found {
    let mut command = Command::new(job.programs.join("wingbeat"));
    command.args(["profile", "--quiet", "--frequency", &job.hz(), "--output"]);
    command.arg(job.file("flamegraph.svg"));
    command.arg("--summary-json").arg(job.file("summary.json")).arg("--");
    let (target, usage) = job.launch(&mut command)?;
    let outcome = Outcome::of(usage);
    let (sampled, lost, bytes, told_ns) = wingbeat_samples(&summary(&job.file("summary.json"))?)?;
    let (bytes_per_sample, told_cpu_ns) = (Some(bytes), Some(told_ns));
    let (seen, lost) = (Some(sampled), Some(lost));
    Ok((target, Outcome { seen, lost, bytes_per_sample, told_cpu_ns, ..outcome }))
}

/// perf with frame pointers, and inferno for the picture: what most people do.
///
/// The event is named because without it perf takes hardware cycles where there are any, and the
/// comparison would then be between clocks.
pub(super) fn perf(job: &Job<'_>) -> Found {
    let data = job.file("perf.data");
    let mut record = Command::new("perf");
    record.args(["record", "--quiet", "-g", "-e", "cpu-clock", "-F", &job.hz(), "-o"]);
    let (target, recorded) = job.launch(record.arg(&data).arg("--"))?;

    let mut script = Command::new("perf");
    script.args(["script", "-i"]).arg(&data);
    let mut chain =
        [script, Command::new("inferno-collapse-perf"), Command::new("inferno-flamegraph")];
    let picture = File::create(job.file("flamegraph.svg")).context("cannot write the picture")?;
    let drawn = process::pipeline(&mut chain, Stdio::null(), picture, &job.messages())?;
    let outcome = Outcome::of(recorded.then(drawn));

    let (samples, lost) = perf_stats(&data, "cpu-clock")?;
    let bytes = fs::metadata(&data).context("perf left no recording")?.len();
    let bytes_per_sample = (samples > 0).then(|| bytes as f64 / samples as f64);
    Ok((target, Outcome { seen: Some(samples), lost: Some(lost), bytes_per_sample, ..outcome }))
}

/// samply's recording alone, into a file that nobody opens: it names functions in the browser.
pub(super) fn samply(job: &Job<'_>) -> Found {
    // samply 0.13 refuses level 2 even to root.
    let _lowered = Paranoia::at_most(1)?;
    let profile = job.file("profile.json.gz");
    let mut command = Command::new("samply");
    command.args(["record", "--save-only", "--no-open", "--rate", &job.hz(), "--output"]);
    let (target, usage) = job.launch(command.arg(&profile).arg("--"))?;
    let outcome = Outcome::of(usage);

    let file = File::open(&profile).context("samply left no profile")?;
    let samples = firefox_samples(BufReader::new(GzDecoder::new(BufReader::new(file))))?;
    let said = fs::read(job.messages()).unwrap_or_default();
    let lost = samply_lost(&String::from_utf8_lossy(&said));
    // It has the kernel copy up to 32 kB of stack for each, of which the file shows nothing: no bytes.
    Ok((target, Outcome { seen: Some(samples), lost: Some(lost), ..outcome }))
}

/// bpftrace's one-liner for profiling: counts stacks in the kernel until the work is done, then prints
/// them with names.
pub(super) fn bpftrace(job: &Job<'_>) -> Found {
    let stacks = job.file("stacks.txt");
    let (target, usage) = attach(job, Ready::Events, &stacks, |pid| {
        let filter = if job.workload.forks {
            format!("comm == \"{}\"", job.workload.program)
        } else {
            format!("pid == {pid}")
        };
        let hz = job.frequency_hz;
        let program = format!("profile:hz:{hz} /{filter}/ {{ @[kstack, ustack(127)] = count(); }}");
        let mut command = Command::new("bpftrace");
        // By default it reads the program's symbols anew for each frame, which takes minutes.
        command.args(["-e", &program]).env("BPFTRACE_CACHE_USER_SYMBOLS", "1");
        command
    })?;
    let outcome = Outcome { attached: true, ..Outcome::of(usage) };
    let text = File::open(&stacks).context("bpftrace left no stacks")?;
    // A full map and a collision of stacks both drop samples without a count.
    let seen = Some(bpftrace_samples(BufReader::new(text))?);
    Ok((target, Outcome { seen, ..outcome }))
}

/// BCC's profile, which compiles its kernel half at each start and counts stacks in the kernel; prints
/// them folded, then draws.
pub(super) fn bcc(job: &Job<'_>) -> Found {
    let folded = job.file("stacks.folded");
    let (target, counted) = attach(job, Ready::Events, &folded, |pid| {
        let mut command = Command::new("profile-bpfcc");
        command.args(["-f", "-F", &job.hz(), "-p", &pid.to_string()]);
        command
    })?;
    let open = || File::open(&folded).context("profile-bpfcc left no stacks");
    let picture = File::create(job.file("flamegraph.svg")).context("cannot write the picture")?;
    let mut chain = [Command::new("inferno-flamegraph")];
    let drawn = process::pipeline(&mut chain, open()?.into(), picture, &job.messages())?;
    let outcome = Outcome { attached: true, ..Outcome::of(counted.then(drawn)) };
    // It warns of stacks that it cannot show, but not of how many samples those had.
    let seen = Some(folded_samples(BufReader::new(open()?))?);
    Ok((target, Outcome { seen, ..outcome }))
}

/// profile-bee, the other profiler on Aya. Attaches, because the names of a command that it launches
/// itself are lost when that has ended.
pub(super) fn probee(job: &Job<'_>) -> Found {
    let _mounted = Tracefs::mounted()?;
    let picture = job.file("flamegraph.svg");
    // It attaches by links and closes the events, so that only its words show when it is ready.
    let ready = Ready::Says("Waiting for Ctrl-C");
    let (target, usage) = attach(job, ready, &job.file("said"), |pid| {
        let mut command = Command::new("probee");
        // Without a time of 0 it ends after ten seconds.
        command.args(["-p", &pid.to_string(), "-f", &job.hz(), "-t", "0", "-o"]).arg(&picture);
        command
    })?;
    let outcome = Outcome { attached: true, ..Outcome::of(usage) };
    let svg = File::open(&picture).context("probee left no flame graph")?;
    let seen = Some(svg_samples(BufReader::new(svg))?);
    Ok((target, Outcome { seen, ..outcome }))
}
