//! `wingbeat serve` as a process: starts, stops, kills, backups, and disk errors.

mod backup;
mod disks;
mod postgres;
#[expect(dead_code, reason = "other tests need the rest of it")]
#[path = "../common/ran.rs"]
mod ran;
mod rolling;
mod runs;
mod start;
mod support;
mod survives;
