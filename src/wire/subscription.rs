//! What members of a classic consumer group tell each other through the coordinator: who subscribes to and owns what, and who gets what.
//!
//! Source: ConsumerProtocolSubscription.json v0 to v3, ConsumerProtocolAssignment.json v0 to v3. Readers take a higher version for the
//! highest that they know, so ours is the last one always. The bytes come from whoever may join the group: nothing here trusts them.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{BufMut, Bytes, BytesMut};

use crate::limits::ARRAY_COUNT_MAX;
use crate::wire::codec::{ReadError, Reader};

/// Partitions by the name of their topic.
pub type Partitions = BTreeMap<String, BTreeSet<i32>>;

/// What a member tells the leader of its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Topics that it wants partitions of.
    pub topics: BTreeSet<String>,
    /// Partitions that it reads, and nobody else may before it has given them up.
    pub owned: Partitions,
    /// The generation in which it got them; -1 where it does not say.
    pub generation: i32,
    /// Its rack.
    pub rack: Option<String>,
}

impl Default for Subscription {
    fn default() -> Self {
        Self { topics: BTreeSet::new(), owned: Partitions::new(), generation: -1, rack: None }
    }
}

/// The version that we write.
const VERSION: i16 = 3;

impl Subscription {
    /// As it stands in JoinGroup.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_i16(VERSION);
        put_len(&mut out, self.topics.len());
        self.topics.iter().for_each(|topic| put_text(&mut out, topic));
        // Leaders that know only version 1 look for the generation in the user data of cooperative-sticky.
        put_len(&mut out, size_of::<i32>());
        out.put_i32(self.generation);
        put_partitions(&mut out, &self.owned);
        out.put_i32(self.generation);
        match &self.rack {
            Some(rack) => put_text(&mut out, rack),
            None => out.put_i16(-1),
        }
        out.freeze()
    }

    /// Reads another member's.
    pub fn decode(bytes: Bytes) -> Result<Self, ReadError> {
        let mut reader = Reader::new(bytes);
        let version = reader.i16()?;
        let topics = array(&mut reader, text)?.into_iter().collect();
        let user_data = blob(&mut reader)?;
        let owned = if version >= 1 { partitions(&mut reader)? } else { Partitions::new() };
        let generation = if version >= 2 { reader.i32()? } else { last_generation(&user_data) };
        let rack = if version >= 3 { nullable_text(&mut reader)? } else { None };
        Ok(Self { topics, owned, generation, rack })
    }
}

/// Of older members: Java's cooperative-sticky has nothing but the generation in its user data, librdkafka's has it at the end.
fn last_generation(user_data: &Bytes) -> i32 {
    user_data.last_chunk().map_or(-1, |last| i32::from_be_bytes(*last))
}

/// What a member gets, as it stands in SyncGroup.
pub fn encode_assignment(assigned: &Partitions) -> Bytes {
    let mut out = BytesMut::new();
    out.put_i16(VERSION);
    put_partitions(&mut out, assigned);
    out.put_i32(-1);
    out.freeze()
}

/// Reads what a member gets; no bytes are no partitions.
pub fn decode_assignment(bytes: Bytes) -> Result<Partitions, ReadError> {
    if bytes.is_empty() {
        return Ok(Partitions::new());
    }
    let mut reader = Reader::new(bytes);
    reader.i16()?;
    partitions(&mut reader)
}

fn put_len(out: &mut BytesMut, len: usize) {
    out.put_i32(i32::try_from(len).expect("the partitions of a flow are bounded far below 2^31"));
}

fn put_text(out: &mut BytesMut, text: &str) {
    out.put_i16(i16::try_from(text.len()).expect("names of topics and racks are bounded by TEXT_CHARS_MAX"));
    out.put_slice(text.as_bytes());
}

fn put_partitions(out: &mut BytesMut, partitions: &Partitions) {
    put_len(out, partitions.len());
    for (topic, numbers) in partitions {
        put_text(out, topic);
        put_len(out, numbers.len());
        numbers.iter().for_each(|number| out.put_i32(*number));
    }
}

fn nullable_text(reader: &mut Reader) -> Result<Option<String>, ReadError> {
    let Ok(len) = usize::try_from(reader.i16()?) else { return Ok(None) };
    String::from_utf8(reader.take(len, "string")?.to_vec()).map(Some).map_err(|_| ReadError::Text)
}

fn text(reader: &mut Reader) -> Result<String, ReadError> {
    nullable_text(reader).map(Option::unwrap_or_default)
}

fn blob(reader: &mut Reader) -> Result<Bytes, ReadError> {
    let len = usize::try_from(reader.i32()?).unwrap_or(0);
    reader.take(len, "bytes")
}

/// Null reads as empty.
fn array<T>(
    reader: &mut Reader,
    mut element: impl FnMut(&mut Reader) -> Result<T, ReadError>,
) -> Result<Vec<T>, ReadError> {
    let count = usize::try_from(reader.i32()?).unwrap_or(0);
    if count > ARRAY_COUNT_MAX || count > reader.remaining() {
        return Err(ReadError::Array(count));
    }
    (0..count).map(|_| element(reader)).collect()
}

fn partitions(reader: &mut Reader) -> Result<Partitions, ReadError> {
    let mut all = Partitions::new();
    for (topic, numbers) in array(reader, |reader| Ok((text(reader)?, array(reader, Reader::i32)?)))? {
        all.entry(topic).or_default().extend(numbers);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::consumer_protocol_subscription::TopicPartition;
    use kafka_protocol::messages::{ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicName};
    use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
    use proptest::prelude::*;

    fn any_partitions() -> impl Strategy<Value = Partitions> {
        proptest::collection::btree_map("[a-z.]{1,9}", proptest::collection::btree_set(0..99, 1..5), 0..4)
    }

    fn any_subscription() -> impl Strategy<Value = Subscription> {
        let topics = proptest::collection::btree_set("[a-z.]{1,9}", 0..4);
        let all = (topics, any_partitions(), -1..1000, proptest::option::of("[a-z]{1,9}"));
        all.prop_map(|(topics, owned, generation, rack)| Subscription { topics, owned, generation, rack })
    }

    /// The same, as the generated code for Kafka's schema writes it in some version.
    fn foreign(subscription: &Subscription, (version, user_data): (i16, Option<Bytes>)) -> Bytes {
        let text = |words: &String| StrBytes::from_string(words.clone());
        let owned = |(topic, numbers): (&String, &BTreeSet<i32>)| {
            TopicPartition::default()
                .with_topic(TopicName(text(topic)))
                .with_partitions(numbers.iter().copied().collect())
        };
        let message = ConsumerProtocolSubscription::default()
            .with_topics(subscription.topics.iter().map(text).collect())
            .with_user_data(user_data)
            .with_owned_partitions(subscription.owned.iter().map(owned).collect())
            .with_generation_id(subscription.generation)
            .with_rack_id(subscription.rack.as_ref().map(text));
        let mut out = BytesMut::new();
        out.put_i16(version);
        message.encode(&mut out, version).unwrap();
        out.freeze()
    }

    proptest! {
        #[test]
        fn subscriptions_are_read_in_the_versions_that_others_write(whole in any_subscription()) {
            prop_assert_eq!(&Subscription::decode(whole.encode()).unwrap(), &whole);
            prop_assert_eq!(&Subscription::decode(foreign(&whole, (3, None))).unwrap(), &whole);
            let generation = Bytes::copy_from_slice(&whole.generation.to_be_bytes());
            let old = Subscription { rack: None, ..whole.clone() };
            prop_assert_eq!(&Subscription::decode(foreign(&old, (1, Some(generation)))).unwrap(), &old);
            let mute = Subscription { generation: -1, ..old };
            prop_assert_eq!(&Subscription::decode(foreign(&mute, (1, None))).unwrap(), &mute);
        }

        #[test]
        fn ours_are_read_by_others(whole in any_subscription()) {
            let mut bytes = whole.encode();
            prop_assert_eq!(bytes.split_to(2), Bytes::from_static(&[0, 3]));
            for version in 0..=3 {
                let theirs = ConsumerProtocolSubscription::decode(&mut bytes.clone(), version).unwrap();
                prop_assert_eq!(theirs.topics.len(), whole.topics.len());
                prop_assert_eq!(theirs.user_data, Some(Bytes::copy_from_slice(&whole.generation.to_be_bytes())));
                prop_assert_eq!(theirs.owned_partitions.len(), if version > 0 { whole.owned.len() } else { 0 });
                prop_assert_eq!(theirs.generation_id, if version > 1 { whole.generation } else { -1 });
            }
        }

        #[test]
        fn assignments_come_back(assigned in any_partitions()) {
            prop_assert_eq!(decode_assignment(encode_assignment(&assigned)).unwrap(), assigned.clone());
            let mut bytes = encode_assignment(&assigned).slice(2..);
            let theirs = ConsumerProtocolAssignment::decode(&mut bytes, 3).unwrap();
            prop_assert_eq!(theirs.assigned_partitions.len(), assigned.len());
            prop_assert!(theirs.user_data.is_none() && bytes.is_empty());
        }

        #[test]
        fn hostile_bytes_never_panic(bytes: Vec<u8>) {
            let _ = Subscription::decode(bytes.clone().into());
            let _ = decode_assignment(bytes.into());
        }
    }

    #[test]
    fn no_memory_is_taken_for_what_is_not_there() {
        let bytes = Bytes::from_static(&[0, 3, 0x7f, 0xff, 0xff, 0xff, 0, 0]);
        assert_eq!(Subscription::decode(bytes), Err(ReadError::Array(0x7fff_ffff)));
    }
}
