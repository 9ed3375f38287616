//! Debug information of an ELF file: whether it has its own, and where to find more.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use flate2::Crc;
use object::{
    Endianness, Object as _, ObjectSection as _, ReadRef,
    elf::{self, FileHeader64},
    read::elf::{FileHeader as _, NoteIterator, ProgramHeader as _},
};

use crate::untrusted_file::{Bounded, open_regular, open_regular_in};

/// Where distributions install debug files.
pub(crate) const FOLDERS: [&str; 2] = ["/usr/lib/debug", "/lib/debug"];

/// Larger debug files are not used.
const FILE_BYTES_MAX: u64 = 64 << 30;

/// Larger files without a build id are not used, since their checksum would take long.
const SUMMED_BYTES_MAX: u64 = 8 << 30;

/// Location of a file's names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DebugInfo {
    /// GNU build id; empty if there is none.
    pub build_id: Vec<u8>,
    /// It has its own symbol table or DWARF.
    pub has_names: bool,
    /// It has its own DWARF.
    pub has_dwarf: bool,
    /// Name and checksum of its debug file, from `.gnu_debuglink`.
    pub link: Option<(Vec<u8>, u32)>,
    /// Path and build id of a file with shared debug information, from `.gnu_debugaltlink`.
    pub shared: Option<(Vec<u8>, Vec<u8>)>,
}

/// Location of a file, and so of files next to it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Whereabouts<'a> {
    /// As seen by us, if it still exists.
    pub path: Option<&'a Path>,
    /// Root of its process and path there, if that is not our root.
    pub root: Option<(&'a File, &'a Path)>,
}

impl DebugInfo {
    /// Reads a file; `None` if it is not ELF.
    pub(crate) fn read(file: &File) -> Option<Self> {
        Self::parse(&Bounded::new(file))
    }

    /// Same as [`read`](Self::read), from any reader.
    pub(crate) fn parse<'data>(data: impl ReadRef<'data>) -> Option<Self> {
        let object = object::File::parse(data).ok()?;
        let has = |name: &str| {
            let range = object.section_by_name(name).and_then(|section| section.file_range());
            // A debug file keeps the headers of sections that it lacks.
            range.is_some_and(|(_, size)| size > 0)
        };
        let link = object.gnu_debuglink().ok().flatten();
        let shared = object.gnu_debugaltlink().ok().flatten();
        let has_dwarf = has(".debug_info");
        Some(Self {
            build_id: object.build_id().ok().flatten().unwrap_or_default().to_vec(),
            has_names: has_dwarf || has(".symtab"),
            has_dwarf,
            link: link.map(|(name, sum)| (name.to_vec(), sum)),
            shared: shared.map(|(path, build_id)| (path.to_vec(), build_id.to_vec())),
        })
    }

    /// The installed file with its debug information, and its path. `refuse` is called for each existing file that
    /// is not used, with the reason.
    pub(crate) fn find_installed(
        &self,
        whereabouts: Whereabouts<'_>,
        refuse: &mut dyn FnMut(&Path, &str),
    ) -> Option<(File, PathBuf)> {
        let link = self.link.as_ref().map(|(name, _)| String::from_utf8_lossy(name));
        let candidates = |path| places_of_link(path, link.as_deref(), &self.build_id);
        let mut found = |opened: io::Result<File>, place: PathBuf| {
            let checked = match opened {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
                Err(error) => Err(error.to_string()),
                Ok(file) => self.check(&file).map(|()| file).map_err(str::to_owned),
            };
            checked.map_err(|why| refuse(&place, &why)).ok().map(|file| (file, place))
        };
        let ours = whereabouts.path.map(|path| path.canonicalize().unwrap_or(path.to_owned()));
        let ours =
            candidates(ours.as_deref()).into_iter().map(|place| (open_regular(&place), place));
        if let Some(file) = ours.into_iter().find_map(|(opened, place)| found(opened, place)) {
            return Some(file);
        }
        let (root, path) = whereabouts.root?;
        let theirs = candidates(Some(path)).into_iter();
        theirs.map(|place| (open_regular_in(root, &place), place)).find_map(|(o, p)| found(o, p))
    }

    /// Checks that a debug file matches, by build id or, if it has none, by checksum.
    fn check(&self, file: &File) -> Result<(), &'static str> {
        let bytes = file.metadata().map_or(0, |data| data.len());
        if bytes > FILE_BYTES_MAX {
            return Err("it has more than 64 GiB");
        }
        let info = Self::read(file).ok_or("it cannot be read as an ELF file")?;
        if !info.build_id.is_empty() && !self.build_id.is_empty() {
            let is_same = info.build_id == self.build_id;
            return is_same.then_some(()).ok_or("it is of another build");
        }
        if bytes > SUMMED_BYTES_MAX {
            return Err("it has no build id, and more than 8 GiB");
        }
        let is_meant = self.link.as_ref().is_some_and(|(_, sum)| sum_of(file).ok() == Some(*sum));
        is_meant.then_some(()).ok_or("its checksum is another one")
    }
}

/// Reads the build id of a file from its program headers, which are at its start.
pub(crate) fn build_id_of(file: &File) -> Option<Vec<u8>> {
    let data = &Bounded::new(file);
    let header = FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    let notes = segments.iter().filter_map(|segment| segment.notes(endian, data).ok().flatten());
    let build_id = |mut notes: NoteIterator<'_, FileHeader64<Endianness>>| {
        while let Ok(Some(note)) = notes.next() {
            if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
                return Some(note.desc().to_vec());
            }
        }
        None
    };
    notes.into_iter().find_map(build_id)
}

/// Checksum of a file, as in `.gnu_debuglink`.
fn sum_of(file: &File) -> io::Result<u32> {
    let (mut sum, mut at, mut piece) = (Crc::new(), 0, vec![0; 1 << 20]);
    loop {
        match file.read_at(&mut piece, at)? {
            0 => return Ok(sum.sum()),
            read => {
                sum.update(&piece[..read]);
                at += read as u64;
            }
        }
    }
}

/// Candidate paths of a debug file, from the file's path, link and build id.
fn places_of_link(path: Option<&Path>, link: Option<&str>, build_id: &[u8]) -> Vec<PathBuf> {
    let folder_of_file = path.and_then(Path::parent);
    let mut places = Vec::new();
    if let (Some(folder_of_file), Some(link)) = (folder_of_file, link) {
        places.extend([folder_of_file.join(link), folder_of_file.join(".debug").join(link)]);
    }
    for folder in FOLDERS.map(Path::new) {
        places.extend(place_of_build(folder, build_id));
        places.extend(link.map(|link| folder.join(link)));
        if let (Some(folder_of_file), Some(link)) = (folder_of_file, link) {
            places.push(
                folder.join(folder_of_file.strip_prefix("/").unwrap_or(folder_of_file)).join(link),
            );
        }
    }
    places.retain(|place| Some(place.as_path()) != path);
    places
}

/// Path of a build's debug file in a folder of debug files.
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
        let found =
            places_of_link(Some(Path::new("/no/such/program")), Some("program.debug"), &[1, 0xab]);
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
        let found = places_of_link(Some(Path::new("/no/program")), Some("program"), &[]);
        assert!(!found.contains(&PathBuf::from("/no/program")), "it is not its own debug file");
        let found = places_of_link(None, None, &[1, 0xab]);
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
