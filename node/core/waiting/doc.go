// Package waiting has every request of a node that is not answered yet because it waits for
// something, by who has sent it: the one table that is walked when a client gives a request up,
// when its connection closes, and when the node stops.
//
// What it guarantees:
//
//  1. A wait is over once: whoever closes it or ends it first has it, and the other one finds it
//     closed ([Wait.Close], [Table.Cancel]). So each request gets one reply at most.
//  2. A connection that closes ends all of its waits; nobody is told ([Table.Gone]).
//  3. A node that stops ends all but those whose answer is on its way: what is written here waits
//     for its copies, and what others were asked for for their answers ([Kind.Stays]).
//  4. Waits end by kind, and of one kind in the order in which they came: the same events give
//     the same outputs.
//
// Events in: [Table.Open] and [Wait.Close] of the machines that make requests wait,
// [Table.Cancel], [Table.Gone] and [Table.Drain] of the node. Events out: the function of each wait
// that ends, which frees what the machine has and refuses the request, if anybody is there to
// hear of it. How long a request waits is its machine's own.
package waiting
