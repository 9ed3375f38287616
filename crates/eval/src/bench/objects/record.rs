//! What was found, object by object, and the sums of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    measured::{Fate, Measured},
    reason,
    veristat::Loaded,
};
use crate::comparison::Origin;

/// More than the time that was asked for, within which a measurement is to end.
pub(super) const ALLOWANCE_S: f64 = 1.0;

/// All of it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) origin: Origin,
    pub(super) time_s: f64,
    pub(super) limit_s: f64,
    pub(super) tried: Vec<Tried>,
}

/// An object that was tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Tried {
    pub(super) origin: String,
    pub(super) name: String,
    pub(super) wingbeat: Measured,
    pub(super) libbpf: Loaded,
}

/// How many of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) objects: usize,
    pub(super) programs: usize,
    pub(super) timed: usize,
    pub(super) verified: usize,
    pub(super) refused: usize,
    pub(super) loaded_by_libbpf: usize,
    pub(super) refused_here_alone: usize,
    pub(super) in_time: usize,
}

impl Tried {
    /// Its programs: those that either knows, with what became of them here.
    pub(super) fn programs(&self) -> BTreeMap<&str, Fate> {
        let nothing = self.wingbeat.failure.as_deref();
        let nothing = nothing.unwrap_or("wingbeat knows no such program in it");
        let theirs = self.libbpf.programs.keys();
        let mut programs: BTreeMap<&str, Fate> =
            theirs.map(|name| (&**name, Fate::Refused(nothing.to_owned()))).collect();
        programs.extend(self.wingbeat.programs.iter().map(|(name, fate)| (&**name, fate.clone())));
        programs
    }

    /// The programs that libbpf loads and wingbeat refuses, and why.
    pub(super) fn refused_here_alone(&self) -> Vec<(&str, String)> {
        let refused = self.programs().into_iter().filter_map(|(name, fate)| match fate {
            Fate::Refused(reason) if self.libbpf.loads(name) => Some((name, reason)),
            _ => None,
        });
        refused.collect()
    }

    /// Why programs were refused or not timed: groups, the largest first, with the number of programs.
    pub(super) fn reasons(&self) -> Vec<(String, usize)> {
        let mut groups: BTreeMap<String, usize> = BTreeMap::new();
        for (_, fate) in self.programs() {
            let group = match fate {
                Fate::Refused(reason) => reason::group(&reason),
                Fate::Untimed(reason) => format!("not timed: {}", reason::group(&reason)),
                Fate::Verified | Fate::Timed => continue,
            };
            *groups.entry(group).or_default() += 1;
        }
        if let (true, Some(failure)) = (groups.is_empty(), &self.wingbeat.failure) {
            groups.insert(reason::group(failure), 0);
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(_, programs)| std::cmp::Reverse(*programs));
        groups
    }

    /// Whether it ended within the time, by itself.
    pub(super) fn is_in_time(&self, time_s: f64) -> bool {
        !self.wingbeat.is_late && self.wingbeat.wall_s <= time_s + ALLOWANCE_S
    }

    pub(super) fn sums(&self, time_s: f64) -> Sums {
        let programs = self.programs();
        let count = |is: fn(&Fate) -> bool| programs.values().filter(|fate| is(fate)).count();
        Sums {
            objects: 1,
            programs: programs.len(),
            timed: count(|fate| *fate == Fate::Timed),
            verified: count(|fate| matches!(fate, Fate::Verified | Fate::Untimed(_))),
            refused: count(|fate| matches!(fate, Fate::Refused(_))),
            loaded_by_libbpf: self.libbpf.programs.values().filter(|&&loads| loads).count(),
            refused_here_alone: self.refused_here_alone().len(),
            in_time: usize::from(self.is_in_time(time_s)),
        }
    }
}

impl Sums {
    pub(super) fn and(mut self, other: Self) -> Self {
        for (sum, more) in self.all().into_iter().zip({ other }.all()) {
            *sum += *more;
        }
        self
    }

    fn all(&mut self) -> [&mut usize; 8] {
        let Self { objects, programs, timed, verified, refused, .. } = self;
        let (loaded, alone) = (&mut self.loaded_by_libbpf, &mut self.refused_here_alone);
        [objects, programs, timed, verified, refused, loaded, alone, &mut self.in_time]
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An object with these programs, which ended after 2 s.
    pub(in super::super) fn tried(ours: &[(&str, Fate)], theirs: &[(&str, bool)]) -> Tried {
        let programs = ours.iter().map(|(name, fate)| ((*name).to_owned(), fate.clone()));
        let loads = theirs.iter().map(|&(name, loads)| (name.to_owned(), loads));
        Tried {
            origin: "katran".to_owned(),
            name: "balancer.o".to_owned(),
            wingbeat: Measured {
                programs: programs.collect(),
                failure: None,
                wall_s: 2.0,
                is_late: false,
            },
            libbpf: Loaded { programs: loads.collect(), is_late: false },
        }
    }

    #[test]
    fn sums_follow_the_fates() {
        let refused = |why: &str| Fate::Refused(why.to_owned());
        let object = tried(
            &[
                ("a", Fate::Timed),
                ("b", Fate::Verified),
                ("c", Fate::Untimed("no time".to_owned())),
                ("d", refused("x")),
                ("e", refused("x")),
            ],
            &[("a", true), ("d", true), ("e", false), ("f", true)],
        );
        let sums = Sums {
            objects: 1,
            programs: 6,
            timed: 1,
            verified: 2,
            refused: 3,
            loaded_by_libbpf: 3,
            refused_here_alone: 2,
            in_time: 1,
        };
        assert_eq!(object.sums(1.0), sums);
        assert_eq!(object.sums(0.9).in_time, 0);
        assert_eq!(sums.and(sums).refused, 6);
        let unknown = "wingbeat knows no such program in it";
        assert_eq!(object.refused_here_alone(), [("d", "x".into()), ("f", unknown.into())]);
        let groups = [("x", 2), ("not timed: no time", 1), (unknown, 1)];
        assert_eq!(object.reasons(), groups.map(|(why, programs)| (why.to_owned(), programs)));
    }

    #[test]
    fn an_object_may_fail_as_a_whole() {
        let mut object = tried(&[], &[]);
        object.wingbeat.failure = Some("is damaged".to_owned());
        object.wingbeat.is_late = true;
        assert_eq!(object.reasons(), [("damaged object".to_owned(), 0)]);
        assert_eq!(object.sums(9.0), Sums { objects: 1, ..Sums::default() });
    }
}
