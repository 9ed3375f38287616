//! `wingbeat bench`: parses flags, calls the library, prints text.

mod args;

use std::{
    collections::HashSet,
    env, fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context as _, bail};
use wingbeat_bpf_bench::{
    analyse::{FIGURES_DISAGREE, compare::Thresholds},
    input,
    measure::{self, BenchError, Progress, Watcher},
    plan::Plan,
    report::{self, Style, veristat},
    result::{BenchReport, Case, Comparison, Failure, SCHEMA_VERSION},
};
use wingbeat_bpf_loader::{loader::LoadError, spec::Spec};
use wingbeat_track::run::left_profiles::{VARIABLE, file_name};

pub(crate) use self::args::{BenchArgs, InputArgs};
use crate::{
    output::{PendingFile, deliver},
    progress,
    shell::{WIDTH, interruptible, message, report_style, warning, width_of},
};

/// Redraw interval of the elapsed time.
const REDRAW_EVERY: Duration = Duration::from_millis(250);

/// Hint below a truncated verifier log.
const ALL_OF_THE_LOG: &str = "-v prints all of the verifier's log";

/// Measures and writes. The exit code is 1 if something failed, returned an unexpected value, or, with `--err`, became
/// worse or contradicts itself; otherwise 0.
pub(crate) fn run(args: &BenchArgs, quiet: bool, verbose: bool) -> anyhow::Result<ExitCode> {
    let output = args.output.as_deref().map(PendingFile::create).transpose()?;
    let spec = args.inputs.spec(&args.object)?;
    let folder = profile_folder(args)?;
    let (plan, warnings) = plan(args, folder.is_some())?;
    let style = style(output.is_some(), verbose);
    let done = match &args.against {
        None => {
            let report = with_progress(quiet, |watcher| measure::bench(&spec, &plan, watcher));
            let report = with_log(report, verbose)?;
            Done { report, text: None, is_compared: false, is_worse: false }
        }
        Some(csv) if csv.extension().is_some_and(|extension| extension == "csv") => {
            let rows = veristat_rows(csv)?;
            let report = with_progress(quiet, |watcher| measure::bench(&spec, &plan, watcher));
            let found =
                against_veristat(with_log(report, verbose)?, &rows, csv, args.thresholds())?;
            compared(found, args.format(), style)?
        }
        Some(other) => {
            let other = Spec::read_with(other, &args.inputs.r#type)?;
            let other = other.with_globals(&args.inputs.program_data)?;
            let thresholds = args.thresholds();
            let found = with_progress(quiet, |watcher| {
                measure::against(&spec, &other, &plan, thresholds, watcher)
            });
            compared(with_log(found, verbose)?, args.format(), style)?
        }
    };
    if verbose {
        // The full verifier logs; the results have only their ends.
        for Failure { name, log, .. } in &done.report.failures {
            if let Some(log) = log {
                message!("the verifier's log of {name}:\n{}\n", log.trim_end());
            }
        }
    }
    let has_more = !verbose && done.report.failures.iter().any(|failure| failure.log.is_some());
    let text = match &done.text {
        Some(text) => text.clone(),
        None => report::write(args.format(), &done.report, style)?,
    };
    if let Some(folder) = folder {
        write_profiles(&folder, &done.report.cases)?;
    }
    // A table without rows adds nothing to the errors, but it says why programs were not run.
    let report = &done.report;
    let is_empty =
        report.cases.is_empty() && report.verified.is_empty() && report.skipped.is_empty();
    let is_human = args.format() == report::Format::Human;
    if output.is_some() || !is_human || !is_empty {
        deliver(output, &text, is_human, quiet)?;
    }
    if !is_human && !quiet {
        // Machine formats cannot express these, and they must not be missed.
        for warning in &done.report.warnings {
            warning!("{warning}");
        }
    }
    let on_stderr = Style { width: width_of(io::stderr()), ..report_style(false) };
    if let Some(errors) = report::errors(&done.report, on_stderr) {
        message!("{errors}");
    }
    if !quiet {
        if has_more {
            message!("{ALL_OF_THE_LOG}");
        }
        for warning in &warnings {
            warning!("{warning}");
        }
    }
    Ok(exit_code(&done, args.err))
}

struct Done {
    report: BenchReport,
    /// The text, if not derived from the report alone.
    text: Option<String>,
    /// Whether anything was compared, even if only verifier statistics.
    is_compared: bool,
    is_worse: bool,
}

fn compared(mut found: Comparison, format: report::Format, style: Style) -> anyhow::Result<Done> {
    found.skip_compared();
    let text = report::write_comparison(format, &found, style)?;
    let mut measures = found.cases.iter().flat_map(|case| &case.measures);
    let is_worse = measures.any(|measure| measure.is_beyond_threshold);
    let is_compared = !found.cases.is_empty();
    Ok(Done { report: found.report, text: Some(text), is_compared, is_worse })
}

/// Reads verifier statistics written by veristat, or by an earlier run.
fn veristat_rows(csv: &Path) -> anyhow::Result<Vec<veristat::VeristatRow>> {
    let bytes = fs::read(csv).with_context(|| format!("cannot read {}", csv.display()))?;
    veristat::read(&bytes).with_context(|| csv.display().to_string())
}

/// Compares with them.
fn against_veristat(
    report: BenchReport,
    rows: &[veristat::VeristatRow],
    csv: &Path,
    thresholds: Thresholds,
) -> anyhow::Result<Comparison> {
    let veristat::AgainstVeristat { cases, unmatched, .. } =
        veristat::against_veristat(&report, rows, thresholds.exact);
    if cases.is_empty() {
        let reasons: Vec<_> =
            unmatched.iter().map(|it| format!("{}: {}", it.name, it.reason)).collect();
        bail!("{}: nothing to compare: {}", csv.display(), reasons.join("; "));
    }
    Ok(Comparison {
        schema_version: SCHEMA_VERSION,
        report,
        against: csv.display().to_string(),
        cases,
        unmatched,
        time_threshold: thresholds.time,
        exact_threshold: thresholds.exact,
    })
}

/// The plan given by the flags, and messages about the inputs.
fn plan(args: &BenchArgs, profiles: bool) -> anyhow::Result<(Plan, Vec<String>)> {
    let (inputs, warnings) = args.inputs.load()?;
    let plan = Plan {
        programs: args.programs.clone(),
        inputs,
        context: args.inputs.context()?,
        maps: args.inputs.map.clone(),
        target: args.target.clone(),
        time: args.time,
        samples: args.samples,
        cpu: args.cpu,
        expect: args.expect,
        allow_statistics: args.allow_stats,
        seed: args.seed,
        profiles,
    };
    Ok((plan, warnings))
}

impl InputArgs {
    /// The object, with program types given for its sections, and its variables set.
    pub(crate) fn spec(&self, object: &Path) -> anyhow::Result<Spec> {
        let spec = Spec::read_with(object, &self.r#type)?;
        spec.check(&self.r#type)?;
        Ok(spec.with_globals(&self.program_data)?)
    }

    /// The inputs, with warnings.
    pub(crate) fn load(&self) -> anyhow::Result<(Vec<input::Input>, Vec<String>)> {
        let loaded = input::load_all(&self.input, self.packets)?;
        let warnings = loaded.warnings.iter().map(ToString::to_string).collect();
        Ok((loaded.inputs, warnings))
    }

    /// The context structure; empty if not given.
    pub(crate) fn context(&self) -> anyhow::Result<Vec<u8>> {
        Ok(self.ctx.as_deref().map(input::load_bytes).transpose()?.unwrap_or_default())
    }
}

/// With `-v`, prints the full verifier log before the error.
pub(crate) fn with_log<T>(found: Result<T, BenchError>, verbose: bool) -> anyhow::Result<T> {
    if let Err(error @ BenchError::Load(LoadError::Rejected { rejection, .. })) = &found {
        // After the end of the log, the kernel's bare "permission denied" would be misleading.
        if !verbose {
            bail!("{error}\n{ALL_OF_THE_LOG}");
        }
        message!("{}", rejection.log);
        bail!("{error}");
    }
    Ok(found?)
}

/// Measures with a progress bar on a terminal, and stops at a signal with partial results.
pub(crate) fn with_progress<T>(
    quiet: bool,
    measure: impl FnOnce(&Watcher<'_>) -> Result<T, BenchError>,
) -> Result<T, BenchError> {
    let bar = progress::bar("{bar:30} {elapsed:>4} {msg}", Some(1), quiet);
    // A load may take seconds without a call of `show`.
    bar.enable_steady_tick(REDRAW_EVERY);
    let show = |progress: &Progress| {
        let total = u64::try_from(progress.total.as_millis()).unwrap_or(u64::MAX);
        let elapsed = u64::try_from(progress.elapsed.as_millis()).unwrap_or(u64::MAX);
        bar.set_length(total.max(1));
        bar.set_position(elapsed.min(total));
        bar.set_message(format!("of {} s  {}", progress.total.as_secs(), progress.doing));
    };
    let found = interruptible(|stop| measure(&Watcher { show: &show, stop }));
    bar.finish_and_clear();
    found
}

fn style(is_file: bool, verbose: bool) -> Style {
    let style = report_style(verbose);
    Style { width: if is_file { WIDTH } else { style.width }, ..style }
}

/// `is_strict` turns regressions and contradictions into failures.
fn exit_code(done: &Done, is_strict: bool) -> ExitCode {
    let report = &done.report;
    let is_unmet = report.cases.iter().any(|case| case.outcome.unmet_expectation.is_some());
    let disagree = report.warnings.iter().any(|warning| warning.code == FIGURES_DISAGREE);
    if is_strict && disagree {
        message!(
            "error: figures contradict each other (see the warning), so nothing is judged by them"
        );
    }
    let has_figures = done.is_compared || !report.cases.is_empty();
    let is_refused = is_strict && (done.is_worse || disagree);
    match !report.failures.is_empty() || is_unmet || is_refused || !has_figures {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

/// Folder of `--profiles`, or of the variable set by `wingbeat run`. Creates it.
fn profile_folder(args: &BenchArgs) -> anyhow::Result<Option<PathBuf>> {
    let variable = || env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    let Some(folder) = args.profiles.clone().or_else(variable) else { return Ok(None) };
    fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create the folder {} for profiles", folder.display()))?;
    Ok(Some(folder))
}

/// Writes one file per case with a profile, named after its benchmark, where `wingbeat run` looks for it.
fn write_profiles(folder: &Path, cases: &[Case]) -> anyhow::Result<()> {
    let mut names = HashSet::new();
    for case in cases {
        // Numbers cases of the same name like the adapters.
        let numbered = |number: usize| match number {
            1 => case.name.clone(),
            _ => format!("{}#{number}", case.name),
        };
        let name = (1..).map(numbered).find(|name| names.insert(name.clone()));
        let Some((name, profile)) = name.zip(case.profile.as_ref()) else { continue };
        let Some(file) = file_name(&name) else {
            warning!("no profile of {name}: its name is too long for that of a file");
            continue;
        };
        let path = folder.join(file);
        fs::write(&path, profile).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
