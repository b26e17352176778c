//! Reading from the replica in the own rack (KIP-392), and back from its leader when it cannot serve.

use cluster::{Cluster, unique};
use tokio::runtime::Runtime;

use super::many_pair;
use crate::fetcher::stage::{Stage, reach};
use crate::stream::write;

#[test]
fn the_replica_in_the_own_rack_is_read_and_left_when_it_is_gone() {
    let pair = many_pair();
    Runtime::new().unwrap().block_on(read(&pair.source));
}

async fn read(source: &Cluster) {
    let topic = unique("rack");
    source.create_topic_at(&topic, &[&[1, 2, 3]]).unwrap();
    write(source, &topic, 0..100);
    let port = source.bootstrap().split(',').nth(1).unwrap().rsplit(':').next().unwrap();
    let cluster = reach(source.bootstrap(), Some(format!("rack-{port}")));
    let mut stage = Stage::of(cluster, &topic, 1 << 20).await.begin_all(&[0]);
    stage.follow().await;
    stage.read_to(&[100]).await;
    assert_eq!(stage.replicas.get(&0), Some(&2), "records came from the replica");

    // A position that the replica does not have: its leader decides what that means.
    stage.places.get_mut(&0).unwrap().turn += 1;
    stage.places.get_mut(&0).unwrap().position = 150;
    stage.follow().await;
    while stage.places[&0].position != 100 {
        stage.take().await;
    }
    assert_eq!((stage.replicas.get(&0), stage.read[&0].jumps.len()), (None, 1), "the leader was asked");

    source.broker(2).stop().unwrap();
    write(source, &topic, 100..200);
    stage.replicas.insert(0, 2);
    stage.follow().await;
    stage.read_to(&[200]).await;
    assert_eq!(stage.offsets(0), (0..200).collect::<Vec<_>>());
    stage.close().await;
}
