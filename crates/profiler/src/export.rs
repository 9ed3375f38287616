//! Exporters: from a [`Profile`] to bytes. They never access the kernel, the clock or the network.
//!
//! Every format is a pure function of the profile: the same profile gives the same bytes.
//!
//! ```
//! # use std::path::Path;
//! use wingbeat_profiler::export::{Format, UnknownFormat};
//! # fn main() -> Result<(), UnknownFormat> {
//! assert_eq!(Format::from_path(Path::new("out/trace.json.gz"))?, Format::Firefox { gzip: true });
//! # Ok(())
//! # }
//! ```

pub mod blocked;
mod dhat;
mod firefox;
mod flamegraph;
mod folded;
pub(crate) mod places;
pub(crate) mod pprof;
pub mod top;

pub use dhat::{HeapFacts, write_dhat};
pub(crate) use flamegraph::title;
pub(crate) use folded::{printable, sanitized};

use std::{
    fmt,
    hash::Hash,
    io::{self, Write},
    ops::Deref,
    path::{Path, PathBuf},
};

use rustc_hash::FxHashMap;

use self::folded::Names;
use crate::model::{Mode, Profile, Weight};

/// An output file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Interactive flame graph, as SVG.
    FlameGraph,
    /// Collapsed stacks, one `process;outer;inner count` per line.
    Folded,
    /// pprof's `profile.proto`, gzip'd.
    Pprof,
    /// Firefox Profiler's JSON.
    Firefox {
        /// Whether the JSON is compressed.
        gzip: bool,
    },
}

/// Suffixes by format. None is a suffix of another, so their order matters only for messages.
const SUFFIXES: [(&str, Format); 5] = [
    (".svg", Format::FlameGraph),
    (".folded", Format::Folded),
    (".pb.gz", Format::Pprof),
    (".json", Format::Firefox { gzip: false }),
    (".json.gz", Format::Firefox { gzip: true }),
];

impl Format {
    /// Selects the format by the suffix of a file name.
    pub fn from_path(path: &Path) -> Result<Self, UnknownFormat> {
        by_suffix(path, &SUFFIXES)
    }
}

/// The format whose suffix a file name has.
pub fn by_suffix<F: Copy + fmt::Display>(
    path: &Path,
    suffixes: &[(&str, F)],
) -> Result<F, UnknownFormat> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let found = suffixes.iter().find(|(suffix, _)| name.ends_with(suffix));
    found.map(|&(_, format)| format).ok_or_else(|| {
        let known = suffixes.iter().map(|(suffix, format)| format!("{suffix} ({format})"));
        UnknownFormat { path: path.to_owned(), known: known.collect::<Vec<_>>().join(", ") }
    })
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FlameGraph => "flame graph",
            Self::Folded => "collapsed stacks",
            Self::Pprof => "pprof",
            Self::Firefox { .. } => "Firefox Profiler",
        })
    }
}

/// A file name without a known suffix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the name {path:?} has no known suffix; use one of {known}")]
pub struct UnknownFormat {
    path: PathBuf,
    known: String,
}

/// Why a profile could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("{}", nothing_to_draw(*.0))]
    NoSamples(Mode),
    #[error("the profile is inconsistent: it refers to entry {id} of {len} {table}")]
    Inconsistent { table: &'static str, id: u32, len: usize },
}

fn nothing_to_draw(mode: Mode) -> &'static str {
    match mode {
        Mode::OnCpu => {
            "the profile holds no samples, so there is no flame graph to draw; profile for longer, at \
             a higher frequency, or a target that uses the CPU"
        }
        Mode::Heap => {
            "nothing that was recorded is live, so there is no flame graph to draw; record for longer, with a \
             smaller --sample, or draw all that was allocated with --show total"
        }
        Mode::Pages => {
            "no page fault was sampled, so there is no flame graph to draw; record for longer, or sample more of them \
             with --faults 1"
        }
        Mode::OffCpu => {
            "no thread left the CPU for long enough, so there is no flame graph to draw; profile for \
             longer, with a smaller --min-block, or with --mode on-cpu"
        }
        Mode::Wall => {
            "the profile holds no time, on the CPU or off it, so there is no flame graph to draw; \
             profile for longer, or a target with threads that run or wait"
        }
    }
}

/// Writes a profile in a format.
///
/// The writer need not be buffered. Output written before an error is unusable.
pub fn write(profile: &Profile, format: Format, writer: &mut dyn Write) -> Result<(), ExportError> {
    let profile = Checked::new(profile)?;
    match format {
        Format::FlameGraph => flamegraph::write(profile, &Names::new(profile), writer),
        Format::Folded => folded::write(profile, &Names::new(profile), writer),
        Format::Pprof => pprof::write(profile, true, writer),
        Format::Firefox { gzip } => firefox::write(profile, gzip, writer),
    }
}

/// Writes a pprof file without processes and threads, for backends that aggregate many machines.
pub fn write_sums(profile: &Profile, writer: &mut dyn Write) -> Result<(), ExportError> {
    pprof::write(Checked::new(profile)?, false, writer)
}

/// A profile with checked ids, which exporters may index with.
#[derive(Debug, Clone, Copy)]
struct Checked<'a>(&'a Profile);

impl<'a> Checked<'a> {
    /// Checks every id.
    fn new(profile: &'a Profile) -> Result<Self, ExportError> {
        let binaries = Table { name: "binaries", len: profile.binaries.len() };
        let functions = Table { name: "functions", len: profile.functions.len() };
        let frames = Table { name: "frames", len: profile.frames.len() };
        let stacks = Table { name: "stacks", len: profile.stacks.len() };
        let processes = Table { name: "processes", len: profile.processes.len() };
        let threads = Table { name: "threads", len: profile.threads.len() };
        let blocked = Table { name: "blocked stacks", len: profile.blocked.len() };

        for frame in &profile.frames {
            binaries.check(frame.binary)?;
            functions.check(frame.lines.iter().map(|line| line.function))?;
        }
        for stack in &profile.stacks {
            frames.check(stack.frames.iter().copied())?;
        }
        processes.check(profile.threads.iter().map(|thread| thread.process))?;
        stacks.check(profile.samples.iter().map(|sample| sample.stack))?;
        threads.check(profile.samples.iter().map(|sample| sample.thread))?;
        stacks.check(profile.blocked.iter().map(|blocked| blocked.stack))?;
        threads.check(profile.blocked.iter().map(|blocked| blocked.thread))?;
        for sites in [profile.sites.as_slice(), profile.mapped_sites()] {
            stacks.check(sites.iter().map(|site| site.stack))?;
            threads.check(sites.iter().map(|site| site.thread))?;
        }
        stacks.check(profile.sums.iter().map(|sum| sum.stack))?;
        threads.check(profile.sums.iter().map(|sum| sum.thread))?;
        blocked.check(profile.intervals.iter().map(|interval| interval.blocked))?;
        Ok(Self(profile))
    }

    /// The profile, with its own lifetime.
    fn profile(self) -> &'a Profile {
        self.0
    }
}

impl Deref for Checked<'_> {
    type Target = Profile;

    fn deref(&self) -> &Profile {
        self.0
    }
}

struct Table {
    name: &'static str,
    len: usize,
}

impl Table {
    fn check(&self, ids: impl IntoIterator<Item = u32>) -> Result<(), ExportError> {
        match ids.into_iter().find(|&id| id as usize >= self.len) {
            Some(id) => Err(ExportError::Inconsistent { table: self.name, id, len: self.len }),
            None => Ok(()),
        }
    }
}

/// Sums the weights of equal keys. The result is in order of first appearance, so it is deterministic.
fn add_up<K: Eq + Hash + Copy>(weights: impl IntoIterator<Item = (K, Weight)>) -> Vec<(K, Weight)> {
    let mut sums: Vec<(K, Weight)> = Vec::new();
    let mut positions: FxHashMap<K, usize> = FxHashMap::default();
    for (key, weight) in weights {
        let position = *positions.entry(key).or_insert_with(|| {
            sums.push((key, Weight::default()));
            sums.len() - 1
        });
        sums[position].1 += weight;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suffix_names_the_format() {
        let check = |path: &str, expected: Option<Format>| {
            assert_eq!(Format::from_path(Path::new(path)).ok(), expected, "{path}");
        };
        check("a.svg", Some(Format::FlameGraph));
        check("dir.svg/a.folded", Some(Format::Folded));
        check("a.b.pb.gz", Some(Format::Pprof));
        check("a.json", Some(Format::Firefox { gzip: false }));
        check("a.json.gz", Some(Format::Firefox { gzip: true }));
        check("a.gz", None);
        check("svg", None);
        check("a.svg/", Some(Format::FlameGraph));
        check("..", None);
        check("", None);
    }

    #[test]
    fn an_unknown_suffix_lists_the_known_ones() {
        assert_eq!(
            Format::from_path(Path::new("out.txt")).expect_err("unknown").to_string(),
            "the name \"out.txt\" has no known suffix; use one of .svg (flame graph), .folded (collapsed \
             stacks), .pb.gz (pprof), .json (Firefox Profiler), .json.gz (Firefox Profiler)"
        );
    }

    #[test]
    fn sums_keep_the_order_of_first_appearance() {
        let of = |samples| Weight { samples, ..Weight::default() };
        let weights = [(7, of(1)), (3, of(2)), (7, of(4)), (9, of(0)), (3, of(u64::MAX))];
        assert_eq!(add_up(weights), [(7, of(5)), (3, of(u64::MAX)), (9, of(0))]);
    }
}
