//! batch
/// Inclusive offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OffsetRange {
    /// First offset.
    pub first: i64,
    /// Last offset.
    pub last: i64,
}
