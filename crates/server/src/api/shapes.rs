//! What requests and answers look like: the members that the `bencher` client demands, and a few of ours,
//! which it passes over.

mod new;
mod perf;
mod plot;
mod report;
mod thing;
mod threshold;

pub use self::{new::*, perf::*, plot::*, report::*, thing::*, threshold::*};

use serde::{Deserialize, Deserializer};

/// Tells a member that is `null` from one that is not there.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(deserializer).map(Some)
}
