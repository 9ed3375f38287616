//! Where a thread waits, in a few words: the innermost functions of the program itself.

use crate::model::{BinaryKind, Frame, FrameId, Profile, StackId, State};

/// The frames of a blocked thread's own stack, innermost first: without its state and its waker.
fn own_frames(profile: &Profile, stack: StackId) -> impl Iterator<Item = &Frame> {
    let frames = profile.stacks.get(stack as usize).map_or(&[][..], |stack| &stack.frames);
    let is_state = |id: &FrameId| {
        let name = profile.frames.get(*id as usize).and_then(|frame| state_name(profile, frame));
        name.is_some_and(|name| State::ALL.iter().any(|state| state.frame() == name))
    };
    let after = frames.iter().position(is_state).map_or(0, |position| position + 1);
    frames[after..].iter().filter_map(|&id| profile.frames.get(id as usize))
}

fn kind(profile: &Profile, frame: &Frame) -> BinaryKind {
    let binary = frame.binary.and_then(|id| profile.binaries.get(id as usize));
    binary.map_or(BinaryKind::User, |binary| binary.kind)
}

/// The name of a frame that stands for a state, or for a waker.
fn state_name<'a>(profile: &'a Profile, frame: &Frame) -> Option<&'a str> {
    if kind(profile, frame) != BinaryKind::State {
        return None;
    }
    let function = frame.lines.first()?.function;
    profile.functions.get(function as usize).map(|function| function.name.as_str())
}

/// The names of a blocked thread's user functions, innermost first, inlined ones too.
pub(crate) fn user_functions(profile: &Profile, stack: StackId) -> impl Iterator<Item = &str> {
    own_frames(profile, stack)
        .filter(|frame| !kind(profile, frame).is_kernel())
        .flat_map(|frame| &frame.lines)
        .filter_map(|line| profile.functions.get(line.function as usize))
        .map(|function| function.name.as_str())
}

/// The innermost user function that is none of the C library's or Rust's own, if there is one: it says
/// more than `nanosleep` or `futex_wait`. Otherwise the innermost of all.
pub(crate) fn innermost_user(profile: &Profile, stack: StackId) -> Option<&str> {
    program_functions(profile, stack)
        .next()
        .or_else(|| user_functions(profile, stack).next())
        .or_else(|| all_functions(profile, stack).next())
}

/// Who woke the thread, if the stack tells.
pub(crate) fn woken_by(profile: &Profile, stack: StackId) -> Option<&str> {
    let frames = &profile.stacks.get(stack as usize)?.frames;
    let frames = frames.iter().filter_map(|&id| profile.frames.get(id as usize));
    let mut names = frames.filter_map(|frame| state_name(profile, frame));
    names.find_map(|name| name.strip_prefix("[woken by ")?.strip_suffix(']'))
}

/// The functions of a stack that belong to the program, innermost first.
pub(crate) fn program_functions(profile: &Profile, stack: StackId) -> impl Iterator<Item = &str> {
    own_frames(profile, stack)
        .filter(|frame| is_program(profile, frame))
        .flat_map(|frame| &frame.lines)
        .filter_map(|line| profile.functions.get(line.function as usize))
        .filter(|function| function.is_symbol)
        .map(|function| function.name.as_str())
        .filter(|name| !is_rust_library(name) && !is_entry(name))
}

/// All functions of a stack, innermost first, those of the kernel too.
pub(crate) fn all_functions(profile: &Profile, stack: StackId) -> impl Iterator<Item = &str> {
    own_frames(profile, stack)
        .flat_map(|frame| &frame.lines)
        .filter_map(|line| profile.functions.get(line.function as usize))
        .map(|function| function.name.as_str())
}

fn is_program(profile: &Profile, frame: &Frame) -> bool {
    let binary = frame.binary.and_then(|id| profile.binaries.get(id as usize));
    match binary {
        Some(binary) if binary.kind == BinaryKind::User => {
            let name = binary.name();
            let is_c_library = ["libc.so", "libc-", "libpthread", "ld-linux", "ld-musl"]
                .iter()
                .any(|prefix| name.starts_with(prefix));
            !is_c_library
        }
        Some(binary) => binary.kind == BinaryKind::Anonymous,
        None => true,
    }
}

/// What every thread begins with.
fn is_entry(name: &str) -> bool {
    matches!(
        name,
        "_start" | "__libc_start_main" | "__libc_start_call_main" | "start_thread" | "clone3"
    )
}

/// Whether a function belongs to Rust's own libraries, which the reader cannot change.
pub(crate) fn is_rust_library(name: &str) -> bool {
    let path = name.trim_start_matches(['<', '&']);
    ["core::", "alloc::", "std::"].iter().any(|library| path.starts_with(library))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rusts_libraries_are_told_from_the_programs_code() {
        let check = |name, expected| assert_eq!(is_rust_library(name), expected, "{name}");
        check("std::rt::lang_start::{{closure}}", true);
        check("<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop", true);
        check("<&core::fmt::Arguments as core::fmt::Display>::fmt", true);
        check("amicable::main", false);
        check("stdlib_init", false);
    }
}
