//! Walks user stacks by unwind tables, with frame pointers for code without tables.
//!
//! The kernel's own walker (`bpf_get_stack`) uses frame pointers only, returns at most 127 addresses and gives no
//! reason for stopping. This one records where and why it stopped, so that user space can continue.

use aya_ebpf::{
    bindings::{BPF_F_NO_PREALLOC, pt_regs},
    btf_maps::{self, ArrayOfMaps},
    helpers::{bpf_ktime_get_ns, generated::bpf_probe_read_user},
    macros::{btf_map, map},
    maps::{Array, HashMap, PerCpuArray},
};
use wingbeat_profiler_abi::{
    StackHeader, Stop, USER_FRAMES_MAX,
    off_cpu::HALF_HEADER_BYTES,
    unwind::{
        Frame, Memory, Problem, Rule, along_frame_pointer, caller,
        layout::{
            Block, CHUNK_BLOCKS, CHUNKS_MAX, CachedRule, CodeMapping, RULE_CACHE_LEN, RULES_MAX,
            Space, WORD_CODE_BYTES, WORDS, Word, mappings_before, position, rule_number,
        },
        step,
    },
    walk,
};

use crate::{
    maps::{SCRATCH, scratch, setting},
    regs::{self, UserRegs},
};

/// A walk in progress. In a map value, as [`step`] requires.
#[repr(C)]
struct Walk {
    frame: Frame,
    /// The process's list of mappings: first index and count.
    first: u32,
    count: u32,
    /// The mapping found last.
    mapping: CodeMapping,
    window: Window,
    /// A [`Stop`]: why it stopped.
    stop: u32,
}

/// One per kind of program: a tick may interrupt another.
#[map]
static WALKS: PerCpuArray<Walk> = PerCpuArray::with_max_entries(scratch::COUNT, 0);

/// Walks a stack of a process into the record in this part of the scratch memory, behind its header of type
/// `Header`. Records the number of user frames, and where and why the walk stopped.
#[inline(always)]
pub fn walk<Header>(part: u32, user: UserRegs, registers: Option<&pt_regs>) {
    let (Some(walk), Some(record)) = (WALKS.get_ptr_mut(part), SCRATCH.get_ptr_mut(part)) else {
        return;
    };
    let header: *mut StackHeader = record.cast();
    let by_tables = setting!(WALK) != walk::FRAME_POINTERS;
    // SAFETY: live elements of per-CPU arrays, not used elsewhere meanwhile; the scratch memory holds the largest
    // record.
    unsafe {
        *record.cast::<Header>().add(1).cast() = user.ip;
        (*header).user_frames = 1;
        (*walk).stop = Stop::Depth as u32;
        (*walk).frame.begin(user.ip, user.sp, user.bp);
        (*walk).window.close();
        // At a system call the other registers are unchanged: `vfork` keeps its return address in one of them.
        let all = match registers {
            Some(registers) => regs::by_number(registers),
            None => regs::by_number(regs::saved()),
        };
        (*walk).frame.set_all(all);
        if by_tables {
            find_space(walk, (*header).pid);
        }
    }
    climb(part, size_of::<Header>() as u32 / 8);
    // SAFETY: as above.
    unsafe {
        (*header).stop = (*walk).stop as u8;
        if (*header).stop != Stop::End as u8 && registers.is_none() && regs::is_memory_gone(user) {
            (*header).user_frames = 0;
            (*header).stop = Stop::NoStack as u8;
            return;
        }
        let frame = &(*walk).frame;
        (*header).stop_sp = frame.sp();
        (*header).stop_fp = frame.fp().unwrap_or(0);
        (*header).is_fp_lost = u8::from(frame.fp().is_none());
        (*header).is_interrupted = (frame.is_call ^ 1) as u8;
        (*header).extra_register = frame.extra_register();
    }
}

/// Headers are not longer than this.
const HEADER_WORDS_MASK: usize = 15;
const _: () = assert!(HALF_HEADER_BYTES / 8 <= HEADER_WORDS_MASK);

/// Walks from caller to caller, and appends each to the record in this part of the scratch memory, behind a header
/// of `header_words`.
///
/// A global function, like the next: the verifier checks them once, for any arguments, and not for each walk and
/// frame. (`bpf_loop`, since Linux 5.17, would do the same for frames.)
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn climb(part: u32, header_words: u32) -> u32 {
    let (Some(walk), Some(record)) = (WALKS.get_ptr_mut(part), SCRATCH.get_ptr_mut(part)) else {
        return 0;
    };
    let header: *mut StackHeader = record.cast();
    // Shows the verifier that this is small.
    let frames = header_words as usize & HEADER_WORDS_MASK;
    let mut depth = 1;
    while depth < USER_FRAMES_MAX && go_up(part) == FOUND {
        // SAFETY: live elements of per-CPU arrays, not used elsewhere meanwhile; a record holds USER_FRAMES_MAX
        // words behind each header.
        unsafe {
            *record.cast::<u64>().add(frames + depth) = (*walk).frame.return_address();
            depth += 1;
            (*header).user_frames = depth as u16;
        }
    }
    0
}

/// Return values of [`go_up`]: a caller was found, or the walk ended.
const FOUND: u32 = 0;
const NONE: u32 = 1;

/// Steps from the frame of a walk to its caller.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn go_up(part: u32) -> u32 {
    let Some(walk) = WALKS.get_ptr_mut(part) else { return NONE };
    // SAFETY: a live element of a per-CPU array, not used elsewhere meanwhile.
    let walk = unsafe { &mut *walk };
    let stop = match go_to_caller(walk) {
        Ok(true) => return FOUND,
        Ok(false) => Stop::End,
        Err(problem) => Stop::from(problem),
    };
    walk.stop = stop as u32;
    NONE
}

#[inline(always)]
fn go_to_caller(walk: &mut Walk) -> Result<bool, Problem> {
    if setting!(WALK) == walk::FRAME_POINTERS {
        return along_frame_pointer(&mut walk.frame, &mut walk.window);
    }
    let address = walk.frame.address();
    let rule = rule_at(walk, address)?;
    if setting!(WALK) == walk::AUTO {
        step(&mut walk.frame, rule, &mut walk.window)
    } else {
        caller(&mut walk.frame, rule, &mut walk.window)
    }
}

// Looks up the rule for an address of a process: mapping, directory, rows, rule.

/// The pool of blocks, in chunks that are added on demand.
#[btf_map]
static CHUNKS: ArrayOfMaps<
    btf_maps::Array<Block, { CHUNK_BLOCKS as usize }>,
    { CHUNKS_MAX as usize },
> = ArrayOfMaps::new();

#[map]
static RULES: Array<Rule> = Array::with_max_entries(RULES_MAX, 0);

#[map]
static RULE_CACHE: Array<CachedRule> = Array::with_max_entries(RULE_CACHE_LEN, 0);

/// The size is set at load.
#[map]
static MAPPINGS: Array<CodeMapping> = Array::with_max_entries(1, 0);

#[map]
static SPACES: HashMap<u32, Space> = HashMap::with_max_entries(PROCESSES_MAX, BPF_F_NO_PREALLOC);

/// When a process started or called `exec`. User space's data may be older.
#[map]
static BEGINNINGS: HashMap<u32, u64> = HashMap::with_max_entries(PROCESSES_MAX, BPF_F_NO_PREALLOC);

const PROCESSES_MAX: u32 = 65_536;

/// Gives a child process its parent's mappings.
#[inline(always)]
pub fn process_forked(parent_pid: u32, child_pid: u32) {
    if setting!(WALK) == walk::FRAME_POINTERS {
        return;
    }
    let now_ns = note_start(child_pid);
    // SAFETY: a live element of the map.
    match unsafe { SPACES.get(&parent_pid) } {
        Some(&Space { first, count, .. }) => {
            // On failure, user space learns of the child from its first sample.
            let _ = SPACES.insert(&child_pid, &Space { first, count, as_of_ns: now_ns }, 0);
        }
        None => {
            let _ = SPACES.remove(&child_pid);
        }
    }
}

/// Starts another program in a process.
#[inline(always)]
pub fn process_execed(pid: u32) {
    if setting!(WALK) != walk::FRAME_POINTERS {
        note_start(pid);
        let _ = SPACES.remove(&pid);
    }
}

/// Removes an exited process.
#[inline(always)]
pub fn process_gone(pid: u32) {
    if setting!(WALK) != walk::FRAME_POINTERS {
        let _ = SPACES.remove(&pid);
        let _ = BEGINNINGS.remove(&pid);
    }
}

/// Records the start time of a program.
#[inline(always)]
fn note_start(pid: u32) -> u64 {
    // SAFETY: a helper without arguments.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    // On failure, user space's data counts as current.
    let _ = BEGINNINGS.insert(&pid, &now_ns, 0);
    now_ns
}

/// Stores the location of a process's mappings.
///
/// # Safety
///
/// `walk` points to a walk.
#[inline(always)]
unsafe fn find_space(walk: *mut Walk, pid: u32) {
    // SAFETY: live elements of maps, and the caller's pointer.
    unsafe {
        let begun_ns = BEGINNINGS.get(&pid).copied().unwrap_or(0);
        (*walk).count = 0;
        if let Some(space) = SPACES.get(&pid)
            && space.as_of_ns >= begun_ns
        {
            (*walk).first = space.first;
            (*walk).count = space.count;
        }
        (*walk).mapping = CodeMapping { start: 1, end: 0, bias: 0, word: 0, words: 0 };
    }
}

/// Returns the rule for an address.
#[inline(always)]
fn rule_at(walk: &mut Walk, address: u64) -> Result<&'static Rule, Problem> {
    let number = rule_number_at(walk, address).ok_or(Problem::NoTable)?;
    RULES.get(number.into()).ok_or(Problem::NoTable)
}

#[inline(always)]
fn rule_number_at(walk: &mut Walk, address: u64) -> Option<u16> {
    if address < walk.mapping.start || address >= walk.mapping.end {
        find_mapping(walk, address)?;
    }
    let distance = address.wrapping_add(walk.mapping.bias);
    let word = distance / WORD_CODE_BYTES;
    if word >= u64::from(walk.mapping.words) {
        return Some(GAP);
    }
    let word = walk.mapping.word + word as u32;
    let position = position(word, distance);
    let cached = RULE_CACHE.get_ptr_mut(CachedRule::index(position))?;
    // SAFETY: a live element of the map; all CPUs write it, but only as a whole word.
    if let Some(number) = unsafe { cached.read_volatile() }.rule_at(position) {
        return Some(number);
    }
    let number = search(word, position)?;
    // SAFETY: as above.
    unsafe { cached.write_volatile(CachedRule::new(position, number)) };
    Some(number)
}

/// Searches the rule number in force at a position, by the number of its word.
#[inline(always)]
fn search(word: u32, position: u64) -> Option<u16> {
    let index = word as usize % WORDS;
    let word = &block(word / WORDS as u32)?.as_chunks().0[index];
    // SAFETY: a word of a live element of the map, which user space may write concurrently.
    let read = || Word(u64::from_le_bytes(unsafe { core::ptr::read_volatile(word) }));
    let word = read();
    if word == Word::NONE {
        return None;
    }
    let number = rule_number(block(word.block())?, word.granule(position), position as u8);
    // If the rows were replaced meanwhile, the number must not be cached.
    (read() == word).then_some(number)
}

/// Number of [`Rule::GAP`].
const GAP: u16 = 0;

#[inline(always)]
fn block(number: u32) -> Option<&'static Block> {
    CHUNKS.get_value(number / CHUNK_BLOCKS, &(number % CHUNK_BLOCKS))
}

/// Finds the process's mapping that contains an address.
#[inline(always)]
fn find_mapping(walk: &mut Walk, address: u64) -> Option<()> {
    let first = u64::from(walk.first);
    // The array continues behind the last list, so the element always exists.
    let found = mappings_before(walk.count.into(), address, |index| {
        Some(MAPPINGS.get((first + index) as u32)?.start)
    })?;
    if found == 0 {
        return None;
    }
    let mapping = MAPPINGS.get((first + found - 1) as u32)?;
    if address >= mapping.end {
        return None;
    }
    // A copy as a whole would be compiled to single bytes.
    let CodeMapping { start, end, bias, word, words } = *mapping;
    walk.mapping.start = start;
    walk.mapping.end = end;
    walk.mapping.bias = bias;
    walk.mapping.word = word;
    walk.mapping.words = words;
    Some(())
}

// Reads the stack of the current thread in pieces: a helper call takes longer than the copy itself, and the words
// that a walk needs are close together.

/// Words per piece.
const WINDOW_WORDS: usize = 32;
const WINDOW_BYTES: u64 = WINDOW_WORDS as u64 * 8;

/// The last piece read. Stored in a map value.
#[repr(C)]
struct Window {
    /// A multiple of [`WINDOW_BYTES`], so that a piece is within one page and is readable as a whole or not at all. Any
    /// other value means no piece.
    start: u64,
    words: [u64; WINDOW_WORDS],
}

impl Window {
    /// Discards the piece of another thread or an earlier walk.
    #[inline(always)]
    fn close(&mut self) {
        // No piece begins at this address.
        self.start = 8;
    }
}

impl Memory for Window {
    #[inline(always)]
    fn word(&mut self, address: u64) -> Option<u64> {
        // The low bits stay, so that an unaligned address matches no piece: it is not a word of a stack.
        let start = address & !(WINDOW_BYTES - 8);
        // SAFETY: this piece, which is not used elsewhere meanwhile.
        if start != self.start && !unsafe { read_window(self, start) } {
            return None;
        }
        Some(self.words[(address / 8) as usize % WINDOW_WORDS])
    }

    #[inline(always)]
    fn word_apart(&mut self, address: u64) -> Option<u64> {
        let mut word = 0_u64;
        // SAFETY: reads user memory into a word; a bad address is an error, not a fault.
        let failed = unsafe { bpf_probe_read_user((&raw mut word).cast(), 8, address as *const _) };
        (failed == 0).then_some(word)
    }
}

/// Reads the piece at `start`.
///
/// # Safety
///
/// `window` points to a window that is not used elsewhere.
#[inline(never)]
unsafe fn read_window(window: *mut Window, start: u64) -> bool {
    // SAFETY: guaranteed by the caller.
    let window = unsafe { &mut *window };
    window.close();
    if start & 7 != 0 {
        return false;
    }
    let words = (&raw mut window.words).cast();
    // SAFETY: reads user memory into the words; a bad address is an error, not a fault.
    if unsafe { bpf_probe_read_user(words, WINDOW_BYTES as u32, start as *const _) } != 0 {
        return false;
    }
    window.start = start;
    true
}
