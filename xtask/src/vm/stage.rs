//! The guest's files: collected in memory with their sources, then written to a folder.
//!
//! Each has the same path in the guest as outside, because tests have paths compiled in.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail};

use xtask::{
    command::{find_program, output_of, run_logged},
    folders,
};

/// Content of a guest path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Folder,
    /// The file at the same path on this machine.
    File,
    /// Another file of this machine, stripped of debug information, which is most of a cargo-built program.
    Stripped(PathBuf),
    /// Another file of this machine.
    Other(PathBuf),
    Link(PathBuf),
    Text(String),
}

/// Files of a guest by absolute path.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    /// The program that strips debug information.
    objcopy: &'static str,
    entries: BTreeMap<PathBuf, Entry>,
    /// Programs and libraries whose libraries were already added.
    linked: BTreeSet<PathBuf>,
}

impl Stage {
    pub(super) fn new(objcopy: &'static str) -> Self {
        Self { objcopy, entries: BTreeMap::new(), linked: BTreeSet::new() }
    }

    /// Adds an empty folder.
    pub(super) fn folder(&mut self, path: &str) {
        self.entries.insert(path.into(), Entry::Folder);
    }

    /// Adds an executable file with this text.
    pub(super) fn text(&mut self, path: &str, text: &str) {
        self.entries.insert(path.into(), Entry::Text(text.to_owned()));
    }

    /// Adds a file of this machine, with the links in its path; nothing if absent.
    pub(super) fn file(&mut self, path: &Path) {
        self.put(path, Entry::File);
    }

    /// Adds a program with its shared libraries.
    pub(super) fn program(&mut self, path: &Path) {
        self.put(path, Entry::File);
        self.libraries(path);
    }

    /// Adds a cargo-built program: `source`, stripped, at `path`.
    pub(super) fn built(&mut self, path: &Path, source: &Path) {
        self.put(path, Entry::Stripped(source.to_path_buf()));
        self.libraries(source);
    }

    /// Adds a program from `PATH`; returns whether it exists.
    pub(super) fn called(&mut self, name: &str) -> bool {
        find_program(name).map(|path| self.program(&path)).is_some()
    }

    /// Adds all files below a folder of this machine, except those that `leave` selects.
    pub(super) fn tree(&mut self, folder: &Path, leave: &dyn Fn(&Path) -> bool) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if leave(&path) {
                continue;
            }
            match path.is_dir() && !path.is_symlink() {
                true => self.tree(&path, leave)?,
                false => self.file(&path),
            }
        }
        Ok(())
    }

    /// Adds everything in a folder, relative to the guest's root.
    pub(super) fn root(&mut self, folder: &Path) -> anyhow::Result<()> {
        self.below(folder, Path::new("/"))
    }

    fn below(&mut self, folder: &Path, place: &Path) -> anyhow::Result<()> {
        for path in folders::sorted(folder)? {
            let place = place.join(path.file_name().unwrap_or_default());
            match fs::read_link(&path) {
                Ok(target) => drop(self.entries.insert(place, Entry::Link(target))),
                Err(_) if path.is_dir() => self.below(&path, &place)?,
                Err(_) => drop(self.entries.insert(place, Entry::Other(path))),
            }
        }
        Ok(())
    }

    fn put(&mut self, path: &Path, entry: Entry) {
        // Folders may be links, such as `/bin`: adds the link, and the file at its target.
        let mut place = path.to_path_buf();
        for _ in 0..16 {
            let (Some(parent), Some(name)) = (place.parent(), place.file_name()) else { return };
            self.folder_links(parent);
            let Ok(parent) = fs::canonicalize(parent) else { return };
            let real = parent.join(name);
            let Ok(target) = fs::read_link(&real) else {
                if real.is_file() {
                    self.entries.insert(real, entry);
                }
                return;
            };
            place = parent.join(&target);
            self.entries.insert(real, Entry::Link(target));
        }
    }

    /// Adds the links among the folders of a path.
    fn folder_links(&mut self, folder: &Path) {
        for ancestor in folder.ancestors() {
            if let Ok(target) = fs::read_link(ancestor) {
                let parent = ancestor.parent().unwrap_or(ancestor);
                if let Ok(parent) = fs::canonicalize(parent) {
                    let place = parent.join(ancestor.file_name().unwrap_or_default());
                    self.entries.insert(place, Entry::Link(target));
                }
            }
        }
    }

    /// The loader lists all of them, including those of libraries.
    fn libraries(&mut self, program: &Path) {
        let Ok(real) = fs::canonicalize(program) else { return };
        if !self.linked.insert(real.clone()) {
            return;
        }
        let said = output_of(Command::new("ldd").arg(&real).env("LC_ALL", "C"));
        for library in libraries_in(&said.unwrap_or_default()) {
            self.file(Path::new(library));
        }
    }

    /// A text that changes when any file does: paths with their sizes and times.
    pub(super) fn fingerprint(&self) -> String {
        let mut text = String::new();
        for (path, entry) in &self.entries {
            let source = match entry {
                Entry::File => Some(path),
                Entry::Stripped(source) | Entry::Other(source) => Some(source),
                Entry::Folder | Entry::Link(_) | Entry::Text(_) => None,
            };
            let state = source.and_then(|source| fs::metadata(source).ok()).map(|meta| {
                let (size, s, ns) = (meta.len(), meta.mtime(), meta.mtime_nsec());
                format!("{size} bytes of {s}.{ns:09}")
            });
            text += &format!("{} {entry:?} {}\n", path.display(), state.unwrap_or_default());
        }
        text
    }

    /// Writes everything below `root`, as hard links if possible.
    pub(super) fn write(&self, root: &Path, log: &Path) -> anyhow::Result<()> {
        for (path, entry) in &self.entries {
            let place = root.join(path.strip_prefix("/").unwrap_or(path));
            let context = || format!("cannot put {} into {}", path.display(), root.display());
            if let Some(parent) = place.parent() {
                fs::create_dir_all(parent).with_context(context)?;
            }
            match entry {
                Entry::Folder => fs::create_dir_all(&place).with_context(context)?,
                Entry::Link(target) => symlink(target, &place).with_context(context)?,
                Entry::File => link_or_copy(path, &place).with_context(context)?,
                Entry::Other(source) => link_or_copy(source, &place).with_context(context)?,
                Entry::Stripped(source) => {
                    let mut objcopy = Command::new(self.objcopy);
                    run_logged(objcopy.arg("--strip-debug").args([source, &place]), log)?;
                }
                Entry::Text(text) => {
                    fs::write(&place, text).with_context(context)?;
                    let executable = fs::Permissions::from_mode(0o755);
                    fs::set_permissions(&place, executable).with_context(context)?;
                }
            }
        }
        Ok(())
    }
}

/// A hard link shares the file, so it must not be written to: the folder only becomes an image.
fn link_or_copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(from, to).or_else(|_| fs::copy(from, to).map(drop))
}

/// The paths in the output of ldd.
fn libraries_in(said: &str) -> impl Iterator<Item = &str> {
    said.lines().filter_map(|line| {
        let path = line.split_once("=>").map_or(line, |(_, path)| path);
        path.split_whitespace().next().filter(|path| path.starts_with('/'))
    })
}

/// The C compiler's include folders, from `cc -E -v`.
pub(super) fn header_folders() -> anyhow::Result<Vec<PathBuf>> {
    let output = Command::new("cc")
        .args(["-E", "-v", "-x", "c", "/dev/null"])
        .env("LC_ALL", "C")
        .output()
        .context("cannot run cc, the C compiler that Rust links with")?;
    if !output.status.success() {
        bail!("`cc -E -v -x c /dev/null` failed ({})", output.status);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Ok(folders_in(&said).map(PathBuf::from).collect())
}

fn folders_in(said: &str) -> impl Iterator<Item = &str> {
    said.lines()
        .skip_while(|line| !line.starts_with("#include <...>"))
        .skip(1)
        .take_while(|line| line.starts_with(' '))
        .map(str::trim)
}

/// Path of a part of the C compiler; `None` if it has none.
pub(super) fn compiler_part(question: &str, name: &str) -> Option<PathBuf> {
    let said = output_of(Command::new("cc").arg(format!("-print-{question}-name={name}")))?;
    Some(PathBuf::from(said.trim())).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_paths() {
        let said = "\tlinux-vdso.so.1 (0x00007ffd)\n\
                    \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f1d)\n\
                    \tgone.so => not found\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f1e)\n";
        let found: Vec<_> = libraries_in(said).collect();
        assert_eq!(found, ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]);
        assert_eq!(libraries_in("\tnot a dynamic executable\n").count(), 0);
    }

    #[test]
    fn header_folders_are_those_of_angle_brackets() {
        let said = "ignoring nonexistent directory \"/x\"\n\
                    #include \"...\" search starts here:\n\
                    #include <...> search starts here:\n \
                    /usr/lib/gcc/x86_64-linux-gnu/12/include\n /usr/include\nEnd of search list.\n";
        let found: Vec<_> = folders_in(said).collect();
        assert_eq!(found, ["/usr/lib/gcc/x86_64-linux-gnu/12/include", "/usr/include"]);
    }

    #[test]
    fn links_come_along_with_what_they_lead_to() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("real")).expect("a folder");
        fs::write(at("real/file"), "text").expect("a file");
        symlink("real", at("other")).expect("a link");
        symlink("file", at("real/name")).expect("a link");
        let mut stage = Stage::new("objcopy");
        stage.file(&at("other/name"));
        stage.file(&at("gone"));
        let root = tempfile::tempdir().expect("a temporary folder");
        stage.write(root.path(), &at("log")).expect("written");
        let inside = root.path().join(at("other/name").strip_prefix("/").expect("absolute"));
        assert_eq!(fs::read_to_string(inside).expect("it is there"), "text");
        assert_eq!(stage.entries.len(), 3, "{stage:?}");
    }
}
