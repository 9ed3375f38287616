//! The tables of one thread: stacks, frames, functions and their dependents.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::category;
use super::format::{Frames, Functions, Library, Resources, Stacks, Strings};
use crate::model::{Binary, BinaryId, BinaryKind, Frame, FrameId, FunctionId, Profile, StackId};

/// The document's "none" in columns that are never null.
const NONE: i64 = -1;
/// `resourceTable.type` of a library.
const RESOURCE_LIBRARY: u32 = 1;

/// The document's list of libraries, shared by all threads.
#[derive(Default)]
pub(super) struct Libraries<'a> {
    indices: FxHashMap<BinaryId, usize>,
    pub list: Vec<Library<'a>>,
}

/// Identity of a function: name, file and library.
type FunctionKey<'a> = (FunctionId, Option<&'a str>, Option<BinaryId>);

pub(super) struct Tables<'a, 'l> {
    profile: &'a Profile,
    libraries: &'l mut Libraries<'a>,
    pub strings: Strings<'a>,
    pub resources: Resources,
    pub functions: Functions,
    pub frames: Frames,
    pub stacks: Stacks,
    resource_ids: FxHashMap<BinaryId, i64>,
    function_ids: FxHashMap<FunctionKey<'a>, usize>,
    /// First row of each frame of the thread.
    frame_ids: FxHashMap<FrameId, usize>,
}

impl<'a, 'l> Tables<'a, 'l> {
    pub(super) fn new(profile: &'a Profile, libraries: &'l mut Libraries<'a>) -> Self {
        Self {
            profile,
            libraries,
            strings: Strings::default(),
            resources: Resources::default(),
            functions: Functions::default(),
            frames: Frames::default(),
            stacks: Stacks::default(),
            resource_ids: FxHashMap::default(),
            function_ids: FxHashMap::default(),
            frame_ids: FxHashMap::default(),
        }
    }

    /// Adds stacks to the tree. Returns the node of each, `None` for an empty one.
    ///
    /// In depth-first order, stacks with the same outer frames are adjacent: a node is new if it is beyond the
    /// prefix shared with the previous stack.
    pub(super) fn add_stacks(
        &mut self,
        stacks: BTreeSet<StackId>,
    ) -> FxHashMap<StackId, Option<usize>> {
        let profile = self.profile;
        let outermost_first = |stack: StackId| profile.stacks[stack as usize].frames.iter().rev();
        let mut stacks: Vec<StackId> = stacks.into_iter().collect();
        stacks.sort_by(|&a, &b| outermost_first(a).cmp(outermost_first(b)));
        let mut nodes = FxHashMap::default();
        // The frames of the last branch added, with the node of each.
        let mut branch: Vec<(FrameId, Option<usize>)> = Vec::new();
        for stack in stacks {
            let frames = outermost_first(stack);
            let shared =
                branch.iter().zip(frames.clone()).take_while(|((a, _), b)| a == *b).count();
            branch.truncate(shared);
            let mut node = branch.last().and_then(|&(_, node)| node);
            for &id in frames.skip(shared) {
                for row in self.frame(id) {
                    self.stacks.frame.push(row);
                    self.stacks.prefix.push(node);
                    node = Some(self.stacks.length);
                    self.stacks.length += 1;
                }
                branch.push((id, node));
            }
            nodes.insert(stack, node);
        }
        nodes
    }

    /// Rows of a frame, one per function, outermost first.
    fn frame(&mut self, id: FrameId) -> std::ops::Range<usize> {
        let frame = &self.profile.frames[id as usize];
        let first = self.frames.length;
        let first = *self.frame_ids.entry(id).or_insert(first);
        if first == self.frames.length {
            let category = category(self.profile, frame);
            for (depth, line) in frame.lines.iter().rev().enumerate() {
                let func = self.function((line.function, line.file.as_deref(), frame.binary));
                let frames = &mut self.frames;
                frames.length += 1;
                frames.address.push(address(self.profile, frame));
                frames.inline_depth.push(depth);
                frames.category.push(category);
                frames.subcategory.push(0);
                frames.func.push(func);
                frames.native_symbol.push(None);
                frames.inner_window_id.push(0);
                frames.line.push(line.line);
                frames.column.push(None);
            }
        }
        first..first + frame.lines.len()
    }

    fn function(&mut self, key: FunctionKey<'a>) -> usize {
        if let Some(&function) = self.function_ids.get(&key) {
            return function;
        }
        let (function, file, binary) = key;
        let name = self.strings.index(&self.profile.functions[function as usize].name);
        let file = file.map(|file| self.strings.index(file));
        let resource = binary.map_or(NONE, |binary| self.resource(binary));
        let functions = &mut self.functions;
        functions.length += 1;
        functions.name.push(name);
        functions.is_js.push(false);
        functions.relevant_for_js.push(false);
        functions.resource.push(resource);
        functions.file_name.push(file);
        functions.line_number.push(None);
        functions.column_number.push(None);
        self.function_ids.insert(key, functions.length - 1);
        functions.length - 1
    }

    fn resource(&mut self, id: BinaryId) -> i64 {
        let binary = &self.profile.binaries[id as usize];
        if binary.kind == BinaryKind::State {
            return NONE;
        }
        if let Some(&resource) = self.resource_ids.get(&id) {
            return resource;
        }
        let Libraries { indices, list } = &mut *self.libraries;
        let library = *indices.entry(id).or_insert_with(|| {
            list.push(library(binary));
            list.len() - 1
        });
        let resources = &mut self.resources;
        resources.lib.push(library);
        resources.name.push(self.strings.index(binary.name()));
        resources.host.push(None);
        resources.kind.push(RESOURCE_LIBRARY);
        let resource = resources.length as i64;
        resources.length += 1;
        self.resource_ids.insert(id, resource);
        resource
    }
}

/// Address relative to the file, if there is one.
fn address(profile: &Profile, frame: &Frame) -> i64 {
    let kind = frame.binary.map(|binary| profile.binaries[binary as usize].kind);
    match kind {
        Some(BinaryKind::User | BinaryKind::Vdso) => i64::try_from(frame.address).unwrap_or(NONE),
        _ => NONE,
    }
}

fn library(binary: &Binary) -> Library<'_> {
    // The first 16 bytes of a build id, padded, as a GUID with age 0: Breakpad's rule for ELF. The first three
    // parts of a GUID are integers, with bytes in the reverse order of the build id's.
    let id = |position: usize| binary.build_id.get(position).copied().unwrap_or(0);
    let guid = [3, 2, 1, 0, 5, 4, 7, 6].into_iter().chain(8..16);
    let breakpad_id =
        guid.map(|position| format!("{:02X}", id(position))).collect::<String>() + "0";
    let code_id: String = binary.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    Library {
        name: binary.name(),
        path: &binary.path,
        debug_name: binary.name(),
        debug_path: &binary.path,
        breakpad_id,
        code_id: (!code_id.is_empty()).then_some(code_id),
        arch: None,
    }
}
