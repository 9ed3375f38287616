//! The object `fun-xdp-log`: the same programs with a log (feature `log`), to be watched.
#![no_std]
#![no_main]

mod programs;
