//! Which right is missing where a broker refuses a request. Source: KIP-11, and Kafka's table of operations by request.

use crate::wire::error::Code;

/// The operation that must be allowed, and on what; `None` where the code is not about rights.
pub fn missing(api: &str, code: Code) -> Option<&'static str> {
    match (code, api) {
        (Code::TopicAuthorizationFailed, "Produce" | "AddPartitionsToTxn") => Some("WRITE on the topic"),
        (
            Code::TopicAuthorizationFailed,
            "ShareFetch" | "ShareAcknowledge" | "Fetch" | "OffsetCommit" | "AlterShareGroupOffsets",
        ) => Some("READ on the topic"),
        (Code::TopicAuthorizationFailed, "DescribeConfigs") => Some("DESCRIBE_CONFIGS on the topic"),
        (Code::TopicAuthorizationFailed, "CreateTopics") => Some("CREATE on the topic"),
        (Code::TopicAuthorizationFailed, "CreatePartitions") => Some("ALTER on the topic"),
        (Code::TopicAuthorizationFailed, "IncrementalAlterConfigs") => Some("ALTER_CONFIGS on the topic"),
        (Code::TopicAuthorizationFailed, _) => {
            Some("DESCRIBE on the topic (READ on a source, WRITE on a target include it)")
        }
        (
            Code::GroupAuthorizationFailed,
            "ShareGroupHeartbeat"
            | "ShareFetch"
            | "ShareAcknowledge"
            | "OffsetCommit"
            | "AlterShareGroupOffsets"
            | "ConsumerGroupHeartbeat"
            | "JoinGroup"
            | "SyncGroup"
            | "Heartbeat"
            | "LeaveGroup",
        ) => Some("READ on the group"),
        (Code::GroupAuthorizationFailed, "DescribeConfigs") => {
            Some("DESCRIBE_CONFIGS on the group (ALTER_CONFIGS includes it)")
        }
        (Code::GroupAuthorizationFailed, "IncrementalAlterConfigs") => Some("ALTER_CONFIGS on the group"),
        (Code::GroupAuthorizationFailed, _) => Some("DESCRIBE on the group (READ includes it)"),
        (Code::TransactionalIdAuthorizationFailed, "Produce" | "InitProducerId" | "AddPartitionsToTxn" | "EndTxn") => {
            Some("WRITE on the transactional id")
        }
        (Code::TransactionalIdAuthorizationFailed, _) => Some("DESCRIBE on the transactional id (WRITE includes it)"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_follows_from_what_was_asked() {
        let cases = [
            ("Produce", Code::TopicAuthorizationFailed, Some("WRITE on the topic")),
            ("CreatePartitions", Code::TopicAuthorizationFailed, Some("ALTER on the topic")),
            ("IncrementalAlterConfigs", Code::TopicAuthorizationFailed, Some("ALTER_CONFIGS on the topic")),
            ("ShareFetch", Code::TopicAuthorizationFailed, Some("READ on the topic")),
            ("ShareAcknowledge", Code::GroupAuthorizationFailed, Some("READ on the group")),
            ("JoinGroup", Code::GroupAuthorizationFailed, Some("READ on the group")),
            ("EndTxn", Code::TransactionalIdAuthorizationFailed, Some("WRITE on the transactional id")),
            (
                "FindCoordinator",
                Code::TransactionalIdAuthorizationFailed,
                Some("DESCRIBE on the transactional id (WRITE includes it)"),
            ),
            ("Produce", Code::MessageTooLarge, None),
        ];
        for (api, code, right) in cases {
            assert_eq!(missing(api, code), right, "{api} {code}");
        }
    }
}
