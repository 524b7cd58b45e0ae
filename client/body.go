package client

import (
	"errors"
	"fmt"

	protobuf "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"
)

// message is a protobuf message as the body of a request, encoded straight into
// the frame.
type message struct{ m protobuf.Message }

// Size is the exact size; AppendTo uses what it computed.
func (b message) Size() int { return protobuf.Size(b.m) }

// AppendTo appends the encoding.
func (b message) AppendTo(dst []byte) ([]byte, error) {
	dst, err := protobuf.MarshalOptions{UseCachedSize: true}.MarshalAppend(dst, b.m)
	if err != nil {
		if at := proto.BadText(b.m); at != "" {
			return dst, fmt.Errorf("%s is not UTF-8 text", at)
		}
	}
	return dst, err
}

// errBadAnswer is wrapped when an answer cannot be read.
var errBadAnswer = errors.New("the answer cannot be read")

// errNotOneQueue is wrapped when a change of a queue is answered with none, or
// with several.
var errNotOneQueue = errors.New("not one queue")

// remote is the error of an error frame.
func remote(b []byte) error {
	var m nornv1.Error
	if err := protobuf.Unmarshal(b, &m); err != nil {
		return badAnswer(err)
	}
	return proto.FromProto(&m)
}

func badAnswer(err error) error { return fmt.Errorf("%w: %w: %w", ErrInternal, errBadAnswer, err) }

// decodeInto reads an answer, which may be an error.
func decodeInto(flags uint16, b []byte, m protobuf.Message) error {
	if flags&transport.FlagError != 0 {
		return remote(b)
	}
	if err := protobuf.Unmarshal(b, m); err != nil {
		return badAnswer(err)
	}
	return nil
}

// errOtherPartitions is wrapped when the answer to a verification is about other
// partitions than the request.
var errOtherPartitions = errors.New("other partitions than those that were asked about")
