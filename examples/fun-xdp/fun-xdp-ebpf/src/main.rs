//! The object `fun-xdp`: the programs without a log, to be measured.
#![no_std]
#![no_main]

mod programs;
