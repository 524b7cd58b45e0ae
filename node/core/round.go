package core

// rounds is the number of the last Ready.
type rounds uint64

// this is the number of the next one, to which belongs what is written now.
func (r rounds) this() uint64 { return uint64(r) + 1 }

// after is the [message.Reply.After] of an answer that depends on nothing that was
// written here later than in a round; 0: in none.
func (r rounds) after(round uint64) uint64 {
	if round >= r.this() {
		return 0
	}
	return max(round, 1)
}
