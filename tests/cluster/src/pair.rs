use std::sync::OnceLock;
use std::thread;

use crate::{Cluster, Spec};

/// The two ends of a replication: one cluster each.
#[derive(Debug)]
pub struct Pair {
    /// Where the records are.
    pub source: Cluster,
    /// Where they shall be.
    pub target: Cluster,
}

impl Pair {
    /// Starts both clusters at once.
    pub fn start(source: Spec, target: Spec) -> anyhow::Result<Self> {
        thread::scope(|scope| {
            let source = scope.spawn(|| Cluster::start(source));
            let target = Cluster::start(target)?;
            let source = source.join().expect("starting a cluster reports errors and does not panic")?;
            Ok(Self { source, target })
        })
    }
}

/// The pair that all tests of this process share; the first caller starts it.
///
/// Tests keep apart by topic and group names, see [`unique`]. Faults that others would feel need a pair of their own.
///
/// # Panics
///
/// If the clusters do not start: no test that asks for them could go on.
pub fn pair() -> &'static Pair {
    static PAIR: OnceLock<Pair> = OnceLock::new();
    PAIR.get_or_init(|| match Pair::start(Spec::named("source"), Spec::named("target")) {
        Ok(pair) => pair,
        Err(error) => panic!("{error:#}"),
    })
}

/// A name that no other test uses, for topics and groups.
pub fn unique(name: &str) -> String {
    format!("{name}-{:08x}", fastrand::u32(..))
}
