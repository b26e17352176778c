//! A log that was cut by an unclean leader election and has grown past the position of its reader again: no error ever tells.

use cluster::{Cluster, unique};
use sharebridge::source::consumer::fetcher::Jump;
use tokio::runtime::Runtime;

use super::many_pair;
use crate::bridge::{alter_topic, eventually};
use crate::fetcher::stage::{ALL, Stage, reach};
use crate::stream::write;

const ROOM: usize = 1 << 20;

#[test]
fn c08_a_cut_is_found_below_the_end_of_the_log_and_above_it() {
    let pair = many_pair();
    Runtime::new().unwrap().block_on(cut(&pair.source));
}

async fn cut(source: &Cluster) {
    let topic = unique("cut");
    source.create_topic_at(&topic, &[&[1, 2]]).unwrap();
    alter_topic(source, &topic, "unclean.leader.election.enable=true,min.insync.replicas=1");
    write(source, &topic, 0..80);
    source.broker(2).stop().unwrap();
    write(source, &topic, 80..100);
    let cluster = reach(source.bootstrap(), None);
    let mut stage = Stage::of(cluster.clone(), &topic, ROOM).await.begin_all(&[0]);
    stage.follow().await;
    stage.read_to(&[100]).await;
    let last_epoch = stage.places[&0].last_epoch;
    assert!(last_epoch >= 0);
    source.broker(1).kill().unwrap();
    source.broker(2).start().unwrap();
    eventually("the replica that lacks 20 records leads", || (source.leader(&topic, 0).ok()? == 2).then_some(()));

    // The log ends at 80: the position is above it, with and without a leader epoch.
    for (versions, epoch) in [(4..=11, last_epoch), (ALL, last_epoch), (ALL, -1)] {
        let mut stage = Stage::of(cluster.clone(), &topic, ROOM).await.speaking(versions).begin(0, (100, epoch));
        stage.follow().await;
        while stage.places[&0].position == 100 {
            stage.take().await;
        }
        assert_eq!(stage.read[&0].jumps, [(100, 80, Jump::Truncated)]);
        stage.close().await;
    }

    // It has grown past the position: only the epoch tells, to a reader that lives through the change and to one that begins there.
    write(source, &topic, 100..200);
    for versions in [9..=11, ALL] {
        let fresh = Stage::of(cluster.clone(), &topic, ROOM).await.speaking(versions);
        check(fresh.begin(0, (100, last_epoch)), &[(100, 80, Jump::Truncated)]).await;
    }
    stage.read.clear();
    check(stage, &[(100, 80, Jump::Truncated)]).await;
}

/// Reads on to 180, with these jumps on the way, and all that is in the log now behind the cut.
async fn check(mut stage: Stage, jumps: &[(i64, i64, Jump)]) {
    stage.follow().await;
    stage.read_to(&[180]).await;
    assert_eq!(stage.read[&0].jumps, jumps);
    assert_eq!(stage.offsets(0), (80..180).collect::<Vec<_>>());
    assert_eq!(stage.metrics.truncated.get(), 1);
    stage.close().await;
}
