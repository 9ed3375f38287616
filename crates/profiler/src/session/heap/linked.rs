//! Lists the files that a program is linked with before they are loaded, by running its dynamic linker like `ldd`.

use std::{
    ffi::OsStr,
    fs::{self, File},
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rustix::process::geteuid;
use wingbeat_bpf_loader::command::linker;

use crate::{proc::MappedFile, untrusted_file::Bounded};

/// The files that a process's program will load, including itself, as seen by the process. Only the program if the
/// linker cannot be run.
pub(crate) fn linked_files(pid: u32) -> Vec<MappedFile> {
    let program = PathBuf::from(format!("/proc/{pid}/exe"));
    let Ok(path) = program.read_link() else { return Vec::new() };
    let mut paths = vec![path.clone()];
    let linker = File::open(&program).ok().and_then(|file| linker(&Bounded::new(&file)));
    if let Some(linker) = linker {
        paths.extend(listed(pid, Path::new(&linker), &path));
    }
    paths.iter().filter_map(|path| file(pid, path)).collect()
}

/// The files that the linker lists for a process's program: run as its user, who chose the linker, and with the
/// variables that affect its search.
fn listed(pid: u32, linker: &Path, program: &Path) -> Vec<PathBuf> {
    let mut command = Command::new(linker);
    command.arg("--list").arg(program).stdin(Stdio::null()).stderr(Stdio::null());
    if let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) {
        for name in ["LD_LIBRARY_PATH", "LD_PRELOAD"] {
            match variable(&environment, name) {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
    }
    let owner = fs::metadata(format!("/proc/{pid}")).ok();
    if let Some(owner) = owner.filter(|owner| owner.uid() != 0 && geteuid().is_root()) {
        command.uid(owner.uid()).gid(owner.gid());
    }
    let text = command.output().map(|output| output.stdout).unwrap_or_default();
    paths(&String::from_utf8_lossy(&text))
}

/// A variable of an environment in the kernel's format.
fn variable<'a>(environment: &'a [u8], name: &str) -> Option<&'a OsStr> {
    let value = |part: &'a [u8]| part.strip_prefix(name.as_bytes())?.strip_prefix(b"=");
    environment.split(|byte| *byte == 0).find_map(value).map(OsStr::from_bytes)
}

/// Parses paths from a list: `name => path (address)`, or `path (address)`.
fn paths(text: &str) -> Vec<PathBuf> {
    let path = |line: &str| {
        let (head, _) = line.rsplit_once(" (0x")?;
        let path = head.rsplit_once("=> ").map_or(head, |(_, path)| path).trim();
        path.starts_with('/').then(|| PathBuf::from(path))
    };
    text.lines().filter_map(path).collect()
}

fn file(pid: u32, path: &Path) -> Option<MappedFile> {
    let seen = PathBuf::from(format!("/proc/{pid}/root{}", path.display()));
    let data = seen.metadata().ok()?;
    let device = data.dev();
    Some(MappedFile {
        start: 0,
        end: 0,
        offset: 0,
        device: (libc::major(device), libc::minor(device)),
        inode: data.ino(),
        path: path.to_string_lossy().into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_linkers() {
        let glibc = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f00)\n\
                     \t/lib64/ld-linux-x86-64.so.2 (0x00007f01)\n\tlibgone.so => not found\n";
        let musl =
            "\t/lib/ld-musl-x86_64.so.1 (0x7f00)\n\tlibc.so => /lib/ld-musl-x86_64.so.1 (0x7f00)\n";
        let check = |text: &str, expected: &[&str]| {
            assert_eq!(paths(text), expected.iter().map(PathBuf::from).collect::<Vec<_>>());
        };
        check(glibc, &["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]);
        check(musl, &["/lib/ld-musl-x86_64.so.1", "/lib/ld-musl-x86_64.so.1"]);
        check("", &[]);
        check("\tstatically linked\n", &[]);
    }

    #[test]
    fn variables_are_found_by_their_whole_names() {
        let environment = b"LD_LIBRARY_PATHS=/a\0LD_LIBRARY_PATH=/b:/c=d\0A=";
        assert_eq!(variable(environment, "LD_LIBRARY_PATH"), Some("/b:/c=d".as_ref()));
        assert_eq!(variable(environment, "A"), Some("".as_ref()));
        assert_eq!(variable(environment, "LD_PRELOAD"), None);
    }

    #[test]
    fn files_of_this_process() {
        let files = linked_files(std::process::id());
        assert!(!files.is_empty());
        assert!(files.iter().any(|file| file.path.contains("libc")), "{files:?}");
    }
}
