// Package leadership is who leads which partition, as far as it is this node's to say: it
// votes, stands, wins, hands over and steps down.
//
// Guarantees:
//
//  1. What this node has promised is on disk before anything leaves that depends on it
//     ([Acceptors]), and a record of it that cannot be read stops the start: damaged is not
//     absent.
//  2. This node leads a partition in an epoch only once the register shows the cell in which
//     it was elected, and no more when it has promised a later epoch or lacked a majority of
//     the cohort for two seconds.
//  3. Whoever comes to lead has the claims that a majority of the cohort knew when it
//     promised, and where the cohort is another one than before, a majority of the new one
//     has them and all facts first.
//
// What others do when it leads or does so no more is told to [Others] at once.
package leadership
