//! Which batches travel in which Produce request (pure).

use std::collections::{BTreeMap, VecDeque};

use crate::limits::PRODUCE_BYTES_MAX;
use crate::source::TopicPartition;
use crate::wire::produce::ProduceBatch;

/// Batches of one topic partition, in the order of their sequence numbers.
pub type Queues = BTreeMap<TopicPartition, VecDeque<ProduceBatch>>;

/// Sorts the batches for one leader into requests: one batch for each partition in a request, which is all that a broker takes,
/// and at most [`PRODUCE_BYTES_MAX`] unless a single batch is larger. Requests are sent in this order.
pub fn requests(mut partitions: Queues) -> Vec<Vec<ProduceBatch>> {
    let mut requests = vec![];
    while !partitions.is_empty() {
        let (mut request, mut bytes) = (vec![], 0);
        partitions.retain(|_, batches| {
            let Some(batch) = batches.front() else {
                return false;
            };
            if bytes == 0 || bytes + batch.size() <= PRODUCE_BYTES_MAX {
                bytes += batch.size();
                request.extend(batches.pop_front());
            }
            !batches.is_empty()
        });
        requests.push(request);
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn queues(sizes: &[&[usize]]) -> Queues {
        let queue = |(partition, sizes): (usize, &&[usize])| {
            let at = TopicPartition { topic: "t".into(), partition: partition as i32 };
            let batch = |(number, size): (usize, &usize)| ProduceBatch {
                topic: "t".into(),
                topic_id: uuid::Uuid::nil(),
                partition: partition as i32,
                header: Bytes::from(vec![number as u8]),
                payload: Bytes::from(vec![0; *size]),
            };
            (at, sizes.iter().enumerate().map(batch).collect())
        };
        sizes.iter().enumerate().map(queue).collect()
    }

    #[test]
    fn each_request_takes_one_batch_of_each_partition_in_order() {
        let shown: Vec<Vec<(i32, u8)>> = requests(queues(&[&[1, 1, 1], &[1], &[1, 1]]))
            .iter()
            .map(|request| request.iter().map(|b| (b.partition, b.header[0])).collect())
            .collect();
        assert_eq!(shown, [vec![(0, 0), (1, 0), (2, 0)], vec![(0, 1), (2, 1)], vec![(0, 2)]]);
    }

    #[test]
    fn requests_are_bounded_and_a_large_batch_travels_alone() {
        let requests =
            requests(queues(&[&[PRODUCE_BYTES_MAX + 1], &[PRODUCE_BYTES_MAX / 2], &[PRODUCE_BYTES_MAX / 2 - 9]]));
        let shown: Vec<Vec<i32>> = requests.iter().map(|r| r.iter().map(|b| b.partition).collect()).collect();
        assert_eq!(shown, [vec![0], vec![1, 2]]);
    }
}
