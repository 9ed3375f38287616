//! Numbers of kernel enumerations, with names.

/// Defines a type with a constant for each number. Displays like bpftool: the kernel's name in
/// lower case, `type 99` for unknown numbers.
macro_rules! kernel_numbers {
    ($(#[$doc:meta])* $name:ident { $($number:literal = $constant:ident $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            $(pub const $constant: Self = Self($number);)*
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.0 {
                    $($number => f.pad($text),)*
                    other => f.pad(&format!("type {other}")),
                }
            }
        }
    };
}

pub(crate) use kernel_numbers;
