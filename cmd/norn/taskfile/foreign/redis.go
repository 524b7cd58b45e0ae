package foreign

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"
)

// pageSize is how many entries are read at a time.
const pageSize = 500

// redisDB reads a database of Redis.
type redisDB struct{ *redis.Client }

func withRedis(ctx context.Context, address string, do func(*redisDB) error) error {
	o, err := redis.ParseURL(address)
	if err != nil {
		return fmt.Errorf("%s: it is no URL of Redis, redis://[USER:PASSWORD@]HOST[:PORT][/DB]", shown(address)) // the error may have the password
	}
	r := &redisDB{redis.NewClient(o)}
	defer func() { _ = r.Close() }() // what was read counts
	if err := r.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("%s: %w", shown(address), err)
	}
	return do(r)
}

// list gives the entries of a list, the oldest first: they are pushed on the left.
func (r *redisDB) list(ctx context.Context, key string, do func(entry string) error) error {
	n, err := r.LLen(ctx, key).Result()
	for end := n - 1; err == nil && end >= 0; end -= pageSize {
		var page []string
		page, err = r.LRange(ctx, key, max(end-pageSize+1, 0), end).Result()
		for i := len(page) - 1; err == nil && i >= 0; i-- {
			err = do(page[i])
		}
	}
	return err
}

// sorted gives the entries of a sorted set with their scores.
func (r *redisDB) sorted(ctx context.Context, key string, do func(entry string, score float64) error) error {
	for at := int64(0); ; at += pageSize {
		page, err := r.ZRangeWithScores(ctx, key, at, at+pageSize-1).Result()
		if err != nil || len(page) == 0 {
			return err
		}
		for _, z := range page {
			entry, _ := z.Member.(string)
			if err := do(entry, z.Score); err != nil {
				return err
			}
		}
	}
}

// sidekiq reads queues, the schedule, and what is to be tried again. Dead jobs are finished.
func (r *redisDB) sidekiq(ctx context.Context, do func(*Job) error) error {
	queues, err := r.SMembers(ctx, "queues").Result()
	if err != nil {
		return err
	}
	give := func(where, entry string, at float64, finished bool) error {
		j, err := sidekiqLine([]byte(entry))
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		j.Where, j.Finished = where, finished
		if at > 0 {
			j.NotBefore = seconds(at)
		}
		return do(j)
	}
	for _, q := range queues {
		if err := r.list(ctx, "queue:"+q, func(entry string) error { return give("queue:"+q, entry, 0, false) }); err != nil {
			return err
		}
	}
	for _, key := range []string{"schedule", "retry", "dead"} {
		err := r.sorted(ctx, key, func(entry string, score float64) error {
			if key == "dead" {
				score = 0
			}
			return give(key, entry, score, key == "dead")
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// asynq reads what waits, is scheduled, to be tried again, gathered in groups or under way.
// Archived and completed tasks are finished.
func (r *redisDB) asynq(ctx context.Context, do func(*Job) error) error {
	queues, err := r.SMembers(ctx, "asynq:queues").Result()
	if err != nil {
		return err
	}
	for _, q := range queues {
		if err := r.asynqQueue(ctx, q, do); err != nil {
			return fmt.Errorf("queue %s: %w", q, err)
		}
	}
	return nil
}

func (r *redisDB) asynqQueue(ctx context.Context, q string, do func(*Job) error) error {
	prefix := "asynq:{" + q + "}:"
	give := func(where, task string, at time.Time, finished bool) error {
		message, err := r.HGet(ctx, prefix+"t:"+task, "msg").Bytes()
		if errors.Is(err, redis.Nil) {
			return nil // it was finished meanwhile
		}
		if err != nil {
			return err
		}
		j, err := asynqMessage(message)
		if err != nil {
			return fmt.Errorf("task %s: %w", task, err)
		}
		j.Where, j.NotBefore, j.Finished = prefix+where, at, finished
		if j.Queue == "" {
			j.Queue = q
		}
		return do(j)
	}
	for _, key := range []string{"active", "pending"} {
		if err := r.list(ctx, prefix+key, func(task string) error { return give(key, task, time.Time{}, false) }); err != nil {
			return err
		}
	}
	groups, err := r.SMembers(ctx, prefix+"groups").Result()
	if err != nil {
		return err
	}
	keys := []string{"scheduled", "retry", "archived", "completed"}
	for _, g := range groups {
		keys = append(keys, "g:"+g)
	}
	for i, key := range keys {
		err := r.sorted(ctx, prefix+key, func(task string, score float64) error {
			at := time.Time{}
			if i < 2 {
				at = seconds(score)
			}
			return give(key, task, at, i == 2 || i == 3)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Fields of a TaskMessage of asynq (internal/proto/asynq.proto).
const (
	asynqType      = 1
	asynqPayload   = 2
	asynqID        = 3
	asynqQueueName = 4
	asynqRetried   = 6
	asynqHeaders   = 15
)

// asynqMessage reads a TaskMessage.
func asynqMessage(b []byte) (*Job, error) {
	j := &Job{Headers: make(map[string]string)}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, fmt.Errorf("%w: its message: %w", ErrForm, protowire.ParseError(n))
		}
		b = b[n:]
		switch {
		case kind == protowire.BytesType:
			value, n := protowire.ConsumeBytes(b)
			if n < 0 {
				return nil, fmt.Errorf("%w: its message: %w", ErrForm, protowire.ParseError(n))
			}
			b = b[n:]
			switch number {
			case asynqType:
				j.Kind = string(value)
			case asynqPayload:
				j.Payload = value
			case asynqID:
				j.ID = string(value)
			case asynqQueueName:
				j.Queue = string(value)
			case asynqHeaders:
				if err := asynqHeader(value, j.Headers); err != nil {
					return nil, err
				}
			}
		case number == asynqRetried && kind == protowire.VarintType:
			value, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return nil, fmt.Errorf("%w: its message: %w", ErrForm, protowire.ParseError(n))
			}
			b, j.Headers["asynq-retried"] = b[n:], fmt.Sprint(value)
		default:
			n := protowire.ConsumeFieldValue(number, kind, b)
			if n < 0 {
				return nil, fmt.Errorf("%w: its message: %w", ErrForm, protowire.ParseError(n))
			}
			b = b[n:]
		}
	}
	if j.ID == "" || j.Kind == "" {
		return nil, fmt.Errorf("%w: its message has no ID or no type", ErrForm)
	}
	return j, nil
}

// asynqHeader reads an entry of a map of texts.
func asynqHeader(b []byte, to map[string]string) error {
	var pair [2]string
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 || kind != protowire.BytesType || number < 1 || number > 2 {
			return fmt.Errorf("%w: a header", ErrForm)
		}
		value, size := protowire.ConsumeBytes(b[n:])
		if size < 0 {
			return fmt.Errorf("%w: a header: %w", ErrForm, protowire.ParseError(size))
		}
		pair[number-1], b = string(value), b[n+size:]
	}
	to[pair[0]] = pair[1]
	return nil
}
