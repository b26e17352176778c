//! Transactional ids: which flow they belong to (pure).
//!
//! `sharebridge-<flow>-<incarnation>-<lane>`: the incarnation is new for each process, so no two processes share an id and nobody
//! has to name them. Flow names may hold any of these signs, so an id is read from its end.

/// Length of an incarnation: a uuid in hexadecimal digits.
const INCARNATION_CHARS: usize = 32;

/// The beginning of all transactional ids of a flow, and of some of other flows, too.
pub fn prefix(flow: &str) -> String {
    format!("sharebridge-{flow}-")
}

/// The transactional id of a lane.
pub fn transactional_id(flow: &str, incarnation: uuid::Uuid, lane: u32) -> String {
    format!("{}{}-{lane}", prefix(flow), incarnation.simple())
}

/// Whether a transactional id belongs to a lane of this flow, in whatever process.
pub fn belongs_to(id: &str, flow: &str) -> bool {
    let Some((incarnation, lane)) = id.strip_prefix(&prefix(flow)).and_then(|rest| rest.split_once('-')) else {
        return false;
    };
    incarnation.len() == INCARNATION_CHARS
        && incarnation.bytes().all(|byte| byte.is_ascii_hexdigit())
        && lane.parse::<u32>().is_ok_and(|number| number.to_string() == lane)
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn ids_belong_to_one_flow() {
        let incarnation = Uuid::from_u128(7);
        for flow in ["orders", "orders-eu", "o.r_d-1"] {
            assert!(belongs_to(&transactional_id(flow, incarnation, 12), flow), "{flow}");
        }
        let eu = transactional_id("orders-eu", incarnation, 0);
        assert!(eu.starts_with(&prefix("orders")) && !belongs_to(&eu, "orders"));
        let id = transactional_id("orders", incarnation, 0);
        for other in [&id[1..], &format!("{id}x"), &format!("{id}-1"), &id.replace("-0", "-00"), "orders", ""] {
            assert!(!belongs_to(other, "orders"), "{other}");
        }
    }
}
