//! Record batches as they lie in a broker's log: what no client shows.

use cluster::Cluster;

/// Base offset and length, which stand before what the length counts.
const PREFIX_BYTES: usize = 12;

/// Up to the records. Source: KIP-98, record batch v2.
const HEADER_BYTES: usize = 61;

/// What must not change on the way.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Batch {
    /// 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
    pub(crate) codec: u16,
    pub(crate) base_timestamp: i64,
    max_timestamp: i64,
    record_count: i32,
    /// As compressed by whoever wrote them.
    pub(crate) records: Vec<u8>,
}

/// The batches of a partition's first segment, sorted, without transaction markers.
pub(crate) fn batches(cluster: &Cluster, topic: &str, partition: i32) -> Vec<Batch> {
    let folder = cluster.brokers()[0].log().with_file_name("data-1").join(format!("{topic}-{partition}"));
    let log = std::fs::read(folder.join("00000000000000000000.log")).unwrap();
    let (mut batches, mut rest) = (vec![], &log[..]);
    while !rest.is_empty() {
        let size = PREFIX_BYTES + i32::from_be_bytes(field(rest, 8)) as usize;
        let (batch, behind) = rest.split_at(size);
        batches.extend(parse(batch));
        rest = behind;
    }
    batches.sort();
    batches
}

fn parse(batch: &[u8]) -> Option<Batch> {
    let attributes = u16::from_be_bytes(field(batch, 21));
    let is_control = attributes & 0x20 != 0;
    (!is_control).then(|| Batch {
        codec: attributes & 0x7,
        base_timestamp: i64::from_be_bytes(field(batch, 27)),
        max_timestamp: i64::from_be_bytes(field(batch, 35)),
        record_count: i32::from_be_bytes(field(batch, 57)),
        records: batch[HEADER_BYTES..].to_vec(),
    })
}

fn field<const N: usize>(batch: &[u8], at: usize) -> [u8; N] {
    batch[at..at + N].try_into().unwrap()
}
