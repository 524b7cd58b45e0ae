// Package queues has what operators have set for queues, which names of queues there are, and how
// many tasks they have.
//
// What it guarantees:
//
//  1. The settings of a queue are those of the register, of the newest version that this node has
//     heard of ([Machine.Load]). A change is made to the version that it was asked for, or refused.
//  2. A name counts as long as something is set or a task of it is not finished. One name more
//     than there may be is refused ([Machine.Room]).
//  3. A limit of tasks counts what other nodes keep as far as they have said so within five
//     seconds: rather too many tasks get in than too few.
//  4. A queue is deleted only if those who keep its tasks say that all of them are finished.
//
// Events in: requests of clients, states of the register, enqueues, and queues of a partition that
// are empty. Events out: changes of the register, replies, requests of this node to others, and
// queues that were paused or resumed, to package dispatch.
package queues
