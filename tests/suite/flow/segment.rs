//! Record batches as they lie in a broker's log: what no client shows.

use std::collections::BTreeSet;
use std::path::PathBuf;

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
    let log = std::fs::read(path(cluster, topic, partition)).unwrap();
    let mut batches: Vec<Batch> = split(&log).filter_map(parse).collect();
    batches.sort();
    batches
}

/// Producer ids and epochs that have written to a partition's first segment, transaction markers aside.
pub(crate) fn producers(cluster: &Cluster, topic: &str, partition: i32) -> BTreeSet<(i64, i16)> {
    let log = std::fs::read(path(cluster, topic, partition)).unwrap();
    let batches = split(&log).filter(|batch| !is_control(batch));
    batches.map(|batch| (i64::from_be_bytes(field(batch, 43)), i16::from_be_bytes(field(batch, 51)))).collect()
}

/// The file of a partition's first segment.
fn path(cluster: &Cluster, topic: &str, partition: i32) -> PathBuf {
    let folder = cluster.brokers()[0].log().with_file_name("data-1").join(format!("{topic}-{partition}"));
    folder.join("00000000000000000000.log")
}

fn split(mut log: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (batch, behind) =
            log.split_at_checked(PREFIX_BYTES + i32::from_be_bytes(*log.get(8..)?.first_chunk()?) as usize)?;
        log = behind;
        Some(batch)
    })
}

/// A byte of a record batch.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Byte {
    /// The first of the length, which becomes negative.
    Length = 8,
    /// The number of the format.
    Magic = 16,
    /// The end of the records.
    LastOfPayload,
}

/// Flips a byte in a batch of partition 0 of a topic; returns the batch's base offset. Done again, it is undone. The broker must be
/// down.
pub(crate) fn flip(cluster: &Cluster, topic: &str, (number, byte): (usize, Byte)) -> i64 {
    let path = path(cluster, topic, 0);
    let mut log = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    // Of the batch itself, the length may be what was flipped.
    let begin: usize = split(&log).take(number).map(<[u8]>::len).sum();
    let at = match byte {
        Byte::LastOfPayload => split(&log[begin..]).next().unwrap().len() - 1,
        byte => byte as usize,
    };
    log[begin + at] ^= 0xff;
    std::fs::write(path, &log).unwrap();
    i64::from_be_bytes(field(&log, begin))
}

fn parse(batch: &[u8]) -> Option<Batch> {
    (!is_control(batch)).then(|| Batch {
        codec: attributes(batch) & 0x7,
        base_timestamp: i64::from_be_bytes(field(batch, 27)),
        max_timestamp: i64::from_be_bytes(field(batch, 35)),
        record_count: i32::from_be_bytes(field(batch, 57)),
        records: batch[HEADER_BYTES..].to_vec(),
    })
}

fn attributes(batch: &[u8]) -> u16 {
    u16::from_be_bytes(field(batch, 21))
}

fn is_control(batch: &[u8]) -> bool {
    attributes(batch) & 0x20 != 0
}

fn field<const N: usize>(batch: &[u8], at: usize) -> [u8; N] {
    batch[at..at + N].try_into().unwrap()
}
