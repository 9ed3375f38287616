//! Names by pattern: `*` stands for any text, `?` for one character.

/// Whether a name is as the pattern says, from its beginning to its end.
#[must_use]
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut of) = (0, 0);
    // Where the last `*` stands, and how much of the name it has been given.
    let mut star: Option<(usize, usize)> = None;
    while of < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, of));
                at += 1;
            }
            Some(&c) if c == '?' || c == name[of] => {
                at += 1;
                of += 1;
            }
            _ => match &mut star {
                Some((place, given)) => {
                    *given += 1;
                    (at, of) = (*place + 1, *given);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let check = |pattern, name, expected| {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        };
        check("fib", "fib", true);
        check("fib", "fib_20", false);
        check("fib*", "fib_20", true);
        check("*20", "fib_20", true);
        check("f?b*", "fib", true);
        check("*a*b*", "xxaxxb", true);
        check("*a*b*", "xxbxxa", false);
        check("*", "", true);
        check("?", "", false);
        check("größe/?", "größe/ß", true);
        check("*aaaaaaaaaaaaaaaaaaab", &"a".repeat(5_000), false);
    }
}
