// Command cmd runs the laboratory, as `make lab` does.
//
//	-norn FILE       the program under test
//	-fault NAMES     which faults, with commas between; -workload NAME
//	-seconds N       how long faults come
//	-seed N -nodes N -proxy
//	-unfenced        say nothing about claims
//	-judge FILE      judge a saved run again: one of its files
//	-think TIME      pause of a client between two calls
//	-old FILE        an older build, for upgrades
//	-all             a run for each fault, and a table
//	-out DIR         where the report and the history go
//	-list            the faults and workloads there are
//
// Exit status: 0 passed, 1 a promise was broken, too little happened, or
// somebody has ended the run, 2 it could not be run, 3 this machine does not
// allow it.
package main
