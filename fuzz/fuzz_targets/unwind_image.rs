//! Fuzzes `profiles::unwind_image`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(profiles::unwind_image);
