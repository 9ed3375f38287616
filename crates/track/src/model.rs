//! The data types of continuous benchmarking, and their validity rules.

pub mod adapter;
pub mod alert;
mod description;
pub mod environment;
mod id;
pub mod measure;
pub mod metric;
pub mod name;
pub mod notice;
pub mod past;
mod profile;
pub mod reason;
pub mod report;
pub mod results;
mod slugs;
pub mod threshold;
pub mod verdict;

pub use adapter::Adapter;
pub use alert::{Alert, AlertStatus};
pub use description::{Description, DescriptionError};
pub use environment::Environment;
pub use id::{short_hash, short_id};
pub use measure::{Direction, Measure, MeasureKind};
pub use metric::Metric;
pub use name::{
    BenchmarkName, BranchName, InvalidName, MeasureName, ProjectName, Slug, TestbedName,
};
pub use notice::{Notice, NoticeKind, NoticeText};
pub use past::{Past, PastPoint, PastReport, PastSeries};
pub use profile::{PROFILE_BYTES_MAX, Profile, ProfileHash, ProfileInfo, ProfileKind};
pub use reason::{Interleaved, Reason, ReasonKind, ReasonNote, Shortage};
pub use report::{Report, StartPoint};
pub use results::{AddError, Average, BenchmarkResults, FailedBenchmark, Results};
pub use slugs::Slugs;
pub use threshold::{Threshold, ThresholdModel};
pub use verdict::{Boundary, Change, ChangeInterval, Limit, Outcome, Verdict};
