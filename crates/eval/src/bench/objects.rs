//! Does it work on objects that nobody here wrote? Each is measured by `wingbeat bench` as a user
//! would, and loaded by libbpf beside that, program by program.

mod carve;
mod files;
mod measured;
mod packages;
mod reason;
mod record;
mod text;
mod veristat;

use std::{fs, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context as _, bail};
use clap::Args;

use self::{
    files::Object,
    record::{Record, Tried},
};
use super::Bed;
use crate::{
    comparison::{Common, Origin, Stop, kept, out},
    tools::find,
};

/// Which objects are tried, and for how long.
#[derive(Debug, Args)]
pub(crate) struct ObjectsArgs {
    /// A folder with objects of one origin, or one whose folders are origins
    #[arg(long = "folder", value_name = "[NAME=]DIR", required_unless_present_any = ["apt", "from"])]
    folders: Vec<String>,
    /// Also take the objects of Debian's packages; they are downloaded, not installed
    #[arg(long)]
    apt: bool,
    /// Time for each object, as wingbeat gets it
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time)]
    time: Duration,
    /// When an object that has not ended is stopped
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
    limit: Duration,
    /// The veristat to compare with [default: the one in PATH]
    #[arg(long, value_name = "FILE")]
    veristat: Option<PathBuf>,
    /// Make the tables of figures that were kept, and try nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["folders", "apt"])]
    from: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// Tries all objects one after the other, and prints the tables.
pub(super) fn run(args: &ObjectsArgs) -> anyhow::Result<ExitCode> {
    if let Some(file) = &args.from {
        return finish(args, &kept(file)?, &Stop::on_signals()?);
    }
    let veristat = args.veristat.clone().map_or_else(|| find("veristat"), Ok)?;
    let bed = Bed::new(&args.common)?;
    let mut origin = Origin::now();
    let mut folders = Vec::new();
    if args.apt {
        let (found, notes) = packages::folders()?;
        folders.extend(found);
        origin.notes.extend(notes);
    }
    for argument in &args.folders {
        folders.extend(files::folders(argument)?);
    }
    let objects = files::objects(&folders)?;
    if objects.is_empty() {
        bail!("there are no files *.o in these folders");
    }
    let mut record = Record {
        origin,
        time_s: args.time.as_secs_f64(),
        limit_s: args.limit.as_secs_f64(),
        tried: Vec::new(),
    };
    for Object { origin, name, file } in &objects {
        let wingbeat = measured::measure(&bed.wingbeat, file, args.time, args.limit)?;
        let libbpf = veristat::load(&veristat, file, args.limit)?;
        // Ctrl-C reaches the tools as well: what they say then is not about the object.
        if bed.stop.is_asked() {
            break;
        }
        let tried = Tried { origin: origin.clone(), name: name.clone(), wingbeat, libbpf };
        eprintln!("{}", text::progress(&tried, record.time_s));
        record.tried.push(tried);
    }
    finish(args, &record, &bed.stop)
}

/// Prints the page's table, and writes all others to a file beside the figures.
fn finish(args: &ObjectsArgs, record: &Record, stop: &Stop) -> anyhow::Result<ExitCode> {
    let file = out("")?.join("bench-objects.md");
    fs::write(&file, text::details(record))
        .with_context(|| format!("cannot write {}", file.display()))?;
    eprintln!("wrote all tables to {}", file.display());
    args.common.finish("bench objects", record, &text::page(record), stop)
}

/// A time as wingbeat takes it, in seconds or milliseconds.
fn time(text: &str) -> Result<Duration, String> {
    let parts = match text.strip_suffix("ms") {
        Some(number) => (number, 1),
        None => (text.strip_suffix('s').unwrap_or(text), 1000),
    };
    let number: u32 = parts.0.parse().map_err(|_| "expected a time such as 2s or 500ms")?;
    match number {
        0 => Err("expected more than nothing".to_owned()),
        number => Ok(Duration::from_millis(u64::from(number) * parts.1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(time(text).ok(), expected.map(Duration::from_millis), "{text}");
        };
        check("2s", Some(2000));
        check("500ms", Some(500));
        check("3", Some(3000));
        check("0s", None);
        check("-1s", None);
        check("1h", None);
        check("", None);
    }
}
