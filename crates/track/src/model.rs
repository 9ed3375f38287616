//! The data types of continuous benchmarking, and their validity rules.

pub mod adapter;
mod description;
pub mod measure;
pub mod name;
pub mod notice;
pub mod past;
mod profile;
pub mod reason;
pub mod report;
pub mod results;
pub mod threshold;
pub mod verdict;

pub use adapter::Adapter;
pub use description::{Description, DescriptionError};
pub use measure::{Direction, Measure, MeasureKind, Metric, Slugs};
pub use name::{
    BenchmarkName, BranchName, InvalidName, MeasureName, ProjectName, Slug, TestbedName,
};
pub use notice::{Notice, NoticeKind, NoticeText};
pub use past::{Past, PastPoint, PastReport, PastSeries};
pub use profile::{PROFILE_BYTES_MAX, Profile, ProfileHash, ProfileInfo, ProfileKind};
pub use reason::{Interleaved, Reason, ReasonKind, ReasonNote, Shortage};
pub use report::{Environment, Report, StartPoint, short_hash, short_id};
pub use results::{AddError, Average, BenchmarkResults, FailedBenchmark, Results};
pub use threshold::{Threshold, ThresholdModel};
pub use verdict::{Alert, AlertStatus, Boundary, Change, ChangeInterval, Limit, Outcome, Verdict};
