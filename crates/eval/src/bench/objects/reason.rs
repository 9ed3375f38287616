//! Reasons in a few words, so that a thousand of them make some dozen groups.

use std::sync::LazyLock;

use regex_lite::Regex;

/// A pattern in the message, and what is said for it, with `$1` for what the pattern caught. The first
/// that matches counts, so that those of the cause stand before those of its consequences.
const RULES: &[(&str, &str)] = &[
    ("this kernel forbids programs of this kind", "forbidden by this kernel (EPERM)"),
    ("this kernel has no ([A-Za-z_ ]+) \\S+, which its section", "no such $1 in this kernel"),
    ("it needs (\\w+), which this kernel does not have", "needs $1"),
    ("the program calls (\\w+), which this kernel does not have", "needs $1"),
    ("\\(CO-RE\\)", "a type or member that this kernel does not have (CO-RE)"),
    ("cannot use helper (\\w+)|unknown func (\\w+)", "its type may not call $1$2"),
    ("invalid func unknown#", "a helper that this kernel does not have"),
    ("processed \\d+ insns .*limit|too complex", "too much for the verifier"),
    ("the verifier rejects", "rejected by the verifier"),
    ("\\(struct_ops\\)", "a function of a struct_ops"),
    ("it replaces \\S+ function", "replaces a function of another program (freplace)"),
    (
        "cannot create map \\S+ \\((\\w+)\\).*os error (\\d+)",
        "the kernel refuses its $1 map (error $2)",
    ),
    ("refuses the input.*os error (\\d+)", "the kernel refuses the input (error $1)"),
    ("does not name its target in the kernel", "its section does not say where it is attached"),
    ("no other object was linked", "refers to another object, which was not linked with it"),
    ("in section (\\S+), which is not supported", "refers to section $1"),
    ("has no known program type", "section of no known type"),
    ("map \\S+: its definition has", "a map definition of an unknown form"),
    ("has no programs", "no programs"),
    ("is damaged", "damaged object"),
    ("run-time statistics are on", "run-time statistics were on"),
    ("interrupted|the time ran out|did not end", "not reached within the time"),
    ("os error (\\d+)", "error $1"),
    ("only the event itself runs them", "only its event runs it"),
];

static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    // Each is tested below.
    let rule = |(pattern, phrase)| Regex::new(pattern).ok().map(|pattern| (pattern, phrase));
    RULES.iter().copied().filter_map(rule).collect()
});

/// Characters of a message that no rule knows.
const LENGTH_MAX: usize = 70;

/// The group of a message.
pub(super) fn group(message: &str) -> String {
    for (pattern, phrase) in PATTERNS.iter() {
        if let Some(found) = pattern.captures(message) {
            let mut text = String::new();
            found.expand(phrase, &mut text);
            return text;
        }
    }
    let line = message.lines().next().unwrap_or_default();
    match line.char_indices().nth(LENGTH_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// A message of several lines in one, without the dead weight of blanks.
pub(super) fn in_one_line(message: &str) -> String {
    let lines = message.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" / ")
}

/// A message with `PROGRAM` for the program's name, so that those of several are the same.
pub(super) fn without_name(message: &str, program: &str) -> String {
    match Regex::new(&format!(r"\b{}\b", regex_lite::escape(program))) {
        Ok(name) => name.replace_all(message, "PROGRAM").into_owned(),
        Err(_) => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_a_pattern() {
        assert_eq!(PATTERNS.len(), RULES.len());
    }

    #[test]
    fn messages_fall_into_groups() {
        let check = |message: &str, expected: &str| assert_eq!(group(message), expected);
        let event = "programs of type tracing cannot be run on demand: only the event itself runs \
                     them; and the verifier has no figures: ";
        check(
            &format!(
                "{event}cannot load a: the kernel refuses (Operation not permitted (os error 1)) \
                 before verifying it, although this process has the rights: this kernel forbids \
                 programs of this kind; `wingbeat doctor` lists what it allows"
            ),
            "forbidden by this kernel (EPERM)",
        );
        check(
            &format!("{event}this kernel has no function a, which its section fentry/a asks for"),
            "no such function in this kernel",
        );
        check(
            "this kernel has no LSM hook x, which its section lsm/x asks for",
            "no such LSM hook in this kernel",
        );
        check("cannot load a: it needs bpf_b, which this kernel does not have", "needs bpf_b");
        check(
            "the verifier rejects a: program of this type cannot use helper bpf_b#46\n  at: x",
            "its type may not call bpf_b",
        );
        check(
            "the verifier rejects a: invalid func unknown#195896080; the program accesses a type or a \
             member that this kernel does not have (CO-RE)\n  at: x",
            "a type or member that this kernel does not have (CO-RE)",
        );
        check("the verifier rejects a: R1 invalid mem access", "rejected by the verifier");
        check(
            &format!("{event}cannot create map m (array): Invalid argument (os error 22)"),
            "the kernel refuses its array map (error 22)",
        );
        check(
            "x.o: cannot link a: it refers to m in section lirc_mode2/maps, which is not supported",
            "refers to section lirc_mode2/maps",
        );
        check(
            "cannot link a: in f: it calls memset: no other object was linked that has it",
            "refers to another object, which was not linked with it",
        );
        check(
            &format!(
                "{event}cannot load a: its section, \"lsm\", does not name its target in the kernel"
            ),
            "its section does not say where it is attached",
        );
        check(
            "the kernel refuses the input (64 bytes of packet, 0 of context): Invalid argument (os \
             error 22); the program reads a context: pass one with --ctx",
            "the kernel refuses the input (error 22)",
        );
        check("interrupted before its first run", "not reached within the time");
        check("cannot run a: No such device (os error 19)", "error 19");
        check(event, "only its event runs it");
        check("short\nand more", "short");
        check(&"ä".repeat(100), &format!("{}…", "ä".repeat(70)));
        check("", "");
    }

    #[test]
    fn names_are_left_out() {
        let check = |program, expected: &str| {
            assert_eq!(without_name("cannot load a: a_b is bad", program), expected);
        };
        check("a", "cannot load PROGRAM: a_b is bad");
        check("a_b", "cannot load a: PROGRAM is bad");
        check("(", "cannot load a: a_b is bad");
    }

    #[test]
    fn lines_are_joined() {
        assert_eq!(in_one_line("a:\n\n   b   c\n  d"), "a: / b c / d");
    }
}
