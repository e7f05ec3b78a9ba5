package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// member polls in a goroutine of its own and keeps what it saw.
type member struct {
	client  *kgo.Client
	commits bool
	asked   chan func()
	stop    chan struct{}
	done    chan struct{}

	lock    sync.Mutex
	stopped bool
	owned   map[string]map[int32]bool
	changes [][]any
	reads   [][]any
	failure error
}

func millis(count int) time.Duration { return time.Duration(count) * time.Millisecond }

func (p *program) join(asked *question) error {
	m := &member{
		commits: asked.Commits,
		asked:   make(chan func()),
		stop:    make(chan struct{}),
		done:    make(chan struct{}),
		owned:   make(map[string]map[int32]bool),
		changes: [][]any{},
		reads:   [][]any{},
	}
	balancer := kgo.RangeBalancer()
	if asked.Assignor == "cooperative-sticky" {
		balancer = kgo.CooperativeStickyBalancer()
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(p.bootstrap),
		kgo.ClientID("member-of-" + asked.Group),
		kgo.ConsumerGroup(asked.Group),
		kgo.ConsumeTopics(asked.Topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.Balancers(balancer),
		kgo.SessionTimeout(millis(asked.SessionTimeoutMs)),
		kgo.HeartbeatInterval(millis(asked.HeartbeatMs)),
		kgo.MetadataMinAge(millis(asked.MetadataAgeMs) / 2),
		kgo.MetadataMaxAge(millis(asked.MetadataAgeMs)),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(m.changed("assigned")),
		kgo.OnPartitionsRevoked(m.changed("revoked")),
		kgo.OnPartitionsLost(m.changed("revoked")),
	}
	if asked.Pattern != nil {
		options = append(options, kgo.ConsumeRegex(), kgo.ConsumeTopics(*asked.Pattern))
	}
	if asked.Instance != nil {
		options = append(options, kgo.InstanceID(*asked.Instance))
	}
	var err error
	if m.client, err = kgo.NewClient(options...); err != nil {
		return err
	}
	p.members[asked.Member] = m
	go m.run()
	return nil
}

func (m *member) run() {
	defer close(m.done)
	for {
		select {
		case <-m.stop:
			// It stops working on its partitions before the group hears of it.
			m.changed("revoked")(nil, nil, m.everything())
			m.lock.Lock()
			m.stopped = true
			m.lock.Unlock()
			m.client.CloseAllowingRebalance()
			return
		case work := <-m.asked:
			work()
		default:
			m.once()
		}
	}
}

func (m *member) once() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	fetches := m.client.PollRecords(ctx, 500)
	if err := fetches.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		m.lock.Lock()
		m.failure = err
		m.lock.Unlock()
	}
	m.lock.Lock()
	fetches.EachRecord(func(r *kgo.Record) {
		m.reads = append(m.reads, []any{r.Topic, r.Partition, r.Offset, textFrom(r.Value)})
	})
	m.lock.Unlock()
	if m.commits && fetches.NumRecords() > 0 {
		// If a rebalance is faster, the next owner reads those records again.
		_ = m.client.CommitUncommittedOffsets(context.Background())
	}
	m.client.AllowRebalance()
}

func (m *member) changed(kind string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		at := time.Now().UnixMicro()
		places := [][]any{}
		m.lock.Lock()
		defer m.lock.Unlock()
		if m.stopped {
			return
		}
		for topic, indexes := range partitions {
			if m.owned[topic] == nil {
				m.owned[topic] = make(map[int32]bool)
			}
			for _, index := range indexes {
				m.owned[topic][index] = kind == "assigned"
				places = append(places, []any{topic, index})
			}
		}
		m.changes = append(m.changes, []any{at, kind, places})
	}
}

func (m *member) everything() map[string][]int32 {
	m.lock.Lock()
	defer m.lock.Unlock()
	owned := make(map[string][]int32)
	for topic, indexes := range m.owned {
		for index, has := range indexes {
			if has {
				owned[topic] = append(owned[topic], index)
			}
		}
	}
	return owned
}

func (m *member) seen() (any, error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	seen := map[string]any{"changes": m.changes, "reads": m.reads}
	m.changes, m.reads = [][]any{}, [][]any{}
	return seen, m.failure
}

// ask runs the work between two polls and returns when it is done.
func (m *member) ask(work func() error) error {
	outcome := make(chan error)
	m.asked <- func() { outcome <- work() }
	return <-outcome
}

func (p *program) follow(ctx context.Context, asked *question) (any, error) {
	m := p.members[asked.Member]
	switch asked.Op {
	case "member_join":
		return nil, p.join(asked)
	case "member_seen":
		return m.seen()
	case "member_commit":
		return nil, m.ask(func() error {
			if asked.Wait {
				return m.client.CommitUncommittedOffsets(ctx)
			}
			m.client.CommitOffsets(context.Background(), m.client.UncommittedOffsets(), nil)
			return nil
		})
	case "member_seek":
		return nil, m.ask(func() error {
			at := kgo.EpochOffset{Epoch: -1, Offset: asked.Offset}
			m.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{
				asked.Topic: {asked.Partition: at},
			})
			return nil
		})
	case "member_stop":
		close(m.stop)
		<-m.done
		return nil, nil
	}
	return nil, fmt.Errorf("unknown op %q", asked.Op)
}

func (p *program) administer(ctx context.Context, asked *question) (any, error) {
	switch asked.Op {
	case "groups":
		listed, err := p.admin.ListGroups(ctx)
		return listed.Groups(), err
	case "describe_group":
		return p.describeGroup(ctx, asked.Group)
	case "committed":
		fetched, err := p.admin.FetchOffsets(ctx, asked.Group)
		offsets := make(map[string]int64)
		for partition, row := range fetched[asked.Topic] {
			if row.At >= 0 {
				offsets[strconv.Itoa(int(partition))] = row.At
			}
		}
		return offsets, errors.Join(err, fetched.Error())
	case "reset_group":
		wanted := make(kadm.Offsets)
		wanted.Add(kadm.Offset{
			Topic: asked.Topic, Partition: asked.Partition, At: asked.Offset, LeaderEpoch: -1,
		})
		return nil, p.admin.CommitAllOffsets(ctx, asked.Group, wanted)
	case "delete_group":
		deleted, err := p.admin.DeleteGroup(ctx, asked.Group)
		return nil, errors.Join(err, deleted.Err)
	}
	return nil, fmt.Errorf("unknown op %q", asked.Op)
}

func (p *program) describeGroup(ctx context.Context, group string) (any, error) {
	described, err := p.admin.DescribeGroups(ctx, group)
	if err != nil {
		return nil, err
	}
	rows := [][]any{}
	for _, one := range described[group].Members {
		places := [][]any{}
		if assigned, ok := one.Assigned.AsConsumer(); ok {
			for _, topic := range assigned.Topics {
				for _, index := range topic.Partitions {
					places = append(places, []any{topic.Topic, index})
				}
			}
		}
		rows = append(rows, []any{one.ClientID, places})
	}
	return []any{described[group].State, rows}, described[group].Err
}
