//! Looks up the rule for an address of a process: mapping, directory, rows, rule.

use aya_ebpf::{
    bindings::BPF_F_NO_PREALLOC,
    btf_maps::{self, ArrayOfMaps},
    helpers::bpf_ktime_get_ns,
    macros::{btf_map, map},
    maps::{Array, HashMap},
};
use wingbeat_profiler_abi::{
    unwind::{
        Problem, Rule,
        layout::{
            Block, CHUNK_BLOCKS, CHUNKS_MAX, CodeMapping, RULES_MAX, SEEN_MAX, Seen, Space,
            WORD_CODE_BYTES, WORDS, Word, mappings_before, place, rule_number,
        },
    },
    walk,
};

use crate::{maps::setting, stack::Walk};

/// The pool of blocks, in chunks that are added on demand.
#[btf_map]
static CHUNKS: ArrayOfMaps<
    btf_maps::Array<Block, { CHUNK_BLOCKS as usize }>,
    { CHUNKS_MAX as usize },
> = ArrayOfMaps::new();

#[map]
static RULES: Array<Rule> = Array::with_max_entries(RULES_MAX, 0);

#[map]
static SEEN: Array<Seen> = Array::with_max_entries(SEEN_MAX, 0);

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
pub fn fork(parent_pid: u32, child_pid: u32) {
    if setting!(WALK) == walk::FRAME_POINTERS {
        return;
    }
    let now_ns = begin(child_pid);
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
pub fn exec(pid: u32) {
    if setting!(WALK) != walk::FRAME_POINTERS {
        begin(pid);
        let _ = SPACES.remove(&pid);
    }
}

/// Removes an exited process.
#[inline(always)]
pub fn forget(pid: u32) {
    if setting!(WALK) != walk::FRAME_POINTERS {
        let _ = SPACES.remove(&pid);
        let _ = BEGINNINGS.remove(&pid);
    }
}

/// Records the start time of a program.
#[inline(always)]
fn begin(pid: u32) -> u64 {
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
pub unsafe fn enter(walk: *mut Walk, pid: u32) {
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
pub fn rule_at(walk: &mut Walk, address: u64) -> Result<&'static Rule, Problem> {
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
    let place = place(word, distance);
    let seen = SEEN.get_ptr_mut(Seen::index(place))?;
    // SAFETY: a live element of the map; all CPUs write it, but only as a whole word.
    if let Some(number) = unsafe { seen.read_volatile() }.rule_at(place) {
        return Some(number);
    }
    let number = search(word, place)?;
    // SAFETY: as above.
    unsafe { seen.write_volatile(Seen::new(place, number)) };
    Some(number)
}

/// Searches the rule number in force at a place, by the number of its word.
#[inline(always)]
fn search(word: u32, place: u64) -> Option<u16> {
    let index = word as usize % WORDS;
    let word = &block(word / WORDS as u32)?.as_chunks().0[index];
    // SAFETY: a word of a live element of the map, which user space may write concurrently.
    let read = || Word(u64::from_le_bytes(unsafe { core::ptr::read_volatile(word) }));
    let word = read();
    if word == Word::NONE {
        return None;
    }
    let number = rule_number(block(word.block())?, word.granule(place), place as u8);
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
