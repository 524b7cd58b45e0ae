package jsonform

import (
	"math"
	"slices"
	"strconv"
)

// Value is one value of JSON. The zero Value is null.
type Value struct {
	kind   kind
	scalar string // number, string, or true and false
	fields []Field
	items  []Value
}

type kind uint8

const (
	null kind = iota
	boolean
	number
	text
	array
	object
)

// Field is one member of an object.
type Field struct {
	// Name is the member's name.
	Name string
	// Value is its value.
	Value Value
}

// String makes a JSON string.
func String(s string) Value { return Value{kind: text, scalar: s} }

// Bool makes true or false.
func Bool(b bool) Value {
	if b {
		return Value{kind: boolean, scalar: "true"}
	}
	return Value{kind: boolean, scalar: "false"}
}

// Number makes a JSON number; what JSON has no number for becomes null.
func Number(v float64) Value {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return Value{}
	}
	return Value{kind: number, scalar: strconv.FormatFloat(v, 'f', -1, 64)}
}

// List makes an array.
func List(items ...Value) Value { return Value{kind: array, items: items} }

// Object makes an object with its members in this order.
func Object(fields ...Field) Value { return Value{kind: object, fields: fields} }

// With gives an object with one more member at its end. On anything but an
// object the result is an object with that member alone.
func (v Value) With(name string, member Value) Value {
	return Object(append(slices.Clip(v.fields), Field{name, member})...)
}
