//! Abbreviated UUIDs: by their last digits, since those of one day share a prefix.

use anyhow::bail;
use uuid::Uuid;

pub(crate) use wingbeat_track::output::short_id as short;

/// Fewer digits are a typo.
const LENGTH_MIN: usize = 4;

/// Maximum candidates listed.
const CANDIDATES_MAX: usize = 8;

/// A UUID, or its first or last digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part(String);

impl std::str::FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.replace('-', "").to_ascii_lowercase();
        if digits.len() < LENGTH_MIN || digits.len() > 32 {
            return Err(format!("expected {LENGTH_MIN} to 32 digits of a UUID"));
        }
        match digits.chars().all(|c| c.is_ascii_hexdigit()) {
            true => Ok(Self(digits)),
            false => Err("a UUID has the digits 0 to 9 and a to f".to_owned()),
        }
    }
}

impl Part {
    /// The UUID, if complete.
    pub(crate) fn whole(&self) -> Option<Uuid> {
        (self.0.len() == 32).then(|| Uuid::try_parse(&self.0).ok()).flatten()
    }

    fn fits(&self, uuid: Uuid) -> bool {
        let digits = uuid.simple().to_string();
        digits.starts_with(&self.0) || digits.ends_with(&self.0)
    }

    /// The only match. For messages, `what` names the kind, and `list` the command that lists them.
    pub(crate) fn find<T>(
        &self,
        all: &[T],
        uuid: impl Fn(&T) -> Uuid,
        describe: impl Fn(&T) -> String,
        (what, list): (&str, &str),
    ) -> anyhow::Result<Uuid> {
        let found: Vec<&T> = all.iter().filter(|one| self.fits(uuid(one))).collect();
        match found[..] {
            [one] => Ok(uuid(one)),
            [] if self.0.len() == 32 => bail!("there is no {what} {}; `{list}` lists them", self.0),
            [] => bail!("no {what} begins or ends with {}; `{list}` lists them", self.0),
            _ => {
                let candidates = found.iter().take(CANDIDATES_MAX);
                let candidates: Vec<String> =
                    candidates.map(|one| format!("\n  {} {}", uuid(one), describe(one))).collect();
                let more = found.len() - candidates.len();
                let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
                let (count, candidates) = (found.len(), candidates.concat());
                bail!(
                    "{count} {what}s begin or end with {}; add digits to choose one:{candidates}{more}",
                    self.0
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_beginning_or_end() {
        let all = [0x0123_4567_89ab_u128 << 80, (0x0123_4567_89ac_u128 << 80) | 0xbeef];
        let all = all.map(Uuid::from_u128);
        let check = |text: &str, expected: Result<usize, &str>| {
            let part: Part = text.parse().expect("digits");
            let found = part.find(&all, |uuid| *uuid, |_| "here".to_owned(), ("alert", "list"));
            match (found, expected) {
                (Ok(found), Ok(index)) => assert_eq!(found, all[index], "{text}"),
                (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error}"),
                other => panic!("{text}: {other:?}"),
            }
        };
        check("BEEF", Ok(1));
        check("01234567-89ab", Ok(0));
        check(&all[1].to_string(), Ok(1));
        check("0123", Err("2 alerts begin or end with 0123"));
        check("ffff", Err("no alert begins or ends with ffff; `list` lists them"));
        check(&"f".repeat(32), Err("there is no alert ffffffff"));
        check(&short(all[1]), Ok(1));
        for wrong in ["abc", "xyzw", "", &"0".repeat(33)] {
            assert!(wrong.parse::<Part>().is_err(), "{wrong}");
        }
    }
}
