//! Rolling restarts of servers on one database while clients post to any of them.

use std::{
    collections::BTreeSet,
    env,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use uuid::Uuid;
use wingbeat_pg_testing::database;
use wingbeat_server::settings::DataLocation;
use wingbeat_sql::PostgresUrl;

use crate::support::{Server, Team};

const CLIENTS: usize = 64;

/// Addresses of both servers, as a load balancer has them.
struct Proxy(Mutex<[String; 2]>);

impl Proxy {
    fn addresses(&self) -> MutexGuard<'_, [String; 2]> {
        self.0.lock().expect("sound")
    }

    /// Posts a report to either server until one confirms it; returns the number of attempts.
    fn post(&self, team: &Team, client: usize, uuid: Uuid, value: usize) -> usize {
        let mut attempts = 0;
        loop {
            let address = self.addresses()[(client + attempts) % 2].clone();
            attempts += 1;
            match team.run(&address, uuid, value) {
                Ok(answer) if answer.status == 201 => return attempts,
                Ok(answer) => assert_eq!(answer.status, 503, "{answer:?}"),
                Err(_) => {}
            }
            assert!(attempts < 1000, "no server answers");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Manually for a minute: `WINGBEAT_SERVE_TEST_SECONDS=60 cargo test -p wingbeat --test serve rolling -- --nocapture`.
#[test]
fn a_rolling_restart_loses_nothing_and_doubles_nothing() {
    let Some(url) = database() else { return };
    let primary = PostgresUrl::parse(&url).expect("a URL");
    let team = Team::new(DataLocation::Postgres { primary, replica: None });
    let mut servers = [(); 2].map(|()| Server::start_on(&url));
    let proxy = Proxy(Mutex::new(servers.each_ref().map(|server| server.address.clone())));
    let seconds = env::var("WINGBEAT_SERVE_TEST_SECONDS").ok().and_then(|it| it.parse().ok());
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(4));
    let is_done = AtomicBool::new(false);
    let client = |client: usize| {
        let (mut answered, mut attempts) = (Vec::new(), 0);
        // Not forever if a restart fails.
        while !is_done.load(Ordering::Relaxed) && Instant::now() < end + Duration::from_secs(60) {
            let uuid = Uuid::now_v7();
            attempts += proxy.post(&team, client, uuid, client);
            answered.push(uuid);
        }
        (answered, attempts)
    };
    let mut restarts = 0;
    let mut restart = || {
        let turn = restarts % 2;
        let server = Server::start_on(&url);
        let address = server.address.clone();
        let former = std::mem::replace(&mut servers[turn], server);
        proxy.addresses()[turn] = address;
        // Stopped, and every third time killed.
        let signal = if restarts % 3 == 2 { Signal::KILL } else { Signal::TERM };
        let (code, log) = former.end(signal);
        assert_eq!(code, (signal == Signal::TERM).then_some(0), "{log}");
        restarts += 1;
    };
    let client = &client;
    let done: Vec<(Vec<Uuid>, usize)> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|at| scope.spawn(move || client(at))).collect();
        // Both of them, and each way.
        for round in 0.. {
            if round >= 4 && Instant::now() > end {
                break;
            }
            thread::sleep(Duration::from_millis(200));
            restart();
        }
        is_done.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().expect("no panic")).collect()
    });
    let attempts: usize = done.iter().map(|(_, attempts)| attempts).sum();
    let answered: Vec<Uuid> = done.into_iter().flat_map(|(answered, _)| answered).collect();
    println!("{} reports, {attempts} attempts, {restarts} restarts", answered.len());
    assert!(answered.len() >= CLIENTS);
    let expected: BTreeSet<Uuid> = answered.iter().copied().collect();
    assert_eq!(expected.len(), answered.len());
    assert_eq!(team.reports(), expected);
    let list = servers[0].get("/v0/projects/own/reports?per_page=1", &team.key);
    let count = format!("x-total-count: {}", expected.len());
    assert!(list.head.contains(&count), "{count}: {list:?}");
}
