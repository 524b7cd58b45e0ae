// Package antientropy finds what two replicas of a partition have not in
// common, and moves exactly that, both ways, while writes go on (design 6,
// protocol (f)).
//
// # The tree
//
// A [Tree] counts the facts of a partition: a node has the 128-bit sum of the
// facts below it (crdt.Sum) and their number. Sums commute, so a fact goes in
// or out without another one being read, and a node's sum is that of its
// children. Which leaf a fact is in follows from its task's ID alone, see
// [LeafOf]. There are ten levels, each of a fixed fan-out (256, 256, then 16):
//
//	1: 194 days · 2: 18 h · 3: 68 min · 4: 256 s · 5: 16 s · 6: 1 s · 7: 67 ms
//
// A leaf is a run of the IDs of 67 ms. So
//
//   - it does not grow with the backlog: 10^7 tasks lie in as many leaves as
//     they took time to come. At 1,400 tasks a second in a partition, which is
//     90,000 in the cluster by default, a leaf has about 100 tasks;
//   - what comes together is counted together: a batch of new tasks touches a
//     leaf or two and the seven nodes above, each written once;
//   - what differs is most often recent, and lies below few nodes;
//   - collection goes by age, and a node without facts is deleted;
//   - it is a run of keys in the store, read by one scan.
//
// Unique keys break the first rule: without a window all of them have the time
// 0, and with one all of a day may have the same. Their IDs are a hash after
// the time, so those that say a full second are counted by twelve bits of that
// hash, in 4,096 leaves for each second, levels 8 to 10 below the digit that no
// time has. A leaf that is large all the same is exchanged in slices (below),
// without a limit to its size; nothing is ever split or moved in the store.
//
// The number of nodes is bounded by the facts' tasks (about eight each where
// there is one task an hour, about one where there is one a second, and far
// below that with more), and by the address, 2^48.
//
// [Tree.Add] and [Tree.Remove] only add to a difference in memory, about 0.2 µs;
// [Tree.Flush] reads and writes each touched node once, in the batch of the facts
// themselves. Between two flushes the batch has a note of the leaves that were
// touched ([Tree.Note]), which is one key instead of a path of eight; after a
// crash these few leaves are counted anew ([Tree.Recount]). So the tree is right
// after any crash, and is not rebuilt. But for [Tree.Root] reads see what has been
// flushed.
//
// # The exchange
//
// An [Initiator] compares with a [Responder] in rounds. Both first say their
// roots: an equal pair is done with 62 bytes. Otherwise the initiator asks what
// is below nodes that differ. The answer is tags of the children; of a large
// leaf, of slices by the first bits of the facts' hashes, then of their slices;
// of few facts, their own tags. A tag is 32 bits of a sum, mixed with a number
// drawn for the round. That is enough, because nothing rests on a tag being
// unique: where two that differ have the same one, which is once in 4*10^9,
// that one difference waits for the next round, whose tags are others. Roots
// are compared in full. A node that one side has not is not asked about; its
// facts are sent in pages, which is how a fresh replica is filled.
//
// Rules that callers may rely on, and the tests show:
//
//   - After a round without writes or failures both sides hold the union, and
//     the roots are equal. With writes, losses, repeats and reordering nothing
//     is lost or invented, and rounds after these end make it so: facts are
//     immutable and their join is idempotent, so that a comparison that is out
//     of date only wastes work.
//   - One request is on its way at a time, and it is repeated until answered or
//     given up. A message has about a page of facts, one call reads a bounded
//     number of them, and lists are bounded whatever counts say.
//   - Bytes are those of the difference, and to find it 1 KiB for one fact among
//     10^6, 180 to 260 for each of a hundred, 75 for each of ten thousand, next
//     to nothing for a run; see BenchmarkBytesMoved. It takes about ten round
//     trips.
//   - A [Bucket] bounds bytes per second, both ways together for an initiator.
//   - A node that differs without anything having come of it (the peer does not
//     keep facts, or does not give what it counts; either tree is wrong) is left
//     alone for a time that doubles, and so are rounds that only found such
//     nodes. From the third time it is reported: hand it to a [Scrubber] on both
//     sides. Everything else goes on meanwhile.
//   - Sums are compared only under one version of the hash, the lower of both.
//
// Who runs the machines: calls Step with each message, Advance when [Ready] says
// so, and sends what they give once what was applied is durable. Between calls
// anything may be written. Claims are no facts and never come here.
//
// # The scrubber
//
// The tree is derived from the facts. A [Scrubber] compares a leaf with a scan
// of its facts, in bounded steps that writes may come between, then each inner
// node with its children; repairing over everything is a rebuild, also of a tree
// that never was. A record of a node that cannot be read counts as none until
// then.
package antientropy
