// franz-go, asked in JSON lines; tests/compat/clients/program.py tells how.
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const requestBytesMax = 4 << 20

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

type question struct {
	Op           string            `json:"op"`
	Topic        string            `json:"topic"`
	Codec        string            `json:"codec"`
	Acks         string            `json:"acks"`
	Records      [][]any           `json:"records"`
	Counts       map[string]int    `json:"counts"`
	Partitions   int32             `json:"partitions"`
	Partition    int32             `json:"partition"`
	Configs      map[string]string `json:"configs"`
	Changes      map[string]string `json:"changes"`
	Total        int               `json:"total"`
	BeforeOffset int64             `json:"before_offset"`
	TimestampMs  int64             `json:"timestamp_ms"`
	Isolation    string            `json:"isolation"`
	Offset       int64             `json:"offset"`
	Group        string            `json:"group"`

	Member           string   `json:"member"`
	Topics           []string `json:"topics"`
	Pattern          *string  `json:"pattern"`
	Assignor         string   `json:"assignor"`
	Instance         *string  `json:"instance"`
	Commits          bool     `json:"commits"`
	Wait             bool     `json:"wait"`
	SessionTimeoutMs int      `json:"session_timeout_ms"`
	HeartbeatMs      int      `json:"heartbeat_ms"`
	MetadataAgeMs    int      `json:"metadata_age_ms"`

	Producer        string   `json:"producer"`
	TransactionalID string   `json:"transactional_id"`
	TimeoutMs       int      `json:"timeout_ms"`
	Values          []string `json:"values"`
}

type program struct {
	bootstrap string
	limit     time.Duration
	client    *kgo.Client
	admin     *kadm.Client
	members   map[string]*member
	producers map[string]*kgo.Client
}

func main() {
	if os.Args[1] == "login" {
		tryLogin()
		return
	}
	if os.Args[1] == "transform" {
		transform(os.Args[2])
		return
	}
	millis, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	p := &program{
		bootstrap: os.Args[1],
		limit:     time.Duration(millis) * time.Millisecond,
		members:   make(map[string]*member),
		producers: make(map[string]*kgo.Client),
	}
	p.client, err = kgo.NewClient(kgo.SeedBrokers(p.bootstrap))
	if err != nil {
		panic(err)
	}
	defer p.client.Close()
	p.admin = kadm.NewClient(p.client)
	in := json.NewDecoder(bufio.NewReaderSize(os.Stdin, 1<<20))
	out := json.NewEncoder(os.Stdout)
	for {
		var asked question
		if err := in.Decode(&asked); err != nil {
			return
		}
		if err := out.Encode(p.answer(&asked)); err != nil {
			return
		}
	}
}

func (p *program) answer(asked *question) map[string]any {
	ctx, cancel := context.WithTimeout(context.Background(), p.limit)
	defer cancel()
	result, err := p.perform(ctx, asked)
	var refusal *kerr.Error
	switch {
	case errors.Is(err, kerr.ProducerFenced), errors.Is(err, kerr.InvalidProducerEpoch):
		return map[string]any{"fenced": err.Error()}
	case errors.As(err, &refusal):
		return map[string]any{"refused": refusal.Code, "message": err.Error()}
	case err != nil:
		return map[string]any{"failed": err.Error()}
	}
	return map[string]any{"result": result}
}

func (p *program) perform(ctx context.Context, asked *question) (any, error) {
	topic, partition := asked.Topic, asked.Partition
	switch asked.Op {
	case "produce":
		return p.produce(ctx, asked)
	case "consume":
		return p.consume(ctx, asked)
	case "create_topic":
		_, err := p.admin.CreateTopic(ctx, asked.Partitions, -1, pointers(asked.Configs), topic)
		return nil, err
	case "topics":
		listed, err := p.admin.ListTopics(ctx)
		return listed.Names(), err
	case "describe_topic":
		return p.describe(ctx, topic)
	case "configs":
		return p.configs(ctx, topic)
	case "alter_configs":
		return nil, p.alterConfigs(ctx, topic, asked.Changes)
	case "create_partitions":
		made, err := p.admin.UpdatePartitions(ctx, asked.Total, topic)
		return nil, errors.Join(err, made[topic].Err)
	case "delete_records":
		before := make(kadm.Offsets)
		before.Add(kadm.Offset{Topic: topic, Partition: partition, At: asked.BeforeOffset})
		deleted, err := p.admin.DeleteRecords(ctx, before)
		return nil, errors.Join(err, deleted.Error())
	case "offsets":
		starts, startErr := p.admin.ListStartOffsets(ctx, topic)
		ends, endErr := p.admin.ListEndOffsets(ctx, topic)
		start, startThere := starts.Lookup(topic, partition)
		end, endThere := ends.Lookup(topic, partition)
		if !startThere || !endThere {
			return nil, errors.Join(startErr, endErr, errors.New("the partition was not listed"))
		}
		return []int64{start.Offset, end.Offset}, errors.Join(start.Err, end.Err)
	case "offset_at":
		listed, err := p.admin.ListOffsetsAfterMilli(ctx, asked.TimestampMs, topic)
		found, _ := listed.Lookup(topic, partition)
		return found.Offset, errors.Join(err, found.Err)
	case "delete_topic":
		_, err := p.admin.DeleteTopic(ctx, topic)
		return nil, err
	}
	switch {
	case asked.Producer != "":
		return nil, p.transact(ctx, asked)
	case asked.Member != "":
		return p.follow(ctx, asked)
	case asked.Group != "" || asked.Op == "groups":
		return p.administer(ctx, asked)
	}
	return nil, fmt.Errorf("unknown op %q", asked.Op)
}

func (p *program) produce(ctx context.Context, asked *question) (any, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(p.bootstrap),
		kgo.AllowAutoTopicCreation(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[asked.Codec]),
		kgo.ProducerBatchMaxBytes(requestBytesMax),
		kgo.MaxBufferedRecords(200_000),
		kgo.ProducerLinger(5 * time.Millisecond),
	}
	if len(asked.Records) > 1 {
		// Batches as small as other clients make them, so that there are many.
		options = append(options, kgo.ProducerBatchMaxBytes(128<<10))
	}
	switch asked.Acks {
	case "0":
		options = append(options, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	case "1":
		options = append(options, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records := make([]*kgo.Record, 0, len(asked.Records))
	for _, row := range asked.Records {
		records = append(records, recordFrom(asked.Topic, row))
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return nil, err
	}
	offsets := make([]int64, 0, len(records))
	for _, record := range records {
		if asked.Acks == "0" {
			record.Offset = -1
		}
		offsets = append(offsets, record.Offset)
	}
	return offsets, nil
}

func (p *program) consume(ctx context.Context, asked *question) (any, error) {
	starts, missing := make(map[int32]kgo.Offset), 0
	for text, count := range asked.Counts {
		index, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		starts[int32(index)] = kgo.NewOffset().AtStart()
		missing += count
	}
	isolation := kgo.ReadUncommitted()
	if asked.Isolation == "read_committed" {
		isolation = kgo.ReadCommitted()
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(p.bootstrap),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{asked.Topic: starts}),
		kgo.FetchMaxPartitionBytes(requestBytesMax),
		kgo.FetchIsolationLevel(isolation),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	rows := make([][]any, 0, missing)
	for len(rows) < missing {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) { rows = append(rows, rowFrom(r)) })
	}
	return rows, nil
}

func (p *program) describe(ctx context.Context, topic string) (any, error) {
	details, err := p.admin.ListTopics(ctx, topic)
	if err != nil {
		return nil, err
	}
	rows := [][]any{}
	for _, one := range details[topic].Partitions.Sorted() {
		rows = append(rows, []any{one.Partition, one.Leader, one.Replicas, one.ISR})
	}
	return rows, details[topic].Err
}

func (p *program) configs(ctx context.Context, topic string) (any, error) {
	described, err := p.admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return nil, err
	}
	entries := make(map[string]*string)
	resource, err := described.On(topic, nil)
	for _, entry := range resource.Configs {
		entries[entry.Key] = entry.Value
	}
	return entries, errors.Join(err, resource.Err)
}

func (p *program) alterConfigs(ctx context.Context, topic string, changes map[string]string) error {
	wanted := []kadm.AlterConfig{}
	for name, value := range pointers(changes) {
		wanted = append(wanted, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: value})
	}
	altered, err := p.admin.AlterTopicConfigs(ctx, wanted, topic)
	if err != nil {
		return err
	}
	outcome, err := altered.On(topic, nil)
	return errors.Join(err, outcome.Err)
}

func recordFrom(topic string, row []any) *kgo.Record {
	record := &kgo.Record{
		Topic:     topic,
		Partition: int32(row[0].(float64)),
		Key:       bytesFrom(row[1]),
		Value:     bytesFrom(row[2]),
		Timestamp: time.UnixMilli(int64(row[4].(float64))),
	}
	for _, pair := range row[3].([]any) {
		header := pair.([]any)
		record.Headers = append(record.Headers,
			kgo.RecordHeader{Key: header[0].(string), Value: bytesFrom(header[1])})
	}
	return record
}

func rowFrom(r *kgo.Record) []any {
	headers := [][]any{}
	for _, header := range r.Headers {
		headers = append(headers, []any{header.Key, textFrom(header.Value)})
	}
	return []any{r.Partition, r.Offset, textFrom(r.Key), textFrom(r.Value), headers,
		r.Timestamp.UnixMilli()}
}

func bytesFrom(text any) []byte {
	if text == nil {
		return nil
	}
	data, err := base64.StdEncoding.DecodeString(text.(string))
	if err != nil {
		panic(err)
	}
	return data
}

func textFrom(data []byte) any {
	if data == nil {
		return nil
	}
	return base64.StdEncoding.EncodeToString(data)
}

func pointers(texts map[string]string) map[string]*string {
	values := make(map[string]*string, len(texts))
	for name, value := range texts {
		values[name] = &value
	}
	return values
}
