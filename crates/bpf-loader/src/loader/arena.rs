//! Arenas: memory shared by programs and user space, allocated page by page on demand (since Linux
//! 6.9; kernel/bpf/arena.c, Linux 6.18).
//!
//! Programs contain its user space addresses, so the kernel loads them only after the arena is
//! mapped. It stays mapped as long as the map is used.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{Mutex, OnceLock, PoisonError},
};

use super::{
    MapError, ResetError,
    maps::{self, LoadedMap},
};
use crate::{
    btf::KernelTypes,
    code::{Insn, op},
    program_type::ProgramType,
    spec::MapSpec,
    sys::{self, LoadRequest, Mapping, TestRun},
};

/// Number of addresses to try, 4 GB apart, until one is free.
const PLACES: u64 = 64;
const PLACE_BITS: u32 = 32;

/// The kfunc that frees pages, and the flag of programs that may call it.
const FREE_PAGES: &str = "bpf_arena_free_pages";
const SLEEPABLE: u32 = 1 << 4;

/// `BPF_F_SEGV_ON_FAULT` (include/uapi/linux/bpf.h, Linux 6.18).
const SEGV_ON_FAULT: u32 = 1 << 17;

/// Memory of an arena in this process.
#[derive(Debug)]
pub(super) struct Arena {
    memory: Mutex<Mapping>,
    /// Start address.
    address: u64,
    /// A program that frees all pages, if the kernel supports it; created on first use.
    eraser: OnceLock<Option<OwnedFd>>,
}

impl LoadedMap {
    /// Creates an arena, maps it, and copies the object's variables to its start.
    pub(super) fn create_arena(spec: &MapSpec) -> Result<Self, MapError> {
        let (fd, memory) = placed(spec)?;
        let (address, eraser) = (memory.address(), OnceLock::new());
        let arena = Arena { memory: memory.into(), address, eraser };
        let map = Self { arena: Some(arena.into()), ..Self::empty(spec, fd) };
        map.arena.iter().try_for_each(|arena| map.write_variables(arena))?;
        Ok(map)
    }

    /// Frees all pages, and copies the object's variables again. If the kernel does not let
    /// programs do that, the arena has to be recreated.
    pub(super) fn reset_arena(&self, arena: &Arena) -> Result<(), ResetError> {
        let eraser = arena.eraser.get_or_init(|| self.eraser(arena).ok());
        let erased = eraser.as_ref().map(|it| sys::test_run(it.as_fd(), TestRun::default()));
        match erased {
            Some(Ok(_)) => Ok(self.write_variables(arena)?),
            _ => Err(ResetError::NotInPlace(self.spec.name.clone())),
        }
    }

    fn write_variables(&self, arena: &Arena) -> Result<(), MapError> {
        let variables = self.spec.initial.as_deref().unwrap_or_default();
        let memory = arena.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.write(variables).map_err(|source| {
            let hint = if self.spec.flags & SEGV_ON_FAULT != 0 {
                "; with BPF_F_SEGV_ON_FAULT only programs can ask for its pages".to_owned()
            } else {
                let (bytes, pages) = (variables.len(), self.spec.entries_max);
                format!("; its variables take {bytes} bytes, and it has {pages} pages at most")
            };
            MapError { hint, ..self.error("write the variables of", source) }
        })
    }

    /// `bpf_arena_free_pages(map, address, pages)`.
    fn eraser(&self, arena: &Arena) -> io::Result<OwnedFd> {
        let [low, high] =
            [arena.address as u32, (arena.address >> 32) as u32].map(u32::cast_signed);
        let second_half = |immediate| Insn { immediate, ..Insn::default() };
        let set = |register, value| Insn::new(op::ALU64 | op::MOV, register, 0, 0, value);
        let mut insns = [
            Insn::new(op::LDIMM64, 1, op::PSEUDO_MAP_FD, 0, 0),
            second_half(0),
            Insn::new(op::LDIMM64, 2, 0, 0, low),
            second_half(high),
            set(3, self.spec.entries_max.cast_signed()),
            Insn::new(op::CALL, 0, op::PSEUDO_KFUNC_CALL, 0, free_pages()?),
            set(0, 0),
            Insn::new(op::EXIT, 0, 0, 0, 0),
        ];
        super::load::put_descriptors(&mut insns, &[self.fd.as_fd()]);
        let request = LoadRequest {
            prog_type: ProgramType::SYSCALL.0,
            flags: SLEEPABLE,
            name: sys::kernel_name("wingbeat_erase"),
            license: c"Dual MIT/GPL",
            insns: &Insn::all_to_bytes(&insns),
            ..Default::default()
        };
        sys::load_verified(request, &mut [])
    }
}

/// Creates an arena at the address that the object requests in this process. Several of the same
/// object cannot share it: they are placed multiples of 4 GB apart, so that their pointers differ
/// only in the half that programs ignore.
fn placed(spec: &MapSpec) -> Result<(OwnedFd, Mapping), MapError> {
    let len = (spec.entries_max as usize).saturating_mul(rustix::param::page_size());
    let mut place = 0;
    loop {
        let extra = match spec.extra {
            0 => 0,
            extra => extra.saturating_add(place << PLACE_BITS),
        };
        let fd = maps::create(&MapSpec { extra, ..spec.clone() }, None, None)?;
        // The kernel does not accept more than an address.
        let address = usize::try_from(extra).unwrap_or(usize::MAX);
        match Mapping::of_arena(&fd, address, len) {
            Ok(memory) => return Ok((fd, memory)),
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) && place < PLACES => {
                place += 1;
            }
            Err(source) => return Err(maps::error(spec, "map the memory of", source)),
        }
    }
}

/// Kernel id of the kfunc, looked up once.
fn free_pages() -> io::Result<i32> {
    static FOUND: OnceLock<Option<i32>> = OnceLock::new();
    let find = || {
        let id = KernelTypes::from_kernel().ok()?.function_id(FREE_PAGES)?;
        i32::try_from(id).ok()
    };
    FOUND.get_or_init(find).ok_or_else(|| io::ErrorKind::Unsupported.into())
}
