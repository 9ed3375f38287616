//! Walks with framehop, another unwinding library: a second opinion.

use std::collections::BTreeSet;

use framehop::{
    ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder as _,
    x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64},
};
use object::{Object as _, ObjectSection as _};
use wingbeat_profiler_abi::unwind::Memory as _;

use super::{FRAMES_MAX, Mapping, Tables, process::Stepped};

pub(crate) struct Framehop {
    unwinder: UnwinderX86_64<Vec<u8>>,
    cache: CacheX86_64,
    /// Start addresses of the files added to it.
    known: BTreeSet<u64>,
}

impl Framehop {
    pub(crate) fn new() -> Self {
        Self { unwinder: UnwinderX86_64::new(), cache: CacheX86_64::new(), known: BTreeSet::new() }
    }

    fn learn(&mut self, tables: &Tables) {
        for mapping in &tables.mappings {
            if self.known.insert(mapping.start)
                && let Some(bytes) = tables.files.get(&mapping.path)
                && let Some(module) = module(mapping, bytes)
            {
                self.unwinder.add_module(module);
            }
        }
    }

    /// The addresses of a stack, innermost first, as far as it gets.
    pub(crate) fn walk(&mut self, stepped: &mut Stepped, tables: &Tables) -> Vec<u64> {
        self.learn(tables);
        let ip = stepped.registers.rip;
        let (sp, bp) = (stepped.registers.rsp, stepped.registers.rbp);
        let mut registers = UnwindRegsX86_64::new(ip, sp, bp);
        let mut stack = vec![ip];
        let mut address = FrameAddress::from_instruction_pointer(ip);
        let mut read = |address| stepped.word(address).ok_or(());
        while stack.len() < FRAMES_MAX
            && let Ok(Some(caller)) =
                self.unwinder.unwind_frame(address, &mut registers, &mut self.cache, &mut read)
            && let Some(next) = FrameAddress::from_return_address(caller)
        {
            stack.push(caller);
            address = next;
        }
        stack
    }
}

fn module(mapping: &Mapping, bytes: &[u8]) -> Option<Module<Vec<u8>>> {
    let file = object::File::parse(bytes).ok()?;
    let section = |name| {
        let section = file.section_by_name(name)?;
        let range = section.address()..section.address() + section.size();
        Some((range, section.data().ok()?.to_vec()))
    };
    let (text_svma, text) = section(".text").unzip();
    let (eh_frame_svma, eh_frame) = section(".eh_frame").unzip();
    let (eh_frame_hdr_svma, eh_frame_hdr) = section(".eh_frame_hdr").unzip();
    let sections = ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma,
        text,
        eh_frame_svma,
        eh_frame,
        eh_frame_hdr_svma,
        eh_frame_hdr,
        got_svma: section(".got").map(|(range, _)| range),
        ..ExplicitModuleSectionInfo::default()
    };
    let (range, base) = (mapping.start..mapping.end, mapping.bias);
    Some(Module::new(mapping.path.clone(), range, base, sections))
}
