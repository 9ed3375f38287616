//! Watches all loaded programs, for `wingbeat top`.

use std::time::{Duration, Instant};

use wingbeat_bpf_loader::fd_holders::Owners;

use super::{
    Attachments, LiveError, Sampler, Statistics,
    change::{Change, Reading},
    check_rights, cpus_online,
    report::{LiveReport, ProgramReport, Vanished},
    warning,
};

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
