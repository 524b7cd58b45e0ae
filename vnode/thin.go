package vnode

import (
	"bytes"
	"encoding/binary"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/store"
)

// A task may be claimed and given back as often as somebody likes: that uses no attempt, and
// each time leaves a record. What nobody is shown any more, all but the newest MaxClaims, is
// deleted now and then; what has failed or expired stays, of which there are facts as well.
// That a claim so old is over need not be known: whoever held it has been told, or has seen
// its lease end, thousands of claims ago.
const (
	// thinEvery is after how many releases, on average, a task is looked at: that reads
	// all the records that it keeps.
	thinEvery = 256
	// maxThinned bounds the older records that are looked at then; there are more of them
	// where they were written by a program that did not delete any.
	maxThinned = 8 * thinEvery
)

// thin is told of each release. Which of them deletes something follows from the token, so
// that nothing is counted; it is no simple multiple, because tasks may take turns.
func thin(v *Vnode, tx store.Tx, task id.ID, token uint64) {
	if token*0x9e3779b97f4a7c15>>32%thinEvery != 0 {
		return
	}
	prefix, n := appendTask(nil, tableEnded, v.Partition, task), 0
	var old [][]byte
	for key, value := range tx.Back(prefix, after(prefix)) {
		if n++; n <= MaxClaims {
			continue
		}
		if n > MaxClaims+maxThinned {
			break
		}
		r, err := claim.DecodeRecord(binary.BigEndian.Uint64(key[len(key)-8:]), value)
		if err == nil && r.Outcome == claim.Released { // what is damaged is for who reads it
			old = append(old, bytes.Clone(key))
		}
	}
	for _, key := range old {
		tx.Delete(key)
	}
}
