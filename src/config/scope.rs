//! Tables of the file, as far as keys care.

/// Tables that a key may stand in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// `[bridge]`
    Bridge,
    /// `[clusters.<name>]`
    Cluster,
    /// `[flows.<name>]` and `[defaults]`
    Flow,
    /// `[flows.<name>]` only
    FlowOnly,
}

impl Scope {
    /// The tables as people write them.
    pub(super) fn tables(self) -> &'static str {
        match self {
            Scope::Bridge => "[bridge]",
            Scope::Cluster => "[clusters.<name>]",
            Scope::Flow => "[flows.<name>] or [defaults]",
            Scope::FlowOnly => "[flows.<name>]",
        }
    }
}
