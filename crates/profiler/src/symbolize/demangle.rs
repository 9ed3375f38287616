//! Demangling.

/// Demangles names of Rust (both manglings, without the hash) and C++. Any other name stays unchanged: to a
/// demangler that accepts everything, a C function called `w` is the type `wchar_t`. Within glibc, `nanosleep` is
/// `__GI___nanosleep`.
pub(super) fn demangled(name: &str) -> String {
    if let Some(internal) = name.strip_prefix("__GI_") {
        let public = internal.strip_prefix("__").filter(|public| !public.starts_with("libc_"));
        return public.unwrap_or(internal).to_owned();
    }
    if !is_mangled(name) {
        return of_others(name).unwrap_or_else(|| name.to_owned());
    }
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    // An empty parameter pack leaves its comma.
    let of_cpp = |name: &str| {
        Some(cpp_demangle::Symbol::new(name).ok()?.demangle().ok()?.replace(", >", ">"))
    };
    /// Each part is tried, and a name may be anything.
    const PARTS_MAX: usize = 50;
    // Types that the demangler does not know are mostly those of the result and the arguments, as with
    // `make_shared`. The first prefix that is a valid name is sufficient.
    let ends = || name.match_indices('E').map(|(at, _)| at + 1).take(PARTS_MAX);
    let in_part = || ends().find_map(|end| of_cpp(&name[..end]));
    of_cpp(name).or_else(in_part).unwrap_or_else(|| name.to_owned())
}

/// Demangles OCaml (`camlModule__function_stamp`), D (`_D`, then each part preceded by its length) and gfortran
/// (`__module_MOD_procedure`).
fn of_others(name: &str) -> Option<String> {
    if let Some(rest) = name.strip_prefix("caml")
        && rest.starts_with(|first: char| first.is_ascii_uppercase())
        && let Some((function, stamp)) = rest.rsplit_once('_')
        && stamp.bytes().all(|byte| byte.is_ascii_digit())
        && function.contains("__")
    {
        return Some(function.replace("__", "."));
    }
    if let Some(rest) = name.strip_prefix("__")
        && let Some((module, procedure)) = rest.split_once("_MOD_")
    {
        return Some(format!("{module}::{procedure}"));
    }
    let mut rest = name.strip_prefix("_D")?;
    if rest == "main" {
        return Some("D main".to_owned());
    }
    let mut parts: Vec<&str> = Vec::new();
    loop {
        // Before the name of a template.
        rest = rest.strip_prefix("__T").unwrap_or(rest);
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let Ok(length) = rest[..digits].parse::<usize>() else { break };
        let (part, after) = rest[digits..].split_at_checked(length)?;
        parts.push(part);
        rest = after;
    }
    // Types follow.
    (!parts.is_empty() && !rest.is_empty()).then(|| parts.join("."))
}

/// Whether a name begins like mangled names of Rust and C++.
pub(super) fn is_mangled(name: &str) -> bool {
    let mangled = name.trim_start_matches('_');
    mangled.len() < name.len() && mangled.starts_with(['Z', 'R'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_mangled_are_demangled() {
        let check = |name, expected| assert_eq!(demangled(name), expected);
        check("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt");
        check("_RNvC6_123foo3bar", "123foo::bar");
        check(
            "_ZNSt6vectorIiSaIiEE9push_backEOi",
            "std::vector<int, std::allocator<int> >::push_back(int&&)",
        );
        check("__GI___clock_nanosleep", "clock_nanosleep");
        check("__GI__exit", "_exit");
        check("__GI___libc_malloc", "__libc_malloc");
        let make_shared = "_ZSt11make_sharedI4NodeJEESt10shared_ptrINSt9enable_ifIXntsrSt8is_arrayIT_E5valueES4_E4typeEEDpOT0_";
        check(make_shared, "std::make_shared<Node>");
        check("camlBusy__slow_81", "Busy.slow");
        check("camlStdlib__List__rev_append_104", "Stdlib.List.rev_append");
        check("caml_alloc_small_dispatch", "caml_alloc_small_dispatch");
        check("_D4busy__T4slowTiZQiFNaNbNiNfiZm", "busy.slow");
        check("_D3std5stdio4File5closeMFNeZv", "std.stdio.File.close");
        check("_Dmain", "D main");
        check("_D9999999x", "_D9999999x");
        check("__m_MOD_slow", "m::slow");
        check("w", "w");
        check("i", "i");
        check("main", "main");
        check("__libc_start_main_impl", "__libc_start_main_impl");
        check("_Zebra", "_Zebra");
        check("_Rest", "_Rest");
        check("", "");
    }
}
