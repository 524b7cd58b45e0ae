// Package standing is what this node may stand for: whether its disk still has what it
// acknowledged, whether its clock is good, and whether the register it goes by has gone
// back. Others ask [Machine.May] before they vote, accept, lead or renew; facts are taken in
// whatever the answer is.
//
// Guarantees:
//
//  1. A disk ([Disk]) that was set back, or has lost the end of its log, neither votes nor
//     accepts claims nor counts as a copy, once a majority of a cohort has told what it has seen of
//     it: with its old promises it could help two leaders, or forget a claim. Before they
//     have told it stands for nothing either.
//  2. A node whose wall clock is not shown to be within a quarter of eta of a majority leads
//     no partition and votes for no claim, after ten seconds in which that is unknown, and at
//     once when it is known. Right after its clock was set it renews nothing.
//  3. One member's word is enough to stand aside, and not to end the incarnation.
//  4. A register that answers with less than this disk has acted on is reported, for good
//     ([Rollback]).
//
// Detection of guarantee 1 is best effort: who knew better may be away, and what nobody was
// told is not missed. Who was sent what counts with this disk's copy hears how far the disk is
// within 100 ms, all others that share a cohort within a second; an acknowledgement says it.
//
// The duties and what each asks for (a dash: it does not matter):
//
//	         member  no deletion  clock not off  clock not in doubt  disk as others know it, register read
//	Vote     yes     -            yes            -                   yes
//	Accept   yes     yes          yes            -                   yes
//	Lead     yes     yes          yes            -                   yes
//	Renew    -       -            -              yes                 -
//	Count    -       yes          -              -                   disk, by the cell's epoch
//
// In: beats and what others have seen of this disk, time, changes of the view. Out: events by
// [Machine.Drain] ([Review], [Recount], [Lost], [Unfit]), messages and keys in the round, and
// [ErrForgot] when the incarnation is over.
//
// Invariant: the mark of this disk only goes up, and is written in the batch that the
// acknowledgement with it waits for.
//
// Source: protocol (a) 3 and K4; design 7.3 for clocks.
//
// Why marks. A disk that comes back from a snapshot, or that has lost the end of its log, looks
// healthy and remembers old promises (Chandra, Griesemer and Redstone 2007, 5.1, meet it as
// disk corruption in Paxos). It cannot notice by itself. So every batch that an acknowledgement
// depends on carries a number, the others remember the highest number that they have seen of
// each member, and a member that starts asks them. What the number costs is eight bytes in a
// batch that is written anyway.
//
// Why offsets. Leases are judged by clocks. Each beat measures how far two clocks are apart and
// how sure that is, by the round trip (Cristian 1989); a clock is good for a cohort while it is
// surely within eta/4 of a majority of it (Marzullo 1984), so that two good clocks differ by
// less than eta.
//
// Invariant: a node that has lost something counts nowhere: it neither votes, nor accepts, nor
// leads, nor are its copies counted, from the moment at which one member says so (mutants
// TrustsAlways, CountsForgotten).
package standing
