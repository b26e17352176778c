use std::fmt::Write;
use std::path::Path;

/// Where the nodes of a cluster listen. A single broker is its own controller; several have one in a node of its own, so that
/// each of them may come and go without another controller being elected.
#[derive(Debug)]
pub(crate) struct Ports {
    /// Broker 1, 2, ...
    pub(crate) brokers: Vec<u16>,
    /// The controller.
    pub(crate) controller: u16,
}

impl Ports {
    /// The node.id of the controller.
    pub(crate) fn controller_id(&self) -> usize {
        if self.brokers.len() == 1 { 1 } else { self.brokers.len() + 1 }
    }
}

/// What one node must know of its cluster.
pub(crate) struct Node<'a> {
    pub(crate) id: usize,
    pub(crate) ports: &'a Ports,
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
group.min.session.timeout.ms=1000
group.consumer.min.heartbeat.interval.ms=500
group.consumer.heartbeat.interval.ms=1000
group.consumer.min.session.timeout.ms=3000
group.consumer.session.timeout.ms=6000
log.cleaner.backoff.ms=500
group.share.min.heartbeat.interval.ms=500
group.share.heartbeat.interval.ms=1000
group.share.min.session.timeout.ms=3000
group.share.session.timeout.ms=6000
group.share.min.record.lock.duration.ms=1000
group.consumer.min.heartbeat.interval.ms=200
group.consumer.heartbeat.interval.ms=500
group.consumer.min.session.timeout.ms=2000
group.consumer.session.timeout.ms=6000
group.min.session.timeout.ms=2000
";

/// The server.properties of a node. From three brokers on, everything has three replicas and needs two of them.
pub(crate) fn server(node: &Node<'_>) -> String {
    let replicas = node.ports.brokers.len().min(3);
    let in_sync = replicas.min(2);
    let mut text = format!(
        "{roles}node.id={id}
controller.quorum.voters={voter}@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
default.replication.factor={replicas}
min.insync.replicas={in_sync}
offsets.topic.replication.factor={replicas}
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr={in_sync}
share.coordinator.state.topic.replication.factor={replicas}
share.coordinator.state.topic.min.isr={in_sync}
{FOR_TESTS}",
        roles = roles(node),
        id = node.id,
        voter = node.ports.controller_id(),
        controller = node.ports.controller,
        data = node.data.display(),
    );
    let broker = node.ports.brokers.get(node.id - 1).map(u16::to_string).unwrap_or_default();
    let controller = node.ports.controller.to_string();
    for (key, value) in node.overrides {
        let value = value.replace("{broker}", &broker).replace("{controller}", &controller);
        writeln!(text, "{key}={value}").expect("a String takes all");
    }
    text
}

/// What the node is, and where it listens for it.
fn roles(node: &Node<'_>) -> String {
    let controller = format!("CONTROLLER://127.0.0.1:{}", node.ports.controller);
    let is_controller = node.id == node.ports.controller_id();
    let Some(port) = node.ports.brokers.get(node.id - 1) else {
        return format!("process.roles=controller\nlisteners={controller}\n");
    };
    let broker = format!("PLAINTEXT://127.0.0.1:{port}");
    let (roles, listeners) = match is_controller {
        true => ("broker,controller", format!("{broker},{controller}")),
        false => ("broker", broker.clone()),
    };
    format!(
        "process.roles={roles}
listeners={listeners}
advertised.listeners={broker}
inter.broker.listener.name=PLAINTEXT
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(id: usize, brokers: &[u16]) -> String {
        let node = Node {
            id,
            ports: &Ports { brokers: brokers.to_vec(), controller: 9 },
            data: Path::new("/data"),
            overrides: &[
                ("auto.create.topics.enable".into(), "true".into()),
                ("advertised.listeners".into(), "A://a:{broker},B://b:{controller}".into()),
            ],
        };
        server(&node)
    }

    #[test]
    fn a_single_broker_is_its_own_controller() {
        let text = text(1, &[1]);
        assert!(text.contains("process.roles=broker,controller\n"));
        assert!(text.contains("listeners=PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:9\n"));
        assert!(text.contains("controller.quorum.voters=1@127.0.0.1:9\n"));
        assert!(text.contains("share.coordinator.state.topic.min.isr=1\n"));
        assert!(text.ends_with("advertised.listeners=A://a:1,B://b:9\n"));
    }

    #[test]
    fn several_have_a_controller_of_its_own() {
        let (broker, controller) = (text(2, &[1, 3, 5]), text(4, &[1, 3, 5]));
        assert!(broker.contains("process.roles=broker\n") && controller.contains("process.roles=controller\n"));
        assert!(broker.contains("listeners=PLAINTEXT://127.0.0.1:3\n"));
        assert!(controller.contains("listeners=CONTROLLER://127.0.0.1:9\n"));
        for node in [broker, controller] {
            assert!(node.contains("controller.quorum.voters=4@127.0.0.1:9\n"));
            assert!(node.contains("share.coordinator.state.topic.min.isr=2\n"));
            let last = node.lines().rfind(|line| line.starts_with("auto.create.topics.enable"));
            assert_eq!(last, Some("auto.create.topics.enable=true"));
        }
    }
}
