// A mirror of one topic as one writes it in an afternoon with franz-go: a consumer group, an idempotent producer, and offsets that are
// committed every few seconds, once their records are stored. It knows no transactions. The bench compares with it.
//
// Usage: franz-mirror SOURCE TARGET TOPIC GROUP CODEC
package main

import (
	"context"
	"log"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Codecs by the names that Kafka gives them.
var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

func client(options ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(options...)
	if err != nil {
		log.Fatal(err)
	}
	return client
}

func main() {
	source, target, topic, group, codec := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	consumer := client(
		kgo.SeedBrokers(source),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.AutoCommitMarks(),
	)
	producer := client(
		kgo.SeedBrokers(target),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[codec]),
		kgo.MaxBufferedRecords(200_000),
	)
	ctx := context.Background()
	for {
		fetches := consumer.PollFetches(ctx)
		fetches.EachError(func(topic string, partition int32, err error) {
			log.Fatalf("%s-%d: %v", topic, partition, err)
		})
		fetches.EachRecord(func(record *kgo.Record) {
			copied := &kgo.Record{
				Topic:     record.Topic,
				Partition: record.Partition,
				Key:       record.Key,
				Value:     record.Value,
				Headers:   record.Headers,
				Timestamp: record.Timestamp,
			}
			producer.Produce(ctx, copied, func(_ *kgo.Record, err error) {
				if err != nil {
					log.Fatal(err)
				}
				consumer.MarkCommitRecords(record)
			})
		})
	}
}
