//! Rules of the one who runs the agent: whose samples have which labels, and whose are dropped.
//!
//! The first rule that fits counts, and no other. `read` makes rules of a file.

mod read;

use std::collections::BTreeMap;

use wingbeat_push::Pattern;

pub use self::read::RulesError;
use super::{labels::Labels, origin::Origin, pods::PodContainer, value::label_value};

/// What may be asked for, and be put into a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fact {
    Executable,
    Path,
    Unit,
    Cgroup,
    ContainerId,
    Image,
    Namespace,
    Pod,
    Container,
}

impl Fact {
    const ALL: [Self; 9] = [
        Self::Executable,
        Self::Path,
        Self::Unit,
        Self::Cgroup,
        Self::ContainerId,
        Self::Image,
        Self::Namespace,
        Self::Pod,
        Self::Container,
    ];

    /// As in the file.
    fn name(self) -> &'static str {
        match self {
            Self::Executable => "executable",
            Self::Path => "path",
            Self::Unit => "unit",
            Self::Cgroup => "cgroup",
            Self::ContainerId => "container_id",
            Self::Image => "image",
            Self::Namespace => "namespace",
            Self::Pod => "pod",
            Self::Container => "container",
        }
    }
}

/// What is known of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub executable: &'a str,
    /// Of the file that it runs; none of a thread of the kernel, and of a process that was gone.
    pub path: Option<&'a str>,
    pub origin: &'a Origin,
    pub pod: Option<&'a PodContainer>,
}

impl<'a> Facts<'a> {
    fn get(&self, fact: Fact) -> Option<&'a str> {
        let Origin { cgroup, container_id, unit, .. } = self.origin;
        match fact {
            Fact::Executable => Some(self.executable),
            Fact::Path => self.path,
            Fact::Unit => unit.as_deref(),
            Fact::Cgroup => Some(cgroup),
            Fact::ContainerId => container_id.as_deref(),
            Fact::Image => self.pod?.image.as_deref(),
            Fact::Namespace => self.pod.map(|pod| pod.namespace.as_str()),
            Fact::Pod => self.pod.map(|pod| pod.pod.as_str()),
            Fact::Container => self.pod?.container.as_deref(),
        }
    }
}

/// All rules, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    /// All of them have to fit.
    patterns: Vec<(Fact, Pattern)>,
    is_drop: bool,
    labels: Vec<(String, Template)>,
}

/// Text with what is known put in.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Fact(Fact),
    /// What a `*` of the pattern for this stands for, from 0.
    Capture(Fact, usize),
}

impl Rules {
    /// Puts the labels of the rule that fits among the others; `false` if the process is to be dropped.
    pub(crate) fn apply(&self, facts: &Facts<'_>, labels: &mut Labels) -> bool {
        for rule in &self.0 {
            let Some(captures) = rule.fits(facts) else { continue };
            if rule.is_drop {
                return false;
            }
            for (name, template) in &rule.labels {
                let value = template.fill(facts, &captures);
                match value.is_empty() {
                    // Nothing known is no reason to lose the name of the service.
                    true if name == "service_name" => {}
                    true => drop(labels.remove(name)),
                    false => drop(labels.insert(name.clone(), value)),
                }
            }
            return true;
        }
        true
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

type Captures<'a> = BTreeMap<Fact, Vec<&'a str>>;

impl Rule {
    fn fits<'a>(&self, facts: &Facts<'a>) -> Option<Captures<'a>> {
        let captures =
            |(fact, pattern): &(Fact, Pattern)| Some((*fact, pattern.captures(facts.get(*fact)?)?));
        self.patterns.iter().map(captures).collect()
    }
}

impl Template {
    fn fill(&self, facts: &Facts<'_>, captures: &Captures<'_>) -> String {
        let text = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Fact(fact) => facts.get(*fact).unwrap_or("").to_owned(),
            Piece::Capture(fact, number) => {
                let captured = captures.get(fact).and_then(|all| all.get(*number));
                captured.map_or_else(String::new, |text| (*text).to_owned())
            }
        };
        label_value(&self.0.iter().map(text).collect::<String>())
    }
}

#[cfg(test)]
mod tests;
