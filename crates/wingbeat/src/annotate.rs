//! `wingbeat annotate`: parses flags, calls the library, prints text.

use std::{collections::HashMap, fs, path::PathBuf, process::ExitCode};

use anyhow::bail;
use wingbeat_bpf_bench::{
    annotate::{Annotation, Form, Style, UnknownSuffix, write},
    measure::{self, BenchError},
    plan::Plan,
    result::Failure,
};
use wingbeat_bpf_loader::spec::Spec;

use crate::{
    bench::{InputArgs, with_log, with_progress},
    output::PendingFile,
    shell::{message, print, report_style, warning},
    values::{Format, FormatArgs},
};

/// Flags of `wingbeat annotate`.
#[derive(Debug, clap::Args)]
pub(crate) struct AnnotateArgs {
    /// Object file with eBPF programs
    #[arg(value_name = "OBJECT")]
    object: PathBuf,
    /// Program to annotate, by name or by a unique part of it; optional if there is only one
    #[arg(value_name = "PROGRAM")]
    program: Option<String>,
    #[command(flatten)]
    inputs: InputArgs,
    /// Show basic blocks and instructions below each line
    #[arg(long)]
    bytecode: bool,
    /// Show full paths of files in Rust's library and in crates
    #[arg(long)]
    full_paths: bool,
    #[command(flatten)]
    format: FormatArgs<Format>,
    /// Write to FILE; repeatable. The suffix sets the format: .svg flame graph of functions and lines,
    /// .folded collapsed stacks, .pb.gz pprof, .lcov or .info coverage, .json all data, .txt text
    #[arg(short, long, value_name = "FILE", value_parser = output)]
    output: Vec<PathBuf>,
}

fn output(text: &str) -> Result<PathBuf, UnknownSuffix> {
    let path = PathBuf::from(text);
    Form::from_path(&path).map(|_| path)
}

pub(crate) fn run(args: &AnnotateArgs, quiet: bool, verbose: bool) -> anyhow::Result<ExitCode> {
    let outputs = args
        .output
        .iter()
        .map(|path| Ok((PendingFile::create(path)?, Form::from_path(path)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let spec = args.inputs.spec(&args.object)?;
    let program = program(&spec, args.program.as_deref())?;
    let (inputs, warnings) = args.inputs.load()?;
    let plan = Plan {
        programs: vec![program.clone()],
        inputs,
        context: args.inputs.context()?,
        maps: args.inputs.map.clone(),
        allow_statistics: true,
        ..Plan::default()
    };
    let counted = with_progress(quiet, |watcher| {
        measure::count_program(&spec, &program, &plan, watcher.stop)
    });
    let counted = with_log(counted, verbose)?;
    let mut files = SourceFiles::default();
    let found = Annotation::new(
        spec.file(),
        &counted.linked.program.name,
        counted.outcomes,
        &counted.linked.code,
        &counted.types,
        &counted.counts,
        &mut |file, line| files.line(file, line),
    )
    .with_kfuncs(&counted.linked.kfuncs);
    for (file, form) in outputs {
        let path = file.path().display().to_string();
        file.write(|writer| write(&found, form, Style::default(), writer))?;
        if !quiet {
            message!("wrote {path} ({form})");
        }
    }
    let is_json = args.format.get() == Format::Json;
    if is_json || (args.output.is_empty() && !quiet) {
        show(&found, args, is_json)?;
    }
    if !quiet {
        for Failure { name, reason, .. } in &counted.left_out {
            warning!("input {name} is left out: {reason}");
        }
        let own = counted.warnings.into_iter().chain(found.contradiction());
        for warning in own.map(|it| it.to_string()).chain(warnings) {
            warning!("{warning}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn program(spec: &Spec, name: Option<&str>) -> anyhow::Result<String> {
    match (name, spec.programs()) {
        (Some(name), _) => Ok(wingbeat_bpf_bench::plan::find(spec, name)?.name.clone()),
        (None, [only]) => Ok(only.name.clone()),
        (None, []) => bail!(BenchError::no_programs(spec)),
        (None, several) => {
            let names: Vec<_> = several.iter().map(|program| program.name.as_str()).collect();
            bail!("{} has several programs; name one of {}", spec.file(), names.join(", "))
        }
    }
}

fn show(found: &Annotation, args: &AnnotateArgs, is_json: bool) -> anyhow::Result<()> {
    let form = if is_json { Form::Json } else { Form::Human };
    let style = Style {
        text: report_style(false),
        has_bytecode: args.bytecode,
        has_full_paths: args.full_paths,
    };
    let mut text = Vec::new();
    write(found, form, style, &mut text)?;
    print(&String::from_utf8(text)?)
}

/// Source files, for objects without the text of their lines. Reads each once.
#[derive(Default)]
struct SourceFiles {
    lines: HashMap<String, Option<Vec<String>>>,
}

impl SourceFiles {
    fn line(&mut self, file: &str, line: u32) -> Option<String> {
        let read = || {
            let text = fs::read_to_string(file).ok()?;
            Some(text.lines().map(|line| line.trim_end().to_owned()).collect())
        };
        let lines = self.lines.entry(file.to_owned()).or_insert_with(read).as_ref()?;
        lines.get(usize::try_from(line).ok()?.checked_sub(1)?).cloned()
    }
}
