//! Asks blazesym, batch by batch, then the table of functions that Go programs have, and falls back on
//! `module+0xoffset`.

use std::{
    collections::BTreeMap,
    fs::File,
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
    rc::Rc,
};

use blazesym::symbolize::{
    Input, Sym, Symbolized, Symbolizer,
    source::{Elf, Source},
};
use wingbeat_unwind::GoPlace;

use super::{
    debug_info::FOLDERS,
    demangle::demangled,
    go::GoNames,
    jit::{Jits, Told},
    kernel::KernelSymbols,
    known::KnownNames,
    places::{CodePlace, Places, Space},
    refused::Refused,
    tables::{Named, Tables},
};
use crate::{
    debuginfod::DebugFiles,
    model::{self, BinaryKind},
    recorder::{
        Recorder,
        binaries::{Binaries, BinaryId},
        event::KernelCode,
    },
    unwind::Image,
};

/// Addresses per question: small enough for progress to move.
const BATCH: usize = 256;
/// What blazesym calls the module of a BPF program.
const BPF_MODULE: &str = "[bpf]";

/// How much is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Functions, inlined ones too, with files and lines.
    Lines,
    /// Functions of symbol tables alone: debug information may be a hundred megabytes.
    Functions,
}

/// Where names are looked for, and which are known.
pub(crate) struct Asked<'a> {
    pub debug_files: &'a DebugFiles,
    pub detail: Detail,
    pub known: &'a mut KnownNames,
}

/// Names for all places, in their order, and the files that could have given more.
pub(super) fn names(
    places: &Places,
    recorder: &Recorder,
    Asked { debug_files, detail, known }: Asked<'_>,
    jits: &mut Jits<'_>,
    tables: &mut Tables,
    progress: &mut dyn FnMut(usize, usize),
) -> (Vec<Named>, Vec<Refused>) {
    let places: Vec<&CodePlace> = places.iter().collect();
    let mut names: Vec<Option<Named>> = places
        .iter()
        .map(|place| {
            let lines = known.get(place, &recorder.binaries)?;
            Some(tables.known(place.space, &recorder.binaries, &lines))
        })
        .collect();
    let mut groups: BTreeMap<Space, Vec<usize>> = BTreeMap::new();
    for (index, place) in places.iter().enumerate().filter(|(index, _)| names[*index].is_none()) {
        groups.entry(place.space).or_default().push(index);
    }
    let (binaries, kernel_code) = (&recorder.binaries, &recorder.kernel_code);
    let kernel = groups.get(&Space::Kernel).map_or_else(KernelSymbols::default, |members| {
        KernelSymbols::of(members.iter().map(|&index| places[index].address))
    });
    let mut lookup = Lookup { binaries, debug_files, kernel, kernel_code, tables, detail };
    let mut refused: Vec<Refused> = Vec::new();
    let mut done = 0;
    for (space, members) in groups {
        let told = match space {
            Space::Anonymous(_, pid) => jits.of(pid),
            _ => Rc::default(),
        };
        known.reads(space, binaries);
        let mut has_all_names = true;
        // One for each file: it keeps what it has read of a file, which may be a hundred megabytes.
        let symbolizer = symbolizer(debug_files, detail);
        let go = GoNames::new(&recorder.binaries, space);
        for batch in members.chunks(BATCH) {
            let asked: Vec<&CodePlace> = batch.iter().map(|&index| places[index]).collect();
            let answers = lookup.ask(&symbolizer, &go, space, &asked, &told);
            for (&index, named) in batch.iter().zip(answers) {
                has_all_names &= lookup.tables.has_name(&named);
                if lookup.is_settled(&named) {
                    known.keep(places[index], &named, lookup.tables, binaries);
                }
                names[index] = Some(named);
            }
            done += batch.len();
            progress(done, places.len());
        }
        // What would have named nothing is nobody's business.
        if !has_all_names {
            let new = told.refused().iter().filter(|file| !refused.contains(file));
            let new: Vec<Refused> = new.cloned().collect();
            refused.extend(new);
        }
    }
    // Every place is in one group, and every question has as many answers.
    (names.into_iter().flatten().collect(), refused)
}

fn symbolizer(debug_files: &DebugFiles, detail: Detail) -> Symbolizer {
    let shared = debug_files.shared().into_iter();
    Symbolizer::builder()
        .set_debug_dirs(Some(shared.chain(FOLDERS.map(Path::new))))
        .enable_auto_reload(false)
        .enable_code_info(detail == Detail::Lines)
        .enable_inlined_fns(detail == Detail::Lines)
        // Ours is more careful.
        .enable_demangling(false)
        .build()
}

struct Lookup<'a> {
    binaries: &'a Binaries,
    debug_files: &'a DebugFiles,
    kernel: KernelSymbols,
    kernel_code: &'a [KernelCode],
    tables: &'a mut Tables,
    detail: Detail,
}

impl Lookup<'_> {
    /// Is it code that stays what it is? Programs of the kernel come and go.
    fn is_settled(&self, named: &Named) -> bool {
        let binary = named.binary.and_then(|id| self.tables.binaries.get(id as usize));
        binary.is_some_and(|binary| binary.kind != BinaryKind::Bpf)
    }

    /// One answer for each place.
    fn ask(
        &mut self,
        symbolizer: &Symbolizer,
        go: &GoNames<'_>,
        space: Space,
        places: &[&CodePlace],
        told: &Told,
    ) -> Vec<Named> {
        match space {
            Space::File(id) => self.ask_file(symbolizer, go, id, places),
            Space::Kernel => self.ask_kernel(symbolizer, places),
            Space::Anonymous(id, _) => {
                let binary = self.tables.file(id, self.binaries);
                places.iter().map(|place| self.jit(binary, place, told)).collect()
            }
            Space::Unmapped => {
                let name = |place: &CodePlace| (format!("0x{:x}", place.address), false);
                places.iter().map(|place| self.tables.named(None, name(place))).collect()
            }
        }
    }

    fn jit(&mut self, binary: model::BinaryId, place: &CodePlace, told: &Told) -> Named {
        if let Some(code) = place.code.and_then(|id| told.code(id)) {
            let line = self.tables.source_line(demangled(&code.name), code.line(place.address));
            return Named { binary: Some(binary), lines: vec![line], range: None };
        }
        let name = match told.name(place.address) {
            Some(name) => (name.to_owned(), true),
            None => (format!("[anon]+0x{:x}", place.address), false),
        };
        self.tables.named(Some(binary), name)
    }

    fn ask_file(
        &mut self,
        symbolizer: &Symbolizer,
        go: &GoNames<'_>,
        id: BinaryId,
        places: &[&CodePlace],
    ) -> Vec<Named> {
        let binary = self.tables.file(id, self.binaries);
        let mut names: Vec<Option<Named>> = places.iter().map(|_| None).collect();
        let sources = sources(self.binaries, self.debug_files, self.detail, id);
        // A signal handler returns to the first byte of a function, and what lies before is of none.
        for (beyond, source) in
            [0, 1].iter().flat_map(|beyond| sources.iter().map(move |source| (beyond, source)))
        {
            let nameless = |index: &usize| names[*index].is_none();
            let open: Vec<usize> = (0..places.len()).filter(nameless).collect();
            if open.is_empty() {
                break;
            }
            let asked: Vec<u64> =
                open.iter().map(|&index| places[index].address + beyond).collect();
            let source = Source::Elf(source.clone());
            let symbols = symbols(symbolizer, &source, Input::VirtOffset(&asked));
            for (index, symbol) in open.into_iter().zip(symbols.unwrap_or_default()) {
                names[index] = symbol.as_sym().map(|symbol| Named {
                    binary: Some(binary),
                    lines: self.tables.lines(symbol, demangled),
                    range: self.range_of(symbol),
                });
            }
        }
        // Searched for when a symbol is missing.
        let mut go_table = None;
        let or_address = |(named, place): (Option<Named>, &&CodePlace)| {
            named.unwrap_or_else(|| {
                let go_table = go_table.get_or_insert_with(|| go.table()).as_ref();
                let found = go_table.and_then(|table| table.place(place.address));
                self.go_or_address(binary, found, place)
            })
        };
        names.into_iter().zip(places).map(or_address).collect()
    }

    /// Where a symbol begins and ends, if nothing but its name is asked for.
    fn range_of(&self, symbol: &Sym<'_>) -> Option<(u64, u64)> {
        let size = symbol.size.filter(|size| *size > 0 && self.detail == Detail::Functions)?;
        Some((symbol.addr, symbol.addr.checked_add(size as u64)?))
    }

    /// What Go's table says, or else where the address lies in the file.
    fn go_or_address(
        &mut self,
        binary: model::BinaryId,
        found: Option<GoPlace<'_>>,
        place: &CodePlace,
    ) -> Named {
        match found {
            Some(GoPlace { function, source }) => {
                let source = source.as_ref().map(|(file, line)| (&**file, *line));
                let line = self.tables.source_line(function.into_owned(), source);
                Named { binary: Some(binary), lines: vec![line], range: None }
            }
            None => {
                let module = self.tables.binary_name(binary);
                let name = format!("{module}+0x{:x}", place.address);
                self.tables.named(Some(binary), (name, false))
            }
        }
    }

    fn ask_kernel(&mut self, symbolizer: &Symbolizer, places: &[&CodePlace]) -> Vec<Named> {
        let source = self.kernel.source();
        let symbols = symbols(symbolizer, &source, Input::AbsAddr(&addresses(places)));
        let answer = |(index, place): (usize, &&CodePlace)| {
            let symbol = symbols.as_ref().and_then(|symbols| symbols[index].as_sym());
            // Of code that came and went, the last at this address.
            let code = self.kernel_code.iter().rev().find(|code| {
                (code.start..code.end).contains(&place.address)
                    && symbol.is_none_or(|symbol| symbol.name != code.name)
            });
            if let Some(code) = code {
                // It is gone, and what blazesym found is the neighbour that is left.
                let kind = if code.is_bpf { BinaryKind::Bpf } else { BinaryKind::Kernel };
                let binary = self.tables.special(kind);
                let name = if code.is_bpf { bpf_name(&code.name) } else { code.name.clone() };
                return self.tables.named(Some(binary), (name, true));
            }
            let Some(symbol) = symbol else {
                let binary = self.tables.special(BinaryKind::Kernel);
                let name = format!("[kernel]+0x{:x}", place.address);
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
        places.iter().enumerate().map(answer).collect()
    }
}

/// `bpf_prog_<tag>_<name>`, as the kernel calls it, becomes `name [bpf]`.
fn bpf_name(name: &str) -> String {
    let own = name
        .strip_prefix("bpf_prog_")
        .and_then(|rest| rest.split_once('_'))
        .map_or(name, |(_tag, own)| own);
    format!("{own} [bpf]")
}

fn addresses(places: &[&CodePlace]) -> Vec<u64> {
    places.iter().map(|place| place.address).collect()
}

/// One answer for each address, or nothing if the source cannot be read.
fn symbols<'a>(
    symbolizer: &'a Symbolizer,
    source: &Source<'_>,
    input: Input<&[u64]>,
) -> Option<Vec<Symbolized<'a>>> {
    let symbols = symbolizer.symbolize(source, input).ok()?;
    (symbols.len() == input.into_inner().len()).then_some(symbols)
}

/// Where blazesym reads the names of a file, best first: in the debug file that was downloaded; in its
/// symbol table alone, should its DWARF be unreadable or refer to what is missing; in the file itself.
fn sources(
    binaries: &Binaries,
    debug_files: &DebugFiles,
    detail: Detail,
    id: BinaryId,
) -> Vec<Elf> {
    let Some(binary) = binaries.get(id) else { return Vec::new() };
    let mut sources = Vec::new();
    let build_id = binary.image().map(Image::build_id).unwrap_or_default();
    if let Some(file) = debug_files.get(build_id) {
        let whole = Elf::new(path_of(file));
        let mut symbols = whole.clone();
        symbols.debug_syms = false;
        sources.extend(debug_files.is_whole(build_id).then_some(whole));
        sources.push(symbols);
    }
    // By its path while that still leads to it, so that separate debug files beside it are found;
    // otherwise through the open descriptor.
    let current = binary.path_if_current().map(Path::to_owned);
    let path = current.or_else(|| binary.file().map(path_of));
    if let Some(path) = path {
        let mut elf = Elf::new(path);
        elf.debug_syms = detail == Detail::Lines;
        sources.push(elf);
    }
    sources
}

/// A path that leads to an open file.
pub(super) fn path_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
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
}
