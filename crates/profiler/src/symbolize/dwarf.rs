//! Symbolizes addresses by the debug information of an untrusted file: opens only regular files that match, and
//! does not rely on sizes that they claim. The remaining risks, endless loops and memory, are contained by the
//! process that runs this ([`super::helper`]).

use std::{
    cell::{Cell, OnceCell, RefCell},
    fs::File,
    io::{Read, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
};

use addr2line::{Context, FunctionName, LookupContinuation as _, LookupResult, SplitDwarfLoad};
use flate2::read::ZlibDecoder;
use gimli::{
    AbbreviationsCacheStrategy, Dwarf, DwarfPackage, DwarfPackageSections, DwarfSections,
    EndianSlice, RunTimeEndian, SectionId,
};
use object::{CompressionFormat, Object as _, ObjectSection as _};
use serde::{Deserialize, Serialize};

use super::{
    debug_info::{DebugInfo, FOLDERS, Whereabouts, place_of_build},
    symbols::{Symbol, Symbols, find_in},
};
use crate::symbolize::symbols::is_mangled;
use crate::untrusted_file::{Bounded, open_regular, open_regular_in};

/// Addresses per answer: small enough for visible progress.
const BATCH: usize = 256;
/// Larger sections are not used.
const SECTION_BYTES_MAX: u64 = 8 << 30;

type Slice<'a> = EndianSlice<'a, RunTimeEndian>;
type Sections = DwarfSections<Vec<u8>>;

/// A file, and the addresses to symbolize.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Task {
    /// Paths of open files: the file itself, and its downloaded debug file.
    pub file: PathBuf,
    pub downloaded: Option<PathBuf>,
    /// A folder with shared debug files, by build id.
    pub shared: Option<PathBuf>,
    /// As in [`Whereabouts`].
    pub path: Option<PathBuf>,
    pub root: Option<(PathBuf, PathBuf)>,
    pub addresses: Vec<u64>,
}

/// A function at an address. Its name is as in the file, or empty if unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SourceLine {
    pub name: String,
    pub file: Option<String>,
    pub line: Option<u32>,
}

/// A message about a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The functions of the next addresses, innermost first; empty if unknown.
    Lines(Vec<Vec<SourceLine>>),
    /// Why its debug information, or a part of it, was not used.
    Unusable(String),
    /// No more messages.
    Done,
}

/// Answers for all addresses of a file with the best available debug information.
pub(super) fn answer(task: &Task, emit: &mut dyn FnMut(Answer)) {
    if let Err(why) = try_sources(task, emit) {
        emit(Answer::Unusable(why));
    }
    emit(Answer::Done);
}

fn try_sources(task: &Task, emit: &mut dyn FnMut(Answer)) -> Result<(), String> {
    let file = open_regular(&task.file).map_err(|error| error.to_string())?;
    let info = DebugInfo::read(&file).ok_or("it cannot be read as an ELF file")?;
    let root = task.root.as_ref().and_then(|(root, path)| Some((File::open(root).ok()?, path)));
    let whereabouts = Whereabouts {
        path: task.path.as_deref(),
        root: root.as_ref().map(|(root, path)| (root, path.as_path())),
    };
    let reader = Reader { task, file: &file, info: &info, whereabouts };
    let mut problems: Vec<String> = Vec::new();
    if let Some(path) = &task.downloaded {
        let found = open_regular(path).map_err(|error| error.to_string());
        match found.and_then(|debug| reader.read(&debug, None, emit)) {
            Ok(()) => return Ok(()),
            Err(why) => problems.push(format!("the downloaded file: {why}")),
        }
    }
    if info.has_dwarf {
        match reader.read(&file, task.path.as_deref(), emit) {
            Ok(()) => return Ok(()),
            Err(why) => problems.push(why),
        }
    }
    let mut refuse = |path: &Path, why: &str| problems.push(format!("{}: {why}", path.display()));
    if let Some((debug, path)) = info.find_installed(whereabouts, &mut refuse) {
        match reader.read(&debug, Some(&path), emit) {
            Ok(()) => return Ok(()),
            Err(why) => refuse(&path, &why),
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}

/// State of reading a file.
struct Reader<'a> {
    task: &'a Task,
    file: &'a File,
    info: &'a DebugInfo,
    whereabouts: Whereabouts<'a>,
}

impl Reader<'_> {
    /// Answers from this debug information, at this path. An error means that nothing was answered.
    fn read(
        &self,
        debug: &File,
        path: Option<&Path>,
        emit: &mut dyn FnMut(Answer),
    ) -> Result<(), String> {
        let (sections, endian) = sections(debug)?;
        let is_own = std::ptr::eq(debug, self.file);
        let other = if is_own { None } else { DebugInfo::read(debug) };
        let info = other.as_ref().unwrap_or(self.info);
        let shared = self.shared(info, path, emit);
        let slice = |section| EndianSlice::new(section, endian);
        let mut dwarf: Dwarf<Slice<'_>> =
            sections.borrow_with_sup(shared.as_ref(), |section: &Vec<u8>| slice(section));
        dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
        let package = Package { path, endian, sections: OnceCell::new(), problem: Cell::default() };
        let dwarf = Arc::new(dwarf);
        let context =
            Context::from_arc_dwarf(Arc::clone(&dwarf)).map_err(|error| damaged(&error))?;
        let symbols = OnceCell::new();
        let symbol = |address| {
            let tables = symbols.get_or_init(|| {
                let own = [Symbols::read(self.file)].into_iter();
                let other = (!is_own).then(|| Symbols::read(debug));
                other.into_iter().chain(own).collect::<Vec<_>>()
            });
            find_in(tables, address)
        };
        let (problem, has_any) = (RefCell::new(None), Cell::new(false));
        let lines_of = |address: &u64| {
            let found = package.frames(&context, *address, &symbol);
            let mut lines = found.unwrap_or_else(|error| {
                problem.borrow_mut().get_or_insert_with(|| damaged(&error));
                Vec::new()
            });
            has_any.set(has_any.get() || !lines.is_empty());
            if lines.is_empty() {
                let line = |name| SourceLine { name, file: None, line: None };
                lines.extend(symbol(*address).map(|symbol| line(symbol.name)));
            }
            lines
        };
        for batch in self.task.addresses.chunks(BATCH) {
            emit(Answer::Lines(batch.iter().map(lines_of).collect()));
        }
        // Units that cannot be read are skipped.
        let units = if has_any.get() { None } else { unit_problem(&dwarf) };
        let problems = [problem.into_inner(), package.problem.take(), units];
        problems.into_iter().flatten().for_each(|why| emit(Answer::Unusable(why)));
        Ok(())
    }

    /// Loads the debug information shared with other files. Without it some functions lack names.
    fn shared(
        &self,
        info: &DebugInfo,
        path: Option<&Path>,
        emit: &mut dyn FnMut(Answer),
    ) -> Option<Sections> {
        let (name, build_id) = info.shared.as_ref()?;
        let name = PathBuf::from(String::from_utf8_lossy(name).into_owned());
        let folders = self.task.shared.iter().map(PathBuf::as_path);
        let folders = folders.chain(FOLDERS.map(Path::new));
        let mut places: Vec<PathBuf> =
            folders.filter_map(|folder| place_of_build(folder, build_id)).collect();
        let path = path.map(|path| path.canonicalize().unwrap_or(path.to_owned()));
        places.extend(path.and_then(|path| Some(path.parent()?.join(&name))));
        let of_root = self.whereabouts.root;
        let theirs = |place| of_root.map(|(root, _)| open_regular_in(root, place));
        let mut why = "it is not installed".to_owned();
        let opened = places.iter().map(|place| open_regular(place));
        for file in opened.chain(places.iter().filter_map(|place| theirs(place))).flatten() {
            let is_meant = DebugInfo::read(&file).is_some_and(|info| info.build_id == *build_id);
            match if is_meant { sections(&file) } else { Err("it is of another build".to_owned()) }
            {
                Ok((sections, _)) => return Some(sections),
                Err(problem) => why = problem,
            }
        }
        let name = name.display();
        emit(Answer::Unusable(format!("it shares parts with others in {name}, and {why}")));
        None
    }
}

/// Split debug information, next to the file.
struct Package<'a> {
    path: Option<&'a Path>,
    endian: RunTimeEndian,
    sections: OnceCell<Option<DwarfPackageSections<Vec<u8>>>>,
    problem: Cell<Option<String>>,
}

impl<'a> Package<'a> {
    /// The functions at an address, innermost first.
    fn frames(
        &'a self,
        context: &Context<Slice<'a>>,
        address: u64,
        symbol: &dyn Fn(u64) -> Option<Symbol>,
    ) -> Result<Vec<SourceLine>, gimli::Error> {
        let mut found = context.find_frames(address);
        let mut frames = loop {
            found = match found {
                LookupResult::Output(frames) => break frames?,
                LookupResult::Load { load, continuation } => continuation.resume(self.load(&load)),
            };
        };
        let (mut lines, mut names) = (Vec::new(), Vec::new());
        while let Some(frame) = frames.next()? {
            let (file, line) = frame.location.map(|it| (it.file, it.line)).unwrap_or_default();
            lines.push(SourceLine { name: String::new(), file: file.map(str::to_owned), line });
            names.push(frame.function);
        }
        let outermost = lines.len().saturating_sub(1);
        for (index, (line, name)) in lines.iter_mut().zip(names).enumerate() {
            line.name = match index == outermost {
                true => outermost_name(name, address, symbol),
                false => raw(name.as_ref()),
            };
        }
        // An inlined function without a name is part of its caller.
        let last = lines.pop();
        lines.retain(|line| !line.name.is_empty());
        lines.extend(last);
        Ok(lines)
    }

    fn load(&'a self, load: &SplitDwarfLoad<Slice<'a>>) -> Option<Arc<Dwarf<Slice<'a>>>> {
        let sections = self.sections.get_or_init(|| {
            let read = self.read();
            read.map_err(|why| self.problem.set(Some(format!("it is split, and {why}")))).ok()
        });
        let slice = |section: &'a Vec<u8>| EndianSlice::new(section, self.endian);
        let empty = EndianSlice::new(&[], self.endian);
        let package: DwarfPackage<Slice<'a>> = sections.as_ref()?.borrow(slice, empty).ok()?;
        let mut found = package.find_cu(load.dwo_id, &load.parent).ok()??;
        found.make_dwo(&load.parent);
        Some(Arc::new(found))
    }

    fn read(&self) -> Result<DwarfPackageSections<Vec<u8>>, String> {
        let path = self.path.ok_or("its place is not known")?;
        let mut path = path.as_os_str().to_owned();
        path.push(".dwp");
        let path = PathBuf::from(path);
        let refuse = |why: String| format!("{}: {why}", path.display());
        let file = open_regular(&path).map_err(|error| refuse(error.to_string()))?;
        let data = Bounded::new(&file);
        let object = object::File::parse(&data).map_err(|_| refuse("no ELF file".to_owned()))?;
        let read = |id: SectionId| match id.dwo_name() {
            Some(name) => section(&file, &object, name).map_err(Problem),
            None => Ok(Vec::new()),
        };
        DwarfPackageSections::load(read).map_err(|Problem(why)| refuse(why))
    }
}

/// An error type to which gimli's errors convert.
struct Problem(String);

impl From<gimli::Error> for Problem {
    fn from(error: gimli::Error) -> Self {
        Self(damaged(&error))
    }
}

fn damaged(error: &gimli::Error) -> String {
    format!("it is damaged ({error})")
}

/// Error of the first unreadable unit.
fn unit_problem(dwarf: &Dwarf<Slice<'_>>) -> Option<String> {
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        if let Err(error) = dwarf.unit(header) {
            return Some(damaged(&error));
        }
    }
    None
}

/// A name from DWARF: the linkage name, or else the plain one.
fn raw(name: Option<&FunctionName<Slice<'_>>>) -> String {
    name.and_then(|name| name.raw_name().ok()).unwrap_or_default().into_owned()
}

/// The name of a function that is not inlined. For local functions gcc has only a plain name, which is
/// `operator()` for each lambda. In that case the symbol table is better.
fn outermost_name(
    name: Option<FunctionName<Slice<'_>>>,
    address: u64,
    symbol: &dyn Fn(u64) -> Option<Symbol>,
) -> String {
    let bare = raw(name.as_ref());
    let language = name.and_then(|name| name.language).and_then(|it| it.static_string());
    let is_cpp = language.is_some_and(|language| language.contains("C_plus_plus"));
    if !bare.is_empty() && (!is_cpp || is_mangled(&bare)) {
        return bare;
    }
    match symbol(address) {
        Some(symbol) if bare.is_empty() => symbol.name,
        Some(it) if it.is_sized && it.range.contains(&address) && is_mangled(&it.name) => {
            // Without suffixes of function clones: `.constprop.0`, `.cold`.
            it.name.split('.').next().unwrap_or_default().to_owned()
        }
        _ => bare,
    }
}

/// The sections of a file needed for names and lines.
fn sections(file: &File) -> Result<(Sections, RunTimeEndian), String> {
    let data = Bounded::new(file);
    let object = object::File::parse(&data).map_err(|error| error.to_string())?;
    let endian = match object.is_little_endian() {
        true => RunTimeEndian::Little,
        false => RunTimeEndian::Big,
    };
    let read = |id: SectionId| match id {
        SectionId::DebugLoc
        | SectionId::DebugLocLists
        | SectionId::DebugMacinfo
        | SectionId::DebugMacro
        | SectionId::DebugNames
        | SectionId::DebugTypes => Ok(Vec::new()),
        id => section(file, &object, id.name()),
    };
    Ok((DwarfSections::load(read)?, endian))
}

/// The bytes of a section, decompressed; empty if it does not exist.
fn section<'data>(
    file: &File,
    object: &object::File<'data, &'data Bounded<'_>>,
    name: &str,
) -> Result<Vec<u8>, String> {
    let Some(section) = object.section_by_name(name) else { return Ok(Vec::new()) };
    let damaged = || format!("its section {name} is damaged");
    let range = section.compressed_file_range().map_err(|_| damaged())?;
    let size = range.uncompressed_size;
    if size > SECTION_BYTES_MAX {
        return Err(format!("its section {name} says that it has {size} bytes"));
    }
    let stored = file.metadata().map_or(0, |data| data.len()).saturating_sub(range.offset);
    if range.compressed_size > stored {
        return Err(damaged());
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(range.compressed_size as usize).map_err(|error| error.to_string())?;
    let mut from = file;
    from.seek(SeekFrom::Start(range.offset))
        .and_then(|_| from.take(range.compressed_size).read_to_end(&mut bytes))
        .ok()
        .filter(|read| *read as u64 == range.compressed_size)
        .ok_or_else(damaged)?;
    let unpacked = match range.format {
        CompressionFormat::None => return Ok(bytes),
        CompressionFormat::Zlib => unpack(ZlibDecoder::new(&bytes[..]), size),
        CompressionFormat::Zstandard => zstd::stream::read::Decoder::with_buffer(&bytes[..])
            .ok()
            .and_then(|decoder| unpack(decoder, size)),
        _ => return Err(format!("its section {name} is compressed in an unknown way")),
    };
    unpacked.ok_or_else(damaged)
}

/// The output of a decoder, if it has the announced size. Memory grows with the output.
fn unpack(decoder: impl Read, size: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    decoder.take(size).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 == size).then_some(bytes)
}
