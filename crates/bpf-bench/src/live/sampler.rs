//! Reads all programs with statistics enabled, once or repeatedly (`wingbeat top`).

use std::{
    collections::{BTreeMap, HashMap},
    fs, io,
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

use wingbeat_bpf_loader::{
    attachments::{self, Attached, By, Link},
    empty_baseline::Baseline,
    fd_holders::Owners,
    program::{self, ProgramInfo, StatisticsOn},
};

use super::{
    LiveError,
    change::{Change, Reading},
    check_rights,
    choose::{KERNEL_NAME_LEN_MAX, Wanted, matching},
    cpus_online,
    report::{LiveReport, ProgramReport, Vanished, label},
    warning,
};
use crate::Warning;

/// Keeps run-time statistics enabled while it lives, and records the previous state.
#[derive(Debug)]
pub(super) struct Statistics {
    _on: StatisticsOn,
    /// Time per run that they report for an empty program.
    pub(super) empty_run_ns: Option<f64>,
    /// The empty program. It is already unloaded, unless another process holds it.
    pub(super) baseline_id: Option<u32>,
    pub(super) warnings: Vec<Warning>,
}

impl Statistics {
    /// Records the current state, enables statistics, and measures their overhead. `owners` lists
    /// which processes already enabled them. Fails if the kernel refuses.
    pub(super) fn switch_on(owners: &Owners) -> Result<Self, LiveError> {
        let baseline = Baseline::load();
        let by_sysctl = is_sysctl_on();
        let were_on = baseline.as_ref().map_err(|_| ()).and_then(|baseline| {
            // On failure, such as a signal, fall back to the other sources.
            baseline.are_statistics_on().map_err(drop)
        });
        let kept_on_by = &owners.keep_statistics_on;
        let mut warnings = Vec::new();
        if were_on.unwrap_or(by_sysctl || !kept_on_by.is_empty()) {
            warnings.push(warning::statistics_were_on(by_sysctl, kept_on_by));
        }
        let on = StatisticsOn::new().map_err(LiveError::system("switch run-time statistics on"))?;
        let baseline_id = baseline.as_ref().ok().and_then(|baseline| baseline.id().ok());
        let empty_run_ns = match baseline.and_then(|baseline| baseline.empty_run_ns(&on)) {
            Ok(empty_run_ns) => Some(empty_run_ns),
            Err(error) => {
                warnings.push(warning::no_baseline(&error.to_string()));
                None
            }
        };
        Ok(Self { _on: on, empty_run_ns, baseline_id, warnings })
    }
}

/// `kernel.bpf_stats_enabled`, which does not cover descriptors.
pub(super) fn is_sysctl_on() -> bool {
    fs::read_to_string("/proc/sys/kernel/bpf_stats_enabled").is_ok_and(|text| text.trim() != "0")
}

/// Reads all loaded programs without holding them, and caches their names.
#[derive(Debug)]
pub(super) struct Sampler {
    /// A program to exclude, which is our own.
    ignored: Option<u32>,
    names: HashMap<u32, Known>,
}

/// A program with a cached name.
#[derive(Debug)]
struct Known {
    loaded_at_ns: u64,
    name: String,
}

impl Sampler {
    /// Reads all programs except `ignored`.
    pub(super) fn new(ignored: Option<u32>) -> Self {
        Self { ignored, names: HashMap::new() }
    }

    /// Reads the counters of all programs. Skips programs that are unloaded meanwhile. Fails if
    /// programs cannot be listed.
    pub(super) fn read(&mut self) -> Result<Reading, LiveError> {
        let mut reading = Reading::begin();
        let ids = program::ids().map_err(LiveError::system("list the loaded programs"))?;
        let ignored = self.ignored;
        for id in ids.into_iter().filter(|&id| Some(id) != ignored) {
            let Ok(descriptor) = program::open(id) else { continue };
            let Ok(info) = ProgramInfo::of(&descriptor) else { continue };
            self.learn_name(&info, &descriptor);
            reading.add(info);
        }
        self.names.retain(|id, _| reading.entries.contains_key(id));
        Ok(reading)
    }

    /// Full name of a program that was read, if known; else the kernel's.
    pub(super) fn name<'a>(&'a self, info: &'a ProgramInfo) -> &'a str {
        self.names.get(&info.id).map_or(&info.name, |known| &known.name)
    }

    fn learn_name(&mut self, info: &ProgramInfo, program: impl AsFd) {
        let is_known =
            self.names.get(&info.id).is_some_and(|known| known.loaded_at_ns == info.loaded_at_ns);
        if !is_known {
            let known = Known { loaded_at_ns: info.loaded_at_ns, name: name_of(info, program) };
            self.names.insert(info.id, known);
        }
    }
}

/// Full name of a program. The kernel's own is complete unless it has the maximum length.
pub(super) fn name_of(info: &ProgramInfo, program: impl AsFd) -> String {
    let whole = || program::full_name(program).ok().flatten();
    let may_be_cut = info.name.len() >= KERNEL_NAME_LEN_MAX;
    // Type information may name another function; then use the kernel's name.
    let fits = |whole: &String| whole.starts_with(&info.name);
    may_be_cut.then(whole).flatten().filter(fits).unwrap_or_else(|| info.name.clone())
}

/// Descriptions of attachments by program: links, and interfaces without one.
#[derive(Debug, Default)]
pub(super) struct Attachments {
    by_program: BTreeMap<u32, Vec<String>>,
}

impl Attachments {
    /// Reads all attachments. Fails with `PermissionDenied` without `CAP_SYS_ADMIN`.
    pub(super) fn read() -> io::Result<Self> {
        // Failures to read interfaces are ignored; cgroups and sockets are missing too.
        Ok(Self::of_all(&attachments::links()?, &attachments::by_netlink().unwrap_or_default()))
    }

    fn of_all(links: &[Link], interfaces: &[Attached]) -> Self {
        let mut by_program: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for link in links {
            by_program.entry(link.program_id).or_default().push(link.to_string());
        }
        for attached in interfaces {
            let is_link = |link: &Link| {
                let place = (Some(attached.interface), attached.program_id);
                attached.by == By::Xdp && (link.interface, link.program_id) == place
            };
            if !links.iter().any(is_link) {
                by_program.entry(attached.program_id).or_default().push(attached.to_string());
            }
        }
        Self { by_program }
    }

    /// Attachments of program `id`.
    pub(super) fn of(&self, id: u32) -> &[String] {
        self.by_program.get(&id).map_or(&[], Vec::as_slice)
    }
}

/// A program kept loaded by this descriptor.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) descriptor: OwnedFd,
    pub(super) info: ProgramInfo,
    pub(super) name: String,
}

/// Opens the matching programs, once each, by ascending id.
pub(super) fn hold(wanted: &[String]) -> Result<Vec<Held>, LiveError> {
    let mut all = hold_all()?;
    if all.is_empty() {
        return Err(LiveError::NothingLoaded);
    }
    if wanted.is_empty() {
        return Ok(all);
    }
    let loaded: Vec<_> = all.iter().map(|held| (held.name.as_str(), &held.info)).collect();
    let mut ids = Vec::new();
    for text in wanted {
        match Wanted::from(text.as_str()) {
            Wanted::Word(word) => ids.extend(matching(&word, &loaded)?),
            Wanted::Pin(path) => {
                let failed = |source| LiveError::Pin { path: path.clone(), source };
                let descriptor = program::open_pinned(&path).map_err(failed)?;
                ids.push(ProgramInfo::of(&descriptor).map_err(failed)?.id);
            }
        }
    }
    all.retain(|held| ids.contains(&held.info.id));
    Ok(all)
}

fn hold_all() -> Result<Vec<Held>, LiveError> {
    let ids = program::ids().map_err(LiveError::system("list the loaded programs"))?;
    let held = ids.into_iter().filter_map(|id| {
        // It may already be unloaded.
        let descriptor = program::open(id).ok()?;
        let info = ProgramInfo::of(&descriptor).ok()?;
        let name = name_of(&info, &descriptor);
        Some(Held { descriptor, info, name })
    });
    Ok(held.collect())
}

impl Held {
    /// Name of the program in messages.
    pub(super) fn label(&self) -> String {
        label(self.info.id, &self.name)
    }
}

// Watches all loaded programs, for `wingbeat top`.

/// Minimum interval between scans of processes and links.
const HOLDERS_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum share of time for these scans: 1/50, so they are less frequent on a machine with very many descriptors.
const HOLDERS_SHARE_MAX: u32 = 50;

/// Watches all loaded programs with statistics enabled. Does not hold the programs, so that they
/// are unloaded with their owners.
#[derive(Debug)]
pub struct Watch {
    statistics: Statistics,
    sampler: Sampler,
    holders: Holders,
    last: Reading,
    cpus_online: u32,
}

impl Watch {
    /// Enables statistics and reads all programs. Fails if privileges are missing or the kernel refuses.
    pub fn start() -> Result<Self, LiveError> {
        check_rights()?;
        let holders = Holders::look()?;
        let statistics = Statistics::switch_on(&holders.owners)?;
        let mut sampler = Sampler::new(statistics.baseline_id);
        let last = sampler.read()?;
        Ok(Self { statistics, sampler, holders, last, cpus_online: cpus_online() })
    }

    /// Programs of the first reading, without rates.
    pub fn first(&self) -> LiveReport {
        self.report(&Change::between(
            &Reading { at_ns: u64::MAX, ..Reading::default() },
            &self.last,
        ))
    }

    /// Reads all programs and reports their activity since the last reading. Fails if they cannot be listed any more.
    pub fn next_report(&mut self) -> Result<LiveReport, LiveError> {
        let reading = self.sampler.read()?;
        let change = Change::between(&self.last, &reading);
        self.last = reading;
        if self.holders.are_due() {
            self.holders = Holders::look()?;
        }
        Ok(self.report(&change))
    }

    fn report(&self, change: &Change) -> LiveReport {
        let programs: Vec<_> = change
            .programs
            .iter()
            .map(|counted| {
                let info = &counted.info;
                let name = self.sampler.name(info);
                ProgramReport::new(info, name, counted.rates, self.statistics.empty_run_ns)
                    .with_holders(self.holders.owners.of(info.id), self.holders.links.of(info.id))
            })
            .collect();
        let mut warnings = self.statistics.warnings.clone();
        warnings.extend(warning::about_owners(&self.holders.owners, &programs));
        LiveReport {
            empty_run_ns: self.statistics.empty_run_ns,
            vanished: change.vanished.iter().map(Vanished::from).collect(),
            warnings,
            ..LiveReport::new(programs, self.cpus_online, change.interval_ns)
        }
    }
}

/// Owners of programs, and the time of the next scan.
#[derive(Debug)]
struct Holders {
    owners: Owners,
    links: Attachments,
    due: Instant,
}

impl Holders {
    fn look() -> Result<Self, LiveError> {
        let began = Instant::now();
        let owners = Owners::scan().map_err(LiveError::system("list the processes"))?;
        // Attachments are optional information.
        let links = Attachments::read().unwrap_or_default();
        let rest = began.elapsed().saturating_mul(HOLDERS_SHARE_MAX).max(HOLDERS_INTERVAL);
        // A bit less, so that an interval of exactly one second does not miss every other scan.
        Ok(Self { owners, links, due: began + rest.mul_f64(0.9) })
    }

    fn are_due(&self) -> bool {
        Instant::now() >= self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_link_attaches_is_told_once() {
        let link = |program_id, interface| Link { id: 1, program_id, kind: 6, interface };
        let by_netlink = |program_id, by| Attached {
            program_id,
            interface: 4_000_000,
            name: "eth9".to_owned(),
            by,
        };
        let interfaces =
            [by_netlink(7, By::Xdp), by_netlink(8, By::Xdp), by_netlink(7, By::Filter)];
        let found = Attachments::of_all(&[link(7, Some(4_000_000))], &interfaces);
        let check = |id, expected: &[&str]| assert_eq!(found.of(id), expected, "{id}");
        check(7, &["xdp on interface 4000000", "tc filter on interface 4000000 (eth9)"]);
        check(8, &["xdp on interface 4000000 (eth9)"]);
        check(9, &[]);
    }
}
