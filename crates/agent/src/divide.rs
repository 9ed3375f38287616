//! Divides the samples of a window by labels.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use rustc_hash::FxHashMap;
use wingbeat_profiler::{
    export::{self, ExportError},
    model::{Completeness, ProcessId, Profile},
    session::Lineage,
};

use crate::{
    facts::Labels,
    labels::Processes,
    window::{Kind, Series, Window},
};

/// Maximum label sets per window. Those with fewest samples are merged beyond it.
const SERIES_MAX: usize = 200;

/// A window divided by labels, with statistics.
#[derive(Debug)]
pub(crate) struct Divided {
    pub window: Window,
    pub samples: u64,
    /// Samples with an incomplete stack, by reason.
    pub broken: BTreeMap<&'static str, u64>,
    /// Samples dropped by rules; they are included in the other counts.
    pub dropped: u64,
}

/// Creates a pprof file for each label set.
///
/// # Errors
///
/// The profile has an invalid reference.
pub(crate) fn divide(
    profile: &Profile,
    lineage: &Lineage,
    processes: &mut Processes,
) -> Result<Divided, ExportError> {
    processes.next_window();
    let mut groups: BTreeMap<Labels, BTreeSet<ProcessId>> = BTreeMap::new();
    let parts = Kind::ALL.map(|kind| (kind, profile.of_mode(kind.mode())));
    let parts: Vec<_> = parts.into_iter().filter(|(_, part)| !part.is_empty()).collect();
    let threads = parts.iter().flat_map(|(_, part)| part.weights().map(|((_, thread), _)| thread));
    let seen: BTreeSet<ProcessId> = threads.map(|thread| owner(profile, thread)).collect();
    let mut dropped = BTreeSet::new();
    for id in seen {
        let Some(process) = profile.processes.get(id as usize) else { continue };
        match processes.labels(process, lineage) {
            Some(labels) => drop(groups.entry(labels).or_default().insert(id)),
            None => drop(dropped.insert(id)),
        }
    }
    let mut series = Vec::with_capacity(groups.len());
    let mut amounts: FxHashMap<ProcessId, Amounts> = FxHashMap::default();
    for ((_, thread), weight) in parts.iter().flat_map(|(_, part)| part.weights()) {
        let (samples, off_cpu_ns) = amounts.entry(owner(profile, thread)).or_default();
        *samples += weight.samples;
        *off_cpu_ns += weight.off_cpu_ns;
    }
    for (labels, members) in limit_series(groups, &amounts) {
        for (kind, part) in &parts {
            let is_member = |thread| members.contains(&owner(profile, thread));
            if !part.weights().any(|((_, thread), _)| is_member(thread)) {
                continue;
            }
            let part = part.of_threads(is_member);
            let mut pprof = Vec::new();
            export::write_sums(&part, &mut pprof)?;
            series.push(Series { kind: *kind, labels: labels.clone(), pprof });
        }
    }
    let mut broken: BTreeMap<&'static str, u64> = BTreeMap::new();
    for sample in &profile.samples {
        match profile.stacks.get(sample.stack as usize).map(|stack| stack.completeness) {
            Some(Completeness::Complete) | None => continue,
            Some(Completeness::Truncated) => *broken.entry("too_deep").or_default() += 1,
            Some(Completeness::Broken(reason)) => *broken.entry(reason.name()).or_default() += 1,
        }
    }
    Ok(Divided {
        samples: profile.samples.len() as u64,
        broken,
        dropped: profile
            .samples
            .iter()
            .filter(|it| dropped.contains(&owner(profile, it.thread)))
            .count() as u64,
        window: Window {
            start: profile.meta.start,
            duration: Duration::from_nanos(profile.meta.duration_ns),
            series,
        },
    })
}

fn owner(profile: &Profile, thread: u32) -> ProcessId {
    profile.threads.get(thread as usize).map_or(ProcessId::MAX, |thread| thread.process)
}

/// A process's samples and off-CPU nanoseconds in a window.
type Amounts = (u64, u64);

/// Keeps the label sets with most samples and merges the rest into one service, `other`.
fn limit_series(
    groups: BTreeMap<Labels, BTreeSet<ProcessId>>,
    amounts: &FxHashMap<ProcessId, Amounts>,
) -> BTreeMap<Labels, BTreeSet<ProcessId>> {
    if groups.len() <= SERIES_MAX {
        return groups;
    }
    let mut sorted: Vec<_> = groups.into_iter().collect();
    let of = |members: &BTreeSet<ProcessId>| -> Amounts {
        let all = members.iter().filter_map(|id| amounts.get(id));
        all.fold((0, 0), |sum, amounts| (sum.0 + amounts.0, sum.1 + amounts.1))
    };
    sorted.sort_by_cached_key(|(_, members)| std::cmp::Reverse(of(members)));
    let others = sorted.split_off(SERIES_MAX - 1);
    let mut labels = Labels::new();
    if let Some((other, _)) = others.first() {
        labels.extend(
            other.get_key_value("host_name").map(|(name, host)| (name.clone(), host.clone())),
        );
    }
    labels.insert("service_name".to_owned(), "other".to_owned());
    let members = others.into_iter().flat_map(|(_, members)| members).collect();
    sorted.push((labels, members));
    sorted.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_beyond_the_limit_are_merged() {
        let groups = |count: u32| -> BTreeMap<Labels, BTreeSet<ProcessId>> {
            (0..count)
                .map(|id| {
                    let name = ("service_name".to_owned(), format!("s{id}"));
                    (Labels::from([name]), BTreeSet::from([id]))
                })
                .collect()
        };
        // The last has most, and is a single process.
        let amounts = (0..1000).map(|id| (id, (u64::from(id), 0))).collect();
        assert_eq!(limit_series(groups(200), &amounts).len(), 200);
        let mut many = groups(1000);
        many.values_mut().for_each(|members| {
            if !members.contains(&999) {
                members.extend([2_000, 2_001]);
            }
        });
        let hottest = Labels::from([("service_name".to_owned(), "s999".to_owned())]);
        assert!(limit_series(many, &amounts).contains_key(&hottest));
        let found = limit_series(groups(1000), &amounts);
        assert_eq!(found.len(), 200);
        assert_eq!(found.values().map(BTreeSet::len).sum::<usize>(), 1000);
        let other = Labels::from([("service_name".to_owned(), "other".to_owned())]);
        assert_eq!(found[&other].len(), 801);
    }
}
