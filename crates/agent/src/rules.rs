//! User-defined rules: set labels of samples, or drop them.
//!
//! Only the first matching rule applies. `read` parses rules.

mod read;

use std::collections::BTreeMap;

use wingbeat_push::Pattern;

pub use self::read::RulesError;
use super::{labels::Labels, origin::Origin, pods::PodContainer, value::label_value};

/// A fact that rules can match or use in a label.
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

    /// Name in the file.
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

/// Facts about a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub executable: &'a str,
    /// Path of the executable; `None` for kernel threads and exited processes.
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

/// All rules, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    /// All of them must match.
    patterns: Vec<(Fact, Pattern)>,
    is_drop: bool,
    labels: Vec<(String, Template)>,
}

/// Text with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Fact(Fact),
    /// The text matched by a `*` of the fact's pattern, from 0.
    Capture(Fact, usize),
}

impl Rules {
    /// Applies the first matching rule to the labels; `false` if the process is dropped.
    pub(crate) fn apply(&self, facts: &Facts<'_>, labels: &mut Labels) -> bool {
        for rule in &self.0 {
            let Some(captures) = rule.fits(facts) else { continue };
            if rule.is_drop {
                return false;
            }
            for (name, template) in &rule.labels {
                let value = template.fill(facts, &captures);
                match value.is_empty() {
                    // A missing fact must not remove the service's name.
                    true if name == "service_name" => {}
                    true => drop(labels.remove(name)),
                    false => drop(labels.insert(name.clone(), value)),
                }
            }
            return true;
        }
        true
    }

    /// Number of rules.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no rules.
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
