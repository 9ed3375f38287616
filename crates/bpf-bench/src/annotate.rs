//! Source lines with executed instruction counts: an instrumenting profile of a kernel program.
//!
//! Pure: takes counts and code, produces text. [`Annotation`] is the model; [`write()`] renders it
//! as human-readable text, JSON, collapsed stacks, a flame graph, or `lcov` coverage.

mod folded;
mod human;
mod lcov;
mod model;
mod path;
pub(crate) mod profile;
#[cfg(test)]
mod tests;

use std::{fmt, io, path::Path};

pub use model::{AnnotatedFunction, AnnotatedLine, Annotation, Block};

/// Version of the JSON schema. Increases when a field is renamed, removed or changes meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// Style of the human-readable text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether to use colours: ANSI escape sequences.
    pub has_colours: bool,
    /// Whether to print blocks and instructions below each line.
    pub has_bytecode: bool,
    /// Whether to print full paths for files of Rust's library and of crates.
    pub has_full_paths: bool,
    /// Line width in characters: source text is truncated, counts are not.
    pub width: usize,
}

impl Style {
    fn paint(self) -> wingbeat_text::Paint {
        wingbeat_text::Paint { has_colours: self.has_colours }
    }
}

impl Default for Style {
    fn default() -> Self {
        Self { has_colours: false, has_bytecode: false, has_full_paths: false, width: 100 }
    }
}

/// Output format of an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Annotated source, human-readable.
    Human,
    Json,
    Folded,
    FlameGraph,
    /// Coverage, as read by `genhtml` and editors.
    Lcov,
    /// A profile of functions and lines, for the pprof tools.
    Pprof,
}

/// No output format has this suffix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot determine the format of {0:?} from its suffix: .svg flame graph, .folded collapsed \
     stacks, .pb.gz pprof, .lcov or .info coverage, .json everything, .txt text"
)]
pub struct UnknownSuffix(pub String);

impl Form {
    /// Selects the format by file suffix. Fails for unknown suffixes.
    pub fn from_path(path: &Path) -> Result<Self, UnknownSuffix> {
        let is_pprof = path.to_str().is_some_and(|path| path.ends_with(".pb.gz"));
        match path.extension().and_then(|suffix| suffix.to_str()) {
            _ if is_pprof => Ok(Self::Pprof),
            Some("svg") => Ok(Self::FlameGraph),
            Some("folded") => Ok(Self::Folded),
            Some("lcov" | "info") => Ok(Self::Lcov),
            Some("json") => Ok(Self::Json),
            Some("txt") => Ok(Self::Human),
            _ => Err(UnknownSuffix(path.display().to_string())),
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Human => "text",
            Self::Json => "JSON",
            Self::Folded => "collapsed stacks",
            Self::FlameGraph => "flame graph",
            Self::Lcov => "coverage",
            Self::Pprof => "pprof",
        })
    }
}

/// Writes an annotation in the given format. Returns the errors of `writer`; drawing a flame graph
/// without instructions fails.
pub fn write(
    found: &Annotation,
    form: Form,
    style: Style,
    writer: &mut dyn io::Write,
) -> io::Result<()> {
    match form {
        Form::Human => writer.write_all(human::text(found, style).as_bytes()),
        Form::Json => {
            serde_json::to_writer_pretty(&mut *writer, found)?;
            writer.write_all(b"\n")
        }
        Form::Folded => writer.write_all(folded::text(found).as_bytes()),
        Form::FlameGraph => folded::flame_graph(found, writer),
        Form::Lcov => writer.write_all(lcov::text(found).as_bytes()),
        Form::Pprof => writer.write_all(&profile::of_annotation(found)?),
    }
}
