//! Output files, written atomically, and checked before the work starts.

use std::{
    collections::HashSet,
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write},
    os::unix::fs::{PermissionsExt as _, fchown},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use tempfile::NamedTempFile;
use wingbeat_profiler::summary::Output;
use wingbeat_text::{Block, Span};

use crate::shell::{error, message, print};

/// A file to be written later. Its path stays untouched until [`write`](Self::write).
#[derive(Debug)]
pub(crate) struct PendingFile {
    path: PathBuf,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    /// A temporary file next to the path, renamed when complete.
    Draft(NamedTempFile),
    /// A pipe or device, which must not be replaced by a file.
    Special(File),
    Stdout,
}

impl PendingFile {
    /// Checks that `path` is writable.
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        let open = || -> io::Result<(PathBuf, Sink)> {
            if path == Path::new("-") {
                return Ok((path.to_owned(), Sink::Stdout));
            }
            match fs::metadata(path) {
                Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
                Ok(found) => {
                    let file = OpenOptions::new().write(true).open(path)?;
                    if !found.is_file() {
                        return Ok((path.to_owned(), Sink::Special(file)));
                    }
                    // Follows symbolic links, so that they stay.
                    let path = path.canonicalize()?;
                    let draft = draft_beside(&path)?;
                    Ok((path, Sink::Draft(draft)))
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let draft = draft_beside(path)?;
                    // Canonical, so that equal outputs are detected.
                    let path = match (folder_of(path).canonicalize(), path.file_name()) {
                        (Ok(folder), Some(name)) => folder.join(name),
                        _ => path.to_owned(),
                    };
                    Ok((path, Sink::Draft(draft)))
                }
                Err(error) => Err(error),
            }
        };
        let (path, sink) = open().with_context(|| format!("cannot write to {}", path.display()))?;
        Ok(Self { path, sink })
    }

    /// Writes the content with `fill` and renames the file into place; returns its size in bytes.
    pub(crate) fn write<E>(
        mut self,
        fill: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) -> anyhow::Result<u64>
    where
        Result<(), E>: anyhow::Context<(), E>,
    {
        let failed = || format!("cannot write {}", self.path.display());
        let file: &mut dyn Write = match &mut self.sink {
            Sink::Draft(draft) => draft.as_file_mut(),
            Sink::Special(file) => file,
            Sink::Stdout => &mut io::stdout().lock(),
        };
        let mut writer = Counting { inner: BufWriter::with_capacity(1 << 16, file), bytes: 0 };
        fill(&mut writer).with_context(failed)?;
        writer.flush().with_context(failed)?;
        let bytes = writer.bytes;
        drop(writer);
        if let Sink::Draft(draft) = self.sink {
            draft.persist(&self.path).map_err(|error| error.error).with_context(failed)?;
        }
        Ok(bytes)
    }

    /// Whether it will be a regular file, not a device, pipe or standard output.
    pub(crate) fn is_regular(&self) -> bool {
        matches!(self.sink, Sink::Draft(_))
    }

    /// Changes the owner, if it will be a regular file.
    pub(crate) fn give_to(&self, user: u32, group: u32) -> io::Result<()> {
        match &self.sink {
            Sink::Draft(draft) => fchown(draft.as_file(), Some(user), Some(group)),
            Sink::Special(_) | Sink::Stdout => Ok(()),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Writes a result to its file without colours, or to stdout if there is none. With `quiet`, omits text for people on
/// stdout.
pub(crate) fn deliver(
    file: Option<PendingFile>,
    text: &str,
    is_for_people: bool,
    quiet: bool,
) -> anyhow::Result<()> {
    let Some(file) = file else {
        return if is_for_people && quiet { Ok(()) } else { print(text) };
    };
    let path = file.path().to_owned();
    let plain = anstream::adapter::strip_str(text).to_string();
    let bytes = file.write(|writer| writer.write_all(plain.as_bytes()))?;
    if !quiet && path != Path::new("-") {
        message!("wrote {} ({bytes} bytes)", path.display());
    }
    Ok(())
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

fn draft_beside(path: &Path) -> io::Result<NamedTempFile> {
    let folder = folder_of(path);
    // Checked first for a better message: the draft's error names a temporary file.
    fs::metadata(folder)?;
    tempfile::Builder::new()
        .prefix(".wingbeat-")
        // As for any new file: subject to the umask.
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .map_err(|error| match error.kind() {
            // The folder exists: kernel file systems report this.
            io::ErrorKind::NotFound => io::Error::other("no files can be created there"),
            kind => kind.into(),
        })
}

struct Counting<W> {
    inner: W,
    bytes: u64,
}

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(buffer)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("temporary folder")
    }

    fn fill(text: &str) -> impl FnOnce(&mut dyn Write) -> io::Result<()> {
        move |writer| writer.write_all(text.as_bytes())
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let folder = folder();
        let path = folder.path().join("a.svg");
        fs::write(&path, "old").expect("write");
        let file = PendingFile::create(&path).expect("writable");
        let failed = file.write(|writer| {
            writer.write_all(b"half")?;
            Err(io::Error::other("disk on fire"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_to_string(&path).expect("read"), "old");
        assert_eq!(fs::read_dir(folder.path()).expect("list").count(), 1);
    }

    #[test]
    fn links_stay_and_modes_are_ordinary() {
        let folder = folder();
        let (real, link) = (folder.path().join("real.svg"), folder.path().join("link.svg"));
        fs::write(&real, "old").expect("write");
        std::os::unix::fs::symlink(&real, &link).expect("link");
        let bytes = PendingFile::create(&link).and_then(|file| file.write(fill("new")));
        assert_eq!(bytes.expect("written"), 3);
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&real).expect("read"), "new");
        let mode = fs::metadata(&real).expect("metadata").permissions().mode();
        assert_eq!(mode & 0o400, 0o400);
        assert_eq!(mode & 0o111, 0);
    }

    #[test]
    fn what_cannot_be_written_is_told_at_once() {
        let folder = folder();
        assert!(PendingFile::create(folder.path()).is_err());
        assert!(PendingFile::create(&folder.path().join("no/such/folder.svg")).is_err());
    }

    #[test]
    fn devices_are_not_replaced() {
        let file = PendingFile::create(Path::new("/dev/null")).expect("writable");
        assert_eq!(file.write(fill("gone")).expect("written"), 4);
        assert!(!fs::metadata("/dev/null").expect("metadata").is_file());
    }
}

/// A file to write in an existing folder.
pub(crate) fn pending(path: &Path) -> anyhow::Result<PendingFile> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    if let Some(folder) = folder.filter(|folder| !folder.exists()) {
        let (path, folder) = (path.display(), folder.display());
        bail!(
            "cannot write to {path}: there is no folder {folder}; create it first, or choose \
             another path"
        );
    }
    PendingFile::create(path)
}

/// Error if two outputs are the same file: only the second would remain.
pub(crate) fn given_twice<'a>(files: impl Iterator<Item = &'a PendingFile>) -> Option<String> {
    let mut paths = HashSet::new();
    let mut regular = files.filter(|file| file.is_regular());
    let twice = regular.find(|file| !paths.insert(file.path()))?;
    Some(format!("{} is given twice: each output needs its own file", twice.path().display()))
}

/// The written files.
pub(crate) fn written(outputs: &[Output]) -> Block {
    let line = |Output { path, format, bytes }: &Output| {
        let rest = format!(" ({format}, {})", wingbeat_text::bytes(*bytes));
        vec![Span::text("wrote "), Span::strong(path), Span::text(rest)]
    };
    Block::List(outputs.iter().map(line).collect())
}

/// Results of writing a recording's files.
#[derive(Default)]
pub(crate) struct Written {
    pub(crate) outputs: Vec<Output>,
    pub(crate) failures: Vec<anyhow::Error>,
}

impl Written {
    /// Writes a file. After a failure the others are still written: a full disk affects only the files on it.
    pub(crate) fn write<E: std::error::Error + Send + Sync + 'static>(
        &mut self,
        file: PendingFile,
        format: &str,
        bytes: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) {
        let path = file.path().to_string_lossy().into_owned();
        match file.write(bytes) {
            Ok(bytes) => self.outputs.push(Output { path, format: format.to_owned(), bytes }),
            Err(failure) => self.failures.push(failure),
        }
    }

    /// Reports files that failed; the last one is the error of the run.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        let Some(last) = self.failures.pop() else { return Ok(()) };
        for failure in self.failures {
            error!("{failure:#}");
        }
        let others = if self.outputs.is_empty() { "" } else { "; the other outputs were written" };
        let is_io = last.chain().any(|cause| cause.is::<io::Error>());
        let step =
            if is_io { "; free some space or choose another path, and record again" } else { "" };
        bail!("{last:#}{others}{step}")
    }
}
