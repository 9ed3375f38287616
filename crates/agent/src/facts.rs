//! What is known about a process, and how it becomes labels.

use std::collections::BTreeMap;

use crate::{origin::Origin, pods::PodContainer};

/// Labels of a series with the backends' names: OpenTelemetry's with `_` for `.`.
pub(crate) type Labels = BTreeMap<String, String>;

/// Maximum characters of a value.
const VALUE_CHARS_MAX: usize = 200;

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
    pub(crate) const ALL: [Self; 9] = [
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
    pub(crate) fn name(self) -> &'static str {
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
    pub(crate) fn get(&self, fact: Fact) -> Option<&'a str> {
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

/// Sanitizes arbitrary text, such as a program's name.
pub(crate) fn label_value(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(VALUE_CHARS_MAX).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_plain_and_short() {
        let check = |text: &str, expected: &str| assert_eq!(label_value(text), expected);
        check("nginx", "nginx");
        check("a\nb\u{1b}[0m", "a b [0m");
        check(&"ä".repeat(300), &"ä".repeat(200));
    }
}
