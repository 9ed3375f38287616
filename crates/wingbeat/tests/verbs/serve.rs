//! `wingbeat serve` as a process: starts, stops, kills, backups, and disk errors.

mod postgres;
mod runs;
mod start;
mod support;
mod survives;
