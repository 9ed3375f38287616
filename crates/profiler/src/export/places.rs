//! Short descriptions of where a thread waits: the innermost functions of the program.

use crate::model::{BinaryKind, Frame, Profile, StackId, State};

/// Frames of a blocked thread's own stack, innermost first, without state and waker.
fn own_frames(profile: &Profile, stack: StackId) -> impl Iterator<Item = &Frame> {
    let is_state = |frame: &Frame| {
        let name = state_name(profile, frame);
        name.is_some_and(|name| State::ALL.iter().any(|state| state.frame() == name))
    };
    let after = profile.frames_of(stack).position(is_state).map_or(0, |position| position + 1);
    profile.frames_of(stack).skip(after)
}

fn kind(profile: &Profile, frame: &Frame) -> BinaryKind {
    let binary = frame.binary.and_then(|id| profile.binaries.get(id as usize));
    binary.map_or(BinaryKind::User, |binary| binary.kind)
}

/// Name of a frame that represents a state or a waker.
fn state_name<'a>(profile: &'a Profile, frame: &'a Frame) -> Option<&'a str> {
    if kind(profile, frame) != BinaryKind::State {
        return None;
    }
    profile.functions_at(frame).next().map(|function| function.name.as_str())
}

/// The innermost user function outside the C library and Rust's libraries, which says more than `nanosleep` or
/// `futex_wait`. Otherwise the innermost user function.
pub(crate) fn innermost_user(profile: &Profile, stack: StackId) -> Option<&str> {
    program_functions(profile, stack).next().or_else(|| innermost_call(profile, stack))
}

/// The innermost user function, or else the kernel's, which distinguishes reading from sleeping.
pub(crate) fn innermost_call(profile: &Profile, stack: StackId) -> Option<&str> {
    let innermost = |is_kernel: bool| {
        own_frames(profile, stack)
            .filter(|frame| is_kernel || !kind(profile, frame).is_kernel())
            .find_map(|frame| profile.functions_at(frame).next())
    };
    innermost(false).or_else(|| innermost(true)).map(|function| function.name.as_str())
}

/// The waker, if the stack has one.
pub(crate) fn woken_by(profile: &Profile, stack: StackId) -> Option<&str> {
    let mut names = profile.frames_of(stack).filter_map(|frame| state_name(profile, frame));
    names.find_map(|name| name.strip_prefix("[woken by ")?.strip_suffix(']'))
}

/// A stack's functions of the program itself, innermost first.
pub(crate) fn program_functions(profile: &Profile, stack: StackId) -> impl Iterator<Item = &str> {
    own_frames(profile, stack)
        .filter(|frame| is_program(profile, frame))
        .flat_map(|frame| profile.functions_at(frame))
        .filter(|function| function.is_symbol)
        .map(|function| function.name.as_str())
        .filter(|name| !is_rust_library(name) && !is_entry(name))
}

fn is_program(profile: &Profile, frame: &Frame) -> bool {
    let binary = frame.binary.and_then(|id| profile.binaries.get(id as usize));
    match binary {
        Some(binary) if binary.kind == BinaryKind::User => !is_c_library(binary.name()),
        Some(binary) => binary.kind == BinaryKind::Anonymous,
        None => true,
    }
}

/// Whether a file is part of the C library or its dynamic linker.
pub(crate) fn is_c_library(file: &str) -> bool {
    ["libc.so", "libc-", "libpthread", "ld-linux", "ld-musl"].iter().any(|it| file.starts_with(it))
}

/// Whether a function is the entry point of a thread.
fn is_entry(name: &str) -> bool {
    matches!(
        name,
        "_start" | "__libc_start_main" | "__libc_start_call_main" | "start_thread" | "clone3"
    )
}

/// Whether a function belongs to Rust's own libraries, which users cannot change.
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
