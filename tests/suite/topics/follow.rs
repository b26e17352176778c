//! Configs of topics on the target: the source's at creation, and in step with it where nobody has set them by hand.

use cluster::{pair, unique};

use super::await_config;
use crate::bridge::{Flow, eventually};

/// Kafka's default of segment.ms and retention.ms.
const WEEK_MS: &str = "604800000";

#[test]
fn a_created_topic_has_the_source_s_configs_and_follows_them_except_what_is_set_by_hand() {
    let (pair, topic) = (pair(), unique("follow"));
    let begin = [("retention.ms", "1000000"), ("segment.bytes", "2000000")];
    let others =
        [("message.timestamp.type", "LogAppendTime"), ("compression.type", "gzip"), ("max.message.bytes", "70000")];
    pair.source.create_topic(&topic, 3, &[&begin[..], &others[..]].concat()).unwrap();
    let worker = Flow::new(pair, &[&topic])
        .with("flows.f.topics.refresh.interval.ms = 500")
        .with("flows.f.sink.topic.config.exclude = ['max.message.bytes']")
        .start();
    worker.await_ready();
    let created = pair.target.topic_config(&topic).unwrap();
    let expected = [
        begin[0],
        begin[1],
        ("message.timestamp.type", "CreateTime"),
        ("compression.type", "producer"),
        ("max.message.bytes", "1048588"),
    ];
    for (config, value) in expected {
        assert_eq!(created[config], value, "{config}");
    }

    pair.source
        .set_topic_config(&topic, &[("retention.ms", "2000000"), ("segment.bytes", "2000000"), ("segment.ms", "90000")])
        .unwrap();
    await_config(&pair.target, &topic, ("retention.ms", "2000000"));
    await_config(&pair.target, &topic, ("segment.ms", "90000"));

    // Somebody needs more on the target; all else goes on following.
    let hand = [
        ("retention.ms", "9000000"),
        ("segment.bytes", "2000000"),
        ("segment.ms", "90000"),
        ("message.timestamp.type", "CreateTime"),
    ];
    pair.target.set_topic_config(&topic, &hand).unwrap();
    pair.source.set_topic_config(&topic, &[("retention.ms", "3000000"), ("segment.bytes", "4000000")]).unwrap();
    await_config(&pair.target, &topic, ("segment.bytes", "4000000"));
    await_config(&pair.target, &topic, ("segment.ms", WEEK_MS));
    worker.await_log("left alone");
    let found = pair.target.topic_config(&topic).unwrap();
    assert_eq!((&*found["retention.ms"], &*found["message.timestamp.type"]), ("9000000", "CreateTime"));
    assert_eq!(worker.metric("topic_config_differences"), 1);

    // Handed back by whoever had set it, as the source has it.
    pair.target.set_topic_config(&topic, &[("retention.ms", "3000000"), ("segment.bytes", "4000000")]).unwrap();
    eventually("nothing differs", || (worker.metric("topic_config_differences") == 0).then_some(()));
    pair.source.set_topic_config(&topic, &[("segment.bytes", "4000000")]).unwrap();
    await_config(&pair.target, &topic, ("retention.ms", WEEK_MS));
    worker.await_ready();
}
