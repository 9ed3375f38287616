//! The object `fun-xdp-log`: the same programs with logging (feature `log`), for watching them.
#![no_std]
#![no_main]

mod programs;
