package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func (p *program) transact(ctx context.Context, asked *question) error {
	client := p.producers[asked.Producer]
	switch asked.Op {
	case "producer_init":
		made, err := kgo.NewClient(
			kgo.SeedBrokers(p.bootstrap),
			kgo.TransactionalID(asked.TransactionalID),
			kgo.TransactionTimeout(millis(asked.TimeoutMs)),
			kgo.RecordPartitioner(kgo.ManualPartitioner()),
		)
		if err != nil {
			return err
		}
		p.producers[asked.Producer] = made
		// The library takes its id when it first needs it; the others take it when they are made.
		_, _, err = made.ProducerID(ctx)
		return err
	case "producer_begin":
		return client.BeginTransaction()
	case "producer_send":
		records := make([]*kgo.Record, 0, len(asked.Values))
		for _, value := range asked.Values {
			records = append(records, &kgo.Record{
				Topic: asked.Topic, Partition: asked.Partition, Value: bytesFrom(value),
			})
		}
		return client.ProduceSync(ctx, records...).FirstErr()
	case "producer_commit":
		return client.EndTransaction(ctx, kgo.TryCommit)
	case "producer_abort":
		return client.EndTransaction(ctx, kgo.TryAbort)
	case "producer_close":
		client.Close()
		return nil
	}
	return fmt.Errorf("unknown op %q", asked.Op)
}

// transform is one instance of a consume-transform-produce loop with transactions, until its
// input ends. Its argument is a JSON object; tests/compat/exactly_once.py tells the fields.
func transform(argument string) {
	var wanted struct {
		Bootstrap        string `json:"bootstrap"`
		Source           string `json:"source"`
		Target           string `json:"target"`
		Group            string `json:"group"`
		TransactionalID  string `json:"transactional_id"`
		SessionTimeoutMs int    `json:"session_timeout_ms"`
		HeartbeatMs      int    `json:"heartbeat_ms"`
		RecordsMax       int    `json:"records_max"`
		AbortEvery       int    `json:"abort_every"`
	}
	must(json.Unmarshal([]byte(argument), &wanted))
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, bufio.NewReader(os.Stdin))
		cancel()
	}()
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(wanted.Bootstrap),
		kgo.TransactionalID(wanted.TransactionalID),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumerGroup(wanted.Group),
		kgo.ConsumeTopics(wanted.Source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.SessionTimeout(millis(wanted.SessionTimeoutMs)),
		kgo.HeartbeatInterval(millis(wanted.HeartbeatMs)),
	)
	must(err)
	defer session.Close()
	for number := 1; ; number++ {
		fetches := session.PollRecords(ctx, wanted.RecordsMax)
		if ctx.Err() != nil {
			return
		}
		must(fetches.Err())
		must(session.Begin())
		fetches.EachRecord(func(r *kgo.Record) {
			session.Produce(context.Background(), &kgo.Record{
				Topic: wanted.Target, Partition: r.Partition, Key: r.Key, Value: r.Value,
			}, nil)
		})
		limited, stop := context.WithTimeout(context.Background(), time.Minute)
		aborts := wanted.AbortEvery > 0 && number%wanted.AbortEvery == 0
		_, err := session.End(limited, kgo.TransactionEndTry(!aborts))
		stop()
		if err != nil && !errors.Is(err, context.Canceled) {
			panic(err)
		}
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
