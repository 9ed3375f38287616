//! The object `fun-xdp`: the programs without logging, for measurements.
#![no_std]
#![no_main]

mod programs;
