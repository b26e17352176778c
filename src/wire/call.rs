//! One request and its reply: how both are written, in which versions.

use std::ops::RangeInclusive;

use bytes::{Buf, Bytes};
use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::RequestHeader;
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};

use crate::wire::codec::{Frame, ReadError, Reader};

/// A request to a broker. Messages of `kafka-protocol` are calls as they are; the ones it lacks, or copies too much in, are ours.
pub trait Call {
    /// What the broker answers.
    type Reply;
    /// The request's key, name and versions.
    const API: Api;

    /// Writes header and body.
    fn encode(&self, head: &Head<'_>, frame: &mut Frame) -> Result<(), String>;

    /// Reads the reply behind its correlation id.
    fn decode(reply: Bytes, version: i16) -> Result<Answer<Self::Reply>, String>;
}

/// A kind of request.
#[derive(Debug, Clone, Copy)]
pub struct Api {
    /// Kafka's api key.
    pub key: i16,
    /// The name in errors and logs.
    pub name: &'static str,
    /// Lowest version that we speak.
    pub min: i16,
    /// Highest version that we speak.
    pub max: i16,
}

impl Api {
    /// The same in fewer versions: those that mean what the caller wants to say.
    pub fn within(self, versions: RangeInclusive<i16>) -> Self {
        Self { min: self.min.max(*versions.start()), max: self.max.min(*versions.end()), ..self }
    }
}

/// The part of a request header that differs from call to call.
#[derive(Debug)]
pub struct Head<'a> {
    /// Agreed version of the request.
    pub version: i16,
    /// Ties the reply to the request.
    pub correlation: i32,
    /// Who asks, for the broker's logs and quotas.
    pub client_id: &'a str,
}

/// A reply with the time that the broker asks us to stay silent.
#[derive(Debug)]
pub struct Answer<T> {
    /// The reply.
    pub reply: T,
    /// `throttle_time_ms` (KIP-219).
    pub throttle_ms: u32,
}

/// ApiVersions: its reply header never carries tagged fields, and its throttle time is not the first field.
pub const API_VERSIONS: i16 = 18;

/// Requests whose replies do not begin with a throttle time; those of SASL have none.
const UNTHROTTLED: [i16; 3] = [SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE];
const SASL_HANDSHAKE: i16 = 17;
const SASL_AUTHENTICATE: i16 = 36;

impl<R> Call for R
where
    R: Request,
{
    type Reply = R::Response;
    const API: Api = Api { key: R::KEY, name: name_of(R::KEY), min: R::VERSIONS.min, max: R::VERSIONS.max };

    fn encode(&self, head: &Head<'_>, frame: &mut Frame) -> Result<(), String> {
        put_header(R::KEY, R::header_version(head.version), head, frame)?;
        Encodable::encode(self, &mut frame.tail, head.version).map_err(|error| error.to_string())
    }

    fn decode(mut reply: Bytes, version: i16) -> Result<Answer<R::Response>, String> {
        if R::Response::header_version(version) >= 1 {
            reply = skip_tags(reply)?;
        }
        let throttle_ms = if UNTHROTTLED.contains(&R::KEY) { 0 } else { first_i32(&reply) };
        let version = if R::KEY == API_VERSIONS && is_refused(&reply) { 0 } else { version };
        let reply = Decodable::decode(&mut reply, version).map_err(|error| error.to_string())?;
        Ok(Answer { reply, throttle_ms })
    }
}

/// Writes the request header of a flexible request that we encode ourselves (header version 2).
pub fn put_flexible_header(api: Api, head: &Head<'_>, frame: &mut Frame) -> Result<(), String> {
    put_header(api.key, 2, head, frame)
}

/// A reader behind the header of a flexible reply (header version 1).
pub fn flexible_reader(reply: Bytes) -> Result<Reader, String> {
    skip_tags(reply).map(Reader::new)
}

fn put_header(key: i16, header_version: i16, head: &Head<'_>, frame: &mut Frame) -> Result<(), String> {
    RequestHeader::default()
        .with_request_api_key(key)
        .with_request_api_version(head.version)
        .with_correlation_id(head.correlation)
        .with_client_id(Some(StrBytes::from_string(head.client_id.to_owned())))
        .encode(&mut frame.tail, header_version)
        .map_err(|error| error.to_string())
}

fn skip_tags(mut reply: Bytes) -> Result<Bytes, String> {
    let mut reader = Reader::new(reply.clone());
    reader.tags().map_err(|error: ReadError| error.to_string())?;
    reply.advance(reply.len() - reader.remaining());
    Ok(reply)
}

/// The first field of every reply that is sent here through `kafka-protocol`, except those above, is the throttle time.
fn first_i32(reply: &Bytes) -> u32 {
    let first = reply.get(..4).map_or([0; 4], |four| four.try_into().expect("a slice of four"));
    u32::try_from(i32::from_be_bytes(first)).unwrap_or(0)
}

/// Whether a broker refuses the version of our ApiVersions. It says so in version 0, the only one that all know (KIP-511).
fn is_refused(reply: &Bytes) -> bool {
    reply.starts_with(&ResponseError::UnsupportedVersion.code().to_be_bytes())
}

/// Names of the requests that go through `kafka-protocol`.
const fn name_of(key: i16) -> &'static str {
    match key {
        1 => "Fetch",
        2 => "ListOffsets",
        3 => "Metadata",
        8 => "OffsetCommit",
        9 => "OffsetFetch",
        10 => "FindCoordinator",
        11 => "JoinGroup",
        12 => "Heartbeat",
        13 => "LeaveGroup",
        14 => "SyncGroup",
        15 => "DescribeGroups",
        16 => "ListGroups",
        SASL_HANDSHAKE => "SaslHandshake",
        API_VERSIONS => "ApiVersions",
        19 => "CreateTopics",
        22 => "InitProducerId",
        23 => "OffsetForLeaderEpoch",
        24 => "AddPartitionsToTxn",
        26 => "EndTxn",
        32 => "DescribeConfigs",
        35 => "DescribeLogDirs",
        37 => "CreatePartitions",
        SASL_AUTHENTICATE => "SaslAuthenticate",
        44 => "IncrementalAlterConfigs",
        65 => "DescribeTransactions",
        66 => "ListTransactions",
        68 => "ConsumerGroupHeartbeat",
        69 => "ConsumerGroupDescribe",
        76 => "ShareGroupHeartbeat",
        77 => "ShareGroupDescribe",
        91 => "AlterShareGroupOffsets",
        _ => "request",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::ApiVersionsRequest;

    #[test]
    fn a_refusal_of_our_api_versions_is_read_in_version_0() {
        let refused = Bytes::from_static(&[0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 2]);
        let reply = <ApiVersionsRequest as Call>::decode(refused, 3).unwrap().reply;
        assert_eq!((reply.error_code, reply.api_keys[0].max_version), (35, 2));
    }
}
