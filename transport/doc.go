// Package transport carries requests and replies over connections: frames,
// multiplexing, limits and time-outs.
//
// It knows no protobuf: a body is bytes. A frame is, big endian,
//
//	u32 length | u64 request id | u16 method and flags | body
//
// where length counts what follows it (10 + body). The method is the low ten
// bits, the rest are flags. With [FlagDeadline] the body is preceded by a u32
// of remaining milliseconds. Request ids are the client's choice, unique among
// its open requests and never 0; replies come in any order. A reply with
// request id 0 and [FlagError] concerns the whole connection.
//
// A [Link] has sums behind the word, which are CRC32C: TCP's own is weak, and made
// anew by what is between the ends.
//
//	… | u16 method and flags | u32 sum of what follows the sums | u32 sum of the 18 bytes before it | body
//
// A frame that does not fit them ends the link, and nothing of it is handed over.
//
// Every request gets exactly one reply, also one that was cancelled: the reply
// is what gives its slot back on both sides. Both sides coalesce: whatever was
// queued while the last write ran leaves in the next one. Who has several frames
// for a connection holds them and flushes ([Link.Flush], [Conn.Flush]): they are
// written on its own goroutine, as far as that does not block. Every buffer and
// queue has a limit; a peer that goes past one is slowed down (reading stops)
// or, where that cannot help, closed with an error that says why.
//
// [Server] calls a [Handler] inline on each connection's reader goroutine;
// [Client] is one multiplexed connection. [Pipe] and [MemListener] are the
// in-memory twin for tests and work inside testing/synctest.
//
// Coalesced writes, inline handlers and the writer's yield are there because
// they were measured; the benchmarks of this package repeat the measurement.
package transport
