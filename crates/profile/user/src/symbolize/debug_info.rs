//! What an ELF file tells about debug information: whether it has names itself, and where more of them
//! may be.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use object::{Object as _, ObjectSection as _, ReadRef, read::ReadCache};

use crate::foreign::open_regular;

/// Where distributions install debug files; blazesym looks there, too.
pub(crate) const FOLDERS: [&str; 2] = ["/usr/lib/debug", "/lib/debug"];

/// Where the names of a file are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DebugInfo {
    /// GNU build id; empty when there is none.
    pub build_id: Vec<u8>,
    /// It has a symbol table or DWARF of its own.
    pub has_names: bool,
    /// The name of the file that has its debug information, from `.gnu_debuglink`.
    pub link: Option<Vec<u8>>,
    /// The build id of a file that has what its debug information shares with that of other files, from
    /// `.gnu_debugaltlink`.
    pub shared: Option<Vec<u8>>,
}

impl DebugInfo {
    /// Of a file; `None` if it is not ELF.
    pub(crate) fn read(file: &File) -> Option<Self> {
        Self::parse(&ReadCache::new(file))
    }

    /// As [`read`](Self::read), from anything that can be read.
    pub(crate) fn parse<'data>(data: impl ReadRef<'data>) -> Option<Self> {
        let object = object::File::parse(data).ok()?;
        let has = |name: &str| {
            let range = object.section_by_name(name).and_then(|section| section.file_range());
            // A debug file keeps the headers of sections that it lacks.
            range.is_some_and(|(_, size)| size > 0)
        };
        let link = object.gnu_debuglink().ok().flatten();
        let shared = object.gnu_debugaltlink().ok().flatten();
        Some(Self {
            build_id: object.build_id().ok().flatten().unwrap_or_default().to_vec(),
            has_names: has(".symtab") || has(".debug_info"),
            link: link.map(|(name, _)| name.to_vec()),
            shared: shared.map(|(_, build_id)| build_id.to_vec()),
        })
    }

    /// Is its debug information installed, where its link is looked for? `path` is that of the file.
    pub(crate) fn is_installed(&self, path: &Path) -> bool {
        let Some(link) = &self.link else { return false };
        let is_of_build = |path: PathBuf| {
            let found = open_regular(&path).ok().and_then(|file| Self::read(&file));
            found.is_some_and(|found| found.build_id == self.build_id)
        };
        places_of_link(path, &String::from_utf8_lossy(link), &self.build_id)
            .into_iter()
            .any(is_of_build)
    }
}

/// Where a debug file may be, of a file with this path, link and build id.
fn places_of_link(path: &Path, link: &str, build_id: &[u8]) -> Vec<PathBuf> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let beside = path.parent().unwrap_or(Path::new("/"));
    let within = beside.strip_prefix("/").unwrap_or(beside);
    let mut places = vec![beside.join(link), beside.join(".debug").join(link)];
    for folder in FOLDERS.map(Path::new) {
        places.extend(place_of_build(folder, build_id));
        places.extend([folder.join(link), folder.join(within).join(link)]);
    }
    places.retain(|place| *place != path);
    places
}

/// Where the debug file of a build is, in a folder of such files.
pub(crate) fn place_of_build(folder: &Path, build_id: &[u8]) -> Option<PathBuf> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (first, rest) = build_id.split_at_checked(1).filter(|(_, rest)| !rest.is_empty())?;
    Some(folder.join(".build-id").join(hex(first)).join(format!("{}.debug", hex(rest))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_has_names() {
        let file = File::open("/proc/self/exe").expect("open");
        assert!(DebugInfo::read(&file).expect("ELF").has_names);
        assert_eq!(DebugInfo::parse(&b"\x7fELF"[..]), None);
    }

    #[test]
    fn places_of_debug_files() {
        let found = places_of_link(Path::new("/no/such/program"), "program.debug", &[1, 0xab]);
        let expected = [
            "/no/such/program.debug",
            "/no/such/.debug/program.debug",
            "/usr/lib/debug/.build-id/01/ab.debug",
            "/usr/lib/debug/program.debug",
            "/usr/lib/debug/no/such/program.debug",
            "/lib/debug/.build-id/01/ab.debug",
            "/lib/debug/program.debug",
            "/lib/debug/no/such/program.debug",
        ];
        assert_eq!(found, expected.map(PathBuf::from));
        let found = places_of_link(Path::new("/no/program"), "program", &[]);
        assert!(!found.contains(&PathBuf::from("/no/program")), "it is not its own debug file");
    }
}
