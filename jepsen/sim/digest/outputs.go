package digest

import (
	"encoding/binary"
	"math"
	"math/bits"
	"reflect"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/store"

	gproto "google.golang.org/protobuf/proto"
)

// Outputs digests what the nodes of a run want done: the contents of each Ready, in
// order. It sees values, not names: a commit that moves or renames code leaves it as it
// is, and one that changes what a node does changes it.
type Outputs uint64

const outputsPrime = 0x9e3779b97f4a7c15

func (o *Outputs) add(x uint64) {
	*o = Outputs(bits.RotateLeft64((uint64(*o)^x)*outputsPrime, 29))
}

func (o *Outputs) bytes(b []byte) {
	o.add(uint64(len(b)))
	for ; len(b) >= 8; b = b[8:] {
		o.add(binary.LittleEndian.Uint64(b))
	}
	var rest [8]byte
	copy(rest[:], b)
	o.add(binary.LittleEndian.Uint64(rest[:]))
}

// Ready takes in what a node wants done. The batch is taken in write by write: its
// buffer is the store's.
func (o *Outputs) Ready(index int, r *message.Ready) {
	o.add(uint64(index))
	v := reflect.ValueOf(r).Elem()
	for i := range v.NumField() {
		o.value(v.Field(i))
	}
}

var (
	messages = reflect.TypeFor[gproto.Message]()
	batches  = reflect.TypeFor[*store.Batch]()
)

// value takes in whatever a Ready holds. Of a function it knows only whether there is one.
func (o *Outputs) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			o.add(1)
		} else {
			o.add(0)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		o.add(uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		o.add(v.Uint())
	case reflect.Float32, reflect.Float64:
		o.add(math.Float64bits(v.Float()))
	case reflect.String:
		o.bytes([]byte(v.String()))
	case reflect.Struct:
		for i := range v.NumField() {
			o.value(v.Field(i))
		}
	case reflect.Array, reflect.Slice:
		o.list(v)
	case reflect.Map:
		o.table(v)
	case reflect.Pointer, reflect.Interface:
		o.behind(v)
	default:
		o.add(uint64(btoi(v.IsNil())))
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// list takes in an array or a slice; a slice of nothing is the same as none.
func (o *Outputs) list(v reflect.Value) {
	if v.Type().Elem().Kind() == reflect.Uint8 && (v.Kind() == reflect.Slice || v.CanAddr()) {
		o.bytes(v.Bytes())
		return
	}
	o.add(uint64(v.Len()))
	for i := range v.Len() {
		o.value(v.Index(i))
	}
}

// table takes in a map, whatever order it is walked in.
func (o *Outputs) table(v reflect.Value) {
	var sum uint64
	for it := v.MapRange(); it.Next(); {
		var one Outputs
		one.value(it.Key())
		one.value(it.Value())
		sum += uint64(one)
	}
	o.add(uint64(v.Len()))
	o.add(sum)
}

func (o *Outputs) behind(v reflect.Value) {
	if v.IsNil() {
		o.add(0)
		return
	}
	if v.CanInterface() && v.Type().Implements(messages) {
		b, err := gproto.MarshalOptions{Deterministic: true}.Marshal(v.Interface().(gproto.Message))
		if err != nil {
			panic(err) // a text that is not UTF-8: the codec of the nodes would refuse it as well
		}
		o.bytes(b)
		return
	}
	if v.Type() == batches && v.CanInterface() {
		for op := range v.Interface().(*store.Batch).All() {
			o.add(uint64(btoi(op.Delete)))
			o.bytes(op.Key)
			o.bytes(op.Value)
		}
		return
	}
	o.add(1)
	o.value(v.Elem())
}
