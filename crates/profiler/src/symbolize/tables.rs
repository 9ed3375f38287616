//! Collects the distinct functions and binaries of a profile.

use std::collections::HashMap;

use blazesym::symbolize::{CodeInfo, Sym};
use rustc_hash::FxHashMap;
use wingbeat_pprof::Interner;

use crate::symbolize::locations::Space;

use crate::{
    model::{self, Binary, BinaryKind, Function, Line},
    recorder::binaries::{Backing, Binaries, BinaryId},
};

/// A symbolized location.
pub(super) struct Named {
    pub binary: Option<model::BinaryId>,
    pub lines: Vec<Line>,
    /// Start and end of the function, if these names apply to all of it.
    pub range: Option<(u64, u64)>,
}

/// Tables that grow with the names.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub functions: Interner<Function>,
    pub binaries: Vec<Binary>,
    files: FxHashMap<BinaryId, model::BinaryId>,
    specials: HashMap<BinaryKind, model::BinaryId>,
}

impl Tables {
    /// The entry of a file.
    pub(super) fn file(&mut self, id: BinaryId, binaries: &Binaries) -> model::BinaryId {
        if let Some(&known) = self.files.get(&id) {
            return known;
        }
        let entry = self.push(describe(id, binaries));
        self.files.insert(id, entry);
        entry
    }

    /// The entry of the kernel, of BPF programs or of states.
    pub(super) fn special(&mut self, kind: BinaryKind) -> model::BinaryId {
        if let Some(&known) = self.specials.get(&kind) {
            return known;
        }
        let path = match kind {
            BinaryKind::Bpf => "[bpf]",
            BinaryKind::State => "[state]",
            _ => "[kernel]",
        };
        let entry = self.push(nameless(kind, path));
        self.specials.insert(kind, entry);
        entry
    }

    fn push(&mut self, binary: Binary) -> model::BinaryId {
        self.binaries.push(binary);
        (self.binaries.len() - 1) as model::BinaryId
    }

    /// A binary's name in placeholders.
    pub(super) fn binary_name(&self, id: model::BinaryId) -> String {
        self.binaries.get(id as usize).map_or_else(String::new, |binary| binary.name().to_owned())
    }

    /// A location with one function without a source line: its name, and whether it is a symbol.
    pub(super) fn named(
        &mut self,
        binary: Option<model::BinaryId>,
        (name, is_symbol): (String, bool),
    ) -> Named {
        let function = self.functions.id(Function { name, is_symbol });
        Named { binary, lines: vec![Line { function, file: None, line: None }], range: None }
    }

    /// A location with cached names.
    pub(super) fn known(
        &mut self,
        space: Space,
        binaries: &Binaries,
        lines: &[(Function, Option<String>, Option<u32>)],
    ) -> Named {
        let binary = match space {
            Space::File(id) => Some(self.file(id, binaries)),
            Space::Kernel => Some(self.special(BinaryKind::Kernel)),
            Space::Anonymous(..) | Space::Unmapped => None,
        };
        let line = |(function, file, line): &(Function, Option<String>, Option<u32>)| Line {
            function: self.functions.id(function.clone()),
            file: file.clone(),
            line: *line,
        };
        Named { binary, lines: lines.iter().map(line).collect(), range: None }
    }

    /// Whether the location has a symbol.
    pub(super) fn has_name(&self, named: &Named) -> bool {
        let function = |line: &Line| self.functions.entries.get(line.function as usize);
        named.lines.iter().filter_map(function).any(|function| function.is_symbol)
    }

    /// A function with its source line, if known.
    pub(super) fn source_line(&mut self, name: String, source: Option<(&str, u32)>) -> Line {
        let function = self.functions.id(Function { name, is_symbol: true });
        let (file, line) = source.unzip();
        Line { function, file: file.map(str::to_owned), line }
    }

    /// The functions of a kernel symbol, innermost first, with names converted by `rename`.
    pub(super) fn lines(&mut self, symbol: &Sym<'_>, rename: impl Fn(&str) -> String) -> Vec<Line> {
        // blazesym returns inlined functions in call order.
        let mut lines: Vec<Line> = symbol
            .inlined
            .iter()
            .rev()
            .map(|inlined| self.line(rename(&inlined.name), inlined.code_info.as_ref()))
            .collect();
        lines.push(self.line(rename(&symbol.name), symbol.code_info.as_deref()));
        lines
    }

    fn line(&mut self, name: String, code: Option<&CodeInfo<'_>>) -> Line {
        let file = code.map(|code| code.to_path().to_string_lossy().into_owned());
        self.line_of((name, true), file, code.and_then(|code| code.line))
    }

    /// A function as in [`named`](Self::named), at a line of a file.
    pub(super) fn line_of(
        &mut self,
        (name, is_symbol): (String, bool),
        file: Option<String>,
        line: Option<u32>,
    ) -> Line {
        Line { function: self.functions.id(Function { name, is_symbol }), file, line }
    }
}

fn describe(id: BinaryId, binaries: &Binaries) -> Binary {
    let Some(binary) = binaries.get(id) else {
        return nameless(BinaryKind::Anonymous, "[unknown]");
    };
    let kind = match binary.backing {
        Backing::File if binary.is_memory() => BinaryKind::Anonymous,
        Backing::File => BinaryKind::User,
        Backing::Vdso => BinaryKind::Vdso,
        Backing::Anonymous => BinaryKind::Anonymous,
    };
    let image = binary.image();
    let (text, text_offset) = image.and_then(|image| image.text()).unwrap_or_default();
    let (path, build_id) = (binary.path.clone(), binary.build_id().to_vec());
    Binary { kind, path, build_id, text, text_offset }
}

fn nameless(kind: BinaryKind, path: &str) -> Binary {
    Binary { kind, path: path.to_owned(), build_id: Vec::new(), text: (0, 0), text_offset: 0 }
}
