//! Looks up names of locations: debug information, symbol tables, the function table of Go programs. Without any of
//! them, a function is named by its start, `module+0xaddress`. Kernel symbols come from blazesym, in batches.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::Write as _,
    os::fd::{AsFd as _, OwnedFd},
    path::{Path, PathBuf},
    rc::Rc,
};

use blazesym::{
    MaybeDefault,
    symbolize::{
        Input, Symbolized, Symbolizer,
        source::{Kernel, Source},
    },
};
use rustc_hash::FxHashMap;
use rustix::fs::{MemfdFlags, memfd_create};
use wingbeat_bpf_loader::kernel_names::{KernelName, KernelNames};
use wingbeat_unwind::GoTable;

use crate::{
    debuginfod::DebugFiles,
    model::{self, BinaryKind, Line},
    recorder::{
        Recorder,
        binaries::{Backing, Binaries, Binary},
        event::KernelCode,
    },
    symbolize::{
        Unused,
        dwarf::{Answer, SourceLine, Task},
        helper,
        jit::{JitSymbols, Jits},
        known::KnownNames,
        locations::{CodeLocation, Locations, Space},
        symbols::{Symbol, Symbols, demangled, find_in},
        tables::{Named, Tables},
    },
    untrusted_file::{Bounded, path_of},
    unwind::Image,
};

/// Addresses per batch: small enough for visible progress.
const BATCH: usize = 256;
/// blazesym's module of BPF programs.
const BPF_MODULE: &str = "[bpf]";

/// Level of detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Functions including inlined ones, with files and lines.
    Lines,
    /// Functions of symbol tables only: debug information may be a hundred megabytes.
    Functions,
}

/// Sources of names, and the cache.
pub(crate) struct Asked<'a> {
    pub debug_files: &'a DebugFiles,
    pub detail: Detail,
    pub known: &'a mut KnownNames,
    /// Called for each helper process that is started.
    pub started: &'a dyn Fn(u32),
}

/// Names for all locations, in order, and the files that could have provided more.
pub(super) fn names(
    locations: &Locations,
    recorder: &Recorder,
    Asked { debug_files, detail, known, started }: Asked<'_>,
    jits: &mut Jits<'_>,
    tables: &mut Tables,
    progress: &mut dyn FnMut(usize, usize),
) -> (Vec<Named>, Unused) {
    let locations: Vec<&CodeLocation> = locations.iter().collect();
    let mut names: Vec<Option<Named>> = locations
        .iter()
        .map(|location| {
            let lines = known.get(location, &recorder.binaries)?;
            Some(tables.known(location.space, &recorder.binaries, &lines))
        })
        .collect();
    let mut groups: Groups = BTreeMap::new();
    for (index, location) in
        locations.iter().enumerate().filter(|(index, _)| names[*index].is_none())
    {
        groups.entry(location.space).or_default().push(index);
    }
    let (binaries, kernel_code) = (&recorder.binaries, &recorder.kernel_code);
    let kernel = groups.get(&Space::Kernel).map_or_else(KernelSymbols::default, |members| {
        KernelSymbols::of(members.iter().map(|&index| locations[index].address))
    });
    let mut unused = Unused::default();
    let mut lookup =
        Lookup { binaries, debug_files, kernel, kernel_code, tables, detail, unused: &mut unused };
    let mut done = 0;
    let mut lines = lookup.debug_lines(&groups, &locations, started, &mut |some| {
        done += some;
        progress(done, locations.len());
    });
    let symbolizer = symbolizer(detail);
    for (space, members) in groups {
        let jit_symbols = match space {
            Space::Anonymous(_, pid) => jits.of(pid),
            _ => Rc::default(),
        };
        known.reads(space, binaries);
        let mut has_all_names = true;
        let mut source = lookup.source(space, lines.remove(&space).unwrap_or_default());
        done += members.len() - source.lines.len();
        for batch in members.chunks(BATCH) {
            let asked: Vec<&CodeLocation> = batch.iter().map(|&index| locations[index]).collect();
            let answers = lookup.ask(&symbolizer, &mut source, space, &asked, &jit_symbols);
            for (&index, named) in batch.iter().zip(answers) {
                has_all_names &= lookup.tables.has_name(&named);
                if lookup.is_settled(&named) {
                    known.keep(locations[index], &named, lookup.tables, binaries);
                }
                names[index] = Some(named);
            }
        }
        progress(done, locations.len());
        // Rejected files that would not have been used are not reported.
        if !has_all_names {
            let refused = &mut lookup.unused.refused;
            let new = jit_symbols.refused().iter().filter(|file| !refused.contains(file));
            let new: Vec<_> = new.cloned().collect();
            refused.extend(new);
        }
    }
    // Every location is in one group, and every group has an answer for each.
    (names.into_iter().flatten().collect(), unused)
}

/// Indices of locations by their space.
type Groups = BTreeMap<Space, Vec<usize>>;

fn symbolizer(detail: Detail) -> Symbolizer {
    Symbolizer::builder()
        .enable_auto_reload(false)
        .enable_code_info(detail == Detail::Lines)
        .enable_inlined_fns(detail == Detail::Lines)
        // Ours is more careful.
        .enable_demangling(false)
        .build()
}

/// Sources for the code of a file.
#[derive(Default)]
struct FileSource<'a> {
    binary: Option<&'a Binary>,
    /// Answers of debug information for its locations, in order.
    lines: std::vec::IntoIter<Vec<SourceLine>>,
    /// Files with symbol tables, read when a name is missing.
    files: Vec<&'a File>,
    symbols: OnceCell<Vec<Symbols<'a>>>,
    go: GoNames<'a>,
}

impl FileSource<'_> {
    /// Looks up a function in the symbol tables.
    fn symbol(&self, address: u64) -> Option<Symbol> {
        let tables = || self.files.iter().map(|file| Symbols::read(file)).collect();
        find_in(self.symbols.get_or_init(tables), address)
    }
}

struct Lookup<'a> {
    binaries: &'a Binaries,
    debug_files: &'a DebugFiles,
    kernel: KernelSymbols,
    kernel_code: &'a [KernelCode],
    tables: &'a mut Tables,
    detail: Detail,
    unused: &'a mut Unused,
}

impl<'a> Lookup<'a> {
    /// Whether the code is immutable. BPF programs come and go.
    fn is_settled(&self, named: &Named) -> bool {
        let binary = named.binary.and_then(|id| self.tables.binaries.get(id as usize));
        binary.is_some_and(|binary| binary.kind != BinaryKind::Bpf)
    }

    /// Answers of debug information for the locations in files. `progress` gets the number of additional addresses
    /// looked up.
    fn debug_lines(
        &mut self,
        groups: &Groups,
        locations: &[&CodeLocation],
        started: &dyn Fn(u32),
        progress: &mut dyn FnMut(usize),
    ) -> FxHashMap<Space, Vec<Vec<SourceLine>>> {
        let mut lines: FxHashMap<Space, Vec<Vec<SourceLine>>> = FxHashMap::default();
        if self.detail == Detail::Functions {
            return lines;
        }
        let (mut tasks, mut held, mut spaces) = (Vec::new(), Vec::new(), Vec::new());
        for (space, members) in groups {
            let Some(binary) = self.readable(*space) else { continue };
            let Some(file) = binary.file().filter(|_| binary.backing == Backing::File) else {
                continue;
            };
            let downloaded = self.downloaded(binary);
            let whereabouts = binary.whereabouts();
            tasks.push(Task {
                file: path_of(file),
                downloaded: downloaded.map(path_of),
                shared: self.debug_files.shared().map(PathBuf::from),
                path: whereabouts.path.map(PathBuf::from),
                root: whereabouts.root.map(|(root, path)| (path_of(root), path.to_owned())),
                addresses: members.iter().map(|&index| locations[index].address).collect(),
            });
            let root = whereabouts.root.map(|(root, _)| root);
            held.extend([Some(file), downloaded, root].into_iter().flatten().map(File::as_fd));
            spaces.push((*space, &binary.path));
        }
        held.extend(self.debug_files.all().map(File::as_fd));
        helper::ask(
            &tasks,
            &held,
            started,
            &mut |index, answer| match (answer, spaces.get(index)) {
                (Answer::Lines(some), Some((space, _))) => {
                    progress(some.len());
                    lines.entry(*space).or_default().extend(some);
                }
                (Answer::Unusable(why), Some((_, path))) => self.unused.add(path, why, false),
                _ => {}
            },
        );
        lines
    }

    /// The file of a location, if it has not been replaced.
    fn readable(&self, space: Space) -> Option<&'a Binary> {
        let Space::File(id) = space else { return None };
        self.binaries.get(id).filter(|binary| !binary.is_replaced())
    }

    fn downloaded(&self, binary: &Binary) -> Option<&'a File> {
        self.debug_files.get(binary.image().map(Image::build_id).unwrap_or_default())
    }

    /// The sources of a file, given its debug information's answers.
    fn source(&mut self, space: Space, lines: Vec<Vec<SourceLine>>) -> FileSource<'a> {
        let lines = lines.into_iter();
        let Some(binary) = self.readable(space) else {
            if let Space::File(id) = space
                && let Some(binary) = self.binaries.get(id)
            {
                let why = "another program was written into it since it ran".to_owned();
                self.unused.add(&binary.path, why, true);
            }
            return FileSource { lines, ..FileSource::default() };
        };
        let files = [self.downloaded(binary), binary.file()].into_iter().flatten().collect();
        let (symbols, go) = (OnceCell::new(), GoNames::new(binary.file()));
        FileSource { binary: Some(binary), lines, files, symbols, go }
    }

    /// Returns one answer per location.
    fn ask(
        &mut self,
        symbolizer: &Symbolizer,
        source: &mut FileSource<'_>,
        space: Space,
        locations: &[&CodeLocation],
        jit_symbols: &JitSymbols,
    ) -> Vec<Named> {
        match space {
            Space::File(id) => {
                let binary = self.tables.file(id, self.binaries);
                let answers: Vec<_> = source.lines.by_ref().take(locations.len()).collect();
                let answers = answers.into_iter().chain(std::iter::repeat(Vec::new()));
                let go = Functions::default();
                let named = |(location, answers): (&&CodeLocation, _)| {
                    self.in_file(source, &go, (binary, location.address), answers)
                };
                locations.iter().zip(answers).map(named).collect()
            }
            Space::Kernel => self.ask_kernel(symbolizer, locations),
            Space::Anonymous(id, _) => {
                let binary = self.tables.file(id, self.binaries);
                locations.iter().map(|location| self.jit(binary, location, jit_symbols)).collect()
            }
            Space::Unmapped => {
                let name = |location: &CodeLocation| (format!("0x{:x}", location.address), false);
                locations.iter().map(|location| self.tables.named(None, name(location))).collect()
            }
        }
    }

    fn jit(
        &mut self,
        binary: model::BinaryId,
        location: &CodeLocation,
        symbols: &JitSymbols,
    ) -> Named {
        if let Some(code) = location.code.and_then(|id| symbols.code(id)) {
            let line = self.tables.source_line(demangled(&code.name), code.line(location.address));
            return Named { binary: Some(binary), lines: vec![line], range: None };
        }
        let name = match symbols.name(location.address) {
            Some(name) => (name.to_owned(), true),
            // Function starts are unknown there, so it counts as a single function.
            None => (self.tables.binary_name(binary), false),
        };
        self.tables.named(Some(binary), name)
    }

    /// The functions at an address of a file, from the best source that has any.
    fn in_file<'s, 'f>(
        &mut self,
        source: &'s FileSource<'f>,
        go: &Functions<'s, 'f>,
        (binary, address): (model::BinaryId, u64),
        mut answers: Vec<SourceLine>,
    ) -> Named {
        let outermost = answers.pop();
        let mut lines: Vec<Line> = Vec::with_capacity(answers.len() + 1);
        for SourceLine { name, file, line } in answers {
            lines.push(self.tables.line_of((demangled(&name), true), file, line));
        }
        let (name, file, line) =
            outermost.map(|it| (it.name, it.file, it.line)).unwrap_or_default();
        let mut range = None;
        if !name.is_empty() {
            lines.push(self.tables.line_of((demangled(&name), true), file, line));
        } else if let Some(symbol) = source.symbol(address) {
            let is_whole = symbol.is_sized && self.detail == Detail::Functions;
            range = is_whole.then_some((symbol.range.start, symbol.range.end));
            lines.push(self.tables.line_of((demangled(&symbol.name), true), file, line));
        } else if let Some((name, source)) = source.go.location(go, address) {
            let (file, line) = source.unzip();
            lines.push(self.tables.line_of((name, true), file, line));
        } else {
            let image = source.binary.and_then(Binary::image);
            let start = image.and_then(|image| image.function_at(address)).unwrap_or(address);
            let name = format!("{}+0x{start:x}", self.tables.binary_name(binary));
            lines.push(self.tables.line_of((name, false), file, line));
        }
        Named { binary: Some(binary), lines, range }
    }

    fn ask_kernel(&mut self, symbolizer: &Symbolizer, locations: &[&CodeLocation]) -> Vec<Named> {
        let source = self.kernel.source();
        let symbols = symbols(symbolizer, &source, Input::AbsAddr(&addresses(locations)));
        let answer = |(index, location): (usize, &&CodeLocation)| {
            let symbol = symbols.as_ref().and_then(|symbols| symbols[index].as_sym());
            // Of code that came and went, the last at this address.
            let code = self.kernel_code.iter().rev().find(|code| {
                (code.start..code.end).contains(&location.address)
                    && symbol.is_none_or(|symbol| symbol.name != code.name)
            });
            if let Some(code) = code {
                // It was unloaded, and blazesym found a neighbour that remains.
                let kind = if code.is_bpf { BinaryKind::Bpf } else { BinaryKind::Kernel };
                let binary = self.tables.special(kind);
                let name = if code.is_bpf { bpf_name(&code.name) } else { code.name.clone() };
                return self.tables.named(Some(binary), (name, true));
            }
            let Some(symbol) = symbol else {
                let binary = self.tables.special(BinaryKind::Kernel);
                let name = format!("[kernel]+0x{:x}", location.address);
                return self.tables.named(Some(binary), (name, false));
            };
            let is_bpf = symbol.module.as_deref().is_some_and(|module| module == BPF_MODULE);
            if is_bpf {
                let binary = Some(self.tables.special(BinaryKind::Bpf));
                Named { binary, lines: self.tables.lines(symbol, bpf_name), range: None }
            } else {
                let binary = Some(self.tables.special(BinaryKind::Kernel));
                Named { binary, lines: self.tables.lines(symbol, demangled), range: None }
            }
        };
        locations.iter().enumerate().map(answer).collect()
    }
}

/// Converts the kernel's `bpf_prog_<tag>_<name>` to `name [bpf]`.
fn bpf_name(name: &str) -> String {
    let own = name
        .strip_prefix("bpf_prog_")
        .and_then(|rest| rest.split_once('_'))
        .map_or(name, |(_tag, own)| own);
    format!("{own} [bpf]")
}

fn addresses(locations: &[&CodeLocation]) -> Vec<u64> {
    locations.iter().map(|location| location.address).collect()
}

/// One answer per address, or `None` if the source cannot be read.
fn symbols<'a>(
    symbolizer: &'a Symbolizer,
    source: &Source<'_>,
    input: Input<&[u64]>,
) -> Option<Vec<Symbolized<'a>>> {
    let symbols = symbolizer.symbolize(source, input).ok()?;
    (symbols.len() == input.into_inner().len()).then_some(symbols)
}

/// A file that may be a Go program. It is read on demand, and only as far as necessary.
#[derive(Default)]
pub(super) struct GoNames<'a> {
    data: Option<Bounded<'a>>,
}

/// Its function table, searched on first use; `None` if there is none.
#[derive(Default)]
pub(super) struct Functions<'g, 'a>(OnceCell<Option<GoTable<&'g Bounded<'a>>>>);

impl<'a> GoNames<'a> {
    pub(super) fn new(file: Option<&'a File>) -> Self {
        Self { data: file.map(Bounded::new) }
    }

    /// The function at an address, with file and line.
    pub(super) fn location<'g>(
        &'g self,
        functions: &Functions<'g, 'a>,
        address: u64,
    ) -> Option<(String, Option<(String, u32)>)> {
        let table = functions.0.get_or_init(|| GoTable::find(self.data.as_ref()?));
        let found = table.as_ref()?.location(address)?;
        let source = found.source.map(|(file, line)| (file.into_owned(), line));
        Some((found.function.into_owned(), source))
    }
}

/// Symbols of kernel addresses.
#[derive(Debug, Default)]
pub(super) struct KernelSymbols {
    /// `None`: use the kernel's complete list.
    list: Option<File>,
}

impl KernelSymbols {
    /// Queries the kernel address by address, if it can name all of them.
    pub(super) fn of(addresses: impl Iterator<Item = u64>) -> Self {
        // With vmlinux, addresses are compared with those of symbols not in such a list.
        let list = if has_vmlinux() { None } else { list(addresses) };
        Self { list }
    }

    pub(super) fn source(&self) -> Source<'static> {
        let mut kernel = Kernel::default();
        if let Some(list) = &self.list {
            kernel.kallsyms = MaybeDefault::Some(path_of(list));
        }
        Source::Kernel(kernel)
    }
}

fn list(addresses: impl Iterator<Item = u64>) -> Option<File> {
    let names = KernelNames::load().ok()?;
    let found: BTreeSet<KernelName> =
        addresses.map(|address| names.at(address)).collect::<Option<_>>()?;
    let mut text = String::new();
    for KernelName { start, name } in found {
        text.push_str(&format!("{start:016x} t {name}\n"));
    }
    let file: OwnedFd = memfd_create("kallsyms", MemfdFlags::CLOEXEC).ok()?;
    let mut file = File::from(file);
    file.write_all(text.as_bytes()).ok()?;
    Some(file)
}

/// Whether the kernel's image is installed where blazesym looks for it.
fn has_vmlinux() -> bool {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let folders = ["/boot", "/usr/lib/debug/boot"].map(Path::new);
    folders.iter().any(|folder| folder.join(format!("vmlinux-{release}")).exists())
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn names_of_bpf_programs() {
        let check = |name, expected| assert_eq!(bpf_name(name), expected);
        check("bpf_prog_5c69007f0e0afe0a_my_xdp", "my_xdp [bpf]");
        check("bpf_prog_5c69007f0e0afe0a", "bpf_prog_5c69007f0e0afe0a [bpf]");
        check("bpf_trampoline_6442", "bpf_trampoline_6442 [bpf]");
    }

    #[test]
    fn what_the_kernel_does_not_name_is_looked_for_in_its_list() {
        assert!(KernelSymbols::of([0x1000].into_iter()).list.is_none());
    }
}
