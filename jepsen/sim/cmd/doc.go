// Command cmd runs seeds of the simulator, as `make sim` does.
//
//	-seed N -seeds N   which seeds
//	-events N          how much of a failing history to print; 0: all
//	-history FILE      write it as JSON lines
//	-outputs           print, per seed, digests of its history and of all that its nodes wanted done
//	-mutant TEXT       run a node that is wrong on purpose
//
// It prints how many seeds ran and how fast, and what happened in them. Exit
// status: 0 when every promise was kept and enough happened, 1 when not, 2 when
// it could not run.
package main
