//! Every built-in bound in one place, with the relations between them checked by the compiler.
//!
//! What an operator may set lives in `config`; what stands here is the fence around it.

use std::time::Duration;

/// Largest reply frame taken from a broker, bytes. A broker's own cap on one fetch is 55 MiB by default (`fetch.max.bytes`).
pub const FRAME_BYTES_MAX: usize = 128 << 20;

/// Read buffer of a connection before a frame asks for more, bytes.
pub const READ_BUFFER_BYTES: usize = 64 << 10;

/// Payloads below this many bytes are copied into a request; larger ones are sent from where they lie.
pub const COPY_BYTES_MAX: usize = 512;

/// Elements in one array of a reply that we decode ourselves.
pub const ARRAY_COUNT_MAX: usize = 1 << 20;

/// Requests in flight on one connection.
pub const REQUESTS_IN_FLIGHT_MAX: usize = 64;

/// Produce requests in flight to one leader: enough to hide a round trip, few enough to bound the target's request queue. To a leader
/// that throttles it is one: it would not read the others before its throttle time is over.
pub const PRODUCE_IN_FLIGHT_MAX: usize = 5;

/// A write may take this fraction of the transaction's timeout: what lives longer, the transaction keeper may decide.
pub const WRITE_DIVISOR: u32 = 2;

/// Sending ends when this fraction of a write's time is left: the rest is for the answers to what is on its way.
pub const ANSWER_DIVISOR: u32 = 4;

/// A write that takes less than this fraction of its time makes the next transaction larger.
pub const QUICK_DIVISOR: u32 = 3;

/// Pause before the coordinator is asked again while it completes the transaction before: its markers take some milliseconds.
pub const COMPLETION_RETRY: Duration = Duration::from_millis(20);

/// While transactions are of version 1, the cluster is asked for its version again after this.
pub const FEATURES_EVERY: Duration = Duration::from_secs(5);

/// Record batch bytes in one Produce request, unless its first batch alone is larger. Brokers refuse frames over 100 MiB (`socket.request.max.bytes`).
pub const PRODUCE_BYTES_MAX: usize = 8 << 20;

/// A brake lets lanes acquire in portions of this time of its limit: small ones are smooth, large ones cost fewer fetches.
pub const BRAKE_PORTION: Duration = Duration::from_millis(250);

/// What a brake keeps free at most while little is acquired, in time of its limit.
pub const BRAKE_BURST: Duration = Duration::from_millis(500);

/// Longest that a broker's throttle time is obeyed before the connection is used again.
pub const THROTTLE_MAX: Duration = Duration::from_secs(30);

/// Opening a TCP connection.
pub const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Long poll of a share fetch. A lane fetches only when it has nothing left to settle, so nothing waits behind it but renewals.
pub const FETCH_WAIT: Duration = Duration::from_millis(500);

/// Pause after a share fetch that was not allowed to wait and found nothing; a change in the process ends it.
pub const FETCH_PAUSE: Duration = Duration::from_secs(1);

/// A poll comes back at the latest after this, so that the lane sees what else is to be done.
pub const POLL_PATIENCE: Duration = Duration::from_secs(1);

/// Records asked for in one share fetch. It counts per request, not per partition, so it is far above any window.
pub const FETCH_RECORDS_MAX: u32 = 200_000;

/// Smallest `MaxBytes` of a share fetch.
pub const FETCH_BYTES_MIN: usize = 256 << 10;

/// Smallest `MaxBytes` over a link on which larger replies do not come in time.
pub const SLOW_FETCH_BYTES_MIN: usize = 16 << 10;

/// `MaxBytes` of the first share fetch, before the size of records and the speed of the link are known.
pub const FETCH_BYTES_START: usize = 1 << 20;

/// Most bytes that one fetch of a consumer group asks for: at 80 ms round trip, 200 MB/s of each broker.
pub const READ_AHEAD_FETCH_BYTES_MAX: usize = 16 << 20;

/// Most bytes of one partition in such a fetch.
pub const READ_AHEAD_PARTITION_BYTES_MAX: i32 = 8 << 20;

/// Replies in a row with no whole record batch of a partition that has some: then another partition goes first, so that there is room for one.
pub const CRUMBS_MAX: u32 = 3;

/// Offset ranges in one ShareAcknowledge request.
pub const ACKNOWLEDGE_RANGES_MAX: usize = 2_000;

/// A lock is renewed when this fraction of it is over: 1/2 leaves a whole half for a slow answer.
pub const RENEW_AT_DIVISOR: u32 = 2;

/// A renewal that was refused for a reason that may pass is tried again after this fraction of the lock.
pub const RENEW_AGAIN_DIVISOR: u32 = 8;

/// An acknowledgement that is refused for a reason that may pass is tried again for this fraction of the lock.
pub const ACKNOWLEDGE_PATIENCE_DIVISOR: u32 = 4;

/// Failures of a whole transaction in a row, after which the topic partitions that an error names are held instead.
pub const FAILURES_IN_A_ROW_MAX: u32 = 5;

/// Memory that a lane needs at least: several times its smallest fetch.
pub const LANE_BYTES_MIN: u64 = 1 << 20;

/// Smallest bound on the bytes of one transaction, after failures have lowered it: a single small record batch, which is what a slow
/// link or a quota may leave.
pub const TRANSACTION_BYTES_MIN: usize = 1 << 10;

/// A broker's own words in an error are cut after this many characters.
pub const BROKER_WORDS_CHARS_MAX: usize = 300;

/// How long a change of a group's configs may take to be seen by every broker.
pub const CONFIRM_MAX: Duration = Duration::from_secs(5);

/// First and longest pause between two tries of something that failed.
pub const RETRY_MIN: Duration = Duration::from_millis(50);
/// See [`RETRY_MIN`].
pub const RETRY_MAX: Duration = Duration::from_secs(5);

/// Pause before a topic partition that is held for a reason of its own is tried again.
pub const HOLD_RETRY: Duration = Duration::from_secs(10);

/// Leaders and topics of the target are asked for again at the latest after this.
pub const METADATA_AGE_MAX: Duration = Duration::from_secs(60);

/// Topics whose configs are asked for in one request: an answer of some 200 KB.
pub const DESCRIBED_TOPICS_MAX: usize = 1_000;

/// Topics that one request creates, grows or alters.
pub const ALTERED_TOPICS_MAX: usize = 50;

/// Topics that a message names before it only counts them.
pub const NAMED_TOPICS_MAX: usize = 10;

/// Something unknown or moved is asked for again after this.
pub const METADATA_SOON: Duration = Duration::from_millis(500);

/// Arrivals that wait for a lane. A reader sends one for each fetch asked of it, so this is far above the brokers of a cluster.
pub const ARRIVALS_MAX: usize = 1024;

/// Commands that wait for a reader.
pub const COMMANDS_MAX: usize = 16;

/// From this share of the delivery limit on, a record travels in a small transaction of its own (see `DELIVERY.md`).
pub const FRAGILE_DELIVERIES_DIVISOR: u32 = 2;

/// Records in a transaction of records that are close to their delivery limit.
pub const FRAGILE_RECORDS_MAX: u64 = 100;

/// Topics of a flow that lanes count apart: some 30 samples for each lane and topic. Those behind them are counted together.
pub const TOPIC_LABELS_MAX: usize = 500;

/// Records of a topic partition that are held each by itself, while what was acquired with them goes on. Where there are more, something is
/// wrong with the topic and not with its records, and all of them wait: finding each takes some transactions.
pub const LONE_RECORDS_MAX: usize = 10;

/// `max.message.bytes` of a topic for dead letters that we create: a little less than the largest request that a broker takes by default.
pub const DEAD_LETTER_BYTES_MAX: usize = 95 << 20;

/// Dead letters that one `replay` holds and delivers; the next one goes on behind them.
pub const REPLAYED_LETTERS_MAX: usize = 10_000;

/// Pause between two looks for transactions that dead workers have left open.
pub const KEEPER_EVERY: Duration = Duration::from_secs(1);

/// How long `check` and `plan` ask again where a cluster answers that it is not ready yet.
pub const NOT_YET_MAX: Duration = Duration::from_secs(10);

/// Brokers that the topic with the state of share groups takes by default (`share.coordinator.state.topic.replication.factor`).
pub const SHARE_STATE_BROKERS: usize = 3;

/// Round trips of which the shortest counts as the distance of a cluster.
pub const PROBES_OF_DISTANCE: u32 = 3;

/// What the brokers take for a cycle of fetch, produce, commit and acknowledge, beside the way: measured on a quiet machine
/// (`scripts/bench --distance`). It only counts in what `check` and `plan` predict.
pub const CYCLE_WORK: Duration = Duration::from_millis(8);

/// Of what the lanes of a consumer group may hold, this fraction is read ahead.
pub const READ_AHEAD_DIVISOR: u64 = 2;

/// Largest document that is taken from a status server, bytes: some 300 for each flow and trouble.
pub const STATUS_BYTES_MAX: usize = 16 << 20;

/// Longest wait for the answer of a status server.
pub const STATUS_ANSWER_MAX: Duration = Duration::from_secs(5);

/// Pause between two looks at the share group's progress.
pub const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// Sightings of the end of a topic partition's log, by which the age of its records is told: some 24 bytes each.
pub const DELAY_SIGHTINGS_MAX: usize = 64;

/// Leader epochs of a topic partition that are remembered with what was finished under them.
pub const FRONTIER_EPOCHS_MAX: usize = 8;

/// Bytes of one read of rewritten records (see `DELIVERY.md`). A larger record batch comes all the same, alone.
pub const REWRITTEN_READ_BYTES: i32 = 1 << 20;

/// How long a consumer group waits for a partition that it wants back from us: for the open transaction to be decided, and then some.
/// Brokers wait 45 s by default before they take it away (`consumer.session.timeout.ms`).
pub const REVOKE_MAX: Duration = Duration::from_secs(30);

/// Pause between two commits of offsets: what is finished meanwhile goes into one. A crash repeats at most so much.
pub const COMMIT_PAUSE: Duration = Duration::from_millis(50);

/// Longest time for closing share sessions and leaving groups once the grace period is over.
pub const FAREWELL_MAX: Duration = Duration::from_secs(5);

/// The longest wait for the last heartbeat, which leaves the group.
pub const LEAVE_MAX: Duration = Duration::from_secs(3);

/// Longest time that a consumer group waits for a member of ours to give up what is revoked: far more than a transaction may take.
pub const REBALANCE_MAX: Duration = Duration::from_secs(60);

/// Longest pause between two heartbeats of the classic protocol: so late we hear that a group forms anew.
pub const CLASSIC_HEARTBEAT_MAX: Duration = Duration::from_secs(3);

/// Heartbeats of the classic protocol in the time of a session.
pub const HEARTBEATS_PER_SESSION: u32 = 3;

/// Shortest pause between two heartbeats of a consumer group that go well.
pub const HEARTBEAT_MIN: Duration = Duration::from_millis(100);

/// `consumer.session.timeout.ms` at most where we may not ask for it: Kafka's default, which is the least that it takes by default.
pub const CONSUMER_SESSION: Duration = Duration::from_secs(45);

/// Heartbeats in that session, as the coordinator spaces them by default: where they come closer, the session is taken to be shorter.
pub const HEARTBEATS_PER_CONSUMER_SESSION: u32 = 9;

/// Most bytes that the records of one batch may decompress to.
pub const DECOMPRESSED_BYTES_MAX: usize = 256 << 20;

/// Most records in a batch that is carved.
pub const RECORDS_PER_BATCH_MAX: u32 = 4 << 20;

/// Decompressed bytes of batches in a row that are carved together, so that small batches become larger ones. A batch that is larger by
/// itself stays whole.
pub const CARVED_TOGETHER_BYTES: usize = 1 << 20;

/// Largest configuration file that is read, bytes.
pub const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// Most flows of one process.
pub const FLOW_COUNT_MAX: usize = 1_000;

/// Most topics of one flow.
pub const TOPIC_COUNT_MAX: usize = 10_000;

/// Most patterns in one array of a flow.
pub const PATTERN_COUNT_MAX: usize = 100;

/// Longest pattern of topic names, characters.
pub const PATTERN_CHARS_MAX: usize = 1_000;

/// Largest compiled form of a pattern, bytes.
pub const PATTERN_BYTES_MAX: usize = 256 << 10;

/// Topics of flows that are looked at for a way back to where a topic began: patterns that lengthen names could go on without end.
pub const LOOP_VISITS_MAX: usize = 10_000;

/// Longest name of a cluster or flow, characters.
pub const NAME_CHARS_MAX: usize = 100;

/// Longest name of a topic, characters. Kafka's own limit.
pub const TOPIC_CHARS_MAX: usize = 249;

/// Longest free text, such as a group id, characters.
pub const TEXT_CHARS_MAX: usize = 255;

/// Longest path of a file in the configuration, bytes. Linux's own limit.
pub const PATH_BYTES_MAX: usize = 4096;

/// Largest file that a secret, a certificate or a key is read from, bytes.
pub const SECRET_BYTES_MAX: u64 = 1 << 20;

/// Fewest iterations of PBKDF2 that a broker may ask for in SCRAM. Source: RFC 7677, and Kafka's own minimum.
pub const SCRAM_ITERATIONS_MIN: u32 = 4096;

/// Most iterations likewise: about half a second of work. A broker could keep a processor busy with more.
pub const SCRAM_ITERATIONS_MAX: u32 = 1_000_000;

/// Largest answer of a token endpoint, bytes.
pub const TOKEN_BYTES_MAX: usize = 256 << 10;

/// Longest wait for the answer of a token endpoint.
pub const TOKEN_WAIT_MAX: Duration = Duration::from_secs(10);

/// A token is asked for again when this share of its time is left, or at the latest before it ends.
pub const TOKEN_LEFT_DIVISOR: u32 = 5;

/// Longest token that goes between a broker and the Kerberos library, bytes: a ticket with many groups in it stays below.
pub const KERBEROS_TOKEN_BYTES_MAX: usize = 128 << 10;

/// Longest wait for an answer of the Kerberos library, which may ask several KDCs for it. Like [`CONNECT_MAX`], which it belongs to.
pub const KERBEROS_WAIT_MAX: Duration = CONNECT_MAX;

/// Conversations that the Kerberos helper keeps open for a cluster. It hears nothing of those that were given up, and drops the oldest.
pub const KERBEROS_CONVERSATION_COUNT_MAX: usize = 1024;

/// A connection is authenticated again when this share of its session is left (KIP-368).
pub const SESSION_LEFT_DIVISOR: u32 = 10;

/// How much later than its timeout a coordinator may abort a transaction: the default of the broker's
/// `transaction.abort.timed.out.transaction.cleanup.interval.ms`.
pub const TRANSACTION_SWEEP: Duration = Duration::from_secs(10);

/// Time between two calls of the progress callback of `verify` while records are read.
pub const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// KiB of keys and values that a reader of `verify` lets librdkafka hold ready before it fetches more.
pub const PREFETCH_KBYTES: u32 = 8 * 1024;

/// Records that a reader of `verify` lets librdkafka hold ready before it fetches more: its bookkeeping, some 400 bytes a record, is
/// not in the bytes above.
pub const PREFETCH_RECORDS: u32 = 50_000;

/// Bytes that a reader of `verify` asks of one partition at once, compressed as they are stored.
pub const PARTITION_FETCH_BYTES: u32 = 1 << 20;

/// Bytes that a reader of `verify` asks of one broker at once, compressed as they are stored. One answer is unpacked whole, whatever
/// the prefetch: small records, well compressed, take some twenty times the space. Asking for eight times as much reads
/// no faster on a local network.
pub const BROKER_FETCH_BYTES: u32 = 2 << 20;

/// Records that share a bucket of the first pass of `verify`, as long as there are buckets: when one of them differs, all of them are
/// read again.
pub const RECORDS_PER_BUCKET: u64 = 32;

/// Most buckets of one side of a partition: 24 bytes each, thus 6 MiB. Beyond, more records share a bucket.
pub const BUCKETS_PER_PARTITION_MAX: u32 = 1 << 18;

/// Most buckets that `verify` holds on each side: 96 MiB. Beyond, partitions are read one after the other.
pub const BUCKETS_PER_ROUND_MAX: u32 = 4 << 20;

/// Most records of differing buckets that `verify` remembers on each side: 41 bytes for each of 2 Mi slots of a hash table that
/// is filled to 7/8, thus 82 MiB. Beyond, a partition is read once more.
pub const RECORDS_PER_PASS_MAX: u64 = (2 << 20) / 8 * 7;

/// Most passes over the differing buckets of some partitions; past it too much differs to be compared.
pub const PASSES_MAX: usize = 1024;

/// Most differences of a topic that `verify` looks for behind the cuts and behind retention: some 100 bytes each. Beyond, they are
/// judged as they look.
pub const UNEXPLAINED_MAX: usize = 1 << 20;

/// Offsets that `verify` names for each kind of difference of a partition.
pub const EXAMPLES_MAX: usize = 10;

/// How much younger a record may be than the first one that retention has left, and still count as removed by it: copies are not
/// in the order of the originals.
pub const EXPIRY_SLACK: Duration = Duration::from_secs(60);

/// Longest wait of `verify` for one answer about topics, settings or offsets.
pub const SURVEY_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time without any record or end of partition before a reader of `verify` gives up.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest single wait for a record, after which a reader of `verify` looks whether it shall stop.
pub const POLL_TIMEOUT: Duration = Duration::from_millis(100);

/// Time between two progress lines where the output is no terminal.
pub const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Pause after which the thread of a librdkafka lane looks around, whether it was woken or not: holds are extended by it.
pub const ENGINE_TICK: Duration = Duration::from_millis(100);

/// Things that librdkafka wants to tell, served in one turn of such a thread.
pub const ENGINE_EVENTS_PER_TURN: usize = 16;

/// Bytes that such a thread takes of one partition before the next has its turn.
pub const ENGINE_TURN_BYTES: usize = 256 << 10;

/// Longest that such a thread waits for one answer about offsets or topics: what it holds is not extended meanwhile.
pub const ENGINE_ANSWER_MAX: Duration = Duration::from_secs(2);

/// Bytes of records in a record batch that is made of decoded ones: below every topic's `max.message.bytes`, unless it is one record.
pub const MADE_BATCH_BYTES: usize = 256 << 10;

/// KiB of keys and values that librdkafka reads ahead of one partition of a lane, at least and at most.
pub const READ_AHEAD_KBYTES_MIN: usize = 64;
/// See [`READ_AHEAD_KBYTES_MIN`].
pub const READ_AHEAD_KBYTES_MAX: usize = 8 * 1024;

/// Bytes of one answer of a broker to librdkafka, compressed as they are stored, at least and at most; a larger record batch comes alone.
pub const ENGINE_FETCH_BYTES_MIN: usize = 1 << 20;
/// See [`ENGINE_FETCH_BYTES_MIN`]. Kafka's own default.
pub const ENGINE_FETCH_BYTES_MAX: usize = 50 << 20;

/// Partitions for which what a lane may read ahead through librdkafka is meant: it sets a bound for each, before it is known how many
/// they will be.
pub const READ_AHEAD_PARTITIONS: usize = 8;

/// Records that it reads ahead of one partition: its bookkeeping, some 400 bytes a record, is not in the bytes above.
pub const READ_AHEAD_RECORDS_MAX: u32 = 20_000;

const _: () = assert!(PRODUCE_BYTES_MAX < FRAME_BYTES_MAX);
const _: () = assert!(FETCH_BYTES_MIN <= FETCH_BYTES_START);
const _: () = assert!(SLOW_FETCH_BYTES_MIN <= FETCH_BYTES_MIN);
const _: () = assert!(FETCH_BYTES_MIN <= READ_AHEAD_FETCH_BYTES_MAX);
const _: () = assert!(READ_AHEAD_PARTITION_BYTES_MAX as usize <= READ_AHEAD_FETCH_BYTES_MAX);
const _: () = assert!(READ_AHEAD_FETCH_BYTES_MAX < FRAME_BYTES_MAX);
const _: () = assert!(2 * FETCH_BYTES_MIN as u64 <= LANE_BYTES_MIN);
const _: () = assert!(BRAKE_PORTION.as_millis() <= BRAKE_BURST.as_millis());
const _: () = assert!(RETRY_MIN.as_millis() < RETRY_MAX.as_millis());
const _: () = assert!(RENEW_AT_DIVISOR < RENEW_AGAIN_DIVISOR);
const _: () = assert!(RENEW_AT_DIVISOR < ACKNOWLEDGE_PATIENCE_DIVISOR);
const _: () = assert!(RECORDS_PER_BATCH_MAX < i32::MAX.unsigned_abs());
const _: () = assert!(BUCKETS_PER_PARTITION_MAX <= BUCKETS_PER_ROUND_MAX);
const _: () = assert!(PARTITION_FETCH_BYTES <= BROKER_FETCH_BYTES);
const _: () = assert!(POLL_TIMEOUT.as_millis() < STALL_TIMEOUT.as_millis());
