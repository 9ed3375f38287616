//! The tables of one thread that hang on its frames, column by column.

use std::borrow::Cow;

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::source::Libraries;
use crate::model::{BinaryId, BinaryKind, Frame, FunctionId, Profile};

/// The document's number for "none" in columns that are never null.
const NONE: i64 = -1;
/// `resourceTable.type` of a library.
const RESOURCE_LIBRARY: u32 = 1;

/// Frames, functions, resources and texts of one thread.
#[derive(Default)]
pub(super) struct Tables<'a> {
    strings: Strings<'a>,
    resources: Resources,
    functions: Functions<'a>,
    frames: Frames,
}

#[derive(Default)]
struct Strings<'a> {
    indices: FxHashMap<Cow<'a, str>, usize>,
    texts: Vec<Cow<'a, str>>,
}

impl<'a> Strings<'a> {
    fn index(&mut self, text: impl Into<Cow<'a, str>>) -> usize {
        let text = text.into();
        if let Some(&index) = self.indices.get(&text) {
            return index;
        }
        self.texts.push(text.clone());
        self.indices.insert(text, self.texts.len() - 1);
        self.texts.len() - 1
    }
}

#[derive(Default)]
struct Resources {
    indices: FxHashMap<BinaryId, i64>,
    library: Vec<usize>,
    name: Vec<usize>,
}

/// What makes two functions different: name, file and library.
type FunctionKey<'a> = (FunctionId, Option<&'a str>, Option<BinaryId>);

#[derive(Default)]
struct Functions<'a> {
    indices: FxHashMap<FunctionKey<'a>, usize>,
    name: Vec<usize>,
    resource: Vec<i64>,
    file: Vec<Option<usize>>,
}

#[derive(Default)]
struct Frames {
    address: Vec<i64>,
    inline_depth: Vec<usize>,
    function: Vec<usize>,
    line: Vec<Option<u32>>,
}

impl<'a> Tables<'a> {
    /// Adds the row of a frame's line; `None` if it has no such line.
    pub(super) fn push(
        &mut self,
        profile: &'a Profile,
        frame: &'a Frame,
        line: usize,
        libraries: &mut Libraries<'_>,
    ) -> Option<()> {
        let position = frame.lines.get(line)?;
        let key = (position.function, position.file.as_deref(), frame.binary);
        let function = self.function(profile, key, libraries);
        self.frames.address.push(address(profile, frame));
        // Innermost first in the model; depth 0 is the function that the others were inlined into.
        self.frames.inline_depth.push(frame.lines.len() - 1 - line);
        self.frames.function.push(function);
        self.frames.line.push(position.line);
        Some(())
    }

    fn function(
        &mut self,
        profile: &'a Profile,
        key: FunctionKey<'a>,
        libraries: &mut Libraries<'_>,
    ) -> usize {
        if let Some(&function) = self.functions.indices.get(&key) {
            return function;
        }
        let (function, file, binary) = key;
        let name = self.strings.index(profile.functions[function as usize].name.as_str());
        let file = file.map(|file| self.strings.index(file));
        let binary = binary.filter(|&id| profile.binaries[id as usize].kind != BinaryKind::State);
        let resource = binary.map_or(NONE, |binary| self.resource(profile, binary, libraries));
        self.functions.name.push(name);
        self.functions.file.push(file);
        self.functions.resource.push(resource);
        self.functions.indices.insert(key, self.functions.name.len() - 1);
        self.functions.name.len() - 1
    }

    fn resource(
        &mut self,
        profile: &'a Profile,
        binary: BinaryId,
        libraries: &mut Libraries<'_>,
    ) -> i64 {
        if let Some(&resource) = self.resources.indices.get(&binary) {
            return resource;
        }
        self.resources.library.push(libraries.index(binary));
        self.resources.name.push(self.strings.index(profile.binaries[binary as usize].name()));
        let resource = self.resources.name.len() as i64 - 1;
        self.resources.indices.insert(binary, resource);
        resource
    }

    /// Brings the texts of a thread's markers along into the new list of texts; `None` if the markers
    /// are not as documented.
    pub(super) fn keep_marker_texts(&mut self, thread: &mut Value) -> Option<()> {
        let texts = thread["stringArray"].take();
        let mut moved = |index: &mut Value| {
            let text = texts.get(index.as_u64()? as usize)?.as_str()?;
            *index = self.strings.index(text.to_owned()).into();
            Some(())
        };
        let markers = &mut thread["markers"];
        markers["name"].as_array_mut()?.iter_mut().try_for_each(&mut moved)?;
        markers["data"]
            .as_array_mut()?
            .iter_mut()
            .try_for_each(|data| moved(data.get_mut("where")?))
    }

    /// Puts the tables in the place of those in a thread of the document. Categories stay.
    pub(super) fn write_to(self, thread: &mut Value) {
        let frames = self.frames;
        let table = &mut thread["frameTable"];
        table["address"] = frames.address.into();
        table["inlineDepth"] = frames.inline_depth.into();
        table["func"] = frames.function.into();
        table["line"] = frames.line.into();

        let functions = self.functions;
        let len = functions.name.len();
        thread["funcTable"] = json!({
            "length": len,
            "name": functions.name,
            "isJS": vec![false; len],
            "relevantForJS": vec![false; len],
            "resource": functions.resource,
            "fileName": functions.file,
            "lineNumber": vec![Value::Null; len],
            "columnNumber": vec![Value::Null; len],
        });
        let len = self.resources.name.len();
        thread["resourceTable"] = json!({
            "length": len,
            "lib": self.resources.library,
            "name": self.resources.name,
            "host": vec![Value::Null; len],
            "type": vec![RESOURCE_LIBRARY; len],
        });
        let texts = self.strings.texts.into_iter().map(|text| Value::from(text.into_owned()));
        thread["stringArray"] = texts.collect();
    }
}

/// The address relative to the file, where there is a file.
fn address(profile: &Profile, frame: &Frame) -> i64 {
    let kind = frame.binary.map(|binary| profile.binaries[binary as usize].kind);
    match kind {
        Some(BinaryKind::User | BinaryKind::Vdso) => i64::try_from(frame.address).unwrap_or(NONE),
        _ => NONE,
    }
}
