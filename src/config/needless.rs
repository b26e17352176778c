//! Keys that people bring along from Kafka's own clients, and that have no purpose here.

/// Keys of Kafka's clients that are needed there and not here, with the reason. Source: Kafka's `SaslConfigs`.
const NEEDLESS: [(&str, &str); 4] = [
    (
        "sasl.kerberos.kinit.cmd",
        "no kinit is run: tickets come from sasl.kerberos.keytab or from the default credential cache",
    ),
    ("sasl.kerberos.ticket.renew.window.factor", "tickets are fetched when a connection needs them"),
    ("sasl.kerberos.ticket.renew.jitter", "tickets are fetched when a connection needs them"),
    ("sasl.kerberos.min.time.before.relogin", "tickets are fetched when a connection needs them"),
];

/// Why there is no key of this name here, where Kafka's clients have one.
pub(super) fn needless(name: &str) -> Option<&'static str> {
    NEEDLESS.iter().find(|(needless, _)| *needless == name).map(|(_, why)| *why)
}
