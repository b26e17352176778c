//! Fills a topic quickly with records that carry a sequence number.

use std::io::Write;
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};

/// The smallest value: it ends behind the sequence number.
pub const VALUE_BYTES_MIN: usize = PREFIX.len() + SEQUENCE_DIGITS;

/// Different keys of a keyed load.
pub const KEYS: u64 = 1_000;

/// Values waiting in the producer; past it, producing waits for the broker.
const QUEUE_KIB_MAX: usize = 128 * 1024;

/// Records waiting in the producer, as above.
const QUEUE_RECORDS_MAX: usize = 500_000;

/// How long the last records may take to be acknowledged.
const FLUSH_DEADLINE: Duration = Duration::from_secs(120);

const PREFIX: &str = r#"{"sequence":"#;
const SEQUENCE_DIGITS: usize = 10;

/// Repeated behind the variable part of each value until it has its size.
const FILLER: &str = "the quick brown fox jumps over the lazy dog and then rests in the shade of the old oak; ";

/// The notes of orders are drawn from these.
const WORDS: [&str; 32] = [
    "delivered",
    "at the",
    "customer",
    "warehouse",
    "reserved",
    "invoice",
    "second floor",
    "please",
    "returned",
    "express",
    "payment",
    "by card",
    "confirmed",
    "fragile",
    "standard",
    "discount",
    "shipping",
    "address",
    "changed",
    "gift wrap",
    "quantity",
    "available",
    "backordered",
    "before noon",
    "signature",
    "required",
    "cancelled",
    "partial",
    "refund",
    "pending",
    "loyalty points",
    "newsletter",
];

/// What stands behind the sequence number of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// One sentence again and again: it compresses to nearly nothing.
    Filler,
    /// Orders with ids, amounts and words that vary: lz4 brings them to a half or a third.
    Orders,
}

/// What [`produce`] shall write.
#[derive(Debug, Clone)]
pub struct Load {
    /// How many records.
    pub records: u64,
    /// Size of each value, at least [`VALUE_BYTES_MIN`].
    pub value_bytes: usize,
    /// What fills the values.
    pub payload: Payload,
    /// As in Kafka's `compression.type`: none, gzip, snappy, lz4, zstd.
    pub compression: String,
    /// Largest batch before compression; smaller ones make more of them.
    pub batch_bytes: usize,
    /// Records per second, or as fast as can be.
    pub rate: Option<u32>,
    /// The first sequence number; loads in a row continue one another.
    pub start: u64,
    /// One of [`KEYS`] keys for each record, or none.
    pub keys: bool,
    /// Headers that copying could garble: a null value, an empty one, a repeated key.
    pub headers: bool,
}

impl Load {
    /// `records` of 100 bytes of filler in lz4 batches of up to 1 MB, without keys and headers, from sequence number 0.
    pub fn of(records: u64) -> Self {
        Self {
            records,
            value_bytes: 100,
            payload: Payload::Filler,
            compression: "lz4".to_owned(),
            batch_bytes: 1_000_000,
            rate: None,
            start: 0,
            keys: false,
            headers: false,
        }
    }
}

/// What [`produce`] has written.
#[derive(Debug, Clone, Copy)]
pub struct Produced {
    /// Records, all acknowledged.
    pub records: u64,
    /// Bytes of their values.
    pub value_bytes: u64,
    /// From the first record to the last acknowledgement.
    pub elapsed: Duration,
}

/// Writes `load` to `topic`, record after record to its partitions in turn, without duplicates (idempotent producer).
///
/// Returns when every record is acknowledged by all replicas. Errors: any record was not.
pub fn produce(bootstrap: &str, topic: &str, load: &Load) -> anyhow::Result<Produced> {
    if load.value_bytes < VALUE_BYTES_MIN {
        bail!("value_bytes is {}, less than {VALUE_BYTES_MIN}: no room for a sequence number", load.value_bytes);
    }
    let producer = producer(bootstrap, load)?;
    let partitions = partitions(&producer, topic)?;
    let begin = Instant::now();
    let mut value = Vec::with_capacity(load.value_bytes);
    for written in 0..load.records {
        let sequence = load.start + written;
        write_value(&mut value, sequence, load);
        let partition = i32::try_from(sequence % partitions).expect("a topic's partition count is an i32");
        let key = load.keys.then(|| format!("key-{}", sequence % KEYS));
        let mut record = BaseRecord::to(topic).partition(partition).payload(value.as_slice());
        if let Some(key) = &key {
            record = record.key(key.as_str());
        }
        if load.headers {
            record = record.headers(headers(sequence));
        }
        send(&producer, record)?;
        pace(&producer, begin, load.rate.map(|rate| (written + 1, rate)));
    }
    producer.flush(FLUSH_DEADLINE).context("waiting for the last acknowledgements")?;
    producer.context().verdict()?;
    let value_bytes = load.records * load.value_bytes as u64;
    Ok(Produced { records: load.records, value_bytes, elapsed: begin.elapsed() })
}

/// The sequence number in a value that [`produce`] wrote.
pub fn sequence(value: &[u8]) -> Option<u64> {
    let digits = value.strip_prefix(PREFIX.as_bytes())?.get(..SEQUENCE_DIGITS)?;
    std::str::from_utf8(digits).ok()?.trim_start().parse().ok()
}

fn producer(bootstrap: &str, load: &Load) -> anyhow::Result<BaseProducer<Failures>> {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", bootstrap)
        .set("enable.idempotence", "true")
        .set("compression.type", &load.compression)
        .set("batch.size", load.batch_bytes.to_string())
        .set("batch.num.messages", "1000000")
        .set("message.max.bytes", (load.batch_bytes.max(load.value_bytes) + 1024).to_string())
        // A paced load is there for its latency, an unpaced one for full batches.
        .set("linger.ms", if load.rate.is_some() { "2" } else { "50" })
        .set("queue.buffering.max.messages", QUEUE_RECORDS_MAX.to_string())
        .set("queue.buffering.max.kbytes", QUEUE_KIB_MAX.to_string())
        // Millions of good reports would cost more than the records.
        .set("delivery.report.only.error", "true");
    config.create_with_context(Failures::default()).context("making a producer")
}

fn partitions(producer: &BaseProducer<Failures>, topic: &str) -> anyhow::Result<u64> {
    let metadata = producer.client().fetch_metadata(Some(topic), Duration::from_secs(10))?;
    let count = metadata.topics().first().map_or(0, |topic| topic.partitions().len());
    if count == 0 {
        bail!("the topic {topic} does not exist");
    }
    Ok(count as u64)
}

/// Hands a record over, waiting for room if the queue is full.
fn send(producer: &BaseProducer<Failures>, mut record: BaseRecord<'_, str, [u8]>) -> anyhow::Result<()> {
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                record = back;
                producer.poll(Duration::from_millis(10));
                producer.context().verdict()?;
            }
            Err((error, _)) => return Err(error).context("producing a record"),
        }
    }
}

/// Sleeps until `written` records are due at `rate` records per second.
fn pace(producer: &BaseProducer<Failures>, begin: Instant, progress: Option<(u64, u32)>) {
    let Some((written, rate)) = progress else {
        return;
    };
    let due = begin + Duration::from_secs_f64(written as f64 / f64::from(rate));
    let ahead = due.saturating_duration_since(Instant::now());
    if ahead >= Duration::from_millis(1) {
        producer.poll(Duration::ZERO);
        sleep(ahead);
    }
}

/// A JSON object of exactly `value_bytes` bytes; one too small for the whole object is cut.
fn write_value(value: &mut Vec<u8>, sequence: u64, load: &Load) {
    let bytes = load.value_bytes;
    value.clear();
    write!(value, "{PREFIX}{sequence:SEQUENCE_DIGITS$}").expect("a Vec takes all");
    match load.payload {
        Payload::Filler => write_filler(value, sequence, bytes),
        Payload::Orders => write_order(value, sequence, bytes),
    }
    value.truncate(bytes.saturating_sub(2).max(VALUE_BYTES_MIN));
    value.extend_from_slice(br#""}"#);
    value.truncate(bytes);
}

/// Writes at least `bytes` bytes of an object with a note.
fn write_filler(value: &mut Vec<u8>, sequence: u64, bytes: usize) {
    let customer = sequence % KEYS;
    let cents = sequence.wrapping_mul(7_919) % 100_000;
    write!(value, r#","customer":{customer:3},"cents":{cents:5},"note":""#).expect("a Vec takes all");
    while value.len() < bytes {
        value.extend_from_slice(FILLER.as_bytes());
    }
}

/// Writes at least `bytes` bytes of an order. The draws depend on the sequence number alone: a load repeats itself.
fn write_order(value: &mut Vec<u8>, sequence: u64, bytes: usize) {
    let mut draw = fastrand::Rng::with_seed(sequence);
    let (customer, cents) = (draw.u32(..1_000_000), draw.u32(..100_000));
    write!(value, r#","customer":{customer},"cents":{cents},"note":""#).expect("a Vec takes all");
    while value.len() < bytes {
        value.extend_from_slice(WORDS[draw.usize(..WORDS.len())].as_bytes());
        // A count after some of the words: text alone would compress too well.
        match draw.u32(..40_000) {
            count @ ..10_000 => write!(value, " {count} ").expect("a Vec takes all"),
            _ => value.push(b' '),
        }
    }
}

fn headers(sequence: u64) -> OwnedHeaders {
    OwnedHeaders::new_with_capacity(4)
        .insert(Header { key: "trace", value: Some(&sequence.to_string()) })
        .insert(Header { key: "empty", value: Some("") })
        .insert(Header { key: "null", value: None::<&str> })
        .insert(Header { key: "trace", value: Some("again") })
}

/// The first record that was not delivered; later ones say nothing new.
#[derive(Default)]
struct Failures(Mutex<Option<KafkaError>>);

impl Failures {
    fn verdict(&self) -> anyhow::Result<()> {
        match self.0.lock().expect("nothing panics while holding it").clone() {
            Some(error) => Err(error).context("a record was not delivered"),
            None => Ok(()),
        }
    }
}

impl ClientContext for Failures {}

impl ProducerContext for Failures {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _opaque: ()) {
        if let Err((error, _)) = result {
            self.0.lock().expect("nothing panics while holding it").get_or_insert_with(|| error.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_its_size_and_its_sequence_number() {
        let mut value = Vec::new();
        for payload in [Payload::Filler, Payload::Orders] {
            for value_bytes in [VALUE_BYTES_MIN, 23, 57, 58, 59, 60, 100, 1_000, 100_000] {
                let load = Load { value_bytes, payload, ..Load::of(1) };
                for number in [0, 41, 9_999_999_999] {
                    write_value(&mut value, number, &load);
                    assert_eq!(value.len(), value_bytes);
                    assert_eq!(sequence(&value), Some(number), "{}", String::from_utf8_lossy(&value));
                }
            }
            write_value(&mut value, 7, &Load { payload, ..Load::of(1) });
            assert!(value.ends_with(br#""}"#));
        }
    }

    #[test]
    fn orders_compress_as_real_records_do() {
        for value_bytes in [70, 100, 1_000] {
            let load = Load { value_bytes, payload: Payload::Orders, ..Load::of(1) };
            let (mut value, mut batch) = (Vec::new(), Vec::new());
            for number in 0.. {
                write_value(&mut value, number, &load);
                batch.extend_from_slice(&value);
                if batch.len() >= 64 * 1024 {
                    break;
                }
            }
            let ratio = batch.len() as f64 / lz4_flex::block::compress(&batch).len() as f64;
            assert!((1.9..3.0).contains(&ratio), "{value_bytes} bytes: {ratio}");
        }
    }

    #[test]
    fn foreign_values_have_no_sequence_number() {
        assert_eq!(sequence(b""), None);
        assert_eq!(sequence(br#"{"sequence":12"#), None);
        assert_eq!(sequence(br#"{"sequence":          }"#), None);
    }
}
