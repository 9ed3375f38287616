//! `wingbeat serve` as a process: it starts, stops, is killed, is backed up, and meets bad disks.

mod backup;
mod disks;
#[expect(dead_code, reason = "other tests need the rest of it")]
#[path = "../common/ran.rs"]
mod ran;
mod runs;
mod start;
mod support;
mod survives;
