use std::fmt::Write;
use std::path::Path;

/// What one node must know of its cluster.
pub(crate) struct Node<'a> {
    pub(crate) id: usize,
    /// (broker port, controller port) of node 1, 2, ...
    pub(crate) ports: &'a [(u16, u16)],
    pub(crate) data: &'a Path,
    /// Set last, so they win; `{broker}` and `{controller}` in a value are the node's ports.
    pub(crate) overrides: &'a [(String, String)],
}

/// Intervals near their lower bounds, so that tests wait seconds where production waits minutes.
///
/// A killed broker may come back only when its old session has ended, hence the short one.
const FOR_TESTS: &str = "\
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
auto.create.topics.enable=false
offsets.topic.num.partitions=4
transaction.state.log.num.partitions=4
share.coordinator.state.topic.num.partitions=4
group.initial.rebalance.delay.ms=0
group.share.min.heartbeat.interval.ms=500
group.share.heartbeat.interval.ms=1000
group.share.min.session.timeout.ms=3000
group.share.session.timeout.ms=6000
group.share.min.record.lock.duration.ms=1000
";

/// The server.properties of a node that is broker and controller.
pub(crate) fn server(node: &Node<'_>) -> String {
    let (broker, controller) = node.ports[node.id - 1];
    let replicas = node.ports.len().min(3);
    let in_sync = replicas.min(2);
    let voters: Vec<String> =
        (1..).zip(node.ports).map(|(id, (_, controller))| format!("{id}@127.0.0.1:{controller}")).collect();
    let mut text = format!(
        "process.roles=broker,controller
node.id={id}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor={replicas}
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr={in_sync}
share.coordinator.state.topic.replication.factor={replicas}
share.coordinator.state.topic.min.isr={in_sync}
{FOR_TESTS}",
        id = node.id,
        voters = voters.join(","),
        data = node.data.display(),
    );
    for (key, value) in node.overrides {
        let value = value.replace("{broker}", &broker.to_string()).replace("{controller}", &controller.to_string());
        writeln!(text, "{key}={value}").expect("a String takes all");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_names_all_voters_and_its_own_ports() {
        let node = Node {
            id: 2,
            ports: &[(1, 2), (3, 4), (5, 6)],
            data: Path::new("/data"),
            overrides: &[
                ("auto.create.topics.enable".into(), "true".into()),
                ("listeners".into(), "A://a:{broker},B://b:{controller}".into()),
            ],
        };
        let text = server(&node);
        assert!(text.contains("controller.quorum.voters=1@127.0.0.1:2,2@127.0.0.1:4,3@127.0.0.1:6\n"));
        assert!(text.contains("listeners=PLAINTEXT://127.0.0.1:3,CONTROLLER://127.0.0.1:4\n"));
        assert!(text.contains("share.coordinator.state.topic.min.isr=2\n"));
        let last = text.lines().rfind(|line| line.starts_with("auto.create.topics.enable"));
        assert_eq!(last, Some("auto.create.topics.enable=true"));
        assert!(text.ends_with("listeners=A://a:3,B://b:4\n"));
    }
}
