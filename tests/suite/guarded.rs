//! Two clusters of which everything can be withdrawn: rights, and the network before them.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use cluster::{Cluster, Pair, Proxy, Spec};

/// Clusters with an authorizer, each also behind a proxy. Clients of the proxies and brokers are the same user.
pub(crate) struct Guarded {
    /// Reached directly, for everybody else.
    pub(crate) pair: Pair,
    /// Before the source.
    pub(crate) to_source: Proxy,
    /// Before the target.
    pub(crate) to_target: Proxy,
}

impl Guarded {
    fn start() -> Self {
        let (to_source, to_target) = (Proxy::start().unwrap(), Proxy::start().unwrap());
        let spec = |name, proxy| {
            let authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
            Spec::named(name)
                .with("authorizer.class.name", authorizer)
                // Brokers are anonymous, too: what nobody has judged is allowed.
                .with("allow.everyone.if.no.acl.found", "true")
                .behind(proxy)
        };
        let pair = Pair::start(spec("guarded-source", &to_source), spec("guarded-target", &to_target)).unwrap();
        Self { pair, to_source, to_target }
    }
}

/// The clusters, for one test at a time, with the network whole.
pub(crate) fn guarded() -> MutexGuard<'static, Guarded> {
    static GUARDED: OnceLock<Mutex<Guarded>> = OnceLock::new();
    let guarded = GUARDED.get_or_init(|| Mutex::new(Guarded::start()));
    let guarded = guarded.lock().unwrap_or_else(PoisonError::into_inner);
    guarded.to_source.mend();
    guarded.to_target.mend();
    guarded
}

/// A right that is withdrawn until it is granted again, at the latest when this is dropped.
pub(crate) struct Withdrawn<'a> {
    cluster: &'a Cluster,
    denial: Vec<String>,
}

/// Withdraws an operation from everybody on a resource, given as arguments of Kafka's tool such as `--topic orders`. Others on the
/// same resource stay allowed.
pub(crate) fn withdraw<'a>(cluster: &'a Cluster, resource: &[&str], operation: &str) -> Withdrawn<'a> {
    let all = [&["--add", "--allow-principal", "User:*", "--operation", "All"], resource].concat();
    acls(cluster, &all);
    let denial = [&["--deny-principal", "User:*", "--operation", operation], resource].concat();
    acls(cluster, &[&["--add"], &denial[..]].concat());
    Withdrawn { cluster, denial: denial.into_iter().map(str::to_owned).collect() }
}

impl Withdrawn<'_> {
    /// Grants it again.
    pub(crate) fn grant(self) {}
}

impl Drop for Withdrawn<'_> {
    fn drop(&mut self) {
        let denial = self.denial.iter().map(String::as_str);
        acls(self.cluster, &["--remove", "--force"].into_iter().chain(denial).collect::<Vec<_>>());
    }
}

fn acls(cluster: &Cluster, arguments: &[&str]) {
    cluster.tool("org.apache.kafka.tools.AclCommand", arguments).unwrap();
}
