//! Real Apache Kafka clusters for tests, demo and bench.
