// Package jsonform writes proto messages in the JSON that users of Norn see, on
// the command line and over HTTP.
//
// The form is a contract:
//
//   - Names are the proto field names, in snake_case, in the order of their
//     declaration. Every field is there, whether it is set or not.
//   - Enum values are lower case and without the prefix of their type:
//     STATE_READY is "ready". A number that has no name stays a number.
//   - 64-bit integers are decimal strings, all other numbers are numbers; a
//     double that JSON cannot write is "NaN", "Infinity" or "-Infinity".
//   - bytes are base64 (standard alphabet, padded), but for task IDs, which have
//     their text form.
//   - Timestamps are RFC 3339 in UTC with as many digits as needed, null when
//     unset. Messages that are not set are null.
//   - repeated fields are arrays and maps are objects (keys sorted), empty but
//     never null.
//
// A message becomes a [Value]: a tree that can be extended and written as
// indented JSON, as one line, or as YAML, always in the same order.
//
// [Unmarshal] reads the same form. There a field may be absent or null, a 64-bit
// integer may be a number, an enum value a number that has a name, and bytes may
// lack their padding or use the URL alphabet.
package jsonform
