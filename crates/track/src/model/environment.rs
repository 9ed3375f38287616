//! The environment of a report. If it changes between reports, results may change without a change of the code.

use serde::{Deserialize, Serialize};

/// The machine and the tools of one report. Unknown values are `None`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// System and kernel release: `Linux 6.18.44`.
    pub kernel: Option<String>,
    pub cpu_model: Option<String>,
    /// Frequency governor of the first CPU.
    pub governor: Option<String>,
    pub cores: Option<u32>,
    /// Load average over one minute before the command ran.
    pub load: Option<f64>,
    /// Share of the CPU time during the command that was stolen by the hypervisor, 0 to 1.
    pub steal: Option<f64>,
    /// `rustc --version`, or that of the project's compiler.
    pub compiler: Option<String>,
    pub git_hash: Option<String>,
    /// Whether tracked files differ from that commit.
    pub is_dirty: Option<bool>,
    pub wingbeat: Option<String>,
}

impl Environment {
    /// The properties that are constant on an unchanged machine: without load, steal and commit.
    pub fn lasting(&self) -> Vec<(&'static str, String)> {
        let cores = self.cores.map(|cores| cores.to_string());
        [
            ("kernel", &self.kernel),
            ("CPU", &self.cpu_model),
            ("governor", &self.governor),
            ("CPUs", &cores),
            ("compiler", &self.compiler),
            ("wingbeat", &self.wingbeat),
        ]
        .into_iter()
        .filter_map(|(name, value)| value.clone().map(|value| (name, value)))
        .collect()
    }

    /// Whether both have the same CPU model and number of CPUs, as far as known.
    pub(crate) fn is_same_machine(&self, other: &Self) -> bool {
        fn agree<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
            one.zip(other).is_none_or(|(one, other)| one == other)
        }
        agree(self.cpu_model.as_ref(), other.cpu_model.as_ref())
            && agree(self.cores.as_ref(), other.cores.as_ref())
    }

    /// Differences from `before`, in words: `kernel 6.12.1 → 6.18.4`. Values unknown on either side are ignored.
    pub fn changes_since(&self, before: &Self) -> Vec<String> {
        let before = before.lasting();
        let value_before = |name| before.iter().find(|(known, _)| *known == name).map(|(_, v)| v);
        self.lasting()
            .into_iter()
            .filter_map(|(name, now)| {
                let before = value_before(name)?;
                (*before != now).then(|| format!("{name} {before} → {now}"))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_in_words() {
        let kernel = |kernel: &str| Environment {
            kernel: Some(kernel.to_owned()),
            load: Some(kernel.len() as f64),
            ..Environment::default()
        };
        let check = |before: &Environment, now: &Environment, expected: &[&str]| {
            assert_eq!(now.changes_since(before), expected);
        };
        check(&kernel("6.12"), &kernel("6.18.1"), &["kernel 6.12 → 6.18.1"]);
        check(&kernel("6.12"), &kernel("6.12"), &[]);
        check(&Environment::default(), &kernel("6.12"), &[]);
    }
}
