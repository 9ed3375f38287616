//! Made-up profiles as agents push them.

use std::error::Error;

use prost::Message as _;
use wingbeat_server::{
    App,
    database::Database,
    profiles::{Push, intake, now_ns},
    storage::StorageError,
};

use super::profiled::message;

const SECOND_NS: i64 = 1_000_000_000;
const WINDOW_NS: i64 = 60 * SECOND_NS;

/// Stacks with their samples per window, before and after a new version.
type Stacks = Vec<(String, i64, i64)>;

/// A pushing client, with one window per minute.
pub(crate) struct Source {
    labels: Vec<(String, String)>,
    stacks: Stacks,
    windows: i64,
    /// Relative increase at the busiest hour over the quietest.
    swing: f64,
}

fn owned(texts: &[(&str, &str)]) -> Vec<(String, String)> {
    texts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn stacks(all: &[(&str, i64, i64)]) -> Stacks {
    all.iter().map(|(stack, before, after)| ((*stack).to_owned(), *before, *after)).collect()
}

/// A packet filter's agent on two machines, one of which has a new version for half an hour, and a small service.
pub(crate) fn of_article(hours: i64) -> Vec<Source> {
    let agent = |host: &str, version: &str, is_new: bool| {
        let slow = if is_new { 3100 } else { 0 };
        Source {
            labels: owned(&[
                ("__name__", "process_cpu"),
                ("service_name", "packet-filter"),
                ("host_name", host),
                ("version", version),
            ]),
            stacks: stacks(&[
                ("main;run;events::poll;ring::consume;[kernel]", 1400, 1400),
                (
                    "main;run;events::handle;fun_xdp::classify;parse::ipv4;parse::checksum",
                    2100,
                    2100,
                ),
                (
                    "main;run;events::handle;fun_xdp::classify;fibonacci::is_fibonacci;fibonacci::lookup",
                    800,
                    0,
                ),
                (
                    "main;run;events::handle;fun_xdp::classify;fibonacci::is_fibonacci;fibonacci::compute",
                    0,
                    slow,
                ),
                ("main;run;events::handle;log::write;malloc", 700, 720),
                ("main;run;stats::publish;serde::to_json", 900, 880),
                ("main;signals::wait", 20, 22),
            ]),
            windows: hours * 60,
            swing: 0.6,
        }
    };
    let api = Source {
        labels: owned(&[
            ("__name__", "process_cpu"),
            ("service_name", "api"),
            ("host_name", "web-1"),
        ]),
        stacks: stacks(&[
            ("main;serve;route;render", 300, 310),
            ("main;serve;route;query", 500, 505),
        ]),
        windows: hours * 60,
        swing: 0.9,
    };
    let mut memory = Source { swing: 0.2, ..agent("edge-1", "1.4.0", false) };
    memory.labels[0].1 = "memory".to_owned();
    vec![agent("edge-1", "1.4.0", false), agent("edge-2", "1.5.0", true), api, memory]
}

/// Services, labels and functions whose names attack a page.
pub(crate) fn of_hostile() -> Vec<Source> {
    let attack = "</script><script>alert(1)</script>";
    let names = [
        attack,
        "<svg onload=alert(1)>",
        "right-to-left \u{202e}txt.exe",
        "../../../etc/passwd?x=1&y=2#z",
        "%2e%2e/%00",
        &"x".repeat(900),
    ];
    let source = |(number, name): (usize, &&str)| {
        let long = format!("main;{}", "y".repeat(4000));
        let mut stacks = stacks(&[
            (&format!("main;{attack}"), 2000, 5000),
            ("main;</title></svg><img src=x onerror=alert(1)>", 1000, 900),
            ("main;right-to-left \u{202e}txt.exe", 900, 0),
            (&long, 500, 500),
        ]);
        stacks.extend((0..300).map(|at| (format!("main;many::f{at:03}"), 3, 3)));
        let mut labels = owned(&[("__name__", attack), ("service_name", name)]);
        labels.push((format!("label\"><b>{number}"), attack.to_owned()));
        labels.push(("host_name".to_owned(), "z".repeat(600)));
        labels.push(("either".to_owned(), format!("{attack}{}", number % 2)));
        Source { labels, stacks, windows: 15, swing: 0.1 }
    };
    let mut sources: Vec<Source> = names.iter().enumerate().map(source).collect();
    // The first one has two label sets.
    sources.push(source((7, &names[0])));
    sources
}

/// Pushes everything to a project, as if clients had, and merges it like a server.
pub(crate) async fn fill(app: &App, slug: &str, sources: &[Source]) -> Result<(), Box<dyn Error>> {
    let slug = slug.to_owned();
    let find = move |database: &Database| database.project(&slug).map_err(StorageError::from);
    let project = app.storage.read(find).await?.ok_or("no such project")?.uuid.to_string();
    let now_ns = now_ns();
    for source in sources {
        let mut pushes = Vec::new();
        let begin_ns = now_ns - source.windows * WINDOW_NS;
        for number in 0..source.windows {
            pushes.push(source.push(begin_ns + number * WINDOW_NS, now_ns)?);
        }
        app.profiles.put(&project, pushes, now_ns)?;
    }
    while !app.profiles.tidy(now_ns)? {}
    Ok(())
}

impl Source {
    fn push(&self, start_ns: i64, now_ns: i64) -> Result<Push, Box<dyn Error>> {
        let is_new = now_ns - start_ns <= 30 * WINDOW_NS;
        let hour = start_ns.rem_euclid(86_400 * SECOND_NS) as f64 / (3600.0 * SECOND_NS as f64);
        let minute = (start_ns / WINDOW_NS).rem_euclid(7) as f64;
        // More by day than at night, and different each minute.
        let day = 1.0 + self.swing * ((hour - 14.0) / 24.0 * std::f64::consts::TAU).cos();
        let factor = day * (1.0 + 0.03 * minute);
        let counted: Vec<(&str, i64)> = self
            .stacks
            .iter()
            .map(|(stack, before, after)| {
                let count = if is_new { *after } else { *before };
                (stack.as_str(), (count as f64 * factor) as i64)
            })
            .collect();
        let is_memory = self.labels.iter().any(|(_, value)| value == "memory");
        let measured = if is_memory { "inuse_space bytes" } else { "cpu nanoseconds" };
        let mut message = message(&counted, measured);
        (message.time_nanos, message.duration_nanos) = (start_ns, WINDOW_NS);
        let bytes = message.encode_to_vec();
        let labels = self.labels.iter().cloned();
        let parts = intake::parts(labels, &bytes, now_ns, 0, &mut (1 << 30))?;
        Ok(Push { id: String::new(), parts })
    }
}
